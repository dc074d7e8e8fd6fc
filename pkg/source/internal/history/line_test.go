package history

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// BenchmarkLine walks histories of which every tenth commit changes a profile
// file: cold, as after a restart, and for one commit more than is known.
func BenchmarkLine(b *testing.B) {
	for _, n := range []int{2_000, 50_000} {
		dir := filepath.Join(b.TempDir(), "repo.git")
		head := plumbing.NewHash(gittest.LongHistory(b, dir, n))
		parts := []string{"profiles"}
		open := func() *objectstore.Objects {
			root, err := os.OpenRoot(filepath.Join(dir, "objects"))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { root.Close() })
			o, err := objectstore.OpenObjects(root)
			if err != nil {
				b.Fatal(err)
			}
			return o
		}
		b.Run(fmt.Sprintf("%d commits cold", n), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				cold := open()
				b.StartTimer()
				lineOf(b, cold, head, parts, cachedWalk{})
			}
		})
		b.Run(fmt.Sprintf("%d commits and one more", n), func(b *testing.B) {
			o := open()
			c, err := o.Commit(b.Context(), head)
			if err != nil {
				b.Fatal(err)
			}
			old := cachedWalk{Head: c.Parents[0], Steps: lineOf(b, o, c.Parents[0], parts, cachedWalk{})}
			b.ResetTimer()
			for range b.N {
				lineOf(b, o, head, parts, old)
			}
		})
	}
}

func lineOf(b *testing.B, o *objectstore.Objects, head plumbing.Hash, parts []string, old cachedWalk) []Entry {
	b.Helper()
	steps, err := walkLine(context.WithoutCancel(b.Context()), o, head, parts, old)
	if err != nil {
		b.Fatal(err)
	}
	return steps
}
