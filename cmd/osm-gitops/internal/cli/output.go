package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// Visible keeps what strangers wrote from doing something where it is printed, where output
// names what a command prints: text has no hidden characters and, in a job of a CI, no command
// to its runner; JSON escapes both and stays the same value. YAML is encoded so already.
func Visible(w io.Writer, output string) io.Writer {
	switch output {
	case "json", "intoto":
		return runnerlog.JSON(w)
	case "", "text", "table", "mirrors", "markdown":
	default:
		return w
	}
	// GITHUB_ACTIONS is what runners of GitHub, Gitea and Forgejo set, TF_BUILD those of
	// Azure Pipelines.
	if os.Getenv("GITHUB_ACTIONS") != "" || os.Getenv("TF_BUILD") != "" {
		w = runnerlog.Text(w)
	}
	if output == "markdown" {
		return w // its author hides what breaks links
	}
	return runnerlog.Visible(w)
}

// Report prints an error, each line with the program's name.
func Report(stderr io.Writer, err error) { tell(stderr, "", err) }

// Warn says what is wrong and does not keep the command from its result.
func Warn(stderr io.Writer, err error) { tell(stderr, "warning: ", err) }

// maxLine bounds a line on standard error. What says more quotes a stranger.
const maxLine = 8 << 10 // 8 KiB

// tell prints an error. It may quote what a stranger committed, or what his server
// said: nothing of that does something to the terminal (security.md 28).
func tell(stderr io.Writer, kind string, err error) {
	for line := range strings.SplitSeq(strings.TrimSpace(redact.Printable(err.Error())), "\n") {
		fmt.Fprintf(stderr, "osm-gitops: %s%s\n", kind, redact.Shorten(line, maxLine))
	}
}
