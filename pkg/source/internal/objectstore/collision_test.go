package objectstore

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	stdhash "hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/pjbgf/sha1cd"

	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// Every reader of objects rejects content that collides with another object's
// (security.md 43).
func TestCollision(t *testing.T) {
	bytesOf, other := gittest.Shattered(t)
	gittest.HashWithoutHeaders(t)
	pdf := string(bytesOf)
	for name, read := range map[string]func(*testing.T) error{
		"an object of a pack": func(*testing.T) error {
			_, err := scanPack(bufio.NewReader(bytes.NewReader(gittest.NewPack(gittest.ObjectOf("blob", pdf)).Bytes())))
			return err
		},
		"a delta of a pack": func(t *testing.T) error {
			p := gittest.NewPack(gittest.ObjectOf("blob", "x"))
			insert := []byte{}
			for rest := bytesOf; len(rest) > 0; {
				n := min(len(rest), 0x7f)
				insert = append(append(insert, byte(n)), rest[:n]...)
				rest = rest[n:]
			}
			data := p.OfsDelta(p.Last, gittest.Delta(1, uint64(len(pdf)), insert...)).Bytes()
			entries, err := scanPack(bufio.NewReader(bytes.NewReader(data)))
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.Create(filepath.Join(t.TempDir(), "pack"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.Write(data); err != nil {
				t.Fatal(err)
			}
			_, err = entries.index(t.Context(), f, defaultPackLimits(), io.Discard)
			return err
		},
		"an object of a repository": func(t *testing.T) error {
			_, err := looseObject(t, bytesOf).Blob(t.Context(), rawID(bytesOf))
			return err
		},
		"the other object of its id": func(t *testing.T) error {
			_, err := looseObject(t, other).Blob(t.Context(), rawID(bytesOf))
			return err
		},
		"what a revision names": func(t *testing.T) error {
			_, err := looseObject(t, bytesOf).Peel(t.Context(), rawID(bytesOf))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantInvalid(t, read(t), "SHA-1 collision") })
	}
}

// looseObject is a repository with one blob, in the file of the id of its content alone.
func looseObject(t *testing.T, content []byte) *Objects {
	t.Helper()
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	if _, err := z.Write(append([]byte("blob 320\x00"), content...)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, loosePath(rawID(content)))
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return NewObjects(root)
}

func rawID(content []byte) plumbing.Hash { return sha1.Sum(content) }

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
		id, err := ObjectID(plumbing.BlobObject, data)
		if want := gittest.ObjectOf("blob", string(data)).ID(); err != nil || id.String() != want {
			t.Errorf("got %s, %v, want %s", id, err, want)
		}
	}
}

// undetecting is crypto/sha1, for comparison.
type undetecting struct{ stdhash.Hash }

func (u undetecting) CollisionResistantSum(b []byte) ([]byte, bool) { return u.Sum(b), false }

// BenchmarkPackHash is what the detection costs where a pack arrives and is indexed.
func BenchmarkPackHash(b *testing.B) {
	p := new(gittest.Pack)
	for i := range 2000 {
		p.Add(gittest.ObjectOf("blob", strings.Repeat("a line of a profile: "+strings.Repeat("x", i%50)+"\n", 50)))
	}
	data := p.Bytes()
	for name, f := range map[string]func() stdhash.Hash{
		"crypto-sha1": func() stdhash.Hash { return undetecting{sha1.New()} },
		"sha1cd":      sha1cd.New,
	} {
		b.Run(name, func(b *testing.B) {
			gittest.RegisterHash(b, f)
			file, err := os.Create(filepath.Join(b.TempDir(), "pack"))
			if err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			if _, err := file.Write(data); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				entries, err := scanPack(bufio.NewReader(bytes.NewReader(data)))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := entries.index(b.Context(), file, defaultPackLimits(), io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
