package lint_test

import (
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules"
)

// TestProfiles: there is nothing to say against our own profiles.
func TestProfiles(t *testing.T) {
	for _, dir := range []string{"../../profiles", "../../examples/repository"} {
		files, findings, err := lint.Read(t.Context(), []string{dir})
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		l := lint.Linter{TextChecks: []lint.TextCheck{shellrules.Check}}
		report, err := l.Run(t.Context(), files)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range append(findings, report.Findings...) {
			if f.Severity.AtLeast(lint.SeverityWarning) {
				t.Errorf("%s:%d: %s [%s, %s, %s]", f.Path, f.Line, f.Message, f.Rule, f.File, f.Where)
			} else {
				t.Logf("%s:%d: %s [%s, %s, %s]", f.Path, f.Line, f.Message, f.Rule, f.File, f.Where)
			}
		}
		t.Logf("%s: %d profiles, %d renderings, %d texts, %d branches, %d of them not reached", dir, report.Profiles, report.Renderings, report.Contents, report.Branches, len(report.UnexecutedBranches))
	}
}
