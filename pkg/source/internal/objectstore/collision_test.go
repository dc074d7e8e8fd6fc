package objectstore

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/packindex"
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
			_, err := packindex.Scan(bufio.NewReader(bytes.NewReader(gittest.NewPack(gittest.ObjectOf("blob", pdf)).Bytes())))
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
			entries, err := packindex.Scan(bufio.NewReader(bytes.NewReader(data)))
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
			_, err = entries.WriteIndex(t.Context(), f, io.Discard)
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
		t.Run(name, func(t *testing.T) {
			if err := read(t); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "SHA-1 collision") {
				t.Errorf("got error %v, want one that is invalid and says SHA-1 collision", err)
			}
		})
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
