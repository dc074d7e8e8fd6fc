package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// pageFields makes tables of what the audit page says as JSON, from the types and their
// comments.
func pageFields(t *testing.T) string {
	t.Helper()
	structs := map[string]*ast.StructType{}
	for _, path := range glob(t, "../pkg/inspect/ui/*.go") {
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
	var b strings.Builder
	for _, name := range []string{
		"About", "Paging", "Fleet", "Filter", "Counts", "Notice", "Source", "RolloutLine", "PoolRow", "VersionShare", "Pool", "Configuration", "NodeRow",
		"Commit", "Change", "FileDiff", "Hunk", "Line", "Rotation", "Rendered", "Node", "Verification", "Search", "CommitRow", "ProfileRow", "Failure",
	} {
		s := structs[name]
		if s == nil {
			t.Fatalf("there is no type %s", name)
		}
		var also []string
		for _, f := range s.Fields.List {
			if len(f.Names) == 0 {
				also = append(also, "`"+typeName(f.Type)+"`")
			}
		}
		others := ""
		if len(also) > 0 {
			others = "with " + strings.Join(also, ", ")
		}
		fmt.Fprintf(&b, "\n| `%s` | %s | |\n|---|---|---|\n", name, others)
		for _, f := range s.Fields.List {
			b.WriteString(pageField(t, name, f))
		}
	}
	return b.String() + "\n"
}

// pageField is a row for a field that is part of the JSON.
func pageField(t *testing.T, of string, f *ast.Field) string {
	t.Helper()
	kind := strings.NewReplacer("*", "", "time.Time", "time", "trace.Result", "object", "verify.Report", "object", "int32", "int").Replace(typeName(f.Type))
	if f.Tag == nil {
		return ""
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	about := strings.TrimSpace(f.Comment.Text())
	if about == "" {
		t.Errorf("%s.%s says nothing about itself", of, f.Names[0].Name)
	}
	return fmt.Sprintf("| `%s` | `%s` | %s |\n", name, kind, about)
}

func typeName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.ArrayType:
		return "[]" + typeName(x.Elt)
	case *ast.SelectorExpr:
		return typeName(x.X) + "." + x.Sel.Name
	}
	return ""
}
