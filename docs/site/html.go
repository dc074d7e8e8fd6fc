package main

import (
	"bytes"
	"html/template"
	"path"
	"path/filepath"
)

const styleName = "style.css"

// style is for light and dark, wide and narrow.
const style = `:root { color-scheme: light dark; --line: light-dark(#d0d7de, #3d444d); --quiet: light-dark(#59636e, #9198a1); --box: light-dark(#f6f8fa, #151b23); }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; display: grid; grid-template-columns: 17rem minmax(0, 1fr); }
nav { padding: 1rem; border-right: 1px solid var(--line); height: 100vh; overflow: auto; position: sticky; top: 0; box-sizing: border-box; font-size: .9rem; }
nav ul { list-style: none; margin: 0; padding: 0; } nav a { display: block; padding: .15rem .3rem; color: inherit; text-decoration: none; }
nav a:hover { text-decoration: underline; } nav [aria-current] { font-weight: 600; background: var(--box); }
main { padding: 1rem 2rem 4rem; max-width: 70rem; }
pre, code { font: .88em/1.45 ui-monospace, monospace; background: var(--box); } pre { padding: .8rem; overflow-x: auto; border: 1px solid var(--line); } pre code { background: none; }
table { border-collapse: collapse; display: block; overflow-x: auto; } th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
img { max-width: 100%; } blockquote { margin-left: 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--quiet); }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line); } main { padding: 1rem; } }
`

// frame is around every page. Nothing in it runs, and nothing comes from elsewhere.
var frame = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'self'; img-src 'self'">
<title>{{ .Title }} · osm-gitops</title>
<link rel="stylesheet" href="{{ .Style }}">
</head>
<body>
<nav aria-label="Pages"><ul>
{{ range .Nav }}<li><a href="{{ .Href }}"{{ if .Current }} aria-current="page"{{ end }}>{{ .Title }}</a></li>
{{ end }}</ul></nav>
<main>
{{ .Body }}</main>
</body>
</html>
`))

// entry is a page in the navigation.
type entry struct {
	Href, Title string
	Current     bool
}

// html is a page as it is written.
func (s *site) html(p *page) ([]byte, error) {
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.source, p.doc); err != nil {
		return nil, err
	}
	up := func(to string) (string, error) {
		relative, err := filepath.Rel(filepath.FromSlash(path.Dir(p.out())), filepath.FromSlash(to))
		return filepath.ToSlash(relative), err
	}
	styleHref, err := up(styleName)
	if err != nil {
		return nil, err
	}
	var nav []entry
	for _, name := range s.order {
		href, err := up(htmlPath(name))
		if err != nil {
			return nil, err
		}
		nav = append(nav, entry{href, s.pages[name].title, name == p.path})
	}
	var out bytes.Buffer
	err = frame.Execute(&out, map[string]any{
		"Title": p.title, "Style": styleHref, "Nav": nav,
		"Body": template.HTML(body.String()), //nolint:gosec // goldmark drops HTML of the source
	})
	return out.Bytes(), err
}
