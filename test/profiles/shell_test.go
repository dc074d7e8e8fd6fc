package profiles_test

import (
	"crypto/sha256"
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

// scripts returns all scripts that the profiles write, each once. Scripts that differ only in
// versions of the kubelet and its components count as one.
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

// TestShellFinds: both programs find mistakes.
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
// Scripts about which they have had nothing to say are remembered in the user's cache
// directory, by release of both and by content.
func check(t *testing.T, shellcheck, bash string, list []found[script]) []found[string] {
	t.Helper()
	known := newClean(t, shellcheck, bash)
	dir := t.TempDir()
	var files []string
	from := map[string]found[script]{}
	for i, s := range list {
		if known.has(s.what.content) {
			continue
		}
		name := filepath.Join(dir, fmt.Sprintf("%04d", i))
		writeFile(t, name, s.what.content, 0o600)
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
				return
			}
			bad := map[string]bool{}
			for _, line := range lines {
				line = strings.TrimPrefix(line, bash+": ")
				name, rest, _ := strings.Cut(line, ":")
				s, ok := from[name]
				if !ok {
					t.Errorf("a finding about no file: %s", line)
					return
				}
				bad[name] = true
				findings = append(findings, found[string]{s.what.path + ":" + rest, s.in})
			}
			for _, name := range part {
				if !bad[name] {
					known.add(t, from[name].what.content)
				}
			}
		})
	}
	wg.Wait()
	slices.SortFunc(findings, func(a, b found[string]) int { return strings.Compare(a.what+a.in, b.what+b.in) })
	return findings
}

// clean are the scripts that are known to have no findings: an empty file each.
type clean struct{ dir, tools string }

func newClean(t *testing.T, programs ...string) clean {
	t.Helper()
	var c clean
	for _, program := range programs {
		lines, err := run(exec.Command(program, "--version"))
		if err != nil {
			t.Fatalf("%s --version: %v", program, err)
		}
		c.tools += strings.Join(lines, "\n")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	c.dir = filepath.Join(cache, "osm-gitops", "shellcheck")
	return c
}

func (c clean) path(content string) string {
	return filepath.Join(c.dir, fmt.Sprintf("%x", sha256.Sum256([]byte(c.tools+"\x00"+content))))
}

func (c clean) has(content string) bool {
	_, err := os.Stat(c.path(content))
	return err == nil
}

func (c clean) add(t *testing.T, content string) { writeFile(t, c.path(content), "", 0o644) }

// run returns the lines that a program prints.
func run(cmd *exec.Cmd) ([]string, error) {
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	if text == "" {
		return nil, err
	}
	return strings.Split(text, "\n"), err
}
