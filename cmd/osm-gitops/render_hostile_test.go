package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// What does something to a terminal or a page: a window's title, colors, a link, text
// that runs backwards, a script; and a lot of it.
const (
	escapes = "\x1b]0;pwned\a\x1b[2J\x1b[31m\x9b31m\x1b]8;;https://evil.example\x1b\\\u202e"
	markup  = `<script>alert(1)</script><img src=x onerror=alert(1)>`
)

// security.md 28: nothing that a commit, a file or a reference is called does anything
// to the terminal of who renders it, nor fills it.
func TestRenderHostileText(t *testing.T) {
	bin := filepath.Join(build(t), "osm-gitops")
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	subject := escapes + markup + strings.Repeat("A", 39_001-len(escapes)-len(markup))
	author := "Ada" + escapes + markup + strings.Repeat("B", 39_001)
	git := func(stdin string, args ...string) string {
		t.Helper()
		return gittest.Input(t, repo, strings.NewReader(stdin), args...)
	}
	if err := os.Mkdir(repo, 0o700); err != nil {
		t.Fatal(err)
	}
	// commit makes a commit of files that git itself would not make, and a branch of it.
	commit := func(branch string, files ...string) {
		t.Helper()
		var tree bytes.Buffer
		for i := 0; i < len(files); i += 2 {
			tree.WriteString("100644 blob " + git(files[i+1], "hash-object", "-w", "--stdin") + "\t" + files[i] + "\x00")
		}
		who := author + " <a@x" + escapes + "> 1767225600 +0000\n"
		text := "tree " + git(tree.String(), "mktree", "-z") + "\nauthor " + who + "committer " + who + "\n" + subject + "\n\n" + subject + "\n"
		git("", "update-ref", "refs/heads/"+branch, git(text, "hash-object", "-w", "-t", "commit", "--literally", "--stdin"))
	}
	git("", "init", "--quiet", "--initial-branch=main")
	git("", "remote", "add", "origin", "https://git.example.com/"+escapes+markup)
	named := strings.Replace(smallProfile, "osp-small", "\"osp-\\e[31m<b>\\u202e"+strings.Repeat("C", 39_001)+"\"", 1)
	odd := "odd" + strings.ReplaceAll(escapes, "/", "") + ".yaml"
	commit("main", "good.yaml", smallProfile, odd, smallProfile, "named.yaml", named, "yaml.yaml", "a: ["+escapes)
	commit("template", "good.yaml", strings.Replace(smallProfile, "{{ .Provenance.Repository }}", `{{ fail \"\x1b[31mred\x9b\u202e`+strings.Repeat("E", 39_001)+`\" }}`, 1))
	commit("version", "good.yaml", strings.Replace(smallProfile, "v1.0.0", `"v1.0.0`+"\\e[31m"+strings.Repeat("D", 39_001)+`"`, 1))
	// Git cannot create this branch, but anyone with write access to the file can.
	packed := git("", "rev-parse", "main") + " refs/heads/a" + escapes + "\n"
	for name, text := range map[string]string{
		filepath.Join("repo", ".git", "packed-refs"): packed, "cluster.yaml": "settings: {}\n",
		"md.yaml": `apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata: {name: workers, namespace: shop, annotations: {k8c.io/operating-system-profile: osp-small}}
spec: {template: {spec: {versions: {kubelet: 1.36.2}, providerSpec: {value: {cloudProvider: hetzner, operatingSystem: ubuntu}}}}}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args   []string
		status int
		says   []string // on standard error
	}{
		"the profile":               {nil, exitOK, []string{"warning: odd", "warning: named.yaml", "warning: yaml.yaml"}},
		"an unknown branch":         {[]string{"--revision", "absent"}, exitFailure, []string{`"absent"`}},
		"an odd branch":             {[]string{"--revision", "a" + escapes}, exitFailure, []string{"revision"}},
		"a profile of another name": {[]string{"--profile", "osp\x1b[31m"}, exitFailure, []string{"not found", "osp-small"}},
		"a template":                {[]string{"--revision", "template"}, exitFailure, []string{"good.yaml:12", "[31mred"}},
		"a version":                 {[]string{"--revision", "version"}, exitFailure, []string{"spec.version"}},
		"a path":                    {[]string{"--path", odd}, exitFailure, []string{"path"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, output := range []string{"osc", "bootstrap", "provisioning"} {
				cmd := exec.CommandContext(t.Context(), bin, append([]string{"render", "--repo", "repo", "--machine-deployment", "md.yaml", "--cluster", "cluster.yaml", "-o", output}, c.args...)...)
				cmd.Dir = dir
				var stdout, stderr strings.Builder
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				var exit *exec.ExitError
				if err := cmd.Run(); err != nil && !errors.As(err, &exit) || cmd.ProcessState.ExitCode() != c.status {
					t.Fatalf("%v, want exit status %d: %q", err, c.status, stderr.String())
				}
				if (stdout.Len() > 0) != (c.status == exitOK) {
					t.Errorf("%d bytes on standard output", stdout.Len())
				}
				clean(t, "standard output", stdout.String())
				clean(t, "standard error", stderr.String())
				for _, s := range c.says {
					if !strings.Contains(stderr.String(), s) {
						t.Errorf("standard error does not say %q: %s", s, stderr.String())
					}
				}
			}
		})
	}
}

// clean checks that a text is safe for a terminal and readable.
func clean(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s is not UTF-8: %q", what, text)
	}
	for i, r := range text {
		if r != '\n' && !unicode.IsGraphic(r) {
			t.Errorf("%s has %U at %q", what, r, text[max(0, i-40):i])
			break
		}
	}
	if longest := 16 << 10; len(text) > longest {
		t.Errorf("%s has %d bytes", what, len(text))
	}
	if strings.Contains(text, "AAAA") || strings.Contains(text, "BBBB") {
		t.Errorf("%s holds the subject or the author", what)
	}
}
