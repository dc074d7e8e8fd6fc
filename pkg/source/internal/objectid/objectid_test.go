package objectid

import (
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// The hash that go-git and this package use detects a collision, and is the SHA-1 of
// everything else (security.md 43).
func TestHashDetectsCollisions(t *testing.T) {
	one, other := gittest.Shattered(t)
	for _, data := range [][]byte{one, other} {
		h := NewSHA1()
		h.Write(data)
		if sum, collision := h.CollisionResistantSum(nil); !collision {
			t.Errorf("no collision is detected in what has the SHA-1 %x", sum)
		}
	}
	// With the header of a blob it is a file as any other, which git takes as well.
	for _, data := range [][]byte{one, nil, []byte("a: 1\n")} {
		id, err := Sum(plumbing.BlobObject, data)
		if want := gittest.ObjectOf("blob", string(data)).ID(); err != nil || id.String() != want {
			t.Errorf("got %s, %v, want %s", id, err, want)
		}
	}
}
