package output

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// maxAnnotations is how many annotations of each level GitHub shows for one step. The others
// are printed as text, since GitHub would drop them.
// https://github.com/orgs/community/discussions/26680
const maxAnnotations = 10

// writeGitHub prints workflow commands, which become annotations in the change.
// https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands
func writeGitHub(w io.Writer, run Run) error {
	b := bufio.NewWriter(w)
	text := runnerlog.Text(b) // for output that is not a command of ours
	levels := map[lint.Severity]string{lint.SeverityError: "error", lint.SeverityWarning: "warning", lint.SeverityNote: "notice"}
	shown := map[lint.Severity]int{}
	for _, f := range run.Report.Findings {
		if shown[f.Severity]++; shown[f.Severity] > maxAnnotations {
			fmt.Fprintf(text, " %s\n", formatFinding(f))
			continue
		}
		fmt.Fprintf(b, "::%s %s::%s\n", levels[f.Severity], annotationProperties(f), escapeData(findingText(f)))
	}
	for _, m := range run.Report.Missing {
		fmt.Fprintf(b, "::notice title=not checked::%s\n", escapeData(m.Name+" is not installed: "+m.Means))
	}
	fmt.Fprintf(text, " %s\n", formatSummary(run.Report))
	return b.Flush()
}

// findingText returns the message of a finding, then its context and its fix, each on a line of its
// own. It escapes nothing.
func findingText(f lint.Finding) string {
	text := shortenToOneLine(f.Message)
	if c := nodeFileAndPools(f); c != "" {
		text += "\non: " + c
	}
	if f.Fix != "" {
		text += "\nfix: " + shortenToOneLine(f.Fix)
	}
	return text
}

func annotationProperties(f lint.Finding) string {
	out := "file=" + escapeProperty(f.Path)
	if f.Line > 0 {
		out += fmt.Sprintf(",line=%d", f.Line)
		if f.Column > 0 {
			out += fmt.Sprintf(",col=%d", f.Column)
		}
	}
	return out + ",title=" + escapeProperty(f.Rule)
}

// escapeData and escapeProperty escape the characters that end a command or a property, like
// GitHub's own toolkit. https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
func escapeData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func escapeProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(escapeData(shortenToOneLine(s)))
}
