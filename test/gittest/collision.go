package gittest

import (
	"bytes"
	"crypto"
	"crypto/sha1"
	stdhash "hash"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/hash"
	"github.com/pjbgf/sha1cd"
)

// Shattered returns the first 320 bytes of both PDF files of the first SHA-1 collision,
// which have one SHA-1: https://shattered.io. The tests of sha1cd carry the files.
func Shattered(t testing.TB) (one, other []byte) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/pjbgf/sha1cd").Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "test/testdata/files", name))
		if err != nil {
			t.Fatal(err)
		}
		return data[:320]
	}
	one, other = read("shattered-1.pdf"), read("shattered-2.pdf")
	if bytes.Equal(one, other) || sha1.Sum(one) != sha1.Sum(other) {
		t.Fatal("the files do not collide")
	}
	return one, other
}

// headless hashes an object's content without its header. No collision of two Git objects has been
// published, so the bytes of the PDF files must be the first ones that are hashed.
type headless struct {
	sha1cd.CollisionResistantHash
}

var objectHeader = regexp.MustCompile(`^(blob|tree|commit|tag) [0-9]+\x00$`)

func (h headless) Write(p []byte) (int, error) {
	if objectHeader.Match(p) {
		return len(p), nil
	}
	return h.CollisionResistantHash.Write(p)
}

// HashWithoutHeaders makes go-git hash an object's content alone, so that the collision of two
// PDF files is one of two objects.
func HashWithoutHeaders(t *testing.T) {
	t.Helper()
	RegisterHash(t, func() stdhash.Hash { return headless{sha1cd.New().(sha1cd.CollisionResistantHash)} })
}

// RegisterHash makes go-git use a hash until the test ends.
func RegisterHash(t testing.TB, f func() stdhash.Hash) {
	t.Helper()
	t.Cleanup(func() {
		if err := hash.RegisterHash(crypto.SHA1, sha1cd.New); err != nil {
			t.Error(err)
		}
	})
	if err := hash.RegisterHash(crypto.SHA1, f); err != nil {
		t.Fatal(err)
	}
}
