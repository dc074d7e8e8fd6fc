package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// repository is where files are looked at that are no pages.
const repository = "https://github.com/osm-gitops/osm-gitops/blob/main/"

// index is the page by which others are ordered.
const index = "docs/README.md"

// skipped are folders in which Markdown is no documentation.
var skipped = []string{".git", "bin", "node_modules", "testdata", ".cache"}

// page is one file of Markdown.
type page struct {
	path    string // in the repository, with slashes
	title   string
	source  []byte
	doc     ast.Node
	anchors map[string]bool
}

// out is where the page is written, beside its neighbours as the file is.
func (p *page) out() string { return htmlPath(p.path) }

func htmlPath(md string) string {
	if path.Base(md) == "README.md" {
		return path.Join(path.Dir(md), "index.html")
	}
	return strings.TrimSuffix(md, ".md") + ".html"
}

// site is all pages and the files that they show.
type site struct {
	fs     fs.FS
	pages  map[string]*page
	images []string
	order  []string // of the navigation
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// read parses every file of Markdown, and the order of the index.
func (s *site) read() error {
	err := fs.WalkDir(s.fs, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		return s.readPage(name)
	})
	if err != nil {
		return fmt.Errorf("reading the pages: %w", err)
	}
	home := s.pages[index]
	if home == nil {
		return fmt.Errorf("%s does not exist: it orders the pages", index)
	}
	s.order = []string{"README.md", index}
	links(home.doc, func(l *ast.Link) {
		to, _, _ := strings.Cut(string(l.Destination), "#")
		if target := path.Join(path.Dir(index), to); s.pages[s.asPage(target)] != nil && !slices.Contains(s.order, s.asPage(target)) {
			s.order = append(s.order, s.asPage(target))
		}
	})
	return nil
}

func (s *site) readPage(name string) error {
	source, err := fs.ReadFile(s.fs, name)
	if err != nil {
		return err
	}
	p := &page{path: name, source: source, title: name, anchors: map[string]bool{}}
	p.doc = markdown.Parser().Parse(text.NewReader(source))
	titled := false
	_ = ast.Walk(p.doc, func(n ast.Node, in bool) (ast.WalkStatus, error) {
		h, ok := n.(*ast.Heading)
		if !ok || !in {
			return ast.WalkContinue, nil
		}
		if id, ok := h.AttributeString("id"); ok {
			p.anchors[string(id.([]byte))] = true
		}
		if h.Level == 1 && !titled {
			p.title, titled = plain(h, source), true
		}
		return ast.WalkContinue, nil
	})
	s.pages[name] = p
	return nil
}

// plain is the text of a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(source))
			continue
		}
		b.WriteString(plain(c, source))
	}
	return b.String()
}

// asPage is the file that a link to a file or a folder leads to.
func (s *site) asPage(target string) string {
	if readme := path.Join(target, "README.md"); s.pages[readme] != nil {
		return readme
	}
	return target
}

func (s *site) sorted() []*page {
	out := make([]*page, 0, len(s.pages))
	for _, p := range s.pages {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *page) int { return strings.Compare(a.path, b.path) })
	return out
}

// links visits the links of a page.
func links(doc ast.Node, visit func(*ast.Link)) {
	_ = ast.Walk(doc, func(n ast.Node, in bool) (ast.WalkStatus, error) {
		if l, ok := n.(*ast.Link); ok && in {
			visit(l)
		}
		return ast.WalkContinue, nil
	})
}

// relink lets the links of a page lead to pages of the site, and returns those that lead
// nowhere.
func (s *site) relink(p *page) []error {
	var broken []error
	links(p.doc, func(l *ast.Link) {
		to, err := s.target(p, string(l.Destination))
		if err != nil {
			broken = append(broken, fmt.Errorf("%s: link %q: %w", p.path, l.Destination, err))
		}
		l.Destination = []byte(to)
	})
	_ = ast.Walk(p.doc, func(n ast.Node, in bool) (ast.WalkStatus, error) {
		image, ok := n.(*ast.Image)
		if !ok || !in {
			return ast.WalkContinue, nil
		}
		name := path.Join(path.Dir(p.path), string(image.Destination))
		if _, err := fs.Stat(s.fs, name); err != nil {
			broken = append(broken, fmt.Errorf("%s: image %q: there is no file %s", p.path, image.Destination, name))
		} else if !slices.Contains(s.images, name) {
			s.images = append(s.images, name)
		}
		return ast.WalkContinue, nil
	})
	return broken
}

// target is where a link leads in the site.
func (s *site) target(p *page, link string) (string, error) {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return "", err
	case u.Scheme == "mailto":
		return link, nil
	case u.Scheme != "":
		if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return "", fmt.Errorf("neither a file here nor an https URL")
		}
		return link, nil // whether it answers is for people: no test needs the Internet
	}
	name := p.path
	if u.Path != "" {
		name = s.asPage(path.Join(path.Dir(p.path), u.Path))
	}
	to, ok := s.pages[name]
	if !ok {
		if _, err := fs.Stat(s.fs, name); err != nil {
			return "", fmt.Errorf("there is no file %s", name)
		}
		return repository + name, nil
	}
	if u.Fragment != "" && !to.anchors[u.Fragment] {
		return "", fmt.Errorf("%s has no heading #%s", name, u.Fragment)
	}
	relative, err := filepath.Rel(filepath.FromSlash(path.Dir(p.out())), filepath.FromSlash(to.out()))
	if err != nil {
		return "", err
	}
	out := (&url.URL{Path: filepath.ToSlash(relative), Fragment: u.Fragment}).String()
	return out, nil
}

// write writes all pages, the style, and the images that they show.
func (s *site) write(to string) error {
	for _, p := range s.sorted() {
		text, err := s.html(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
		if err := put(to, p.out(), text); err != nil {
			return err
		}
	}
	for _, name := range s.images {
		text, err := fs.ReadFile(s.fs, name)
		if err != nil {
			return err
		}
		if err := put(to, name, text); err != nil {
			return err
		}
	}
	return put(to, styleName, []byte(style))
}

func put(folder, name string, text []byte) error {
	file := filepath.Join(folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // everybody may read it
		return err
	}
	return os.WriteFile(file, text, 0o644) //nolint:gosec // everybody may read it
}
