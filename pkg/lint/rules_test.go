package lint_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
)

// docs is the folder of the documentation pages.
const docs = "../../docs/"

var update = flag.Bool("update", false, "rewrite the page with the rules")

func read(t *testing.T, page string) string {
	t.Helper()
	b, err := os.ReadFile(docs + page)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestPage: the page lists exactly the rules, with their severities.
func TestPage(t *testing.T) {
	const page = "lint-rules.md"
	want := thePage()
	if *update {
		if err := os.WriteFile(docs+page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, read(t, page)); diff != "" {
		t.Errorf("%s is not what it should be; go test ./pkg/lint -update rewrites it (-want +got):\n%s", page, diff)
	}
	seen := map[string]bool{}
	for _, r := range lint.Rules() {
		if seen[r.Name] {
			t.Errorf("there are two rules called %s", r.Name)
		}
		seen[r.Name] = true
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(r.Name) || !strings.HasSuffix(r.Summary, ".") || r.Help == "" || r.Severity == "" {
			t.Errorf("rule %+v: a name has lower case and dashes, a summary is a sentence", r)
		}
	}
	if len(seen) < 30 {
		t.Fatalf("found %d rules only", len(seen))
	}
}

func thePage() string {
	var b strings.Builder
	b.WriteString(`# Rules of osm-gitops lint

*Reference.* All rules of [lint](lint.md), with severity and remedy, generated from the code.

| severity | meaning |
|---|---|
| error | a cluster would reject the profile, or a node would fail |
| warning | it works, but should not be merged without a reason |
| note | information: makes no check fail |

[.osm-gitops.yaml](lint-config.md) changes severities, and accepts findings with a reason.

`)
	for _, c := range lint.Chapters() {
		fmt.Fprintf(&b, "## %s\n\n", c.Title)
		for _, r := range c.Rules {
			fmt.Fprintf(&b, "### %s\n\n%s: %s\n\n%s\n\n", r.Name, r.Severity, r.Summary, r.Help)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// TestConfigPage: the page has every field of the file with its name, and its example
// is one that lint takes and that sets all of them.
func TestConfigPage(t *testing.T) {
	page := read(t, "lint-config.md")
	_, rest, _ := strings.Cut(page, "```yaml\n")
	example, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("the page has no example")
	}
	c, err := lint.ParseConfig(lint.ConfigName, []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	for path, value := range map[string]reflect.Value{"lint.": reflect.ValueOf(c.Lint), "lint.suppress[].": reflect.ValueOf(c.Lint.Suppress[0])} {
		for i := range value.NumField() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			if !strings.Contains(page, "| `"+path+name+"` |") {
				t.Errorf("the page does not describe %s%s", path, name)
			}
			if value.Field(i).IsZero() {
				t.Errorf("the example does not set %s%s", path, name)
			}
		}
	}
}
