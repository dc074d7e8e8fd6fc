package main

import (
	"bytes"
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
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// repository is the base of links to files that are not pages.
const repository = "https://github.com/osm-gitops/osm-gitops/blob/main/"

// aToZ is the generated page, and aToZSource what generates it.
const (
	aToZ       = "docs/a-to-z.md"
	aToZSource = "docs/a_to_z_test.go"
)

// index is the page by which others are ordered; tasks is its heading that names pages for a
// second time, by what readers want to do, and makes no chapter.
const (
	index = "docs/README.md"
	tasks = "How do I ..."
)

// skipped are folders with Markdown that is not documentation.
var skipped = []string{".git", "bin", "node_modules", "testdata", ".cache"}

// page is one file of Markdown.
type page struct {
	path    string // in the repository, with slashes
	title   string
	source  []byte
	doc     ast.Node
	anchors map[string]bool

	sections []section // its headings of the second level
}

type section struct{ ID, Title string }

// out is the path of the page in the site, in the folder of its file.
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

	chapters []part // of the navigation
}

// part are the pages which the index names below one of its headings.
type part struct {
	title string
	pages []string
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(breakable{}, 100)))) // before goldmark's own

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
	s.chapters = s.arranged(home)
	return nil
}

// arranged returns the chapters of the index. A page belongs to the chapter that names it first;
// the home page and the index come before all chapters.
func (s *site) arranged(home *page) []part {
	out := []part{{pages: []string{"README.md", index}}}
	seen := map[string]bool{"README.md": true, index: true}
	skip := false
	_ = ast.Walk(home.doc, func(n ast.Node, in bool) (ast.WalkStatus, error) {
		if h, ok := n.(*ast.Heading); ok && in && h.Level == 2 {
			skip = plain(h, home.source) == tasks
			if !skip {
				out = append(out, part{title: plain(h, home.source)})
			}
		}
		if l, ok := n.(*ast.Link); ok && in && !skip {
			to, _, _ := strings.Cut(string(l.Destination), "#")
			name := s.asPage(path.Join(path.Dir(index), to))
			if s.pages[name] != nil && !seen[name] {
				seen[name] = true
				out[len(out)-1].pages = append(out[len(out)-1].pages, name)
			}
		}
		return ast.WalkContinue, nil
	})
	return slices.DeleteFunc(out, func(p part) bool { return len(p.pages) == 0 })
}

func (s *site) readPage(name string) error {
	source, err := fs.ReadFile(s.fs, name)
	if err != nil {
		return err
	}
	return s.add(name, source)
}

// addAToZ adds the generated page, next to the index.
func (s *site) addAToZ(file string) error {
	source, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	s.chapters[0].pages = append(s.chapters[0].pages, aToZ)
	return s.add(aToZ, source)
}

func (s *site) add(name string, source []byte) error {
	p := &page{path: name, source: source, anchors: map[string]bool{}}
	p.doc = markdown.Parser().Parse(text.NewReader(source))
	_ = ast.Walk(p.doc, func(n ast.Node, in bool) (ast.WalkStatus, error) {
		h, ok := n.(*ast.Heading)
		if !ok || !in {
			return ast.WalkContinue, nil
		}
		if id, ok := h.AttributeString("id"); ok {
			p.anchors[string(id.([]byte))] = true
			if h.Level == 2 {
				p.sections = append(p.sections, section{string(id.([]byte)), plain(h, source)})
			}
		}
		if h.Level == 1 && p.title == "" {
			p.title = plain(h, source)
		}
		return ast.WalkContinue, nil
	})
	if p.title == "" {
		return fmt.Errorf("%s has no title: begin it with a heading of the first level, such as \"# Install\"", name)
	}
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
	var external []*ast.Image
	_ = ast.Walk(p.doc, func(n ast.Node, in bool) (ast.WalkStatus, error) {
		image, ok := n.(*ast.Image)
		if !ok || !in {
			return ast.WalkContinue, nil
		}
		if bytes.HasPrefix(image.Destination, []byte("https://")) {
			external = append(external, image)
			return ast.WalkContinue, nil
		}
		name := path.Join(path.Dir(p.path), string(image.Destination))
		if _, err := fs.Stat(s.fs, name); err != nil {
			broken = append(broken, fmt.Errorf("%s: image %q: file %s does not exist", p.path, image.Destination, name))
		} else if !slices.Contains(s.images, name) {
			s.images = append(s.images, name)
		}
		return ast.WalkContinue, nil
	})
	for _, image := range external {
		asText(image)
	}
	return broken
}

// asText replaces an image of another host, such as a badge, with its alternative text: the site
// loads nothing from other hosts.
func asText(image *ast.Image) {
	parent := image.Parent()
	for child := image.FirstChild(); child != nil; child = image.FirstChild() {
		parent.InsertBefore(parent, image, child)
	}
	parent.RemoveChild(parent, image)
}

// target returns the address in the site for a link.
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
			return "", fmt.Errorf("file %s does not exist", name)
		}
		return repository + name, nil
	}
	if u.Fragment != "" && !to.anchors[u.Fragment] {
		return "", fmt.Errorf("%s has no heading #%s", name, u.Fragment)
	}
	relative, err := p.to(to.out())
	return (&url.URL{Path: relative, Fragment: u.Fragment}).String(), err
}

// to is the way from a page to a file of the site.
func (p *page) to(name string) (string, error) {
	relative, err := filepath.Rel(filepath.FromSlash(path.Dir(p.out())), filepath.FromSlash(name))
	return filepath.ToSlash(relative), err
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
	if err := put(to, iconName, []byte(icon)); err != nil {
		return err
	}
	return put(to, styleName, []byte(style))
}

func put(folder, name string, text []byte) error {
	file := filepath.Join(folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // all users can read it
		return err
	}
	return os.WriteFile(file, text, 0o644) //nolint:gosec // all users can read it
}
