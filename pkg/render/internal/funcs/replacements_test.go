package funcs

import (
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
)

// Replacing is limited by the size of its result: the matches are counted if the result could
// be larger than four times a value, and no smaller result is rejected.
func TestReplacementsAreBoundedByWhatTheyMake(t *testing.T) {
	const most, work = 4 * meter.MaxValueBytes, 7
	for name, c := range map[string]struct {
		pattern, text, replacement string
		counted, refused           bool
	}{
		"as large as may be, with nothing put in": {"a", strings.Repeat("a", most), "", false, false},
		"as large as may be in the worst case":    {"a", strings.Repeat("b", most/2-1), "x", false, false},
		"one byte more in the worst case":         {"b", strings.Repeat("a", most/2), "x", true, false},
		"each match makes the result larger":      {"a", strings.Repeat("a", most/2), "x", true, false},
		"and one match too many":                  {"a", strings.Repeat("a", most/2+1), "x", true, true},
		"the text of matches counts for each $":   {"a+", strings.Repeat("a", most/4), "$0$0", true, false},
	} {
		got, err := replacementCost(c.pattern, c.text, c.replacement, work)
		want := 0
		if c.counted && !c.refused {
			want = work
		}
		if got != want || (err != nil) != c.refused {
			t.Errorf("%s: got %d and %v, want %d", name, got, err, want)
		}
	}
}
