package mirror

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// Commits of histories that were rewritten do not count for ever.
func TestCommitsOfManyHistories(t *testing.T) {
	r := gittest.New(t)
	m := New(filepath.Join(t.TempDir(), "mirror"))
	fetch := func(_ context.Context, wants, haves []plumbing.Hash, read func(io.Reader) error) error {
		var revisions strings.Builder
		for _, id := range wants {
			fmt.Fprintln(&revisions, id)
		}
		for _, id := range haves {
			fmt.Fprintf(&revisions, "^%s\n", id)
		}
		dir := t.TempDir()
		gittest.Input(t, r.Dir, strings.NewReader(revisions.String()), "pack-objects", "--quiet", "--revs", filepath.Join(dir, "p"))
		packs, err := filepath.Glob(filepath.Join(dir, "*.pack"))
		if err != nil || len(packs) != 1 {
			t.Fatalf("found %v, %v", packs, err)
		}
		f, err := os.Open(packs[0])
		if err != nil {
			return err
		}
		defer f.Close()
		return read(f)
	}
	push := func(content string) {
		t.Helper()
		head := []plumbing.Hash{plumbing.NewHash(r.Commit("a.yaml", content))}
		if err := m.Load(); err != nil {
			t.Fatal(err)
		}
		if err := m.Update(t.Context(), head[0], head, head, fetch); err != nil {
			t.Fatal(err)
		}
	}
	push("a: 1\n")
	for i := range uint32(objectstore.MaxCommits) {
		var id plumbing.Hash
		binary.BigEndian.PutUint32(id[:], i)
		m.complete[id] = true
	}
	push("a: 2\n")
	if n := len(m.complete); n > objectstore.MaxCommits {
		t.Errorf("%d commits are known to be whole", n)
	}
}
