package lineage

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

func at(seconds int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 3, 4, 12, 0, seconds, 0, time.UTC))
}

func TestSort(t *testing.T) {
	for name, c := range map[string]struct {
		in   []api.Interval
		want string
	}{
		"times order intervals without links": {[]api.Interval{{UID: "b", From: at(2), Until: at(3)}, {UID: "a", From: at(1), Until: at(2)}}, "ab"},
		"links order intervals of one second": {[]api.Interval{
			{UID: "c", Replaces: "b", From: at(1), Until: at(1)}, {UID: "b", Replaces: "a", From: at(1), Until: at(1)}, {UID: "a", From: at(1), Until: at(1)},
		}, "abc"},
		"a link outweighs a clock that is ahead": {[]api.Interval{{UID: "b", Replaces: "a", From: at(1), Until: at(4)}, {UID: "a", From: at(2), Until: at(3)}}, "ab"},
		"the interval without an end is the last": {[]api.Interval{
			{UID: "c", From: at(1)}, {UID: "a", From: at(1), Until: at(1)}, {UID: "b", From: at(2), Until: at(2)},
		}, "abc"},
		"a link to an unknown configuration is ignored": {[]api.Interval{{UID: "b", Replaces: "x", From: at(2), Until: at(3)}, {UID: "a", From: at(1), Until: at(2)}}, "ab"},
		"a cycle loses nothing":                         {[]api.Interval{{UID: "a", Replaces: "b", From: at(1), Until: at(2)}, {UID: "b", Replaces: "a", From: at(2), Until: at(3)}}, "ba"},
		"a link to itself":                              {[]api.Interval{{UID: "a", Replaces: "a", From: at(1), Until: at(2)}}, "a"},
		"equal UIDs, for instance none, lose nothing":   {[]api.Interval{{From: at(2), Until: at(3)}, {From: at(1), Until: at(2)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			Sort(c.in, func(in api.Interval) api.Interval { return in })
			for _, in := range c.in {
				got += string(in.UID)
			}
			if got != c.want {
				t.Errorf("sorted as %q, want %q", got, c.want)
			}
		})
	}
}

// Any shuffle of a chain of rotations is put in order, however many share a second.
func TestSortRestoresChains(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test wants the same chains each time
	for range 500 {
		var chain []api.Interval
		second := 0
		names := rnd.Perm(12)
		for i, name := range names {
			in := api.Interval{UID: types.UID(rune('a' + name)), From: at(second)}
			if i > 0 {
				in.Replaces = chain[i-1].UID
			}
			if rnd.IntN(3) == 0 {
				second++
			}
			if i+1 < len(names) {
				in.Until = at(second)
			}
			chain = append(chain, in)
		}
		shuffled := append([]api.Interval(nil), chain...)
		rnd.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		Sort(shuffled, func(in api.Interval) api.Interval { return in })
		if diff := cmp.Diff(chain, shuffled); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

func TestDecodeIntervals(t *testing.T) {
	for text, want := range map[string]int{`[{"uid":"a"},{"uid":"b"}]`: 2, `[]`: 0, `{`: 0, ``: 0} {
		if got := DecodeIntervals(map[string]string{api.AnnotationIntervals: text}); len(got) != want {
			t.Errorf("%q gives %v", text, got)
		}
	}
}
