package shellrules_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules"
)

// sample is a text of testdata/samples.txt. The rule must find exactly the lines
// that end in " #!", or line 0 if it has the line "#! whole"; a good sample has neither.
type sample struct {
	rule    string
	subject lint.Text
	want    []int
}

// samples reads a list in a format similar to txtar: see testdata/samples.txt.
func samples(t *testing.T) []sample {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "samples.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var out []sample
	for _, part := range strings.Split(string(b), "\n-- ")[1:] {
		head, content, _ := strings.Cut(part, " --\n")
		fields := strings.Fields(head) // RULE FILE MODE KIND [INTERPRETER]
		if len(fields) < 4 {
			t.Fatalf("%q names no rule, file, mode and kind", head)
		}
		s := sample{rule: fields[0], subject: lint.Text{File: fields[1], Kind: lint.Kind(fields[3])}}
		for _, c := range fields[2] {
			s.subject.Mode = s.subject.Mode<<3 | uint32(c-'0')
		}
		if len(fields) > 4 {
			s.subject.Interpreter = fields[4]
		}
		var lines []string
		for line := range strings.SplitSeq(content+"\n", "\n") {
			if text, ok := strings.CutSuffix(line, " #!"); ok {
				s.want = append(s.want, len(lines)+1)
				line = text
			}
			if line == "#! whole" {
				s.want = append(s.want, 0)
				continue
			}
			lines = append(lines, line)
		}
		s.subject.Content = []byte(strings.TrimSuffix(strings.Join(lines, "\n"), "\n"))
		out = append(out, s)
	}
	return out
}

// TestRules: every rule finds its bad samples, on the right lines, and nothing in its good
// samples; no other rule finds anything in either.
func TestRules(t *testing.T) {
	bad, good := map[string]int{}, map[string]int{}
	for _, s := range samples(t) {
		if len(s.want) > 0 {
			bad[s.rule]++
		} else {
			good[s.rule]++
		}
		var got []int
		for _, f := range shellrules.CheckText(t.Context(), s.subject) {
			if f.Rule != s.rule {
				t.Errorf("%s: %s:%d: %s [%s] in\n%s", s.rule, s.subject.File, f.Line, f.Message, f.Rule, s.subject.Content)
				continue
			}
			if f.Message == "" || f.Fix == "" || f.Severity == "" {
				t.Errorf("%s: a finding without message, fix or severity: %+v", s.rule, f)
			}
			got = append(got, f.Line)
		}
		if diff := cmp.Diff(s.want, got); diff != "" {
			t.Errorf("%s: lines (-want +got):\n%s in\n%s", s.rule, diff, s.subject.Content)
		}
	}
	for _, r := range lint.Chapters()[1].Rules {
		if bad[r.Name] == 0 || good[r.Name] == 0 {
			t.Errorf("rule %s has %d bad and %d good samples, want some of each", r.Name, bad[r.Name], good[r.Name])
		}
		if r.Summary == "" || r.Help == "" || r.Severity == "" {
			t.Errorf("rule %s is not described", r.Name)
		}
	}
}

// security.md 15: a finding about a credential in a profile contains its position and its
// name, and never its value.
func TestCredentialsAreNotPrinted(t *testing.T) {
	found := 0
	for _, s := range samples(t) {
		if s.rule != lint.RuleLiteralCredential {
			continue
		}
		for _, f := range shellrules.CheckText(t.Context(), s.subject) {
			found++
			for _, value := range []string{"hunter2", "wJalr", "AKIA", "horse", "0123456789abcdef", "s3cret", "hvs.", "b1946", "toor", "0a1b2c", "Zm9v", "it is a secret", "MIIE"} {
				if strings.Contains(f.Message+f.Fix, value) {
					t.Errorf("%s:%d: a finding holds %q: %s", s.subject.File, f.Line, value, f.Message)
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("%d findings, and the samples have more", found)
	}
}

// Ctrl-C stops the check of a script of any size.
func TestLookEnds(t *testing.T) {
	script := "#!/bin/bash\n" + strings.Repeat("curl -fsSLo /opt/tool https://example.com/tool\n", 5_000)
	subject := lint.Text{File: "/opt/bin/x", Mode: 0o755, Kind: lint.KindShell, Interpreter: "bash", Content: []byte(script)}
	if got := shellrules.CheckText(t.Context(), subject); len(got) < 5_000 {
		t.Errorf("%d findings", len(got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := shellrules.CheckText(ctx, subject); len(got) > 0 {
		t.Errorf("%d findings after the context has ended", len(got))
	}
}

// A message names the download as written, without the user and password of a URL, and
// truncates it (security.md 15).
func TestShownURL(t *testing.T) {
	long := "https://x.example.com/latest/" + strings.Repeat("x", 91) // 120 bytes
	for url, want := range map[string]string{
		"https://ada:hunter2@x.example.com/latest/a@b": `"https://x.example.com/latest/a@b"`,
		"https://@x.example.com/latest/tool":           `"https://x.example.com/latest/tool"`,
		long:                                           `"` + long + `"`,
		long + "y":                                     `"` + long + `..."`,
	} {
		script := "#!/bin/bash\nset -euo pipefail\ncurl --fail --output /opt/bin/tool '" + url + "'\n"
		var got []string
		for _, f := range shellrules.CheckText(t.Context(), lint.Text{File: "/opt/bin/x", Mode: 0o755, Kind: lint.KindShell, Interpreter: "bash", Content: []byte(script)}) {
			if f.Rule == lint.RuleUnpinned {
				got = append(got, f.Message)
			}
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], want+" ") {
			t.Errorf("%s: found %q, want one that begins with %s", url, got, want)
		}
	}
}
