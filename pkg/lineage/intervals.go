package lineage

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// maxIntervals bounds the intervals of one archived record, so that a pool that goes
// to and fro does not fill an annotation; the oldest are dropped.
const maxIntervals = 500

// AddInterval appends an interval to those of an archived record. One of the same configuration as the
// last replaces that: an earlier run of the controller was interrupted between the archive and the
// deletion.
func AddInterval(have []api.Interval, interval api.Interval) []api.Interval {
	if n := len(have); n > 0 && have[n-1].UID == interval.UID {
		have = have[:n-1]
	}
	have = append(slices.Clip(have), interval)
	return have[max(0, len(have)-maxIntervals):]
}

// Sort orders the configurations of one pool, oldest first, in place.
//
// An interval follows the one that it names in Replaces. Times only order intervals without such a
// link: they have whole seconds, in which a pool can have several configurations, and several API
// servers have several clocks. An interval without an end is the last, because it is current.
func Sort[T any](items []T, intervalOf func(T) api.Interval) {
	type entry struct {
		item T
		api.Interval
	}
	entries := make([]entry, len(items))
	for i, item := range items {
		entries[i] = entry{item, intervalOf(item)}
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(
			compareTrueLast(a.Until.IsZero(), b.Until.IsZero()),
			a.From.Compare(b.From.Time), a.Until.Compare(b.Until.Time), cmp.Compare(a.UID, b.UID))
	})
	byUID := map[types.UID]int{}
	for i, e := range entries {
		if _, duplicate := byUID[e.UID]; !duplicate && e.UID != "" {
			byUID[e.UID] = i
		}
	}
	// Take the entries in the order of their times, each after those that it follows. A cycle,
	// which only a manual edit can create, is cut at its entry point.
	placed := make([]bool, len(entries))
	next := 0
	var chain []int
	for i := range entries {
		chain = chain[:0]
		for at, linked := i, true; linked && !placed[at]; at, linked = byUID[entries[at].Replaces] {
			placed[at] = true
			chain = append(chain, at)
		}
		for _, at := range slices.Backward(chain) {
			items[next] = entries[at].item
			next++
		}
	}
}

func compareTrueLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
