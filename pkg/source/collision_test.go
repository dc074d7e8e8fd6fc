package source

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto"
	"crypto/sha1"
	stdhash "hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"
	"github.com/pjbgf/sha1cd"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// shattered returns the first 320 bytes of both PDF files of the first SHA-1 collision,
// which have one SHA-1: https://shattered.io. The tests of sha1cd carry the files.
func shattered(t testing.TB) (one, other []byte) {
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
		t.Fatal("the files are no collision")
	}
	return one, other
}

// headless hashes an object's content without its header. Nobody has computed a
// collision of two Git objects yet, so the bytes of the PDF files have to be the first
// ones that are hashed.
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

func withoutHeaders(t *testing.T) {
	t.Helper()
	register(t, func() stdhash.Hash { return headless{sha1cd.New().(sha1cd.CollisionResistantHash)} })
}

func register(t testing.TB, f func() stdhash.Hash) {
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

// Every reader of objects refuses content that collides with another object's
// (security.md 43).
func TestCollision(t *testing.T) {
	bytesOf, other := shattered(t)
	withoutHeaders(t)
	pdf := string(bytesOf)
	const refused = "SHA-1 collision"

	for name, read := range map[string]func(*testing.T) error{
		"an object of a pack": func(*testing.T) error {
			_, err := objectstore.ScanPack(bufio.NewReader(bytes.NewReader(gittest.NewPack(gittest.ObjectOf("blob", pdf)).Bytes())))
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
			entries, err := objectstore.ScanPack(bufio.NewReader(bytes.NewReader(data)))
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
			_, err = entries.IndexPack(t.Context(), f, objectstore.MaxDeltaBytes, io.Discard)
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
		"a folder": func(t *testing.T) error {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.yaml"), bytesOf, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Directory{Root: dir, Path: dir}.Read(t.Context())
			return err
		},
		"built-in files": func(t *testing.T) error {
			_, err := Embedded{FS: fstest.MapFS{"a.yaml": {Data: bytesOf}}}.Read(t.Context())
			return err
		},
		"an artifact": func(t *testing.T) error {
			f := newFiles(t)
			_, err := newArtifacts(t, f).Read(t.Context(), f.artifact(tarGz(t, tarFile("a.yaml", pdf))))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, read(t), ErrInvalid, refused) })
	}
}

// looseObject is a repository with one blob, in the file of the id of its content alone.
func looseObject(t *testing.T, content []byte) *objectstore.Objects {
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
	name := filepath.Join(dir, objectstore.LoosePath(rawID(content)))
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
	return objectstore.NewObjects(root)
}

func rawID(content []byte) plumbing.Hash { return sha1.Sum(content) }

// The hash that go-git and this package use detects a collision, and is the SHA-1 of
// everything else (security.md 43).
func TestHashDetectsCollisions(t *testing.T) {
	one, other := shattered(t)
	for _, data := range [][]byte{one, other} {
		h := objectstore.NewSHA1()
		h.Write(data)
		if sum, collision := h.CollisionResistantSum(nil); !collision {
			t.Errorf("no collision is detected in what has the SHA-1 %x", sum)
		}
	}
	// With the header of a blob it is a file as any other, which git takes as well.
	for _, data := range [][]byte{one, nil, []byte("a: 1\n")} {
		id, err := objectstore.ObjectID(plumbing.BlobObject, data)
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
			register(b, f)
			file, err := os.Create(filepath.Join(b.TempDir(), "pack"))
			if err != nil {
				b.Fatal(err)
			}
			defer file.Close()
			if _, err := file.Write(data); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				entries, err := objectstore.ScanPack(bufio.NewReader(bytes.NewReader(data)))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := entries.IndexPack(b.Context(), file, objectstore.MaxDeltaBytes, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
