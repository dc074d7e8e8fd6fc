package lint_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// baseText is a profile, with line 21 that no checker likes and line 22 that fails with
// a proxy.
func baseText(version, download string) string {
	return fmt.Sprintf(`apiVersion: operatingsystemmanager.k8c.io/v1alpha1
kind: OperatingSystemProfile
metadata:
  name: osp-base
spec:
  version: %s
  osName: ubuntu
  osVersion: "24.04"
  supportedCloudProviders: [{name: aws}, {name: hetzner}]
  bootstrapConfig:
    templates:
      two: |
        # two
    files:
    - path: /opt/base
      permissions: 755
      content:
        inline:
          data: |
            #!/bin/bash
            set -euo pipefail
            curl -k %s | sha256sum --check
            {{ if .HTTPProxy }}{{ index .ClusterDNSIPs 7 }}{{ end }}
  provisioningConfig: {}
`, version, download)
}

// overlayText is an overlay on v1.0.0 of it that adds a file.
func overlayText(added string) string {
	return fmt.Sprintf(`apiVersion: gitops.k8c.io/v1alpha1
kind: ProfileOverlay
metadata:
  name: osp-own
spec:
  version: v1.0.0
  from:
    profile: osp-base
    version: v1.0.0
  bootstrapConfig:
    files:
      add:
      - path: %s
        permissions: 755
        content:
          inline:
            data: |
              #!/bin/bash
              set -euo pipefail
              curl -k https://example.com/own | sha256sum --check
`, added)
}

// TestOverlays: of a text that an overlay takes from its base the base's file is named;
// a base that is in the history alone is named at the overlay's spec.from.
func TestOverlays(t *testing.T) {
	const (
		baseFinds    = "base.yaml:22 insecure-download: curl -k accepts any certificate\nbase.yaml:23 template: at <index .ClusterDNSIPs 7>"
		ownFinds     = "own.yaml:20 insecure-download: curl -k accepts any certificate"
		historyFinds = "own.yaml:8 insecure-download: curl -k accepts any certificate, so an attacker on the network can replace the content (in the base, COMMIT:profiles/base.yaml:22)\n" +
			"own.yaml:8 template: at <index .ClusterDNSIPs 7>: error calling index: index out of range: 7 (in the base, COMMIT:profiles/base.yaml:23)"
		moved = `own.yaml:9 base-moved: the base, profile "osp-base", has v1.1.0; this overlay starts from v1.0.0 and `
	)
	for name, c := range map[string]struct {
		overlay, adds string // path of the overlay, and its changes
		newer         string // a newer version of the base, if any
		folder, path  string // what is linted, from where
		want          string
	}{
		"both are linted, and the base's fault is told once": {
			overlay: "profiles/own.yaml", adds: "/opt/own", path: "profiles", want: prefixed("profiles/", baseFinds, ownFinds)},
		"the base lies beside": {
			overlay: "profiles/own.yaml", adds: "/opt/own", folder: "profiles", path: "own.yaml", want: prefixed("", baseFinds, ownFinds)},
		"the base lies beside, elsewhere than here": {
			overlay: "profiles/own.yaml", adds: "/opt/own", folder: "elsewhere", path: "../profiles/own.yaml", want: prefixed("../profiles/", baseFinds, ownFinds)},
		"the base has moved on": {
			overlay: "profiles/own.yaml", adds: "/opt/own", newer: "https://example.com/b", folder: "profiles", path: "own.yaml",
			want: prefixed("", historyFinds, moved+"would apply to it unchanged", ownFinds)},
		"the base has moved on, in the folder above": {
			overlay: "profiles/deeper/own.yaml", adds: "/opt/own", newer: "https://example.com/b", path: "profiles",
			want: prefixed("profiles/", baseFinds, prefixed("deeper/", historyFinds, moved+"would apply to it unchanged", ownFinds))},
		"an overlay that does not apply, whose base has moved on": {
			overlay: "profiles/own.yaml", adds: "/opt/base", newer: "https://example.com/b", folder: "profiles", path: "own.yaml",
			want: prefixed("", `own.yaml:13 overlay: spec.bootstrapConfig.files.add[0].path: the base already has file "/opt/base", in profile "osp-base" v1.0.0 (COMMIT:profiles/base.yaml:15)`)},
		"an overlay that adds what the newer base has": {
			overlay: "profiles/own.yaml", adds: "/opt/own", newer: "https://example.com/b\n    - path: /opt/own\n      content: {inline: {data: x}}", folder: "profiles", path: "own.yaml",
			want: prefixed("", historyFinds, moved+"would conflict with it: line 13, spec.bootstrapConfig.files.add[0]", ownFinds)},
	} {
		t.Run(name, func(t *testing.T) {
			r := gittest.New(t)
			r.Write("elsewhere/README", "nothing\n")
			r.Write("profiles/base.yaml", baseText("v1.0.0", "https://example.com/a"))
			r.Write(c.overlay, overlayText(c.adds))
			r.Commit()
			if c.newer != "" {
				url, file, _ := strings.Cut(c.newer, "\n")
				r.Write("profiles/base.yaml", strings.Replace(baseText("v1.1.0", url), "\n  provisioningConfig", "\n"+file+"\n  provisioningConfig", 1))
				r.Commit()
			}
			t.Chdir(filepath.Join(r.Dir, c.folder))
			got := findingsOf(t, c.path)
			for i, want := range strings.Split(c.want, "\n") {
				if i >= len(got) || !strings.HasPrefix(got[i], want) {
					t.Fatalf("finding %d is not %q; found:\n%s", i, want, strings.Join(got, "\n"))
				}
			}
			if n := len(strings.Split(c.want, "\n")); len(got) != n {
				t.Errorf("more than %d findings:\n%s", n, strings.Join(got, "\n"))
			}
		})
	}
}

// prefixed puts a folder before each of the lines.
func prefixed(folder string, lines ...string) string {
	all := strings.Join(lines, "\n")
	return folder + strings.ReplaceAll(all, "\n", "\n"+folder)
}

// findingsOf are the findings of a path: where, rule and message.
func findingsOf(t *testing.T, path string) []string {
	t.Helper()
	files, refused, err := lint.Read(t.Context(), []string{path})
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	report := lintFiles(t, lint.Linter{TextChecks: []lint.TextCheck{shellrules.Check}, Bases: &lint.Bases{}}, files...)
	var found []string
	for _, f := range report.Findings {
		found = append(found, fmt.Sprintf("%s:%d %s: %s", f.Path, f.Line, f.Rule, commit.ReplaceAllString(f.Message, "COMMIT:")))
	}
	return found
}

var commit = regexp.MustCompile(`\b[0-9a-f]{12}:`)

// A finding is in the file that its line comes from: the template of a base that an
// overlay's file inserts, after the line break that inserting one gives.
func TestFindingInTheFileOfItsLine(t *testing.T) {
	r := gittest.New(t)
	r.Write("base.yaml", strings.Replace(baseText("v1.0.0", "https://example.com/a"), "      two: |\n        # two\n", "      two: 'setenforce 0'\n", 1))
	before, _, _ := strings.Cut(overlayText("/opt/own"), "|\n")
	r.Write("own.yaml", before+"'{{ template \"two\" . }}'\n")
	t.Chdir(r.Dir)
	check := func(_ context.Context, text lint.Text) []lint.Finding {
		if text.File != "/opt/own" {
			return nil
		}
		return []lint.Finding{text.Finding("whole", lint.SeverityError, 0, string(text.Content)), text.Finding("break", lint.SeverityError, 1, ""), text.Finding("inserted", lint.SeverityError, 2, "")}
	}
	files, refused, err := lint.Read(t.Context(), []string{"."})
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	report := lintFiles(t, lint.Linter{TextChecks: []lint.TextCheck{check}, Bases: &lint.Bases{}}, files...)
	got := map[string]string{}
	for _, f := range report.Findings {
		got[f.Rule] = fmt.Sprintf("%s:%d", f.Path, f.Line)
	}
	for rule, want := range map[string]string{"whole": "own.yaml:17", "break": "own.yaml:17", "inserted": "base.yaml:12"} {
		if got[rule] != want {
			t.Errorf("%s is found at %s, want %s: %+v", rule, got[rule], want, report.Findings)
		}
	}
}

// The findings of a file are known before later files are checked, unless these are overlays with
// texts of the file. All of them, in that order, are the findings of the report.
func TestFoundBeforeTheEnd(t *testing.T) {
	r := gittest.New(t)
	r.Write("a.yaml", osp{file: "a"}.text())
	r.Write("base.yaml", baseText("v1.0.0", "https://example.com/a"))
	r.Write("own.yaml", overlayText("/opt/own"))
	r.Write("z.yaml", strings.ReplaceAll(osp{file: "z"}.text(), "osp-x", "osp-z"))
	t.Chdir(r.Dir)
	files, refused, err := lint.Read(t.Context(), []string{"."})
	if err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	var mu sync.Mutex
	var told []lint.Finding
	at := map[string]string{} // files with findings that are known when a file is checked
	check := func(_ context.Context, text lint.Text) []lint.Finding {
		mu.Lock()
		defer mu.Unlock()
		var known []string
		for _, f := range told {
			known = append(known, f.Path)
		}
		at[text.Document.Path] = strings.Join(slices.Compact(known), " ")
		return []lint.Finding{text.Finding("seen", lint.SeverityError, 1, text.File)}
	}
	linter := lint.Linter{TextChecks: []lint.TextCheck{check}, Bases: &lint.Bases{}, Found: func(findings []lint.Finding) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, findings...)
	}}
	report := lintFiles(t, linter, files...)
	if diff := cmp.Diff(report.Findings, told); diff != "" {
		t.Errorf("the report, and what was told before: %s", diff)
	}
	want := map[string]string{"a.yaml": "", "base.yaml": "a.yaml", "own.yaml": "a.yaml", "z.yaml": "a.yaml base.yaml own.yaml"}
	if diff := cmp.Diff(want, at); diff != "" {
		t.Errorf("known when a file is checked: %s", diff)
	}
}
