package main

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/net/html"
)

// Every link, image and anchor of the site that is built of this repository leads to what
// was written, and nothing on a page comes from elsewhere or runs.
func TestSite(t *testing.T) {
	to := t.TempDir()
	n, err := build("../..", to)
	if err != nil {
		t.Fatal(err)
	}
	written := map[string]*html.Node{}
	err = filepath.WalkDir(to, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		written[path], err = html.Parse(f)
		return err
	})
	if err != nil || len(written) != n || n < 40 {
		t.Fatalf("built %d pages, found %d: %v", n, len(written), err)
	}
	ids := map[string][]string{}
	for path, doc := range written {
		for node := range doc.Descendants() {
			if id := attribute(node, "id"); id != "" {
				if slices.Contains(ids[path], id) {
					t.Errorf("%s has two headings #%s", path, id)
				}
				ids[path] = append(ids[path], id)
			}
		}
	}
	followed := 0
	for path, doc := range written {
		for node := range doc.Descendants() {
			if node.Type == html.ElementNode && slices.Contains([]string{"script", "iframe", "object", "embed", "form"}, node.Data) {
				t.Errorf("%s has a %s", path, node.Data)
			}
			for _, name := range []string{"href", "src"} {
				if link := attribute(node, name); link != "" {
					followed++
					follow(t, path, node.Data, link, ids)
				}
			}
		}
	}
	if followed < 2000 {
		t.Errorf("followed %d links", followed)
	}
	if nav := readFile(t, filepath.Join(to, "docs/doctor.html")); !strings.Contains(nav, `<a href="doctor.html" aria-current="page">osm-gitops doctor</a>`) || !strings.Contains(nav, `<a href="../index.html">osm-gitops</a>`) {
		t.Errorf("the navigation of a page does not show where one is:\n%.3000s", nav)
	}
	inOrder(t, filepath.Join(to, "index.html"), written)
}

// inOrder wants the next page of each page, from the first, to be that of the navigation, with a way
// back.
func inOrder(t *testing.T, first string, written map[string]*html.Node) {
	t.Helper()
	way := func(path, rel string) string {
		for node := range written[path].Descendants() {
			if attribute(node, "rel") == rel {
				return filepath.Join(filepath.Dir(path), attribute(node, "href"))
			}
		}
		return ""
	}
	var want []string
	for nav := range written[first].Descendants() {
		if nav.Data != "nav" {
			continue
		}
		for node := range nav.Descendants() {
			if href := attribute(node, "href"); href != "" && !strings.HasPrefix(href, "#") {
				want = append(want, filepath.Join(filepath.Dir(first), href))
			}
		}
	}
	got := []string{first}
	for next := way(first, "next"); next != "" && len(got) <= len(want); next = way(next, "next") {
		if back := way(next, "prev"); back != got[len(got)-1] {
			t.Errorf("the page before %s is %s, want %s", next, back, got[len(got)-1])
		}
		got = append(got, next)
	}
	if !slices.Equal(got, want) || way(first, "prev") != "" {
		t.Errorf("the pages follow each other as\n%q\nwant\n%q", got, want)
	}
}

// follow wants a link to lead to a page that was written, or elsewhere by https.
func follow(t *testing.T, from, element, link string, ids map[string][]string) {
	t.Helper()
	u, err := url.Parse(link)
	switch {
	case err != nil:
		t.Errorf("%s: %q: %v", from, link, err)
	case u.Scheme != "":
		if element != "a" || u.Scheme != "https" && u.Scheme != "http" {
			t.Errorf("%s: a %s leads to %s", from, element, link)
		}
	default:
		target := from
		if u.Path != "" {
			target = filepath.Join(filepath.Dir(from), filepath.FromSlash(u.Path))
		}
		if _, err := os.Stat(target); err != nil {
			t.Errorf("%s: %q: %v", from, link, err)
		}
		if u.Fragment != "" && !slices.Contains(ids[target], u.Fragment) {
			t.Errorf("%s: %q: there is no such heading", from, link)
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// All broken links are reported at once.
func TestBrokenLinks(t *testing.T) {
	s := &site{pages: map[string]*page{}, fs: fstest.MapFS{
		"README.md":      {Data: []byte("# Home\n[docs](docs) [file](main.go) [gone](gone.md)\n")},
		"main.go":        {Data: []byte("package main\n")},
		"docs/README.md": {Data: []byte("# Docs\n[a](a.md#there) [b](a.md#not-there) ![c](none.png) [d](ftp://example.com) [e](https://) [f](../../out.md) [g](#docs) [h](https://example.com/x#y)\n")},
		"docs/a.md":      {Data: []byte("# A\n## There\n<script>alert(1)</script>\n")},
		"bin/x.md":       {Data: []byte("[x](nowhere.md)\n")},
	}}
	if err := s.read(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range s.sorted() {
		for _, err := range s.relink(p) {
			got = append(got, err.Error())
		}
	}
	want := []string{
		`README.md: link "gone.md": file gone.md does not exist`,
		`docs/README.md: link "a.md#not-there": docs/a.md has no heading #not-there`,
		`docs/README.md: link "ftp://example.com": neither a file here nor an https URL`,
		`docs/README.md: link "https://": neither a file here nor an https URL`,
		`docs/README.md: link "../../out.md": file ../out.md does not exist`,
		`docs/README.md: image "none.png": file docs/none.png does not exist`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("broken are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	page, err := s.html(s.pages["docs/a.md"])
	if err != nil || strings.Contains(string(page), "<script") {
		t.Errorf("%v: HTML of a page is taken over:\n%s", err, page)
	}
	if err := s.readPage("main.go"); err == nil || !strings.Contains(err.Error(), "has no title") {
		t.Errorf("a page without a title: %v", err)
	}
	if !strings.Contains(string(page), `<a href="`+repository+`docs/a.md">Source of this page</a>`) {
		t.Errorf("the page does not link to its source:\n%s", page)
	}
	if home, _ := s.html(s.pages["README.md"]); !strings.Contains(string(home), `href="docs/index.html"`) || !strings.Contains(string(home), `href="`+repository+`main.go"`) {
		t.Errorf("a folder and a file lead elsewhere:\n%s", home)
	}
}
