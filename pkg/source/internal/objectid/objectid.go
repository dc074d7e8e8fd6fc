package objectid

import (
	"crypto"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"
	"github.com/pjbgf/sha1cd"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// NewSHA1 returns the SHA-1 of go-git, which detects the blocks of the known collision
// attacks as git does. crypto/sha1 does not: a server could send one of two objects with
// the same id although the other one was signed.
func NewSHA1() sha1cd.CollisionResistantHash {
	return hash.New(crypto.SHA1).(sha1cd.CollisionResistantHash)
}

// Hash computes the id of one object.
type Hash struct {
	sha1cd.CollisionResistantHash

	kind plumbing.ObjectType
	size int64
}

// NewHash starts the hash of an object with a content of size bytes.
func NewHash(kind plumbing.ObjectType, size int64) Hash {
	h := Hash{NewSHA1(), kind, size}
	fmt.Fprintf(h, "%s %d\x00", kind, size)
	return h
}

// ID returns ErrInvalid for content that was crafted to share its id with another object.
// For such content sha1cd returns an id that is not the SHA-1, so the message does not
// include it.
func (h Hash) ID() (plumbing.Hash, error) {
	sum, collision := h.CollisionResistantSum(nil)
	if collision {
		return plumbing.ZeroHash, fault.New(fault.ErrInvalid, "a %s of %d bytes is part of a SHA-1 collision attack, another object can have its id: remove it from the repository and its history", h.kind, h.size)
	}
	return plumbing.Hash(sum), nil
}

// Sum computes the id of an object with this content. The error is that of Hash.ID.
func Sum(kind plumbing.ObjectType, data []byte) (plumbing.Hash, error) {
	h := NewHash(kind, int64(len(data)))
	h.Write(data)
	return h.ID()
}

// IsValid reports whether s is a full SHA-1 in lower-case hex.
func IsValid(s string) bool {
	if len(s) != 40 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
