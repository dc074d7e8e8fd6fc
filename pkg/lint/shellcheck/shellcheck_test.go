package shellcheck_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellcheck"
)

// program returns shellcheck. If it is not installed, the test is skipped, or fails in CI.
func program(t *testing.T) string {
	t.Helper()
	path := shellcheck.Find()
	if path == "" && os.Getenv("CI") == "true" {
		t.Fatal("there is no shellcheck: run hack/prerequisites")
	}
	if path == "" {
		t.Skip("NOT CHECKED: there is no shellcheck: install Debian's package shellcheck, or run hack/prerequisites as root")
	}
	return path
}

func text(interpreter, content string) lint.Text {
	return lint.Text{File: "/opt/bin/x", Mode: 0o755, Kind: lint.KindShell, Interpreter: interpreter, Content: []byte(content)}
}

// TestCheck: shellcheck's levels and numbers become findings, from the configured level
// upwards.
func TestCheck(t *testing.T) {
	path := program(t)
	const script = "#!/bin/bash\ni=1\nrm $1\necho $(($i + 1))\n"
	for _, tt := range []struct {
		level, interpreter, script string
		want                       []string // severity and number
	}{
		{"", "bash", script, []string{"warning SC2086"}},
		{"error", "bash", script, nil},
		{"style", "bash", script, []string{"warning SC2086", "note SC2004"}},
		{"error", "bash", "#!/bin/bash\nif true; then\n", []string{"error SC1"}},
		{"warning", "sh", "#!/bin/sh\n[[ -e /x ]]\n", []string{"warning SC3010"}},
		{"warning", "bash", "#!/bin/bash\n[[ -e /x ]]\n", nil},
		{"style", "bash", "#!/bin/bash\n. /etc/os-release\necho \"$ID\"\n", nil},
	} {
		c := &shellcheck.Checker{Path: path, Level: tt.level}
		var got []string
		for _, f := range c.Check(t.Context(), text(tt.interpreter, tt.script)) {
			if f.Rule != lint.RuleShellcheck || !strings.Contains(f.Fix, "/wiki/SC") {
				t.Errorf("finding %+v", f)
			}
			got = append(got, string(f.Severity)+" "+f.Message)
		}
		if err := c.Err(); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if !strings.Contains(strings.Join(got, "\n"), want) {
				t.Errorf("level %q of %q: %q, want %q", tt.level, tt.script, got, want)
			}
		}
		if len(tt.want) == 0 && len(got) > 0 {
			t.Errorf("level %q of %q: %q, want nothing", tt.level, tt.script, got)
		}
	}
}

// TestArguments: the program gets fixed arguments, the script on its standard input, and
// only PATH of the caller's environment (security.md 23). Scripts that differ only in release
// numbers are checked once.
func TestArguments(t *testing.T) {
	t.Setenv("SHELLCHECK_OPTS", "--severity=error")
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	fake := filepath.Join(dir, "shellcheck")
	program := "#!/bin/sh\n{ echo \"$@\"; env | grep -c SHELLCHECK; cat; } >>" + log + "\necho '{\"comments\":[]}'\n"
	if err := os.WriteFile(fake, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	c := &shellcheck.Checker{Path: fake, Level: "info"}
	for _, v := range []string{"v1.33.0", "v1.34.7"} {
		c.Check(t.Context(), text("bash", "#!/bin/bash\n# $(touch /tmp/x); "+v+"\n"))
	}
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	want := "--norc --severity=info --shell=bash --exclude=SC1090,SC1091 --format=json1 -\n0\n#!/bin/bash\n# $(touch /tmp/x); v1.33.0\n"
	if string(got) != want {
		t.Errorf("it was asked\n%s\nwant\n%s", got, want)
	}
}

// TestFails: a failure of the program is an error, and not a script without findings.
func TestFails(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "shellcheck")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho no such option >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := &shellcheck.Checker{Path: fake}
	if found := c.Check(t.Context(), text("bash", "#!/bin/bash\n")); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("got %v", err)
	}
}

// TestOthers: files that are not shell scripts are not checked.
func TestOthers(t *testing.T) {
	c := &shellcheck.Checker{Path: "/nowhere"}
	if found := c.Check(t.Context(), lint.Text{Kind: lint.KindUnit, Content: []byte("[Unit]\n")}); len(found) > 0 || c.Err() != nil {
		t.Errorf("found %v (err %v)", found, c.Err())
	}
}
