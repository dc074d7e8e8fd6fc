package objectstore

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// FuzzTree: no panic, and the two ways to read a tree agree.
func FuzzTree(f *testing.F) {
	f.Add([]byte("100644 a.yaml\x00" + strings.Repeat("1", 20)))
	f.Add([]byte("40000 \x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for rest := data; len(rest) > 0; {
			e, next, err := cutEntry(rest)
			if err != nil {
				return
			}
			if len(next) >= len(rest) {
				t.Fatal("an entry takes nothing off")
			}
			if found, err := findEntry(plumbing.ZeroHash, data, string(e.name)); err == nil && found.Name != string(e.name) {
				t.Errorf("%q is not found", e.name)
			}
			filter.Classify(string(e.name), e.mode)
			rest = next
		}
	})
}
