package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui/internal/view"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

//go:embed assets
var assets embed.FS

// serveAsset serves the style sheet and the icon, and returns false for other addresses. The addresses
// change with the content.
func serveAsset(w http.ResponseWriter, r *http.Request) bool {
	contentType := map[string]string{styleLink: "text/css; charset=utf-8", iconLink: "image/svg+xml"}[r.URL.Path]
	if contentType == "" {
		return false
	}
	name := "assets/style.css"
	if r.URL.Path == iconLink {
		name = "assets/icon.svg"
	}
	b, err := assets.ReadFile(name)
	if err != nil {
		return false
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(b) // the client may have disconnected
	}
	return true
}

// The addresses of the style sheet and the icon.
var (
	styleLink = assetLink("style.css")
	iconLink  = assetLink("icon.svg")
)

func assetLink(name string) string {
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // embedded files always parse
	}
	sum := sha256.Sum256(b)
	return "/assets/" + hex.EncodeToString(sum[:6]) + "/" + name
}

// layouts are the templates of the pages, by name. They are parsed on the first request,
// which saves memory in a program that shows no page.
var layouts = sync.OnceValue(func() map[string]*template.Template {
	return parseLayouts("fleet", "pool", "changes", "commit", "nodes", "node", "profiles", "profile", "rollouts", "sources", "search", "failure")
})

func parseLayouts(names ...string) map[string]*template.Template {
	out := map[string]*template.Template{}
	for _, name := range names {
		out[name] = template.Must(template.New("layout.html").Funcs(functions).ParseFS(assets, "assets/layout.html", "assets/parts.html", "assets/"+name+".html"))
	}
	return out
}

// oldAfter is the age from which a page shows its age at the top.
const oldAfter = 15 * time.Second

// link is an entry of the navigation.
type link struct{ Kind, Address string }

// navigation has the lists, in order. The kind of a list is its title.
var navigation = []link{{"Fleet", "/"}, {"Changes", "/changes"}, {"Nodes", "/nodes"}, {"Profiles", "/profiles"}, {"Rollouts", "/rollouts"}, {"Sources", "/sources"}}

// layoutData has the data that the layout shows around a view.
type layoutData struct {
	Title, Style, Icon, Version string
	Query                       string // content of the search field
	Here                        string // the page's own address
	Kind                        string
	States                      []string // for the filter
	Navigation                  []link
	AsOf, Now                   time.Time
	Old                         bool // AsOf is older than oldAfter
	V                           any
}

// renderPage writes a page as HTML: the layout with the page's template.
func (s *Server) renderPage(w io.Writer, r *http.Request, v pageView) error {
	l := layoutData{Title: v.title, Style: styleLink, Icon: iconLink, Version: s.Version, Here: r.URL.RequestURI(), V: v.view, AsOf: s.Clock.Now(), Navigation: navigation}
	if page, ok := v.view.(interface{ Head() view.About }); ok {
		l.Kind, l.AsOf = page.Head().Kind, page.Head().AsOf
	}
	switch page := v.view.(type) {
	case view.Fleet:
		l.States = view.PoolStates()
	case view.Nodes:
		l.States = view.NodeStates
	case view.Search:
		l.Query = page.Query
	}
	l.Now = s.Clock.Now()
	l.Old = l.Now.Sub(l.AsOf) > oldAfter
	if err := layouts()[v.name].Execute(w, l); err != nil {
		return fmt.Errorf("executing the template of page %s: %w", v.name, err)
	}
	return nil
}

// functions are the template functions. They return text or numbers, never markup.
var functions = template.FuncMap{
	"short":       redact.ShortCommit,
	"authorName":  view.AuthorName,
	"poolLink":    view.PoolLink,
	"commitLink":  view.CommitLink,
	"nodeLink":    view.NodeLink,
	"profileLink": view.ProfileLink,
	"searchLink":  view.SearchLink,
	"stamp":       formatTime,
	"machine":     func(t any) string { return timeOf(t).UTC().Format(time.RFC3339) },
	"known":       func(t any) bool { return !timeOf(t).IsZero() },
	"age":         func(from any, to time.Time) string { return age(timeOf(from), to) },
	"bars":        chartBars,
	"pages":       func(p view.Paging) bool { return p.Of > 1 },
	"turn":        pageURL,
	"plural":      phrase.Count,
	"lower":       strings.ToLower,
	"percent":     percent,
	"sub":         func(a, b int) int { return a - b },
	"digits":      digits.MatchString,
	"part":        func(kv ...any) map[string]any { return templateArguments(kv) },
	"poolName":    func(key string) string { _, name, _ := strings.Cut(key, "/"); return name },
}

// digits matches a commit or a digest.
var digits = regexp.MustCompile(`^([a-z0-9]+:)*[0-9a-f]{12,64}$`)

// timeOf converts the time types of the views and the kinds.
func timeOf(v any) time.Time {
	switch t := v.(type) {
	case time.Time:
		return t
	case metav1.Time:
		return t.Time
	case *metav1.Time:
		if t != nil {
			return t.Time
		}
	case string:
		if parsed, err := time.Parse(time.RFC3339, t); err == nil {
			return parsed
		}
	}
	return time.Time{}
}

func formatTime(v any) string {
	t := timeOf(v)
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// templateArguments returns the arguments of a nested template, by name, from alternating keys and
// values.
func templateArguments(kv []any) map[string]any {
	out := map[string]any{}
	for i := 0; i+1 < len(kv); i += 2 {
		if key, ok := kv[i].(string); ok {
			out[key] = kv[i+1]
		}
	}
	return out
}

func percent(n, of int) string {
	switch {
	case of == 0:
		return "–"
	case n > 0 && n*100 < of:
		return "<1 %"
	case n < of && n*100 > of*99:
		return ">99 %"
	}
	return strconv.Itoa((n*100+of/2)/of) + " %"
}

// Bar is a segment of the chart of versions: its position in 1000, and its style.
type Bar struct {
	X, Width int
	Class    string
}

// chartBars computes the segments of the chart, and merges shares with the same style. Every
// segment is visible, however small.
func chartBars(shares []view.VersionShare) []Bar {
	const width, least, gap, ranks = 1000, 8, 4, 5
	total := 0
	var out []Bar
	var nodes []int
	for _, s := range shares {
		if s.Nodes == 0 {
			continue
		}
		class := "unknown"
		if s.Rank >= 0 {
			class = "v" + strconv.Itoa(min(s.Rank, ranks-1))
		}
		if n := len(out); n == 0 || out[n-1].Class != class {
			out, nodes = append(out, Bar{Class: class}), append(nodes, 0)
		}
		nodes[len(nodes)-1] += s.Nodes
		total += s.Nodes
	}
	available := width - gap*(len(out)-1) - least*len(out)
	x := 0
	for i := range out {
		out[i].X, out[i].Width = x, least+available*nodes[i]/total
		x += out[i].Width + gap
	}
	return out
}

// pageURL returns the address of another page of a list.
func pageURL(here string, page int) string {
	u, err := url.ParseRequestURI(here)
	if err != nil {
		return "?page=" + strconv.Itoa(page)
	}
	q := u.Query()
	q.Set("page", strconv.Itoa(page))
	q.Del("verify")
	return u.EscapedPath() + "?" + q.Encode()
}

// age formats the time between two moments in the largest unit that fits.
func age(from, to time.Time) string {
	d := to.Sub(from)
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
