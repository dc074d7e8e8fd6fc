package lint_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// hostile profiles that one rendering of took 12 s and 8 s of CPU, and all of them more
// than five minutes (security.md 37).
var hostile = map[string]string{
	"toYaml":    `{{ $x := until 10000 }}{{ range 500 }}{{ $y := toYaml $x }}{{ end }}`,
	"snakecase": `{{ $x := repeat 200000 "aB" }}{{ range 300 }}{{ $y := snakecase $x }}{{ end }}`,
}

// The budget of a rendering refuses them, whatever time the file may take (security.md 37).
func TestHostileTemplatesAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("it renders for some seconds")
	}
	for name, text := range hostile {
		report := lintFiles(t, lint.Linter{FileTime: time.Hour}, lint.File{Path: "x.yaml", Data: []byte(osp{file: text}.text())})
		refused := 0
		for _, f := range report.Findings {
			switch {
			case f.Rule == lint.RuleIncomplete:
				t.Errorf("%s: %s", name, f.Message)
			case f.Rule == lint.RuleTemplate && f.Severity == lint.SeverityError && strings.Contains(f.Message, "units of work"):
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%s: %d findings about work, want 1 in %v", name, refused, report.Findings)
		}
	}
}

// A file that exceeds its time limit gets a finding that says so, for slow renderings as well
// as for checks that ignore their context (security.md 37).
func TestFileTime(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for some seconds")
	}
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	stuckText := func(context.Context, lint.Text) []lint.Finding {
		<-never
		return []lint.Finding{{Rule: "late"}}
	}
	stuckProfile := lint.ProfileCheck(func(context.Context, profile.Document) []lint.Finding { <-never; return nil })
	tests := map[string]struct {
		linter lint.Linter
		want   []string
	}{
		"no time at all":         {lint.Linter{FileTime: time.Nanosecond}, []string{"longer than 1ns", "profiles not compiled"}},
		"a check of texts":       {lint.Linter{FileTime: 5 * time.Second, TextChecks: []lint.TextCheck{stuckText}}, []string{"longer than 5s", "texts not read"}},
		"a check of the profile": {lint.Linter{FileTime: time.Second, ProfileChecks: []lint.ProfileCheck{stuckProfile}}, []string{"checks of the profile not run", "profiles not compiled"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			report := lintFiles(t, test.linter, lint.File{Path: "x.yaml", Data: []byte(osp{file: "a {{ .KubeVersion }}"}.text())})
			var incomplete []lint.Finding
			for _, f := range report.Findings {
				if f.Rule == lint.RuleIncomplete {
					incomplete = append(incomplete, f)
				}
				if f.Rule == "late" || f.Rule == lint.RuleBranch {
					t.Errorf("there is a finding of what was not checked: %v", f)
				}
			}
			if len(incomplete) != 1 || incomplete[0].Severity != lint.SeverityError || incomplete[0].Path != "x.yaml" {
				t.Fatalf("the findings are %v", report.Findings)
			}
			for _, want := range test.want {
				if !strings.Contains(incomplete[0].Message, want) {
					t.Errorf("the message is %q, want %q in it", incomplete[0].Message, want)
				}
			}
		})
	}
}
