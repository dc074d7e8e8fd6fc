package main

import (
	"bytes"
	"html/template"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

const (
	styleName = "style.css"
	iconName  = "icon.svg"
)

// style is for light and dark, wide and narrow. The navigation comes after the page, so that
// on a telephone and by the tab key one meets the page first.
const style = `:root { color-scheme: light dark;
	--back: light-dark(#fff, #0d1117); --text: light-dark(#1f2328, #e6edf3); --link: light-dark(#0757b5, #79b8ff);
	--line: light-dark(#d0d7de, #3d444d); --quiet: light-dark(#57606a, #9da7b1); --box: light-dark(#f3f5f8, #161d26); }
* { box-sizing: border-box; }
html { scroll-padding-top: 1rem; }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.55 system-ui, sans-serif;
	display: grid; grid-template: "nav main" / 17rem minmax(0, 1fr); }
a { color: var(--link); } :focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.top { display: none; }
nav { grid-area: nav; padding: 1.2rem 1rem 3rem; border-right: 1px solid var(--line); height: 100vh; overflow: auto; position: sticky; top: 0; font-size: .9rem; }
nav ul { list-style: none; margin: 0; padding: 0; } nav summary { margin: .5rem 0 .2rem; padding: .2rem .5rem; color: var(--quiet); font-size: .8rem; font-weight: 600; cursor: pointer; }
nav a { display: block; padding: .2rem .5rem; color: inherit; text-decoration: none; border-radius: 4px; }
nav a:hover { text-decoration: underline; } nav [aria-current] { font-weight: 600; background: var(--box); }
nav ul ul { margin: .2rem 0 .4rem .5rem; padding-left: .4rem; border-left: 2px solid var(--line); font-size: .95em; } nav ul ul a { color: var(--quiet); }
main { grid-area: main; padding: 1.2rem 2.5rem 5rem; max-width: 68rem; overflow-wrap: break-word; }
h1, h2, h3, h4 { line-height: 1.25; margin: 1.8em 0 .6em; } h1 { font-size: 2rem; margin-top: 0; } h2 { font-size: 1.4rem; padding-bottom: .25em; border-bottom: 1px solid var(--line); } h3 { font-size: 1.12rem; }
pre, code { font: .88em/1.5 ui-monospace, monospace; } code { background: var(--box); padding: .1em .3em; border-radius: 4px; }
pre { background: var(--box); padding: .8rem 1rem; overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; } pre code { background: none; padding: 0; font-size: 1em; }
.table { overflow-x: auto; margin: 1rem 0; } table { border-collapse: collapse; }
th, td { border: 1px solid var(--line); padding: .4rem .7rem; text-align: left; vertical-align: top; } th { background: var(--box); } td { min-width: 5rem; } td:first-child { min-width: 8rem; }
img { max-width: 100%; height: auto; border: 1px solid var(--line); } blockquote { margin-left: 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--quiet); }
.ways { display: flex; flex-wrap: wrap; gap: .5rem 2rem; margin-top: 3rem; padding-top: 1rem; border-top: 1px solid var(--line); } .ways a { padding: .2rem 0; }
@media (max-width: 50rem) {
	body { display: block; } main { padding: 1rem 1rem 3rem; } h1 { font-size: 1.6rem; }
	.top { display: flex; justify-content: space-between; gap: 1rem; padding: .7rem 1rem; border-bottom: 1px solid var(--line); } .top a { padding: .2rem 0; }
	nav { position: static; height: auto; border-right: 0; border-top: 1px solid var(--line); } nav a { padding: .4rem .5rem; }
	th, td { padding: .3rem .5rem; } td:first-child { min-width: 5rem; }
}
@media print { nav, .top, .ways { display: none; } body { display: block; } }
`

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1d4f91"/><path d="M10 7v18M10 16h6a6 6 0 0 0 6-6" fill="none" stroke="#fff" stroke-width="2.5" stroke-linecap="round"/><circle cx="10" cy="7" r="3" fill="#fff"/><circle cx="10" cy="25" r="3" fill="#fff"/><circle cx="22" cy="9" r="3" fill="#fff"/></svg>
`

// frame is around every page. Nothing in it runs, and nothing comes from elsewhere.
var frame = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self'; img-src 'self'">
<title>{{ if ne .Title "osm-gitops" }}{{ .Title }} · {{ end }}osm-gitops</title>
<link rel="stylesheet" href="{{ .Style }}">
<link rel="icon" type="image/svg+xml" href="{{ .Icon }}">
</head>
<body>
<header class="top"><a href="{{ .Home }}">osm-gitops</a> <a href="#all-pages">All pages</a></header>
<main>
{{ .Body }}<p class="ways">{{ with .Previous }}<a rel="prev" href="{{ .Href }}">Previous: {{ .Title }}</a> {{ end }}
{{- with .Next }}<a rel="next" href="{{ .Href }}">Next: {{ .Title }}</a> {{ end -}}
<a href="{{ .Source }}">Source of this page</a></p>
</main>
<nav id="all-pages" aria-label="Pages">
{{ range .Nav }}{{ if .Title }}<details{{ if .Open }} open{{ end }}><summary>{{ .Title }}</summary>
{{ end }}<ul>
{{ range .Entries }}<li><a href="{{ .Href }}"{{ if .Current }} aria-current="page"{{ end }}>{{ .Title }}</a>
{{- if .Sections }}
<ul>
{{ range .Sections }}<li><a href="#{{ .ID }}">{{ .Title }}</a></li>
{{ end }}</ul>{{ end }}</li>
{{ end }}</ul>{{ if .Title }}</details>{{ end }}
{{ end }}</nav>
</body>
</html>
`))

// chapter is a part of the navigation: the pages below one heading of the index. The chapter of the
// current page is open; on the first page all are.
type chapter struct {
	Title   string
	Open    bool
	Entries []entry
}

// entry is a page in the navigation. That which one is at has its headings.
type entry struct {
	Href, Title string
	Current     bool
	Sections    []section
}

// html renders a page.
func (s *site) html(p *page) ([]byte, error) {
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.source, p.doc); err != nil {
		return nil, err
	}
	nav, err := s.navigation(p)
	if err != nil {
		return nil, err
	}
	source := p.path
	if source == aToZ {
		source = aToZSource
	}
	data := map[string]any{
		"Title": p.title, "Nav": nav, "Source": repository + source,
		"Body": template.HTML(reachable.Replace(body.String())), //nolint:gosec // goldmark drops HTML of the source
	}
	var order []entry
	for _, c := range nav {
		order = append(order, c.Entries...)
	}
	if at := slices.IndexFunc(order, func(e entry) bool { return e.Current }); at >= 0 {
		if at > 0 {
			data["Previous"] = order[at-1]
		}
		if at+1 < len(order) {
			data["Next"] = order[at+1]
		}
	}
	for name, to := range map[string]string{"Style": styleName, "Icon": iconName, "Home": htmlPath("README.md")} {
		if data[name], err = p.to(to); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	err = frame.Execute(&out, data)
	return out.Bytes(), err
}

// reachable makes elements that can be wider than the window scrollable by keyboard, and turns
// empty header cells into ordinary ones. Text of a page that looks like these elements is escaped.
var reachable = strings.NewReplacer("<pre>", `<pre tabindex="0">`, "<th></th>", "<td></td>",
	"<table>", `<div class="table" tabindex="0"><table>`, "</table>", "</table></div>")

// breakable renders inline code with line-break opportunities, so that a long name can wrap after a
// dot, a slash, a comma or an equals sign.
type breakable struct{}

func (breakable) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindCodeSpan, func(w util.BufWriter, source []byte, n ast.Node, in bool) (ast.WalkStatus, error) {
		if !in {
			return ast.WalkContinue, nil
		}
		text := strings.ReplaceAll(plain(n, source), "\n", " ")
		_, err := w.WriteString("<code>" + breaks.Replace(template.HTMLEscapeString(text)) + "</code>")
		return ast.WalkSkipChildren, err
	})
}

var breaks = strings.NewReplacer(".", ".<wbr>", "/", "/<wbr>", ",", ",<wbr>", "=", "=<wbr>")

// navigation is that of a page.
func (s *site) navigation(p *page) ([]chapter, error) {
	var out []chapter
	for _, c := range s.chapters {
		shown := chapter{Title: c.title, Open: p.path == "README.md"}
		for _, name := range c.pages {
			href, err := p.to(htmlPath(name))
			if err != nil {
				return nil, err
			}
			e := entry{Href: href, Title: s.pages[name].title, Current: name == p.path}
			if e.Current {
				e.Sections, shown.Open = p.sections, true
			}
			shown.Entries = append(shown.Entries, e)
		}
		out = append(out, shown)
	}
	return out, nil
}
