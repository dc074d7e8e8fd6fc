package ui

import (
	"fmt"
	"html/template"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer/html"

	"github.com/osm-gitops/osm-gitops/test/program"
)

// Pictures of the documentation that are not pages of the product: comments on a pull request,
// written by the program and rendered as Git hosts do, and the demo's `trace` in a terminal. The
// comments have what a reviewer needs, in elements that Git hosts accept.
func TestPictures(t *testing.T) {
	needsBrowser(t) // skip early if there is no browser
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.DependOn("cmd", "pkg", "profiles", "examples", "go.mod", "docs/demo.md"); err != nil {
		t.Fatal(err)
	}
	pages := map[string][]byte{"/comment": comments(t, root), "/terminal": terminal(t, root)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_, _ = w.Write(pages[r.URL.Path]) // Chromium reports an incomplete page
	}))
	defer server.Close()
	picture := func(name string) string {
		if dir := os.Getenv("OSM_SCREENSHOTS"); dir != "" {
			return filepath.Join(dir, name+".png")
		}
		if !*update {
			return ""
		}
		return filepath.Join(root, "docs", "images", name+".png")
	}
	r := plan{Looks: []look{
		{URL: server.URL + "/comment", Variant: "light", Screenshot: picture("pull-request-light"), Height: 2000},
		{URL: server.URL + "/comment", Variant: "phone"},
		{URL: server.URL + "/terminal", Variant: "dark", Screenshot: picture("terminal-dark"), Height: 600},
	}}.run(t)
	elements := append(strings.Fields("style section span h5 h6"), ofMarkdown...)
	for i, says := range [][]string{
		{"Cannot be merged: 1 mistake in files", "profiles/osp-ubuntu-example.yaml:", "did you mean \"KubeVersion\"?", "Changes 3 of 6 pools", "shop/web-eu", "v1.0.1 → v1.1.0", "of 16384 for aws", "+vm.max_map_count = 262144"},
		{"Changes 3 of 6 pools"},
		{"$ osm-gitops trace node/web-eu-1", "subject     Add the profile of ordinary nodes", "ProfileSource kube-system/platform"},
	} {
		s := r.Seen[i]
		t.Run(strings.TrimPrefix(s.URL, server.URL+"/")+" "+s.Variant, func(t *testing.T) {
			for _, problem := range s.Problems {
				t.Error(problem)
			}
			s.sound(t, elements)
			for _, text := range says {
				if !strings.Contains(s.Text, text) {
					t.Errorf("it does not say %q:\n%s", text, s.Text)
				}
			}
		})
	}
}

// frame is around a picture: system fonts, no scripts, nothing from other hosts.
var frame = template.Must(template.New("").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{ .Title }}</title><style>{{ .Style }}</style></head>
<body><main><h1>{{ .Title }}</h1>
{{ .Body }}</main></body></html>
`))

func framed(t *testing.T, title, style, body string) []byte {
	t.Helper()
	var out strings.Builder
	if err := frame.Execute(&out, map[string]any{"Title": title, "Style": template.CSS(style), "Body": template.HTML(body)}); err != nil { //nolint:gosec // a page of this test, which checks what it has
		t.Fatal(err)
	}
	return []byte(out.String())
}

const commentStyle = `
body { margin: 0; background: #fff; color: #1f2328; font: 14px/1.5 system-ui, sans-serif; }
main { padding: 16px 24px; overflow-wrap: anywhere; }
h1 { font-size: 22px; font-weight: 400; margin: 0 0 16px; }
section { border: 1px solid #d1d9e0; border-radius: 6px; margin-bottom: 16px; padding: 0 16px 8px; }
h2 { font-size: 14px; font-weight: 600; background: #f6f8fa; border-bottom: 1px solid #d1d9e0; border-radius: 6px 6px 0 0; margin: 0 -16px; padding: 8px 16px; }
h3 { font-size: 18px; margin: 16px 0; }
a { color: #0757b5; }
code { font: 12px ui-monospace, monospace; background: #eff1f3; border-radius: 6px; padding: .2em .4em; }
pre { background: #f6f8fa; border-radius: 6px; padding: 12px; white-space: pre-wrap; }
pre code { background: none; padding: 0; }
table { border-collapse: collapse; margin: 12px 0; }
th, td { border: 1px solid #d1d9e0; padding: 6px 13px; text-align: left; vertical-align: top; overflow-wrap: normal; }
ul { padding-left: 2em; } summary { cursor: pointer; margin: 8px 0; }
.plus { background: #dafbe1; } .minus { background: #ffebe9; }
@media (max-width: 600px) { main { padding: 8px; } th, td { padding: 2px; overflow-wrap: anywhere; } }
`

// comments renders the program's comments on two commits of a pull request: one with a mistake, and
// its correction, with the first difference unfolded.
func comments(t *testing.T, root string) []byte {
	t.Helper()
	w := &world{t: t, root: root, dir: t.TempDir()}
	w.binary = w.path("osm-gitops")
	w.must(program.Controller(t.Context(), w.binary))
	for _, name := range []string{"GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"} {
		t.Setenv(name, "2026-01-01T00:00:00Z") // the picture has the ids of commits
	}
	w.must(os.Mkdir(w.path("work"), 0o700))
	w.gitRun(ada, "init", "-q", "--initial-branch=main")
	w.gitRun(ada, "remote", "add", "origin", "https://github.com/example/osps.git")
	commit := func(branch string, profiles map[string]string) {
		for name, text := range profiles {
			path := filepath.Join(w.path("work"), "profiles", name)
			w.must(os.MkdirAll(filepath.Dir(path), 0o755))
			w.must(os.WriteFile(path, []byte(text), 0o600))
		}
		w.gitRun(ada, "switch", "-q", "--force-create", branch)
		w.gitRun(ada, "add", "-A")
		w.gitRun(ada, "commit", "-q", "--message="+branch)
	}
	commit("main", map[string]string{
		"osp-ubuntu-example.yaml": w.profile("osp-ubuntu-example"), "osp-ubuntu-gpu.yaml": w.profile("osp-ubuntu-gpu"),
		"osp-ubuntu-edge-cache.yaml": w.profile("osp-ubuntu-edge-cache"),
	})
	const setting = "vm.overcommit_memory = 1"
	changed := []string{"version: v1.0.1", "version: v1.1.0", setting, setting + "\n            vm.max_map_count = 262144"}
	var body strings.Builder
	for _, c := range []struct {
		branch string
		edits  []string
	}{
		{"search-memory", append([]string{".KubeVersion | trimPrefix", ".KubeletVersion | trimPrefix"}, changed...)},
		{"search-memory-fixed", changed},
	} {
		commit(c.branch, map[string]string{"osp-ubuntu-example.yaml": w.profile("osp-ubuntu-example", c.edits...)})
		cmd := exec.CommandContext(t.Context(), w.binary, "diff", "main", c.branch, "--repo", w.path("work"), "--path", "profiles", "--machine-deployments", filepath.Join(root, "examples", "pools"), "-o", "markdown")
		out, err := cmd.Output()
		if err != nil && cmd.ProcessState.ExitCode() != 1 { // 1 is a rejection
			t.Fatalf("%v\n%s", err, out)
		}
		fmt.Fprintf(&body, "<section>\n<h2>github-actions commented on %s</h2>\n%s</section>\n", c.branch, gitHost(t, out))
	}
	text := body.String()
	if at := strings.LastIndex(text, "<section>"); at >= 0 {
		text = text[:at] + strings.Replace(text[at:], "<details>", "<details open>", 1)
	}
	return framed(t, "Comments of osm-gitops on a pull request", commentStyle, text)
}

// gitHost renders a comment as Git hosts do: HTML in it stays, and differences have colors.
func gitHost(t *testing.T, comment []byte) string {
	t.Helper()
	var out strings.Builder
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(html.WithUnsafe()))
	if err := md.Convert(comment, &out); err != nil {
		t.Fatal(err)
	}
	return difference.ReplaceAllStringFunc(out.String(), func(block string) string {
		return minus.ReplaceAllString(plus.ReplaceAllString(block, `<span class="plus">$0</span>`), `<span class="minus">$0</span>`)
	})
}

var (
	difference = regexp.MustCompile(`(?s)<code class="language-diff">.*?</code>`)
	plus       = regexp.MustCompile(`(?m)^\+.*$`)
	minus      = regexp.MustCompile(`(?m)^-.*$`)
)

const terminalStyle = `
body { margin: 0; background: #0d1117; color: #e6edf3; }
main { padding: 16px 24px; }
h1 { font: 600 13px/1 system-ui, sans-serif; color: #9da7b1; border-bottom: 1px solid #3d444d; margin: 0; padding-bottom: 12px; }
pre { font: 13px/1.45 "DejaVu Sans Mono", ui-monospace, monospace; white-space: pre-wrap; }
`

// terminal shows the demo's trace of a node, from the page that the demo's test compares with what
// it prints.
func terminal(t *testing.T, root string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs", "demo.md"))
	if err != nil {
		t.Fatal(err)
	}
	const command = "$ osm-gitops trace node/"
	_, rest, ok := strings.Cut(string(b), "   "+command)
	session, _, ok2 := strings.Cut(rest, "\n\n")
	if !ok || !ok2 {
		t.Fatalf("docs/demo.md has no %q with its output", command)
	}
	return framed(t, "Terminal", terminalStyle, "<pre>"+template.HTMLEscapeString(command+strings.ReplaceAll(session, "\n     ", "\n"))+"</pre>\n")
}
