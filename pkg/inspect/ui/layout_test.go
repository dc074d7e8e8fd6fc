package ui

import (
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui/internal/view"
)

// Every version is visible in the chart, however few nodes have it, and all fit.
func TestBars(t *testing.T) {
	for name, nodes := range map[string][]int{
		"one": {5}, "few of many": {1, 20_000}, "more than there are colours": {9, 8, 7, 6, 5, 4, 3, 2, 1}, "some none": {0, 4, 0, 4},
	} {
		t.Run(name, func(t *testing.T) {
			var shares []view.VersionShare
			for i, n := range nodes {
				shares = append(shares, view.VersionShare{Nodes: n, Rank: i})
			}
			shares = append(shares, view.VersionShare{Nodes: 1, Rank: -1})
			end := 0
			for _, b := range chartBars(shares) {
				if b.X < end || b.Width < 1 {
					t.Errorf("a piece at %d is %d wide, after one that ends at %d", b.X, b.Width, end)
				}
				end = b.X + b.Width
			}
			if end > 1000 || end < 900 {
				t.Errorf("it ends at %d", end)
			}
		})
	}
	if b := chartBars([]view.VersionShare{{Rank: 0}}); b != nil {
		t.Errorf("of no nodes there is %v", b)
	}
}
