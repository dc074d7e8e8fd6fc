package docs_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	permissionspkg "github.com/osm-gitops/osm-gitops/test/permissions"
)

// permissions makes a table of the rules in a file of deploy/, with their reasons. A reason of the
// row above, or of the same rule in a file whose table is above, is not repeated.
func permissions(t *testing.T, file string, above ...string) string {
	t.Helper()
	rules := rulesOf(t, file)
	key := func(r permissionspkg.Rule) string {
		return fmt.Sprint(r.Namespace, r.Groups, r.Resources, r.Names, r.Reason)
	}
	known := map[string]bool{}
	for _, file := range above {
		for _, r := range rulesOf(t, file) {
			known[key(r)] = true
		}
	}
	code := func(list []string) string { return "`" + strings.Join(list, "`, `") + "`" }
	var b strings.Builder
	b.WriteString("| namespace | what | verbs | why |\n|---|---|---|---|\n")
	for i, r := range rules {
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
		reason := strings.ReplaceAll(r.Reason, "|", `\|`)
		if i > 0 && rules[i-1].Reason == r.Reason || known[key(r)] {
			reason = "as above"
		}
		fmt.Fprintf(&b, "| `%s` | %s%s | `%s` | %s |\n", r.Namespace, code(what), named, strings.Join(r.Verbs, ", "), reason)
	}
	return b.String()
}

func rulesOf(t *testing.T, file string) []permissionspkg.Rule {
	t.Helper()
	rules, err := permissionspkg.Read(filepath.Join("../deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) == 0 {
		t.Fatalf("%s has no rules", file)
	}
	return rules
}
