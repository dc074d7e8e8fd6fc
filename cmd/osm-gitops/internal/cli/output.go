package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// NewEscapingWriter returns a writer that makes untrusted text safe to print. The output names a
// format of the command: text loses hidden characters and, in a CI job, commands to the
// runner; JSON escapes both without changing the value. YAML is escaped by its encoder.
func NewEscapingWriter(w io.Writer, output string) io.Writer {
	switch output {
	case "json", "intoto":
		return runnerlog.JSON(w)
	case "", "text", "table", "mirrors", "markdown":
	default:
		return w
	}
	// Runners of GitHub, Gitea and Forgejo set GITHUB_ACTIONS; Azure Pipelines sets TF_BUILD.
	if os.Getenv("GITHUB_ACTIONS") != "" || os.Getenv("TF_BUILD") != "" {
		w = runnerlog.Text(w)
	}
	if output == "markdown" {
		return w // Markdown is escaped where it is written.
	}
	return runnerlog.WithoutHidden(w)
}

// Report prints an error, each line with the program's name.
func Report(stderr io.Writer, err error) { printError(stderr, "", err) }

// Warn reports a problem that does not prevent the result.
func Warn(stderr io.Writer, err error) { printError(stderr, "warning: ", err) }

// maxLine bounds a line on standard error. Longer lines quote untrusted input.
const maxLine = 8 << 10 // 8 KiB

// printError prints an error. It can quote a commit or a server's response, so control characters
// are escaped (security.md 28).
func printError(stderr io.Writer, kind string, err error) {
	for line := range strings.SplitSeq(strings.TrimSpace(redact.RemoveControlChars(err.Error())), "\n") {
		fmt.Fprintf(stderr, "osm-gitops: %s%s\n", kind, redact.Shorten(line, maxLine))
	}
}
