package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
)

// TestAuditLog: the page has every kind of line and every field, and no other kind.
func TestAuditLog(t *testing.T) {
	page := string(read(t, "audit-log.md"))
	f, err := parser.ParseFile(token.NewFileSet(), "../pkg/auditlog/event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
			if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Kind" {
				kinds[strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`)] = true
			}
		}
		return true
	})
	rows := regexp.MustCompile("(?m)^\\| `([A-Z][A-Za-z]+)` \\|").FindAllStringSubmatch(page, -1)
	if len(kinds) < 10 || len(rows) != len(kinds) {
		t.Errorf("%d kinds and %d rows", len(kinds), len(rows))
	}
	for _, row := range rows {
		if !kinds[row[1]] {
			t.Errorf("there is no kind %s", row[1])
		}
	}
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[auditlog.Entry]().PkgPath() {
			return
		}
		for field := range typ.Fields() {
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && !strings.Contains(page, "`"+name+"`") {
				t.Errorf("the page does not name %s of %s", name, typ.Name())
			}
			walk(field.Type)
		}
	}
	walk(reflect.TypeFor[auditlog.Entry]())
}
