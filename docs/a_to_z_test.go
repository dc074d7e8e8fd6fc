package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	md "github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	table "github.com/yuin/goldmark/extension/ast"
	mdparser "github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

// TestAToZ: the pages document every name. -update writes the list for the site, which must have
// the target of each link.
func TestAToZ(t *testing.T) {
	page := "# A to Z\n\nWhere each flag, annotation, label, condition, reason, event, metric, lint rule and page is documented.\n" + aToZ(t, build(t))
	path := filepath.Join(t.TempDir(), "a-to-z.md")
	if *update {
		path = "../bin/a-to-z.md"
		if err := os.MkdirAll("../bin", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "run", "-trimpath", "./site", "..", t.TempDir(), path).CombinedOutput(); err != nil {
		t.Errorf("building the site: %v\n%s", err, out)
	}
}

// aToZ lists every flag, annotation, label, condition, reason, event, metric, lint rule and page
// in the order of their names, with a link to the place that documents it. A name without such a
// place is an error.
func aToZ(t *testing.T, program string) string {
	t.Helper()
	rows := map[string]string{}
	row := func(name, kind, title, target string) {
		rows[strings.ToLower(strings.Trim(name, "`-"))+" "+kind] = fmt.Sprintf("| %s | %s | [%s](%s) |\n", name, kind, title, target)
	}
	index := string(read(t, "README.md"))
	_, kinds, _ := strings.Cut(index, "\n## Kinds\n")
	kinds, _, _ = strings.Cut(kinds, "\n## ")
	all, ofKinds := map[string]*page{}, linked(kinds)
	for _, path := range linked(index) {
		all[path] = readPage(t, path)
		row(all[path].title, "page", strings.TrimPrefix(path, "../"), path)
	}
	name := func(name, kind string, on ...string) {
		var best place
		for _, path := range on {
			for _, found := range all[path].places[name] {
				found.page, found.ofKind = all[path], strings.Contains(found.anchor, kind)
				if best.page == nil || found.better(best) {
					best = found
				}
			}
		}
		if best.page == nil {
			t.Errorf("the %s %s is not documented: name it in backticks on one of %v", kind, name, on)
			return
		}
		row("`"+name+"`", kind, best.page.title, best.page.path+best.anchor)
	}
	commands, _, _ := strings.Cut(help(t, program), "\nFlags:\n")
	for _, line := range commandLine.FindAllStringSubmatch(commands, -1) {
		command := line[1]
		for _, m := range helpFlags(t, program, command) {
			on := command + ".md"
			if all[on] == nil { // a command without a page of its own
				on = "commands.md"
			}
			name("--"+m[2], "flag of `"+command+"`", on)
		}
	}
	for _, m := range metrics.AllMetrics() {
		name(m.Name, "metric", "metrics.md")
	}
	for _, r := range lint.Rules() {
		name(r.Name, "lint rule", "lint-rules.md")
	}
	for _, n := range apiNames(t) {
		on := ofKinds
		if !slices.ContainsFunc(on, func(path string) bool { return all[path].places[n.value] != nil }) {
			on = slices.DeleteFunc(linked(index), func(path string) bool { return strings.HasPrefix(path, "../") })
		}
		name(n.value, n.kind, on...)
	}
	if len(rows) < 350 {
		t.Fatalf("found %d names", len(rows))
	}
	var b strings.Builder
	letter := ""
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		if first := strings.ToUpper(key[:1]); first != letter {
			letter = first
			b.WriteString("\n## " + letter + "\n\n| name | kind | documented in |\n|---|---|---|\n")
		}
		b.WriteString(rows[key])
	}
	return b.String()
}

// commandLine is a command in the help of the program.
var commandLine = regexp.MustCompile(`(?m)^ {2}(\S+) +[a-z]`)

// linked are the pages that a text links to, in its order.
func linked(text string) []string {
	var out []string
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if path := m[1]; filepath.Ext(path) == ".md" && !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

// page is a page and where it has the names in its headings and code.
type page struct {
	path, title string
	places      map[string][]place
}

// place is where a page has a name.
type place struct {
	page   *page
	anchor string // of the heading above, or ""
	rank   int    // 0 a heading, 1 the first cell of a row, 2 code in the text, 3 elsewhere
	ofKind bool   // the heading is about names of this kind
}

// better is whether p documents a name rather than q. Of equal ones, the first in the index does.
func (p place) better(q place) bool {
	return p.rank < q.rank || p.rank == q.rank && p.ofKind && !q.ofKind
}

var codeWord = regexp.MustCompile(`[^\s=:,()"']+`)

// readPage finds the names on a page.
func readPage(t *testing.T, path string) *page {
	t.Helper()
	source := read(t, path)
	p := &page{path: path, places: map[string][]place{}}
	anchor := ""
	add := func(name string, rank int) {
		p.places[name] = append(p.places[name], place{anchor: anchor, rank: rank})
	}
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(mdparser.WithAutoHeadingID()))
	err := md.Walk(markdown.Parser().Parse(text.NewReader(source)), func(n md.Node, entering bool) (md.WalkStatus, error) {
		if !entering {
			return md.WalkContinue, nil
		}
		switch n := n.(type) {
		case *md.Heading:
			if title := string(n.Lines().Value(source)); n.Level == 1 {
				p.title = title
			} else {
				id, _ := n.AttributeString("id")
				anchor = "#" + string(id.([]byte))
				add(title, 0)
			}
		case *md.CodeSpan:
			code := string(n.FirstChild().(*md.Text).Segment.Value(source))
			if strings.HasPrefix(code, "/") { // an annotation, after others in full
				code = api.GroupVersion.Group + code
			}
			rank := 2
			if cell, ok := n.Parent().(*table.TableCell); ok {
				rank = 3
				if cell.PreviousSibling() == nil {
					rank = 1
				}
			}
			add(code, rank)
			for _, word := range codeWord.FindAllString(code, -1) {
				add(word, 3)
			}
		}
		return md.WalkContinue, nil
	})
	if err != nil || p.title == "" {
		t.Fatalf("%s has no title: %v", path, err)
	}
	return p
}

type apiName struct{ kind, value string }

var apiConstant = regexp.MustCompile(`^(Annotation|Label|Reason|Event)[A-Z]|[a-z](Annotation|Condition|Reason)$`)

// apiNames are the names among the constants of the API, and those of Flux's that ProfileSources
// have.
func apiNames(t *testing.T) []apiName {
	t.Helper()
	flux, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/fluxcd/pkg/apis/meta").Output()
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, path := range append(glob(t, "../pkg/fetcher/*.go"), glob(t, "../pkg/reconcile/profilesource/*.go")...) {
		if !strings.HasSuffix(path, "_test.go") {
			code.Write(read(t, path))
		}
	}
	const ours = "../pkg/api/gitops/v1alpha1"
	var out []apiName
	for _, path := range append(glob(t, ours+"/*.go"), glob(t, strings.TrimSpace(string(flux))+"/*.go")...) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			name := spec.Names[0].Name
			m := apiConstant.FindStringSubmatch(name)
			lit, ok := spec.Values[0].(*ast.BasicLit)
			if m == nil || !ok || !strings.HasPrefix(path, ours) && !strings.Contains(code.String(), "meta."+name) {
				return true
			}
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, apiName{strings.ToLower(m[1] + m[2]), value})
			return true
		})
	}
	if len(out) < 100 {
		t.Fatalf("found %d names", len(out))
	}
	return out
}
