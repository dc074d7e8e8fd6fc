package source

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// security.md 6: what a server sends as a pack costs bounded time and memory.
func TestHostilePacks(t *testing.T) {
	blob := objectOf("blob", "a: 1\n")
	tree := objectOf("tree", fmt.Sprintf("100644 a.yaml\x00%s", blob.rawID()))
	commit := objectOf("commit", fmt.Sprintf("tree %x\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx\n", tree.rawID()))
	whole := newPack(commit, tree, blob).bytes()
	zeros := func(n int64) io.Reader { return io.LimitReader(endless{}, n) }

	if _, err := fetchPack(t, commit.id(), whole); err != nil {
		t.Fatalf("an honest pack: %v", err)
	}
	for name, c := range map[string]struct {
		pack []byte
		kind error
		says string
	}{
		"cut short":                     {whole[:len(whole)/2], ErrUnreachable, "early"},
		"without its end":               {whole[:len(whole)-10], ErrUnreachable, "early"},
		"nothing":                       {nil, ErrUnreachable, ""},
		"something behind its end":      {append(bytes.Clone(whole), 0), ErrInvalid, "follows"},
		"a wrong checksum":              {append(bytes.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1), ErrInvalid, "checksum"},
		"another file":                  {[]byte("<html>" + strings.Repeat(canary, 10)), ErrInvalid, "malformed"},
		"without the commit":            {newPack(tree, blob).bytes(), ErrInvalid, "incomplete"},
		"without the tree":              {newPack(commit, blob).bytes(), ErrInvalid, "incomplete"},
		"without the blob":              {newPack(commit, tree).bytes(), ErrInvalid, "incomplete"},
		"a blob of 1 GiB":               {newPack(commit, tree, blob).raw(3, 1<<30, zeros(1<<20)).bytes(), ErrInvalid, "at most"},
		"a blob longer than it says":    {newPack(commit, tree, blob).raw(3, 100, zeros(1<<24)).bytes(), ErrInvalid, "not as long"},
		"a blob shorter than it says":   {newPack(commit, tree, blob).raw(3, 100, zeros(50)).bytes(), ErrInvalid, "not as long"},
		"a delta that makes 1 GiB":      {newPack(commit, tree, blob).refDelta(blob.rawID(), delta(5, 1<<30, 0x80|0x10, 5)).bytes(), ErrInvalid, "at most"},
		"a delta of a wrong size":       {newPack(commit, tree, blob).refDelta(blob.rawID(), delta(5, 1<<20, 0x80|0x10, 5)).bytes(), ErrInvalid, "malformed"},
		"a delta beyond its base":       {newPack(commit, tree, blob).refDelta(blob.rawID(), delta(5, 5, 0x80|0x11, 200, 5)).bytes(), ErrInvalid, "malformed"},
		"a delta without sizes":         {newPack(commit, tree, blob).refDelta(blob.rawID(), nil).bytes(), ErrInvalid, "sizes"},
		"a delta of nothing":            {newPack(commit, tree, blob).refDelta([]byte(id1)[:20], delta(5, 5, 0x80|0x10, 5)).bytes(), ErrInvalid, "malformed"},
		"a kind that does not exist":    {newPack(commit, tree, blob).raw(5, 5, zeros(5)).bytes(), ErrInvalid, "kind 5"},
		"a size that does not end":      {append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\xb0"), bytes.Repeat([]byte{0xff}, 100)...), ErrInvalid, "overflow"},
		"four thousand million objects": {[]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff" + strings.Repeat("x", 100)), ErrInvalid, "objects"},
		"no zlib":                       {[]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x35" + strings.Repeat("x", 100)), ErrInvalid, "malformed"},
		"another version":               {[]byte("PACK\x00\x00\x00\x09\x00\x00\x00\x01" + strings.Repeat("x", 100)), ErrInvalid, "version"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			_, err := fetchPack(t, commit.id(), c.pack)
			wantError(t, err, c.kind, c.says)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("%d bytes of memory were allocated", used)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// A history that ends where it says it goes on is none.
func TestHistoryWithAHole(t *testing.T) {
	blob := objectOf("blob", "a: 1\n")
	tree := objectOf("tree", fmt.Sprintf("100644 a.yaml\x00%s", blob.rawID()))
	orphan := objectOf("commit", fmt.Sprintf("tree %x\nparent %s\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx\n", tree.rawID(), id1))
	_, err := fetchPack(t, orphan.id(), newPack(orphan, tree, blob).bytes())
	wantError(t, err, ErrInvalid, "incomplete", id1)
}

func TestEndlessPack(t *testing.T) {
	server := packServer(t, id1, io.MultiReader(strings.NewReader("PACK\x00\x00\x00\x02\x00\x01\x00\x00"), incompressible()))
	m := newMirrors(t)
	m.MaxPackBytes = 1 << 20
	_, err := m.Fetch(t.Context(), Remote{URL: server + "/x.git", Auth: secret})
	wantError(t, err, ErrInvalid, "more than 1048576 bytes")
	if left, _ := filepath.Glob(filepath.Join(m.Dir, "*", "incoming-*")); left != nil {
		t.Errorf("it left %v", left)
	}
}

// A repository that simply has a large file is told so.
func TestLargeObject(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n", "image.iso", strings.Repeat("x", objectstore.MaxObjectBytes+1))
	_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: s.push(r, "repo.git")})
	wantError(t, err, ErrInvalid, "an object of 33554433 bytes", "large files")
}

// fetchPack fetches main, which is a commit, from a server that answers with a pack.
func fetchPack(t *testing.T, commit string, pack []byte) (*Snapshot, error) {
	t.Helper()
	return newMirrors(t).Fetch(t.Context(), Remote{URL: packServer(t, commit, bytes.NewReader(pack)) + "/x.git", Auth: secret})
}

func packServer(t *testing.T, commit string, pack io.Reader) string {
	t.Helper()
	var data []byte
	if r, ok := pack.(*bytes.Reader); ok { // it may be asked for twice
		data, _ = io.ReadAll(r)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/info/refs") {
			_, _ = io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+pkt(commit+" refs/heads/main\x00ofs-delta\n")+"0000")
			return
		}
		_, _ = io.WriteString(w, pkt("NAK\n"))
		if data != nil {
			_, _ = w.Write(data)
			return
		}
		_, _ = io.Copy(w, pack)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// incompressible is an endless row of objects of a pack.
func incompressible() io.Reader {
	one := newPack(objectOf("blob", noise(50_000))).bytes()
	object := one[12 : len(one)-20]
	return io.MultiReader(repeat(object, 1000))
}

func repeat(data []byte, times int) io.Reader {
	var readers []io.Reader
	for range times {
		readers = append(readers, bytes.NewReader(data))
	}
	return io.MultiReader(readers...)
}

// object is one for a pack made by hand.
type object struct {
	kind, content string
}

func objectOf(kind, content string) object { return object{kind, content} }

func (o object) rawID() []byte {
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", o.kind, len(o.content), o.content))
	return sum[:]
}

func (o object) id() string { return hex.EncodeToString(o.rawID()) }

func readObject(t *testing.T, dir, id string) object {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "cat-file", "tree", id)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return objectOf("tree", string(out))
}

// packWriter makes packs, also such as no git makes.
type packWriter struct {
	count uint32
	body  bytes.Buffer
	last  int // how many bytes the last object has
}

func newPack(objects ...object) *packWriter {
	p := new(packWriter)
	for _, o := range objects {
		p.add(o)
	}
	return p
}

func (p *packWriter) add(o object) *packWriter {
	kind := map[string]byte{"commit": 1, "tree": 2, "blob": 3}[o.kind]
	return p.raw(kind, int64(len(o.content)), strings.NewReader(o.content))
}

func (p *packWriter) raw(kind byte, size int64, content io.Reader) *packWriter {
	begin := p.body.Len()
	p.header(kind, size)
	p.deflate(content)
	p.last = p.body.Len() - begin
	return p
}

// ofsDelta adds a delta on the object that begins so many bytes before it.
func (p *packWriter) ofsDelta(distance int, delta []byte) *packWriter {
	begin := p.body.Len()
	p.header(6, int64(len(delta)))
	d := []byte{byte(distance & 0x7f)}
	for distance > 0x7f {
		distance = distance>>7 - 1
		d = append([]byte{byte(distance&0x7f) | 0x80}, d...)
	}
	p.body.Write(d)
	p.deflate(bytes.NewReader(delta))
	p.last = p.body.Len() - begin
	return p
}

func (p *packWriter) refDelta(base []byte, delta []byte) *packWriter {
	p.header(7, int64(len(delta)))
	p.body.Write(base)
	p.deflate(bytes.NewReader(delta))
	return p
}

func (p *packWriter) header(kind byte, size int64) {
	p.count++
	b := kind<<4 | byte(size&0x0f)
	for size >>= 4; size > 0; size >>= 7 {
		p.body.WriteByte(b | 0x80)
		b = byte(size & 0x7f)
	}
	p.body.WriteByte(b)
}

func (p *packWriter) deflate(content io.Reader) {
	z := zlib.NewWriter(&p.body)
	if _, err := io.Copy(z, content); err != nil {
		panic(err)
	}
	z.Close()
}

func (p *packWriter) bytes() []byte {
	out := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), p.count)
	out = append(out, p.body.Bytes()...)
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

func delta(from, to uint64, instructions ...byte) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, from), to), instructions...)
}

// FuzzPack feeds a pack to both passes: neither panics, and what the first lets
// through the second indexes or refuses.
func FuzzPack(f *testing.F) {
	blob := objectOf("blob", "a: 1\n")
	f.Add(newPack(blob).bytes())
	f.Add(newPack(blob).refDelta(blob.rawID(), delta(5, 5, 0x80|0x10, 5)).bytes())
	f.Add([]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := objectstore.ScanPack(bufio.NewReader(bytes.NewReader(data)))
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
		if _, err := entries.IndexPack(t.Context(), file, objectstore.MaxDeltaBytes, io.Discard); err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("the second pass: %v", err)
		}
	})
}
