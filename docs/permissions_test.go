package docs_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	permissionspkg "github.com/osm-gitops/osm-gitops/test/permissions"
)

// permissions makes a table of the rules in a file of deploy/, with their reasons.
func permissions(t *testing.T, file string) string {
	t.Helper()
	rules, err := permissionspkg.Read(filepath.Join("../deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) == 0 {
		t.Fatalf("%s has no rules", file)
	}
	code := func(list []string) string { return "`" + strings.Join(list, "`, `") + "`" }
	var b strings.Builder
	b.WriteString("| namespace | what | verbs | why |\n|---|---|---|---|\n")
	for _, r := range rules {
		what := slices.Clone(r.URLs)
		for _, group := range r.Groups {
			for _, resource := range r.Resources {
				resource, sub, _ := strings.Cut(resource, "/")
				if group != "" {
					resource += "." + group
				}
				if sub != "" {
					resource += "/" + sub
				}
				what = append(what, resource)
			}
		}
		named := ""
		if len(r.Names) > 0 {
			named = " called " + code(r.Names)
		}
		fmt.Fprintf(&b, "| `%s` | %s%s | %s | %s |\n", r.Namespace, code(what), named, strings.Join(r.Verbs, ", "), strings.ReplaceAll(r.Reason, "|", `\|`))
	}
	return b.String()
}
