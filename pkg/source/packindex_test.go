package source

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// The index is what git writes, byte by byte: with bases named by place and by id, of
// any order, and with next to no room for objects that many deltas build on.
func TestIndexIsThatOfGit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "repo.git")
	h := gittest.NewHistory(3, 400)
	commits := h.Load(t, dir)
	tip := string(commits[len(commits)-1])
	objects := git(t, dir, "rev-list", "--objects", tip) + "\n"
	git(t, dir, "tag", "--annotate", "--message=released", "v1", tip)
	objects += git(t, dir, "rev-parse", "v1") + "\n"
	for name, args := range map[string][]string{
		"bases by place":     {"--delta-base-offset"},
		"bases by id":        nil,
		"no deltas":          {"--window=0"},
		"long chains":        {"--delta-base-offset", "--depth=250", "--window=50"},
		"long chains by ids": {"--depth=250", "--window=50"},
	} {
		for _, room := range []int64{1, objectstore.MaxDeltaBytes} {
			t.Run(fmt.Sprintf("%s, %d bytes of room", name, room), func(t *testing.T) {
				packs := t.TempDir()
				gitInput(t, dir, strings.NewReader(objects), append([]string{"pack-objects", "--quiet", "--no-reuse-delta", filepath.Join(packs, "p")}, args...)...)
				path := glob(t, packs, "*.pack")[0]
				f, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				entries, err := objectstore.ScanPack(bufio.NewReader(f))
				if err != nil {
					t.Fatal(err)
				}
				if len(entries.Waiting) == 0 != (args != nil && args[0] != "--depth=250") {
					t.Errorf("%d bases are named by id", len(entries.Waiting))
				}
				var got bytes.Buffer
				if _, err := entries.IndexPack(t.Context(), f, room, &got); err != nil {
					t.Fatal(err)
				}
				want, err := os.ReadFile(strings.TrimSuffix(path, ".pack") + ".idx")
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got.Bytes(), want) {
					t.Errorf("the index differs: %d bytes, git's has %d", got.Len(), len(want))
				}
			})
		}
	}
}

// Offsets of 2 GiB and more stand in a table of their own.
func TestIndexOfALargePack(t *testing.T) {
	var p objectstore.PackEntries
	for i, offset := range []int64{12, 1<<31 - 1, 1 << 31, 1 << 40} {
		e := objectstore.PackEntry{Offset: offset}
		e.ID[0] = byte(i)
		p.List = append(p.List, e)
	}
	var out bytes.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pack.idx")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := gitInput(t, t.TempDir(), bytes.NewReader(out.Bytes()), "show-index")
	var offsets []string
	for line := range strings.Lines(shown) {
		offset, _, _ := strings.Cut(line, " ")
		offsets = append(offsets, offset)
	}
	if got := strings.Join(offsets, " "); got != "12 2147483647 2147483648 1099511627776" {
		t.Errorf("git reads the offsets %s", got)
	}
}

// security.md 6: deltas that a server entangles cost bounded time and memory.
func TestHostileDeltas(t *testing.T) {
	blob := gittest.ObjectOf("blob", strings.Repeat("x", 100))
	whole := gittest.Delta(100, 100, 0x80|0x10, 100) // a copy of its base
	waits := gittest.NewPack(blob)
	at := waits.Body.Len()
	waits.RefDelta([]byte(id1)[:20], whole)
	waits.OfsDelta(waits.Body.Len()-at, whole)
	other := gittest.ObjectOf("blob", strings.Repeat("x", 50))
	circle := gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 50, 0x80|0x10, 50))
	circle.RefDelta(other.RawID(), gittest.Delta(50, 100, 0x80|0x10, 50, 0x80|0x10, 50))
	chain := gittest.NewPack(blob)
	for range objectstore.MaxDeltaDepth + 1 {
		chain.OfsDelta(chain.Last, whole)
	}
	insertion := binary.AppendUvarint(nil, 100)
	const large = (objectstore.MaxObjectBytes - 32) / 0x80 * 0x7f
	insertion = binary.AppendUvarint(insertion, large)
	insertion = append(insertion, bytes.Repeat(append([]byte{0x7f}, make([]byte, 0x7f)...), large/0x7f)...)
	_, second := binary.Uvarint(insertion)
	next := append(binary.AppendUvarint(nil, large), insertion[second:]...)
	wide := gittest.NewPack(blob).OfsDelta(gittest.NewPack(blob).Last, insertion)
	for range objectstore.MaxChainBytes / large {
		wide.OfsDelta(wide.Last, next)
	}
	endless := gittest.NewPack(blob)
	endless.Count++
	endless.Body.WriteString("\x65" + strings.Repeat("\xff", 10))
	for name, c := range map[string]struct {
		pack *gittest.Pack
		says string
	}{
		"a base inside another object":     {gittest.NewPack(blob).OfsDelta(3, whole), "no object"},
		"a base before the pack":           {gittest.NewPack(blob).OfsDelta(1<<20, whole), "invalid OFS delta offset"},
		"its own base":                     {gittest.NewPack(blob).OfsDelta(0, whole), "invalid OFS delta offset"},
		"a base that waits for none":       {waits, "base is missing"},
		"a distance that does not end":     {endless, "overflow"},
		"deltas in a circle":               {circle, "twice"},
		"deltas that build on each other":  {chain, "more than 4095"},
		"large deltas on each other":       {wide, "more than 268435456 bytes"},
		"an instruction that is none":      {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 100, 0)), "wrong delta command"},
		"a copy that is cut short":         {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 100, 0x80|0x7f, 1, 2)), "invalid delta"},
		"an insertion that is cut short":   {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 100, 50, 'x')), "invalid delta"},
		"more than it says":                {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 10, 0x80|0x10, 100)), "invalid delta"},
		"less than it says":                {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 200, 0x80|0x10, 100)), "invalid delta"},
		"another base than it was made of": {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(99, 99, 0x80|0x10, 99)), "invalid delta"},
	} {
		t.Run(name, func(t *testing.T) {
			err := indexOf(t, c.pack.Bytes(), objectstore.MaxDeltaBytes)
			wantError(t, err, ErrInvalid, c.says)
		})
	}
	// Without bases by ids it does not matter which of two is meant.
	twice := gittest.NewPack(blob, blob)
	if err := indexOf(t, twice.OfsDelta(twice.Last, whole).Bytes(), objectstore.MaxDeltaBytes); err != nil {
		t.Errorf("an object that is there twice: %v", err)
	}
}

// security.md 6: a trunk of small deltas, each with a branch of its own, is made again
// for each of them where there is no room to keep it.
func TestDeltasThatAreMadeAgain(t *testing.T) {
	blob := gittest.ObjectOf("blob", "x")
	whole := gittest.Delta(1, 1, 0x80|0x10, 1)
	p := gittest.NewPack(blob)
	base := 0
	for range 1500 {
		p.OfsDelta(p.Body.Len()-base, whole)
		next := p.Body.Len()
		p.OfsDelta(p.Body.Len()-base, whole)
		base = next
	}
	if err := indexOf(t, p.Bytes(), objectstore.MaxDeltaBytes); err != nil {
		t.Errorf("with room for all of it: %v", err)
	}
	wantError(t, indexOf(t, p.Bytes(), 0), ErrInvalid, "entangled")
}

func indexOf(t *testing.T, pack []byte, room int64) error {
	t.Helper()
	entries, err := objectstore.ScanPack(bufio.NewReader(bytes.NewReader(pack)))
	if err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "pack"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(pack); err != nil {
		t.Fatal(err)
	}
	_, err = entries.IndexPack(t.Context(), f, room, io.Discard)
	return err
}
