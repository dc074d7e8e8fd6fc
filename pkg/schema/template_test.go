package schema_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// page lists every field and function of templates. Tests in docs compare it with the code.
const page = "../../docs/template-data.md"

// templateDefinition is the schema of the text of a file or a named template. Its
// description lists what a template can use, which an editor shows at the cursor.
func templateDefinition(t *testing.T) object {
	t.Helper()
	const what = "The text, a Go template (https://pkg.go.dev/text/template)."
	plain, markdown := "", ""
	for _, s := range templateSections(t) {
		plain += "\n\n" + s.title + ":"
		markdown += "\n\n**" + s.title + "**\n"
		for _, v := range s.variables {
			plain += "\n" + v.name + " (" + v.typ + "): " + strings.ReplaceAll(v.meaning, "`", "")
			markdown += "\n- `" + v.name + "` (" + v.typ + "): " + v.meaning
		}
		if s.text != "" {
			plain += "\n" + strings.ReplaceAll(s.text, "`", "")
			markdown += "\n" + s.text
		}
	}
	return object{"type": "string", "description": what + plain, "markdownDescription": what + markdown}
}

// variable is one field of the template data.
type variable struct{ name, typ, meaning string }

type section struct {
	title     string
	variables []variable
	text      string // for functions, which have no table
}

var (
	row  = regexp.MustCompile("^\\| `(\\.[A-Za-z.]+)` \\| (.*?) \\| (.*) \\|$")
	link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// templateSections reads the page.
func templateSections(t *testing.T) []section {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "\n## ")
	text, _, _ = strings.Cut(text, "\n## Limits")
	var out []section
	variables := 0
	for part := range strings.SplitSeq(text, "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		s := section{title: title}
		for line := range strings.SplitSeq(body, "\n") {
			m := row.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			meaning := strings.ReplaceAll(link.ReplaceAllString(m[3], "$1"), `\|`, "|")
			if strings.TrimSpace(meaning) == "" {
				t.Errorf("%s: %s has no meaning", page, m[1])
			}
			s.variables = append(s.variables, variable{m[1], strings.ReplaceAll(m[2], `\*`, "*"), meaning})
			variables++
		}
		if len(s.variables) == 0 {
			body = regexp.MustCompile(`<!--.*?-->`).ReplaceAllString(link.ReplaceAllString(body, "$1"), "")
			s.text = strings.Join(strings.Fields(body), " ")
		}
		out = append(out, s)
	}
	if variables < 60 {
		t.Fatalf("%s: found %d variables", page, variables)
	}
	return out
}
