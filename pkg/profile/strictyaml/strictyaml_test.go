package strictyaml

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type settings struct {
	Name  string            `json:"name"`
	On    bool              `json:"on,omitempty"`
	Mode  int32             `json:"mode,omitempty"`
	List  []settings        `json:"list,omitempty"`
	Texts map[string]string `json:"texts,omitempty"`
	Next  *settings         `json:"next,omitempty"`
}

func TestDecodeFile(t *testing.T) {
	const text = "# settings\nname: a\nmode: 644\nlist:\n- &b {name: b, on: true}\n- {<<: *b, on: false}\ntexts:\n  x: |\n    one\nnext:\n  name: c\n"
	var got settings
	lines, err := DecodeFile("f.yaml", []byte(text), &got)
	if err != nil {
		t.Fatal(err)
	}
	want := settings{Name: "a", Mode: 644, List: []settings{{Name: "b", On: true}, {Name: "b"}}, Texts: map[string]string{"x": "one\n"}, Next: &settings{Name: "c"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for field, line := range map[string]int{"": 1, "name": 2, "list": 5, "list[1]": 6, "list[1].mode": 6, "texts[x]": 9, "next.name": 11, "next.on": 11, "else": 1} {
		if at := lines.Line(field); at != line {
			t.Errorf("%q is on line %d, want %d", field, at, line)
		}
	}
}

func TestDecodeFileRejects(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("name: a\nlist:\n- &l0 {name: a}\n")
	for i := range 20 {
		fmt.Fprintf(&bomb, "- &l%d {name: a, list: [*l%d, *l%d, *l%d]}\n", i+1, i, i, i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"an unknown field":       {"name: a\nmoed: 1\n", `f.yaml:2: moed: is not a field of the document: did you mean "mode"?`},
		"a repeated field":       {"name: a\nname: b\n", "f.yaml:2: name: is given twice, first on line 1"},
		"a missing field":        {"name: a\nlist:\n- on: true\n", "f.yaml:3: list[0].name: is required"},
		"a null":                 {"name:\n", "f.yaml:1: name: is null: set a value"},
		"a number for a text":    {"name: 1\n", "f.yaml:1: name: must be text, but YAML reads 1 as a number: quote it"},
		"a text for a number":    {"name: a\nmode: \"1\"\n", `f.yaml:2: mode: must be an integer, but "1" is text: write 1, without quotes`},
		"an octal number":        {"name: a\nmode: 0644\n", "f.yaml:2: mode: YAML reads 0644 as octal"},
		"a digit of no mode":     {"name: a\nmode: 0689\n", "f.yaml:2: mode: invalid file mode 0689: 8 is not an octal digit"},
		"a text for a boolean":   {"name: a\non: maybe\n", `f.yaml:2: on: must be true or false, not "maybe"`},
		"a list for a text":      {"name: [a]\n", "f.yaml:1: name: must be a single value, of type string"},
		"a text for a list":      {"name: a\nlist: b\n", "f.yaml:2: list: must be a list"},
		"a text for a mapping":   {"name: a\ntexts: b\n", "f.yaml:2: texts: must be a mapping"},
		"a merged text":          {"name: a\nnext: {<<: b}\n", "merges a value that is not a mapping"},
		"a key that is a list":   {"name: a\ntexts: {? [a] : b}\n", "has a key that is not text"},
		"two documents":          {"name: a\n---\nname: b\n", "has more than one document"},
		"no YAML":                {"name: a\nlist: [\n", "f.yaml:2: invalid YAML"},
		"a tab":                  {"next:\n\tname: a\n", "found a tab"},
		"a NUL":                  {"name: a\nnext: \x00\n", "f.yaml:2: is not UTF-8 text"},
		"a file that is too big": {"name: " + strings.Repeat("a", MaxFileBytes), "f.yaml: has "},
		"too many levels":        {strings.Repeat("{name: a, next: ", 70) + "{name: a}" + strings.Repeat("}", 70), "is nested more than 64 levels deep"},
		"an alias bomb":          {bomb.String(), "has more than 200000 values once its aliases are expanded"},
		"too many problems":      {"name: a\nlist:\n" + strings.Repeat("- {}\n", 60), "more problems follow"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeFile("f.yaml", []byte(c.text), &settings{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got\n%v\nwant\n%s", err, c.want)
			}
			if n := len(Problems(err)); n == 0 || n > maxProblems+1 {
				t.Errorf("%d problems", n)
			}
			if strings.Contains(c.want, "invalid YAML") != errors.Is(Problems(err)[0], ErrSyntax) && c.want != "found a tab" {
				t.Errorf("a syntax error: %v", err)
			}
		})
	}
}
