package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// maxText is how much of a message is shown, in bytes. Conditions have more.
const maxText = 4 << 10

// clean makes a name that a stranger chose fit to be shown on one line (security.md 28).
func clean(s string) string { return redact.Clean(s) }

// text makes a message fit to be shown, lines being lines (security.md 28).
func text(s string) string { return redact.Text(s, maxText) }

func digit(n int32) string { return strconv.Itoa(int(n)) }

// short is the beginning of a commit, for people to look at.
func short(commit string) string {
	const digits = 12
	for i := len(commit) - 1; i >= 0; i-- { // an artifact's revision
		if commit[i] == ':' || commit[i] == '@' {
			commit = commit[i+1:]
			break
		}
	}
	return commit[:min(digits, len(commit))]
}

// age is the time between two moments in the largest unit that fits.
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

// mask takes out of a text what may be a credential.
func mask(s string) string { return redact.Mask(s) }

// printable makes a line of a file fit to be shown; tabs become blanks.
func printable(line string) string {
	return redact.Shorten(redact.Printable(strings.ReplaceAll(line, "\t", "    ")), maxDiffWidth)
}
