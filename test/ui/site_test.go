package ui

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/program"
)

// A browser loads the output of "make docs": every page on the narrowest screen, and those with
// long tables, code and pictures in every variant. axe-core has no finding, nothing is wider than
// the window, no script runs, nothing is loaded from other hosts, and no server is needed.
func TestDocumentation(t *testing.T) {
	needsBrowser(t) // skip early if there is no browser
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.DependOn("docs", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "deploy/README.md", "profiles/README.md"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "run", "-trimpath", "./docs/site", ".", dir)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the site: %v\n%s", err, out)
	}
	server := httptest.NewServer(http.FileServerFS(os.DirFS(dir)))
	defer server.Close()

	var p plan
	for _, path := range htmlFiles(t, dir) {
		p.Looks = append(p.Looks, look{URL: server.URL + "/" + path, Variant: "zoomed", Screenshot: siteScreenshot(path, "zoomed"), Height: 3000})
	}
	all := len(p.Looks)
	for _, path := range []string{"index.html", "docs/index.html", "docs/install.html", "docs/permissions.html"} {
		for _, variant := range []string{"light", "dark", "phone"} {
			p.Looks = append(p.Looks, look{URL: server.URL + "/" + path, Variant: variant, Screenshot: siteScreenshot(path, variant), Height: 1600})
		}
	}
	p.Looks = append(p.Looks,
		look{URL: server.URL + "/docs/doctor.html", Variant: "light", Keyboard: true},
		look{URL: "file://" + filepath.Join(dir, "docs", "doctor.html"), Variant: "dark", Plain: true})
	p.Walk = []step{
		{Open: server.URL + "/"},
		{Click: "Install"},
		{Click: "permissions"},
		{Click: "who may approve"},
		{Click: "osm-gitops verify"},
		{Click: "osm-gitops"},
	}
	r := p.run(t)
	t.Logf("looked at %d pages with Chromium %s", len(r.Seen), r.Version)
	if all < 50 {
		t.Errorf("there are %d pages", all)
	}
	last := len(r.Seen) - 1
	for _, s := range r.Seen[:last] {
		t.Run(strings.TrimPrefix(s.URL, server.URL+"/")+" "+s.Variant, func(t *testing.T) { s.readable(t) })
	}
	if s := r.Seen[last]; len(s.Problems) > 0 || s.Back != r.Seen[all+1].Back || s.Heading != "osm-gitops doctor" {
		t.Errorf("from a file, %q is %s: %q", s.Heading, s.Back, s.Problems)
	}
	if light, dark := r.Seen[all], r.Seen[all+1]; light.Back == dark.Back || light.Ink == dark.Ink {
		t.Errorf("light is %s on %s, dark %s on %s", light.Ink, light.Back, dark.Ink, dark.Back)
	}
	// The tab key reaches the page first and then the navigation.
	stops := r.Seen[last-1].Keyboard
	at := func(name string) int {
		return slices.IndexFunc(stops, func(s stop) bool { return s.Name == name })
	}
	if page, nav := at("Troubleshooting"), at("Documentation"); page < 0 || nav < page {
		t.Errorf("the tab key comes to %v", stops)
	}
	for _, s := range stops {
		if !s.Seen {
			t.Errorf("%s %q does not show that it has the focus", s.Tag, s.Name)
		}
	}
	var came []string
	for _, s := range r.Walked {
		if s.Problem != "" {
			t.Fatal(s.Problem)
		}
		came = append(came, s.Heading)
	}
	if want := []string{"osm-gitops", "Install", "Permissions", "Permissions", "osm-gitops verify", "osm-gitops"}; !slices.Equal(came, want) {
		t.Errorf("came to %q, want %q", came, want)
	}
}

// readable is what every page of the documentation has to be.
func (s sight) readable(t *testing.T) {
	if s.Status != http.StatusOK || s.Heading == "" || !strings.HasSuffix(s.Title, "osm-gitops") || len(s.Text) < 200 {
		t.Errorf("it answers %d, title %q, heading %q:\n%.300s", s.Status, s.Title, s.Heading, s.Text)
	}
	for _, problem := range s.Problems {
		t.Error(problem)
	}
	s.sound(t, ofMarkdown)
}

// ofMarkdown are the elements that the pages of the documentation are made of.
var ofMarkdown = strings.Fields("html head meta title link body header main nav a p h1 h2 h3 h4 ul ol li strong em del code pre wbr br hr blockquote " +
	"div table thead tbody tr th td img details summary")

func htmlFiles(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".html") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// siteScreenshot is the path of a screenshot for inspection, or "" if none is written.
func siteScreenshot(path, variant string) string {
	dir := os.Getenv("OSM_SCREENSHOTS")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "site-"+strings.ReplaceAll(strings.TrimSuffix(path, ".html"), "/", "-")+"-"+variant+".png")
}
