package imports_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// entryPoint matches "Start with" in the comment of a package, and what follows up to the end of the clause.
var entryPoint = regexp.MustCompile(`Start with ([^;:]*?)(?:[;:]|\.(?:\s|$))`)

// identifier matches a name of Go, with its receiver or package, in such a clause.
var identifier = regexp.MustCompile(`\b(?:[a-z]+\.)?[A-Z][A-Za-z]+(?:\.[A-Z][A-Za-z]+)?\b`)

// TestEntryPoints: what the comment of a package says to start with exists.
func TestEntryPoints(t *testing.T) {
	checked := 0
	for _, top := range []string{"pkg", "cmd"} {
		if err := filepath.WalkDir(filepath.Join("..", "..", top), func(dir string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			packages, err := parser.ParseDir(token.NewFileSet(), dir, func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, parser.ParseComments) //nolint:staticcheck // build tags do not matter here
			if err != nil {
				return err
			}
			for _, p := range packages {
				declared := declarations(p)
				for _, f := range p.Files {
					for _, clause := range entryPoint.FindAllStringSubmatch(strings.Join(strings.Fields(f.Doc.Text()), " ")+" ", -1) {
						for _, name := range identifier.FindAllString(clause[1], -1) {
							if name[0] >= 'a' { // of another package
								continue
							}
							if checked++; !declared[name] {
								t.Errorf("%s: the comment of the package starts with %s, which does not exist", dir, name)
							}
						}
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if checked < 80 {
		t.Errorf("%d names were checked, expected at least 80", checked)
	}
}

// declarations returns the names of a package at top level, and of methods with their receivers and alone.
func declarations(p *ast.Package) map[string]bool { //nolint:staticcheck // as above
	out := map[string]bool{}
	for _, f := range p.Files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				out[d.Name.Name] = true
				if d.Recv != nil {
					receiver := d.Recv.List[0].Type
					if star, ok := receiver.(*ast.StarExpr); ok {
						receiver = star.X
					}
					if name, ok := receiver.(*ast.Ident); ok {
						out[name.Name+"."+d.Name.Name] = true
					}
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						out[s.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range s.Names {
							out[n.Name] = true
						}
					}
				}
			}
		}
	}
	return out
}
