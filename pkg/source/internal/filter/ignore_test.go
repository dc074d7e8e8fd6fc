package filter

import (
	"io/fs"
	"strings"
	"testing"
)

// A pattern that would go back for ever is bounded: security.md 11.
func TestHostilePattern(t *testing.T) {
	name := strings.Repeat("a", 200)
	for _, glob := range []string{strings.Repeat("*a", 100) + "b", strings.Repeat("**/", 100) + "b", strings.Repeat("*?", 80) + "b"} {
		if matchGlob(glob, name+"/"+name) {
			t.Errorf("%s matches", glob)
		}
	}
}

// FuzzIgnore: no pattern panics, and none matches outside the folder of its file.
func FuzzIgnore(f *testing.F) {
	f.Add("a/**/[!b]*\\", "a/b/c.yaml")
	f.Add("[[:alpha:]-z]", "x.yaml")
	f.Add("!**/", "a")
	f.Fuzz(func(t *testing.T, text, name string) {
		if !fs.ValidPath(name) || name == "." {
			t.Skip("this is no name that a tree or a folder can have")
		}
		r := NewRules(Scope{Parts: []string{"top"}}, map[string][]Pattern{"top/in/.osmignore": parsePatterns([]byte(text))})
		r.Ignores("top/in/" + name)
		if r.Ignores("top/"+name) && !strings.HasPrefix(name, "in/") {
			t.Errorf("%q reaches %q", text, name)
		}
	})
}
