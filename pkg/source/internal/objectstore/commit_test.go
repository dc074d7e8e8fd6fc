package objectstore

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// The cache of commits stays bounded when histories are rewritten.
func TestCommitCache(t *testing.T) {
	r := gittest.New(t)
	id := plumbing.NewHash(r.Commit("a.yaml", "a: 1\n"))
	dir, err := os.OpenRoot(filepath.Join(r.Dir, ".git", "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	o, err := OpenObjects(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(MaxCommits) {
		var old plumbing.Hash
		binary.BigEndian.PutUint32(old[:], i)
		o.commits[old] = CommitInfo{}
	}
	if _, err := o.Commit(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, cached := o.commits[id]; !cached || len(o.commits) > MaxCommits {
		t.Errorf("%d commits are cached, the newest one: %t", len(o.commits), cached)
	}
}
