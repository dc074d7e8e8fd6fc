package output

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// writeText prints for users: a line for each finding in a form that editors and terminals
// recognize as a link, the fix below it, and a summary at the end.
func writeText(w io.Writer, run Run) error {
	left := slices.DeleteFunc(slices.Clone(run.Report.Findings), func(f lint.Finding) bool { return run.Printed[f] })
	if err := PrintText(w, left); err != nil {
		return err
	}
	b := bufio.NewWriter(runnerlog.Text(w))
	for _, m := range run.Report.Missing {
		fmt.Fprintf(b, "not checked: %s is not installed: %s\n", shortenToOneLine(m.Name), shortenToOneLine(m.Means))
	}
	fmt.Fprintln(b, formatSummary(run.Report))
	return b.Flush()
}

// PrintText prints findings as the format "text" does: those that are known before the end of a
// run, which Run.Printed then has.
func PrintText(w io.Writer, findings []lint.Finding) error {
	b := bufio.NewWriter(runnerlog.Text(w))
	for _, f := range findings {
		fmt.Fprintln(b, formatFinding(f))
		if c := nodeFileAndPools(f); c != "" {
			fmt.Fprintf(b, "    on: %s\n", c)
		}
		if f.Fix != "" {
			fmt.Fprintf(b, "    fix: %s\n", shortenToOneLine(f.Fix))
		}
	}
	return b.Flush()
}

// formatFinding returns "path:line:column: severity: message [rule]".
func formatFinding(f lint.Finding) string {
	return fmt.Sprintf("%s: %s: %s [%s]", locationOf(f), f.Severity, shortenToOneLine(f.Message), f.Rule)
}

func locationOf(f lint.Finding) string {
	at := shortenToOneLine(f.Path)
	if f.Line > 0 {
		at += fmt.Sprintf(":%d", f.Line)
		if f.Column > 0 {
			at += fmt.Sprintf(":%d", f.Column)
		}
	}
	return at
}

// formatSummary returns the number of checked profiles and renderings, and of findings.
func formatSummary(r *lint.Report) string {
	counts := fmt.Sprintf("%s, %s, %s", phrase.Count(r.Profiles, "profile"), phrase.Count(r.Renderings, "rendering"), phrase.Count(r.Contents, "distinct text"))
	if r.Branches > 0 {
		counts += fmt.Sprintf(", %d of %s", r.Branches-len(r.UnexecutedBranches), phrase.Count(r.Branches, "branch"))
	}
	n := countBySeverity(r)
	var parts []string
	for _, s := range []lint.Severity{lint.SeverityError, lint.SeverityWarning, lint.SeverityNote} {
		if n[s] > 0 {
			parts = append(parts, phrase.Count(n[s], string(s)))
		}
	}
	result := "nothing found"
	if len(parts) > 0 {
		result = strings.Join(parts, ", ")
	}
	if len(r.Suppressed) > 0 {
		result += fmt.Sprintf(" (%d suppressed)", len(r.Suppressed))
	}
	return counts + ": " + result
}
