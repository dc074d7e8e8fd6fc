package lineage

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

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
