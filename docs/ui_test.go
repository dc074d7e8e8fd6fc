package docs_test

import (
	"fmt"
	"go/ast"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pageFields makes tables of what the audit page says as JSON, from the types and their
// comments.
func pageFields(t *testing.T) string {
	t.Helper()
	structs := structsOf(t, slices.Concat(glob(t, "../pkg/inspect/fleet/*.go"), glob(t, "../pkg/inspect/ui/internal/comparison/*.go"), glob(t, "../pkg/inspect/ui/*.go"), glob(t, "../pkg/inspect/ui/internal/view/*.go")))
	var b strings.Builder
	for _, name := range []string{
		"About", "Paging", "Fleet", "Filter", "Counts", "Notice", "PoolRow", "VersionShare", "Pool", "BootRow", "Period", "NodeRow",
		"Commit", "Change", "FileDiff", "Hunk", "Line", "Rotation", "Rendered", "Node", "Verification", "Changes", "CommitRow", "Nodes", "Profiles", "ProfileSummary",
		"Profile", "ProfileRow", "Rollouts", "Rollout", "RolloutFailure", "Sources", "Source", "Search", "Failure",
	} {
		s := structs[name]
		if s == nil {
			t.Fatalf("there is no type %s", name)
		}
		var also []string
		for _, f := range s.Fields.List {
			if len(f.Names) == 0 {
				also = append(also, "`"+strings.TrimPrefix(typeName(f.Type), "view.")+"`")
			}
		}
		others := ""
		if len(also) > 0 {
			others = "with " + strings.Join(also, ", ")
		}
		fmt.Fprintf(&b, "\n| `%s` | %s | |\n|---|---|---|\n", name, others)
		var rows [][3]string // fields in a row with the same type and meaning share one
		for _, f := range s.Fields.List {
			row, ok := pageField(t, name, f)
			if last := len(rows) - 1; ok && last >= 0 && rows[last][1] == row[1] && rows[last][2] == row[2] {
				rows[last][0] += ", " + row[0]
			} else if ok {
				rows = append(rows, row)
			}
		}
		for _, row := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", row[0], row[1], row[2])
		}
	}
	return b.String() + "\n"
}

// pageField is the name, type and meaning of a field that is part of the JSON.
func pageField(t *testing.T, of string, f *ast.Field) (row [3]string, ok bool) {
	t.Helper()
	kind := strings.NewReplacer("*", "", "time.Time", "time", "trace.Result", "object", "verify.Report", "object", "int32", "int", "fleet.", "", "comparison.", "").Replace(typeName(f.Type))
	if f.Tag == nil {
		return row, false
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	if name == "-" {
		return row, false
	}
	about := strings.TrimSpace(f.Comment.Text())
	if about == "" {
		t.Errorf("%s.%s says nothing about itself", of, f.Names[0].Name)
	}
	return [3]string{"`" + name + "`", "`" + kind + "`", about}, true
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
