package packindex

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// The index is what git writes, byte by byte: with bases named by place and by id, of
// any order, and with next to no room for objects that many deltas build on.
func TestIndexIsThatOfGit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "repo.git")
	h := gittest.NewHistory(3, 400)
	commits := h.Load(t, dir)
	tip := commits[len(commits)-1]
	objects := gittest.Git(t, dir, "rev-list", "--objects", tip) + "\n"
	gittest.Git(t, dir, "tag", "--annotate", "--message=released", "v1", tip)
	objects += gittest.Git(t, dir, "rev-parse", "v1") + "\n"
	for name, args := range map[string][]string{
		"bases by place":     {"--delta-base-offset"},
		"bases by id":        nil,
		"no deltas":          {"--window=0"},
		"long chains":        {"--delta-base-offset", "--depth=250", "--window=50"},
		"long chains by ids": {"--depth=250", "--window=50"},
	} {
		for _, room := range []int64{1, maxDeltaBytes} {
			t.Run(fmt.Sprintf("%s, %d bytes of room", name, room), func(t *testing.T) {
				packs := t.TempDir()
				gittest.Input(t, dir, strings.NewReader(objects), append([]string{"pack-objects", "--quiet", "--no-reuse-delta", filepath.Join(packs, "p")}, args...)...)
				path := packIn(t, packs)
				f, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				entries, err := Scan(bufio.NewReader(f))
				if err != nil {
					t.Fatal(err)
				}
				if len(entries.waiting) == 0 != (args != nil && args[0] != "--depth=250") {
					t.Errorf("%d bases are named by id", len(entries.waiting))
				}
				limits := defaultPackLimits()
				limits.deltaMemory = room
				var got bytes.Buffer
				if _, err := entries.index(t.Context(), f, limits, &got); err != nil {
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

// Offsets of 2 GiB and more are in a table of their own.
func TestIndexOfALargePack(t *testing.T) {
	var p Entries
	for i, offset := range []int64{12, 1<<31 - 1, 1 << 31, 1 << 40} {
		e := entry{offset: offset}
		e.id[0] = byte(i)
		p.list = append(p.list, e)
	}
	var out bytes.Buffer
	if err := p.encodeIndex(&out); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pack.idx")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := gittest.Input(t, t.TempDir(), bytes.NewReader(out.Bytes()), "show-index")
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
	waits.RefDelta(bytes.Repeat([]byte{0x31}, 20), whole)
	waits.OfsDelta(waits.Body.Len()-at, whole)
	other := gittest.ObjectOf("blob", strings.Repeat("x", 50))
	circle := gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 50, 0x80|0x10, 50))
	circle.RefDelta(other.RawID(), gittest.Delta(50, 100, 0x80|0x10, 50, 0x80|0x10, 50))
	chain := gittest.NewPack(blob)
	for range maxDeltaDepth + 1 {
		chain.OfsDelta(chain.Last, whole)
	}
	const large = 1 << 10
	insertion := binary.AppendUvarint(nil, 100)
	insertion = binary.AppendUvarint(insertion, large)
	insertion = append(insertion, bytes.Repeat(append([]byte{0x40}, make([]byte, 0x40)...), large/0x40)...)
	_, second := binary.Uvarint(insertion)
	next := append(binary.AppendUvarint(nil, large), insertion[second:]...)
	limits := defaultPackLimits()
	limits.chain = 20 * large
	wide := gittest.NewPack(blob).OfsDelta(gittest.NewPack(blob).Last, insertion)
	for range limits.chain / large {
		wide.OfsDelta(wide.Last, next)
	}
	endless := gittest.NewPack(blob)
	endless.Count++
	endless.Body.WriteString("\x65" + strings.Repeat("\xff", 10))
	for name, c := range map[string]struct {
		pack *gittest.Pack
		says string
	}{
		"a base inside another object":     {gittest.NewPack(blob).OfsDelta(3, whole), "is not an object"},
		"a base before the pack":           {gittest.NewPack(blob).OfsDelta(1<<20, whole), "invalid OFS delta offset"},
		"its own base":                     {gittest.NewPack(blob).OfsDelta(0, whole), "invalid OFS delta offset"},
		"a base that waits for none":       {waits, "base is missing"},
		"a distance that does not end":     {endless, "overflow"},
		"deltas in a circle":               {circle, "twice"},
		"deltas that build on each other":  {chain, "more than 4095"},
		"large deltas on each other":       {wide, "more than 20480 bytes"},
		"an instruction that is none":      {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 100, 0)), "wrong delta command"},
		"a copy that is cut short":         {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 100, 0x80|0x7f, 1, 2)), "invalid delta"},
		"an insertion that is cut short":   {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 100, 50, 'x')), "invalid delta"},
		"more than it says":                {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 10, 0x80|0x10, 100)), "invalid delta"},
		"less than it says":                {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(100, 200, 0x80|0x10, 100)), "invalid delta"},
		"another base than it was made of": {gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(99, 99, 0x80|0x10, 99)), "invalid delta"},
	} {
		t.Run(name, func(t *testing.T) {
			err := indexOf(t, c.pack.Bytes(), limits)
			wantInvalid(t, err, c.says)
		})
	}
	// Without bases by ids it does not matter which of two is meant.
	twice := gittest.NewPack(blob, blob)
	if err := indexOf(t, twice.OfsDelta(twice.Last, whole).Bytes(), limits); err != nil {
		t.Errorf("an object that is there twice: %v", err)
	}
}

// security.md 6: a trunk of small deltas, each with a branch of its own, is made again
// for each of them if memory is too small to retain it.
func TestDeltasThatAreMadeAgain(t *testing.T) {
	limits := defaultPackLimits()
	limits.again = 100 * remakeCost * 100
	blob := gittest.ObjectOf("blob", "x")
	whole := gittest.Delta(1, 1, 0x80|0x10, 1)
	p := gittest.NewPack(blob)
	base := 0
	for range 150 {
		p.OfsDelta(p.Body.Len()-base, whole)
		next := p.Body.Len()
		p.OfsDelta(p.Body.Len()-base, whole)
		base = next
	}
	if err := indexOf(t, p.Bytes(), limits); err != nil {
		t.Errorf("with room for all of it: %v", err)
	}
	limits.deltaMemory = 0
	wantInvalid(t, indexOf(t, p.Bytes(), limits), "interleaved")
}

func indexOf(t *testing.T, pack []byte, limits packLimits) error {
	t.Helper()
	entries, err := Scan(bufio.NewReader(bytes.NewReader(pack)))
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
	_, err = entries.index(t.Context(), f, limits, io.Discard)
	return err
}

// FuzzPack feeds a pack to both passes: neither panics, and what the first lets
// through the second indexes or refuses.
func FuzzPack(f *testing.F) {
	blob := gittest.ObjectOf("blob", "a: 1\n")
	f.Add(gittest.NewPack(blob).Bytes())
	f.Add(gittest.NewPack(blob).RefDelta(blob.RawID(), gittest.Delta(5, 5, 0x80|0x10, 5)).Bytes())
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := Scan(bufio.NewReader(bytes.NewReader(data)))
		if err != nil {
			return
		}
		file, err := os.Create(filepath.Join(t.TempDir(), "pack"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.Write(data); err != nil {
			t.Fatal(err)
		}
		if _, err := entries.index(t.Context(), file, defaultPackLimits(), io.Discard); err != nil && !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("the second pass: %v", err)
		}
	})
}

// wantInvalid checks that an error is ErrInvalid, and what it says.
func wantInvalid(t testing.TB, err error, says string) {
	t.Helper()
	if !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), says) {
		t.Errorf("got error %v, want one that is invalid and says %q", err, says)
	}
}

func packIn(t testing.TB, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.pack"))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	return found[0]
}
