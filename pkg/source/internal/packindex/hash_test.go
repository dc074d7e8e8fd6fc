package packindex

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	stdhash "hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pjbgf/sha1cd"

	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// undetecting is crypto/sha1, for comparison.
type undetecting struct{ stdhash.Hash }

func (u undetecting) CollisionResistantSum(b []byte) ([]byte, bool) { return u.Sum(b), false }

// BenchmarkPackHash is what the detection costs when a pack arrives and is indexed.
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
				entries, err := Scan(bufio.NewReader(bytes.NewReader(data)))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := entries.WriteIndex(b.Context(), file, io.Discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
