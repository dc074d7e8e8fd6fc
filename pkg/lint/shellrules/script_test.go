package shellrules

import (
	"maps"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// Before one of some characters, or before any where none is given, a backslash is
// taken away. The last character of a text stays.
func TestUnescaped(t *testing.T) {
	for _, c := range []struct{ text, before, want string }{
		{`a`, "", `a`},
		{`\a`, "", `a`},
		{`\\`, "", `\`},
		{`a\`, "", `a\`},
		{`\`, "", `\`},
		{`\$\a\"`, "$\"", `$\a"`},
		{`a\`, "$", `a\`},
		{`\\\\`, `\`, `\\`},
	} {
		if got := unescaped(c.text, c.before); got != c.want {
			t.Errorf("unescaped(%q, %q) = %q, want %q", c.text, c.before, got, c.want)
		}
	}
}

// A variable is constant only if the script sets it once, to text.
func TestConstants(t *testing.T) {
	for script, want := range map[string]map[string]string{
		"a=x":                         {"a": "x"},
		"a=x; b='y z'":                {"a": "x", "b": "y z"},
		"a=x; a=y":                    {},
		"a=x; a+=y":                   {},
		"a=x; a=":                     {},
		"a=x; a=(y)":                  {},
		"a=x; a[0]=y":                 {},
		"a=x; a=$(date)":              {},
		"a=$(date)":                   {},
		"a=x; read a":                 {},
		"a=x; printf -v a %s y":       {},
		"a=x; mapfile a":              {},
		"a=x; echo a":                 {"a": "x"},
		"a=x; for a in y; do :; done": {},
	} {
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
		if err != nil {
			t.Fatal(err)
		}
		if got := constants(file); !maps.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
}

// A range has its first line and not its last.
func TestFirstBetween(t *testing.T) {
	for _, c := range []struct {
		lines          []int
		from, to, want int
	}{
		{nil, 1, 9, 0},
		{[]int{3, 5}, 3, 5, 3},
		{[]int{3, 5}, 4, 6, 5},
		{[]int{5}, 3, 5, 0},
		{[]int{2}, 3, 5, 0},
	} {
		if got := firstBetween(c.lines, c.from, c.to); got != c.want {
			t.Errorf("firstBetween(%v, %d, %d) = %d, want %d", c.lines, c.from, c.to, got, c.want)
		}
	}
}
