// Package docs_test compares tables in these pages with the code, or generates them with -update,
// and checks every example and link.
package docs_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

var update = flag.Bool("update", false, "rewrite what is generated in the pages")

// TestTemplateData: the page names the fields that templates can read, and no others.
func TestTemplateData(t *testing.T) {
	page := string(read(t, "template-data.md"))
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("`(\\.[A-Z][A-Za-z.]*)`").FindAllStringSubmatch(page, -1) {
		named[m[1]] = true
	}
	for _, path := range fields(t) {
		if !named[path] {
			t.Errorf("the page does not name %s", path)
		}
	}
	methods := []string{".HasIPv4", ".HasIPv6", ".IsDualstack"}
	for path := range named {
		if slices.Contains(methods, path) {
			path = ".NetworkConfig.IPFamily" + path
		}
		if err := checkTemplate("{{ " + path + " }}"); err != nil {
			t.Errorf("the page names %s: %v", path, err)
		}
	}
}

// TestFunctions: every function that the page names exists.
func TestFunctions(t *testing.T) {
	_, section, _ := strings.Cut(string(read(t, "template-data.md")), "## Functions\n")
	section, _, _ = strings.Cut(section, "## Limits")
	names := regexp.MustCompile("`([a-z][A-Za-z0-9_]*)`").FindAllStringSubmatch(section, -1)
	if len(names) < 100 {
		t.Fatalf("found %d functions", len(names))
	}
	var listed []string
	for _, m := range names {
		listed = append(listed, m[1])
		if !exists(m[1]) {
			t.Errorf("the page names %s, which does not exist", m[1])
		}
	}
	// Our own are set one by one in the code.
	for _, m := range regexp.MustCompile(`out\["([A-Za-z]+)"\] =`).FindAllStringSubmatch(string(read(t, "../pkg/render/internal/funcs/funcs.go")), -1) {
		if !slices.Contains(listed, m[1]) {
			t.Errorf("the page does not name %s", m[1])
		}
	}
}

// checkTemplate asks the engine about a template.
func checkTemplate(text string) error {
	file := osm.File{Path: "/x", Content: osm.FileContent{Inline: &osm.FileContentInline{Data: text}}}
	return render.NewEngine().Check(render.Profile{Spec: osm.OperatingSystemProfileSpec{
		OSName: osm.OperatingSystemUbuntu, BootstrapConfig: osm.OSPConfig{Files: []osm.File{file}},
	}})
}

// structsOf reads the types of Go files, with their comments.
func structsOf(t *testing.T, paths []string) map[string]*ast.StructType {
	t.Helper()
	structs := map[string]*ast.StructType{}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, ok := spec.Type.(*ast.StructType); ok {
					structs[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	return structs
}

// fields lists the leaves of the template data by their path, from the code.
func fields(t *testing.T) []string {
	t.Helper()
	structs := structsOf(t, glob(t, "../pkg/render/*.go"))
	var out []string
	var walk func(prefix, name string)
	walk = func(prefix, name string) {
		for _, f := range structs[name].Fields.List {
			typ := f.Type
			if star, ok := typ.(*ast.StarExpr); ok {
				typ = star.X
			}
			ident, _ := typ.(*ast.Ident)
			nested := ident != nil && structs[ident.Name] != nil && ident.Name != "Duration"
			if len(f.Names) == 0 {
				walk(prefix, ident.Name)
			}
			for _, n := range f.Names {
				switch {
				case !n.IsExported():
				case nested:
					walk(prefix+"."+n.Name, ident.Name)
				default:
					out = append(out, prefix+"."+n.Name)
				}
			}
		}
	}
	walk("", "data")
	if len(out) < 60 {
		t.Fatalf("found %d fields", len(out))
	}
	return out
}

// TestProfileSource: the page names every field of spec and status, and that on rollouts
// the rest.
func TestProfileSource(t *testing.T) {
	page := string(read(t, "profilesource.md")) + string(read(t, "rollouts.md"))
	var walk func(typ reflect.Type)
	seen := map[reflect.Type]bool{}
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] || typ.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1" {
			return
		}
		seen[typ] = true
		for f := range typ.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "" && !regexp.MustCompile("[`.]"+name+"[`.\\[:]").MatchString(page) {
				t.Errorf("the pages do not name %s (%s)", name, typ.Name())
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[api.ProfileSourceSpec]())
	walk(reflect.TypeFor[api.ProfileSourceStatus]())
}

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	link      = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

// TestExamples: profiles in the pages pass every check, other objects are what
// examples/ has.
func TestExamples(t *testing.T) {
	sources := map[string]map[string]any{"": nil, "-signed": nil}
	for name := range sources {
		source := map[string]any{}
		if err := yaml.Unmarshal(read(t, "../examples/profilesource"+name+".yaml"), &source); err != nil {
			t.Fatal(err)
		}
		sources[name] = source
	}
	found := 0
	for _, page := range pages(t) {
		for _, m := range yamlBlock.FindAllStringSubmatch(string(read(t, page)), -1) {
			found++
			var o map[string]any
			if err := yaml.UnmarshalStrict([]byte(m[1]), &o); err != nil {
				t.Errorf("%s: %v", page, err)
			}
			switch o["kind"] {
			case "OperatingSystemProfile":
				docs, err := profile.Decode(page, []byte(m[1]))
				if err != nil || len(docs) != 1 {
					t.Errorf("%d profiles: %v", len(docs), err)
					continue
				}
				if err := render.NewEngine().Check(render.Profile{Spec: docs[0].Spec}); err != nil {
					t.Errorf("%s: %v", page, err)
				}
			case "ProfileSource":
				name := ""
				if strings.Contains(m[1], "verify:") {
					name = "-signed"
				}
				if diff := cmp.Diff(sources[name], o); diff != "" {
					t.Errorf("%s: the ProfileSource is not that of examples/ (-want +got):\n%s", page, diff)
				}
			case "ProfileOverlay":
				var want map[string]any
				if err := yaml.Unmarshal(read(t, "../examples/overlays/osp-ubuntu-motd.yaml"), &want); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, o); diff != "" {
					t.Errorf("%s: the ProfileOverlay is not that of examples/ (-want +got):\n%s", page, diff)
				}
			case "MachineDeployment": // a beginning of one
			case nil: // .osm-gitops.yaml, which pkg/lint checks
			default:
				t.Errorf("%s: what is a %v?", page, o["kind"])
			}
		}
	}
	if found < 3 {
		t.Fatalf("found %d examples", found)
	}
}

// The README can be read in minutes, and says in its first words for whom it is.
func TestReadme(t *testing.T) {
	const most, first = 700, 100
	words := strings.Fields(string(read(t, "../README.md")))
	if len(words) > most {
		t.Errorf("it has %d words, and can have %d", len(words), most)
	}
	for _, name := range []string{"KubeOne,", "KKP", "machine-controller"} {
		if !slices.Contains(words[:first], name) {
			t.Errorf("its first %d words do not name %s", first, name)
		}
	}
}

func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(string(read(t, page)), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s leads nowhere: %v", page, err)
			}
		}
	}
	index := string(read(t, "README.md"))
	for _, page := range glob(t, "*.md") {
		if page != "README.md" && !strings.Contains(index, "("+page+")") {
			t.Errorf("README.md does not list %s", page)
		}
	}
}

// pages are ours and those at the top of the repository and of examples/.
func pages(t *testing.T) []string {
	t.Helper()
	return slices.Concat(glob(t, "*.md"), glob(t, "../*.md"), glob(t, "../examples/*.md"))
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d files at %s (err %v): an empty glob must not pass", len(paths), pattern, err)
	}
	return paths
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
