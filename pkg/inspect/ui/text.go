package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// maxText bounds a shown message, in bytes. Conditions can be longer.
const maxText = 4 << 10

// clean makes an untrusted name safe to show on one line (security.md 28).
func clean(s string) string { return redact.Clean(s) }

// text makes a message safe to show and preserves its lines (security.md 28).
func text(s string) string { return redact.Text(s, maxText) }

func digit(n int32) string { return strconv.Itoa(int(n)) }

// short abbreviates a commit.
func short(commit string) string {
	const digits = 12
	for i := len(commit) - 1; i >= 0; i-- { // the revision of an artifact
		if commit[i] == ':' || commit[i] == '@' {
			commit = commit[i+1:]
			break
		}
	}
	return commit[:min(digits, len(commit))]
}

// age formats the time between two moments in the largest unit that fits.
func age(from, to time.Time) string {
	d := to.Sub(from)
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// mask removes possible credentials from a text.
func mask(s string) string { return redact.Mask(s) }

// printable makes a line of a file safe to show; tabs become spaces.
func printable(line string) string {
	return redact.Shorten(redact.Printable(strings.ReplaceAll(line, "\t", "    ")), maxDiffWidth)
}
