package profiles_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// script is a file that a shell runs.
type script struct{ path, content string }

var shell = regexp.MustCompile(`^#!(/usr)?/bin/(env )?(ba|da)?sh\b`)

// minor is a version that depends on the kubelet's.
var minor = regexp.MustCompile(`\bv?1\.3[3-6]\.0\b`)

// scripts are all that the profiles write, each once. Versions of the kubelet and
// what goes with them are no difference to a shell.
func scripts(t *testing.T) []found[script] {
	t.Helper()
	var all distinct[script]
	for _, r := range renderings(t) {
		for path, f := range r.node() {
			if !shell.MatchString(f.content) {
				if strings.HasPrefix(f.content, "#!") {
					t.Errorf("%s: %s is a script of a program that nobody checks: %.40q", r.name, path, f.content)
				}
				continue
			}
			key := minor.ReplaceAllString(r.anonymous(f.content), "v1.x.0")
			all.add(path+"\x00"+key, script{path, f.content}, r.name)
		}
	}
	if len(all.list) < 10 {
		t.Fatalf("found %d scripts: there were more", len(all.list))
	}
	return all.list
}

// TestShell: bash reads every script, and shellcheck has nothing to say, not even
// about style.
func TestShell(t *testing.T) {
	shellcheck := tool(t, "shellcheck", "shellcheck")
	bash := tool(t, "bash", "bash")
	start := time.Now()
	list := scripts(t)
	var out report
	for _, f := range check(t, shellcheck, bash, list) {
		out.add(f.what, f.in)
	}
	out.fail(t)
	t.Logf("%d distinct scripts in %s", len(list), time.Since(start).Round(time.Millisecond))
}

// TestShellFinds: both do find something, where there is something.
func TestShellFinds(t *testing.T) {
	shellcheck, bash := tool(t, "shellcheck", "shellcheck"), tool(t, "bash", "bash")
	for want, content := range map[string]string{
		"SC2086":       "#!/bin/bash\nrm $1\n",
		"SC2004":       "#!/bin/bash\ni=1\necho $(($i + 1))\n", // a finding of style
		"syntax error": "#!/bin/bash\nif true; then\n",
	} {
		findings := check(t, shellcheck, bash, []found[script]{{script{"/opt/bin/x", content}, "a sample"}})
		if !slices.ContainsFunc(findings, func(f found[string]) bool {
			return strings.Contains(f.what, want) && strings.HasPrefix(f.what, "/opt/bin/x:") && f.in == "a sample"
		}) {
			t.Errorf("%q has findings %q, want %s in one with its file and where it is from", content, findings, want)
		}
	}
}

// check returns what shellcheck and bash say of scripts, "path:line: message" each.
func check(t *testing.T, shellcheck, bash string, list []found[script]) []found[string] {
	t.Helper()
	dir := t.TempDir()
	var files []string
	from := map[string]found[script]{}
	for i, s := range list {
		name := filepath.Join(dir, fmt.Sprintf("%04d", i))
		if err := os.WriteFile(name, []byte(s.what.content), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
		from[name] = s
	}
	var mu sync.Mutex
	var findings []found[string]
	var wg sync.WaitGroup
	for part := range slices.Chunk(files, len(files)/runtime.NumCPU()+1) {
		wg.Go(func() {
			lines, err := run(exec.Command(shellcheck, append([]string{"--norc", "-S", "style", "-f", "gcc"}, part...)...))
			for _, name := range part {
				more, bashErr := run(exec.Command(bash, "-n", name))
				lines, err = append(lines, more...), errors.Join(err, bashErr)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil && len(lines) == 0 {
				t.Error(err)
			}
			for _, line := range lines {
				line = strings.TrimPrefix(line, bash+": ")
				name, rest, _ := strings.Cut(line, ":")
				s, ok := from[name]
				if !ok {
					t.Errorf("a finding about no file: %s", line)
					continue
				}
				findings = append(findings, found[string]{s.what.path + ":" + rest, s.in})
			}
		})
	}
	wg.Wait()
	slices.SortFunc(findings, func(a, b found[string]) int { return strings.Compare(a.what+a.in, b.what+b.in) })
	return findings
}

// run returns the lines that a program prints.
func run(cmd *exec.Cmd) ([]string, error) {
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if text == "" {
		return nil, err
	}
	return strings.Split(text, "\n"), err
}
