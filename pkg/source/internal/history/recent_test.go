package history

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// What there is no room for goes, the longest unused first.
func TestRecent(t *testing.T) {
	r := Recent[string]{MaxWeight: 10}
	put := func(name string, weight int) { r.Put(name, "value of "+name, weight) }
	has := func(want string) {
		t.Helper()
		if got := strings.Join(slices.Sorted(maps.Keys(r.values)), " "); got != want {
			t.Errorf("there are %q, not %q", got, want)
		}
		sum := 0
		for _, k := range r.values {
			sum += k.weight
		}
		if sum != r.weight {
			t.Errorf("they weigh %d, not %d", sum, r.weight)
		}
	}
	put("a", 4)
	put("b", 4)
	if got := r.Get("a"); got != "value of a" {
		t.Errorf("a is %q", got)
	}
	put("c", 2)
	has("a b c")
	put("d", 1)
	has("a c d")
	put("a", 5) // heavier than before
	has("a c d")
	put("e", 100) // more than there is room for, and newest
	has("e")
	put("f", 10)
	has("f")
	r.drop("f")
	r.drop("f")
	has("")
	if got := r.Get("f"); got != "" {
		t.Errorf("f is %q", got)
	}
}
