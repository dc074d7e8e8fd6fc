package lint_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
)

const rightConfig = `# how our profiles are checked
lint:
  providers: [aws, vsphere]
  kubeletVersions: ["1.34"]
  shellcheck: require
  shellcheckSeverity: style
  severity:
    eval: note
  suppress:
    - rule: eval
      reason: the agent's installer prints shell
      path: profiles/**/osp-*.yaml
      profile: osp-a
      file: /opt/bin/*
      message: runs a value
      until: 2027-03-31
    - rule: template
      reason: agreed with the storage team
`

func parseConfig(t *testing.T, text string) *lint.Config {
	t.Helper()
	c, err := lint.ParseConfig(lint.ConfigName, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func date(t *testing.T, s string) time.Time {
	t.Helper()
	d, err := time.Parse("2006-01-02", s)
	if err != nil {
		t.Fatal(err)
	}
	return d.Add(20 * time.Hour)
}

func same(path string) string { return path }

// TestConfigFolders: folders of profiles and pools are below that of the file.
func TestConfigFolders(t *testing.T) {
	c := parseConfig(t, "profiles: osps/prod\npools: pools\n"+rightConfig)
	if c.Profiles != "osps/prod" || c.Pools != "pools" {
		t.Errorf("got %q and %q", c.Profiles, c.Pools)
	}
	for _, text := range []string{"profiles: ../osps\n", "profiles: /osps\n", "pools: a/../../b\n", "pools: a\\b\n", "profiles: [a]\n"} {
		if _, err := lint.ParseConfig(lint.ConfigName, []byte(text)); err == nil || !strings.Contains(err.Error(), lint.ConfigName+":1: p") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// TestConfigApply: a finding is suppressed if every field of the suppression matches, up to its
// last day. After that the finding is reported again, with one about the suppression.
func TestConfigApply(t *testing.T) {
	evals := lint.Finding{Rule: "eval", Severity: lint.SeverityWarning, Path: "profiles/x/osp-a.yaml", Line: 3, Profile: "osp-a", File: "/opt/bin/setup", Message: "eval runs a value as a program"}
	templates := lint.Finding{Rule: "template", Severity: lint.SeverityError, Path: "b.yaml", Line: 1, Message: "no"}
	not := func(change func(*lint.Finding)) lint.Finding {
		f := evals
		change(&f)
		return f
	}
	c := parseConfig(t, rightConfig)
	for name, tt := range map[string]struct {
		findings   []lint.Finding
		today      string
		kept       []string // rule:severity:line
		suppressed int
	}{
		"both hold, on the last day":            {[]lint.Finding{evals, templates}, "2027-03-31", nil, 2},
		"the day after":                         {[]lint.Finding{evals, templates}, "2027-04-01", []string{"suppression-expired:warning:16", "eval:note:3"}, 1},
		"one matches no finding":                {[]lint.Finding{templates}, "2026-01-01", []string{"suppression-unused:note:10"}, 1},
		"over and without use: it may go":       {[]lint.Finding{templates}, "2028-01-01", []string{"suppression-unused:note:10"}, 1},
		"another path":                          {[]lint.Finding{not(func(f *lint.Finding) { f.Path = "other/osp-a.yaml" }), templates}, "2026-01-01", []string{"suppression-unused:note:10", "eval:note:3"}, 1},
		"another profile":                       {[]lint.Finding{not(func(f *lint.Finding) { f.Profile = "osp-b" }), templates}, "2026-01-01", []string{"suppression-unused:note:10", "eval:note:3"}, 1},
		"another file of the node":              {[]lint.Finding{not(func(f *lint.Finding) { f.File = "/opt/bin/x/setup" }), templates}, "2026-01-01", []string{"suppression-unused:note:10", "eval:note:3"}, 1},
		"another message":                       {[]lint.Finding{not(func(f *lint.Finding) { f.Message = "else" }), templates}, "2026-01-01", []string{"suppression-unused:note:10", "eval:note:3"}, 1},
		"severity changes although none is set": {[]lint.Finding{not(func(f *lint.Finding) { f.Profile = "osp-b" }), evals, templates}, "2026-01-01", []string{"eval:note:3"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			kept, suppressed := c.Apply(tt.findings, date(t, tt.today), same)
			var got []string
			for _, f := range kept {
				got = append(got, f.Rule+":"+string(f.Severity)+":"+strconv.Itoa(f.Line))
				if strings.HasPrefix(f.Rule, "suppression") && f.Path != lint.ConfigName {
					t.Errorf("%s is in %q", f.Rule, f.Path)
				}
			}
			if diff := cmp.Diff(tt.kept, got); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if len(suppressed) != tt.suppressed {
				t.Errorf("%d suppressed, want %d", len(suppressed), tt.suppressed)
			}
			for _, s := range suppressed {
				if s.Justification == "" {
					t.Errorf("%s is suppressed for no reason", s.Rule)
				}
			}
		})
	}
}

// TestConfigRelative: globs are for paths from the folder of the file.
func TestConfigRelative(t *testing.T) {
	c := parseConfig(t, "lint:\n  suppress:\n    - {rule: eval, reason: because, path: a.yaml}\n")
	f := lint.Finding{Rule: "eval", Path: "repo/a.yaml"}
	_, suppressed := c.Apply([]lint.Finding{f}, date(t, "2026-01-01"), func(path string) string { return strings.TrimPrefix(path, "repo/") })
	if len(suppressed) != 1 {
		t.Error("the finding is not suppressed")
	}
}

// TestConfigWrong: every mistake is named with its line, all of them at once.
func TestConfigWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string
	}{
		"no YAML":              {"lint: [", []string{lint.ConfigName + ":1: invalid YAML"}},
		"a misspelt key":       {"lint:\n  provider: [aws]\n", []string{lint.ConfigName + `:2: lint.provider: is not a field of lint: did you mean "providers"?`}},
		"a key twice":          {"lint:\n  shellcheck: off\n  shellcheck: auto\n", []string{lint.ConfigName + ":3: lint.shellcheck: is given twice, first on line 2"}},
		"two documents":        {"lint: {}\n---\nlint: {}\n", []string{"has more than one document"}},
		"no reason":            {"lint:\n  suppress:\n    - rule: eval\n", []string{lint.ConfigName + ":3: lint.suppress[0].reason: is required"}},
		"an empty reason":      {"lint:\n  suppress:\n    - rule: eval\n      reason: ' '\n", []string{lint.ConfigName + ":4: lint.suppress[0].reason: is empty: state why"}},
		"a rule that is none":  {"lint:\n  suppress:\n    - {reason: x, rule: evil}\n", []string{lint.ConfigName + `:3: lint.suppress[0].rule: unknown rule "evil": did you mean "eval"?`}},
		"no such rule at all":  {"lint:\n  severity:\n    nothing-like-it: note\n", []string{lint.ConfigName + ":3: lint.severity[nothing-like-it]: unknown rule", "docs/lint-rules.md"}},
		"a severity":           {"lint:\n  severity:\n    eval: off\n", []string{lint.ConfigName + ":3: lint.severity[eval]: "}},
		"a date":               {"lint:\n  suppress:\n    - {rule: eval, reason: x, until: 31.3.2027}\n", []string{`invalid date "31.3.2027": use the form 2027-03-31`}},
		"a glob":               {"lint:\n  suppress:\n    - {rule: eval, reason: x, path: 'a['}\n", []string{`lint.suppress[0].path: invalid glob "a["`}},
		"an unquoted version":  {"lint:\n  kubeletVersions: [1.34]\n", []string{"quote it"}},
		"a provider":           {"lint:\n  providers: [aws, azur]\n", []string{lint.ConfigName + `:2: lint.providers[1]: is "azur", but must be one of aws, azure`}},
		"a kubelet":            {"lint:\n  kubeletVersions: ['1.34', '1.34.0', '1.2']\n", []string{`lint.kubeletVersions[1]: "1.34.0" is not a supported minor release`, `lint.kubeletVersions[2]`}},
		"shellcheck":           {"lint:\n  shellcheck: maybe\n  shellcheckSeverity: loud\n", []string{":2: lint.shellcheck: invalid value \"maybe\": use one of auto, require, off", ":3: lint.shellcheckSeverity"}},
		"a list for a mapping": {"[]\n", []string{"must be a mapping"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lint.ParseConfig(lint.ConfigName, []byte(tt.text))
			if err == nil {
				t.Fatal("it is taken")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nsays nothing of %q", err, want)
				}
			}
			if len(strictyaml.Problems(err)) == 0 {
				t.Errorf("%v has no place in the file", err)
			}
		})
	}
}

// TestConfigEmpty: a file can be empty, or contain only comments.
func TestConfigEmpty(t *testing.T) {
	for _, text := range []string{"", "# nothing yet\n", "lint:\n"} {
		kept, suppressed := parseConfig(t, text).Apply([]lint.Finding{{Rule: "eval"}}, date(t, "2026-01-01"), same)
		if len(kept) != 1 || len(suppressed) != 0 {
			t.Errorf("%q: %d kept, %d suppressed", text, len(kept), len(suppressed))
		}
	}
}

// TestConfigFind: the nearest file up to the repository's top is taken, and none above it.
func TestConfigFind(t *testing.T) {
	dir := t.TempDir()
	touch := func(name string) string {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	touch(lint.ConfigName) // belongs to another user
	touch("repo/.git/HEAD")
	profileFile := touch("repo/profiles/a.yaml")
	plain := touch("plain/sub/a.yaml")
	find := func(path, want string) {
		t.Helper()
		got, err := lint.FindConfig(path)
		if err != nil || got != want {
			t.Errorf("for %s found %q (err %v), want %q", path, got, err, want)
		}
	}
	find(profileFile, "")
	top := touch("repo/" + lint.ConfigName)
	find(profileFile, top)
	find(filepath.Join(dir, "repo"), top)
	near := touch("repo/profiles/" + lint.ConfigName)
	find(profileFile, near)
	find(plain, "")
	touch("plain/" + lint.ConfigName)
	find(plain, "")
	find(filepath.Join(dir, "plain"), filepath.Join(dir, "plain", lint.ConfigName))
}
