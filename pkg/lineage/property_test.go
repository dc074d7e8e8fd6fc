package lineage

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// With any edits of the archived records and any clocks, each generation ends before the next one
// begins, or exactly at that time.
func TestGenerationsDoNotOverlap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same histories in each run
	for range 2000 {
		var archived []Generation
		for range random.IntN(6) {
			g := Generation{UID: uid(random.IntN(8)), From: minute(float64(random.IntN(60))), Until: minute(float64(random.IntN(60)))}
			if random.IntN(2) == 0 {
				g.Replaces = uid(random.IntN(8))
			}
			archived = append(archived, g)
		}
		current := &Generation{UID: uid(random.IntN(8)), From: minute(float64(random.IntN(60)))}
		timeline := Assemble(current, archived)
		for i := range timeline[:len(timeline)-1] {
			if g, next := timeline[i], timeline[i+1]; g.Until.IsZero() || g.Until.After(next.From) {
				t.Fatalf("%s overlaps with %s in %s", told(Timeline{g}), told(Timeline{next}), told(timeline))
			}
		}
	}
}

// A record has the last interval of each run of one configuration, and of these the newest.
func TestAddInterval(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the same intervals in each run
	for range 10 {
		var have, runs []api.Interval
		for n := range random.IntN(3 * maxIntervals) {
			added := api.Interval{UID: uid(random.IntN(3)), Revision: strconv.Itoa(n)}
			if len(runs) > 0 && runs[len(runs)-1].UID == added.UID {
				runs[len(runs)-1] = added
			} else {
				runs = append(runs, added)
			}
			before := slices.Clone(have)
			got := AddInterval(have, added)
			if !slices.Equal(have, before) {
				t.Fatalf("adding %s modified the intervals before it", added.UID)
			}
			have = got
		}
		if want := runs[max(0, len(runs)-maxIntervals):]; !slices.Equal(have, want) {
			t.Fatalf("%d intervals of %d runs: %v", len(have), len(runs), have)
		}
	}
}

// Decoding is the inverse of encoding.
func TestCodecs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same values in each run
	for range 500 {
		rec := record(t, "v"+string(rune('1'+random.IntN(9))))
		rec.Path, rec.SettingsDigest, rec.SelectedBy = "profiles/<&>.yaml", string(rune(random.IntN(0xd7ff))), "main@sha1:1"
		rec.Digests.Input = rec.InputDigest()
		text, err := render.MarshalRecord(rec)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := DecodeIntactRecord(text); !ok || cmp.Diff(rec, got) != "" {
			t.Fatalf("%s is decoded as %+v", text, got)
		}
		intervals := make([]api.Interval, 1+random.IntN(4))
		for i := range intervals {
			intervals[i] = api.Interval{
				From: metav1.NewTime(minute(random.Float64() * 1000)), Until: metav1.NewTime(minute(random.Float64() * 1000)),
				UID: types.UID("osc"), Replaces: uid(i), Revision: "3", SelectedBy: "main@sha1:1",
			}
		}
		annotation, err := EncodeIntervals(intervals)
		if err != nil {
			t.Fatal(err)
		}
		got := DecodeIntervals(map[string]string{api.AnnotationIntervals: annotation})
		if !slices.EqualFunc(got, intervals, func(a, b api.Interval) bool {
			return a.From.Equal(&b.From) && a.Until.Equal(&b.Until) && cmp.Diff(stripTimes(a), stripTimes(b)) == ""
		}) {
			t.Fatalf("%s is decoded as %+v", annotation, got)
		}
	}
}

func stripTimes(in api.Interval) api.Interval {
	in.From, in.Until = metav1.NewTime(time.Time{}), metav1.NewTime(time.Time{})
	return in
}
