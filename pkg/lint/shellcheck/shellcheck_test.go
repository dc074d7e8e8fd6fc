package shellcheck_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
		for _, f := range c.Check(t.Context(), []lint.Text{text(tt.interpreter, tt.script)})[0] {
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

// TestReleases: scripts with different release numbers in a "case" do not get the findings of one
// with equal numbers.
func TestReleases(t *testing.T) {
	c := &shellcheck.Checker{Path: program(t)}
	for first, second := range map[string][2]string{"1.30": {"1.30", "1.31"}, "1.30.*": {"1.30.2", "1.31.2"}, "*1.1": {"1.1.1", "1.1.2"}} {
		script := "#!/bin/sh\ncase $1 in\n" + first + ") echo a ;;\n%s) echo b ;;\nesac\n"
		got := c.Check(t.Context(), []lint.Text{text("sh", fmt.Sprintf(script, second[0])), text("sh", fmt.Sprintf(script, second[1]))})
		if err := c.Err(); err != nil {
			t.Fatal(err)
		}
		if len(got[0]) == 0 || !strings.Contains(got[0][0].Message, "SC2221") || len(got[1]) > 0 {
			t.Errorf("%s and %s: %v, and %s: %v", first, second[0], got[0], second[1], got[1])
		}
	}
}

// TestForms: scripts are checked once if they differ in release numbers and URLs that do not matter
// to the program.
func TestForms(t *testing.T) {
	for _, tt := range []struct {
		name, script  string
		first, second string
		runs          int
	}{
		{"a default of a variable, next to patterns", "v=${v:-%s}\ncase $v in 1.34.* | 1.35.*) echo a ;; esac\n", "1.34.0", "2.1.0", 1},
		{"equal to another one", "v=%s\nw=1.34.0\n", "v1.34.0", "v1.35.0", 1},
		{"in a pattern", "case $1 in 1.34.* | %s) echo a ;; esac\n", "1.34.0", "1.35.0", 2},
		{"in a condition", "[[ %s == 1.34.* ]]\n", "1.34.0", "1.35.0", 2},
		{"in a condition of sh", "[ \"v1.30.$p\" = v%s ]\n", "1.30.5", "1.31.5", 2},
		{"names of files", "sort a-1.34 >a-%s\n", "1.34", "1.35", 2},
		{"names of files of a command in a value", "v=$(sort a-1.34 >a-%s)\n", "1.34", "1.35", 2},
		{"a URL", "curl %s\n", "https://a.example.com/1.2", "https://b.example.com", 1},
		{"a script that cannot be parsed", "if %s\n", "1.34", "1.35", 2},
	} {
		log := filepath.Join(t.TempDir(), "log")
		c := &shellcheck.Checker{Path: recordingProgram(t, log)}
		for _, value := range []string{tt.first, tt.second} {
			c.Check(t.Context(), []lint.Text{text("bash", fmt.Sprintf(tt.script, value))})
		}
		if err := c.Err(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(got), "--norc"); n != tt.runs {
			t.Errorf("%s: the program ran %d times, want %d:\n%s", tt.name, n, tt.runs, got)
		}
	}
}

// recordingProgram returns the path of a program that has no comments, and appends its arguments and
// standard input to a file.
func recordingProgram(t *testing.T, log string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "shellcheck")
	program := "#!/bin/sh\n{ echo \"$@\"; env | grep -c SHELLCHECK; cat; } >>" + log + "\necho '{\"comments\":[]}'\n"
	if err := os.WriteFile(path, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestArguments: the program gets fixed arguments, one script on its standard input and several
// through pipes, and only PATH of the caller's environment (security.md 23). Scripts that differ
// only in release numbers and URLs are checked once.
func TestArguments(t *testing.T) {
	t.Setenv("SHELLCHECK_OPTS", "--severity=error")
	log := filepath.Join(t.TempDir(), "log")
	c := &shellcheck.Checker{Path: recordingProgram(t, log), Level: "info"}
	for _, v := range []string{"v1.33.0 of 1.33 and v2.0 https://a.example.com/b", "v1.34.0 of 1.34 and v2.7 https://c.example.com"} {
		c.Check(t.Context(), []lint.Text{text("bash", "#!/bin/bash\n# $(touch /tmp/x); "+v+"\n")})
	}
	var several []lint.Text
	for _, word := range []string{"one", "two"} {
		several = append(several, text("dash", "#!/bin/dash\necho "+word+" $(touch /tmp/x)\n"))
	}
	c.Check(t.Context(), several)
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	want := "--norc --severity=info --shell=bash --exclude=SC1090,SC1091 --format=json1 -\n0\n#!/bin/bash\n# $(touch /tmp/x); v1.33.0 of 1.33 and v2.0 https://a.example.com/b\n" +
		"--norc --severity=info --shell=dash --exclude=SC1090,SC1091 --format=json1 /dev/fd/3 /dev/fd/4\n0\n"
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
	if found := c.Check(t.Context(), []lint.Text{text("bash", "#!/bin/bash\n")}); len(found[0]) > 0 {
		t.Errorf("found %v", found)
	}
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("got %v", err)
	}
}

// TestOthers: files that are not shell scripts are not checked.
func TestOthers(t *testing.T) {
	c := &shellcheck.Checker{Path: "/nowhere"}
	if found := c.Check(t.Context(), []lint.Text{{Kind: lint.KindUnit, Content: []byte("[Unit]\n")}}); len(found[0]) > 0 || c.Err() != nil {
		t.Errorf("found %v (err %v)", found, c.Err())
	}
}

// mixed are scripts of three dialects, more than a process gets. Every second has one finding.
func mixed() []lint.Text {
	var texts []lint.Text
	for i := range 30 {
		dialect := []string{"bash", "sh", "dash"}[i%3]
		command := fmt.Sprintf("echo %s\n", strings.Repeat("x", i+1))
		if i%2 == 0 {
			command = strings.Repeat("\n", i) + "rm $1\n" + command
		}
		texts = append(texts, text(dialect, "#!/bin/"+dialect+"\n"+command))
	}
	return texts
}

func messages(all [][]lint.Finding) []string {
	var out []string
	for i, findings := range all {
		for _, f := range findings {
			out = append(out, fmt.Sprintf("%d: %s %s", i, f.Severity, f.Message))
		}
	}
	return out
}

// checked returns the findings on texts; program errors fail the test.
func checked(t *testing.T, c *shellcheck.Checker, texts []lint.Text) []string {
	t.Helper()
	out := messages(c.Check(t.Context(), texts))
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// logged is a program that logs its arguments, a line for each call, and then runs another one.
func logged(t *testing.T, path, before string) (program string, calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	program, log := filepath.Join(dir, "shellcheck"), filepath.Join(dir, "log")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\" >>"+log+"\n"+before+"\nexec "+path+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, func() []string {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
}

// TestBatches: a process gets many scripts, and each script its own findings, also if the program
// cannot read several.
func TestBatches(t *testing.T) {
	path := program(t)
	var want []string
	for i, text := range mixed() {
		for _, said := range checked(t, &shellcheck.Checker{Path: path}, []lint.Text{text}) {
			want = append(want, strings.Replace(said, "0:", strconv.Itoa(i)+":", 1))
		}
	}
	if len(want) != 15 {
		t.Fatalf("one by one: %q", want)
	}
	counting, calls := logged(t, path, "")
	if diff := cmp.Diff(want, checked(t, &shellcheck.Checker{Path: counting}, mixed())); diff != "" {
		t.Errorf("in batches: %s", diff)
	}
	if n := len(calls()); n > 6 {
		t.Errorf("%d processes for 30 scripts of 3 dialects", n)
	}
	single, _ := logged(t, path, `case "$*" in */dev/fd/4*) exit 4;; esac`)
	if diff := cmp.Diff(want, checked(t, &shellcheck.Checker{Path: single}, mixed())); diff != "" {
		t.Errorf("a program that reads one file: %s", diff)
	}
}

// TestCache: a second run asks the program nothing but its version, with equal findings. Another
// level, version or script is asked about, a damaged file is ignored, and a failure is not stored.
func TestCache(t *testing.T) {
	path := program(t)
	counting, calls := logged(t, path, "")
	dir := filepath.Join(t.TempDir(), "osm-gitops", "lint")
	run := func(program, level string, texts []lint.Text) []string {
		t.Helper()
		return checked(t, &shellcheck.Checker{Path: program, Level: level, Cache: shellcheck.OpenCache(dir)}, texts)
	}
	want := checked(t, &shellcheck.Checker{Path: path}, mixed())
	asked := func(what, program, level string, texts []lint.Text, want []string, scripts bool) {
		t.Helper()
		if diff := cmp.Diff(want, run(program, level, texts)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		got := calls()
		if got[0] != "--version" || (len(got) > 1) != scripts {
			t.Errorf("%s: it was asked %q", what, got)
		}
	}
	asked("cold", counting, "", mixed(), want, true)
	asked("warm", counting, "", mixed(), want, false)
	asked("another level", counting, "error", mixed(), nil, true)
	other := append(mixed(), text("bash", "#!/bin/bash\necho other\n"))
	asked("another script", counting, "", other, want, true)
	asked("warm again", counting, "", other, want, false)

	newer, newerCalls := logged(t, path, `case $1 in --version) echo newer; exit;; esac`)
	if diff := cmp.Diff(want, run(newer, "", mixed())); diff != "" || len(newerCalls()) == 1 {
		t.Errorf("another version: %s", diff)
	}
	rebuilt, rebuiltCalls := logged(t, path, "# Builds without a release print the same version.")
	if diff := cmp.Diff(want, run(rebuilt, "", mixed())); diff != "" || len(rebuiltCalls()) == 1 {
		t.Errorf("another build of the version: %s", diff)
	}
	asked("the first one again", counting, "", other, want, false)

	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("folder %v (err %v)", info.Mode(), err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*-d")) // the answers, next to their index
	if err != nil || len(files) < 3 {
		t.Fatalf("files %q (err %v)", files, err)
	}
	for _, damaged := range []string{"", "[{", `{"key": 1}`, strings.Repeat("[", 2<<20)} {
		for _, file := range files {
			if err := os.WriteFile(file, []byte(damaged), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		asked("damaged", counting, "", mixed(), want, true)
		asked("repaired", counting, "", mixed(), want, false)
	}

	fresh := []lint.Text{text("bash", "#!/bin/bash\nrm $2\n")}
	broken, _ := logged(t, path, `case $1 in --norc) exit 3;; esac`)
	failing := &shellcheck.Checker{Path: broken, Cache: shellcheck.OpenCache(dir)}
	if found := messages(failing.Check(t.Context(), fresh)); len(found) > 0 || failing.Err() == nil {
		t.Fatalf("a program that fails: %q (err %v)", found, failing.Err())
	}
	if got := run(counting, "", fresh); len(got) != 1 {
		t.Errorf("after a failure: %q", got)
	}
}

// TestNoCache: without a private folder nothing is stored, and the findings are the same.
func TestNoCache(t *testing.T) {
	path := program(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{dir, file, filepath.Join(file, "lint")} {
		cache := shellcheck.OpenCache(folder)
		if cache != nil {
			t.Errorf("%s is a cache", folder)
		}
		if found := checked(t, &shellcheck.Checker{Path: path, Cache: cache}, mixed()); len(found) != 15 {
			t.Errorf("found %q", found)
		}
	}
	// The folder goes away while lint runs.
	gone := filepath.Join(t.TempDir(), "lint")
	c := &shellcheck.Checker{Path: path, Cache: shellcheck.OpenCache(gone)}
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	if found := checked(t, c, mixed()); len(found) != 15 {
		t.Errorf("found %q", found)
	}
}

// TestCanceled: a check that did not end in time is no error of the program and is not stored.
func TestCanceled(t *testing.T) {
	path := program(t)
	dir := filepath.Join(t.TempDir(), "lint")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &shellcheck.Checker{Path: path, Cache: shellcheck.OpenCache(dir)}
	if found := messages(c.Check(ctx, mixed())); len(found) > 0 || c.Err() != nil {
		t.Errorf("found %q (err %v)", found, c.Err())
	}
	if found := checked(t, &shellcheck.Checker{Path: path, Cache: shellcheck.OpenCache(dir)}, mixed()); len(found) != 15 {
		t.Errorf("found %q", found)
	}
}
