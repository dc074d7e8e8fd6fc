package source

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/packindex"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// security.md 6: any pack that a server sends takes bounded time and memory.
func TestHostilePacks(t *testing.T) {
	blob := gittest.ObjectOf("blob", "a: 1\n")
	tree := gittest.ObjectOf("tree", fmt.Sprintf("100644 a.yaml\x00%s", blob.RawID()))
	commit := gittest.ObjectOf("commit", fmt.Sprintf("tree %x\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx\n", tree.RawID()))
	whole := gittest.NewPack(commit, tree, blob).Bytes()
	zeros := func(n int64) io.Reader { return io.LimitReader(endless{}, n) }

	if _, err := fetchPack(t, commit.ID(), whole); err != nil {
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
		"something behind its end":      {append(bytes.Clone(whole), 0), ErrInvalid, "data after its end"},
		"a wrong checksum":              {append(bytes.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1), ErrInvalid, "checksum"},
		"another file":                  {[]byte("<html>" + strings.Repeat(canary, 10)), ErrInvalid, "malformed"},
		"without the commit":            {gittest.NewPack(tree, blob).Bytes(), ErrInvalid, "incomplete"},
		"without the tree":              {gittest.NewPack(commit, blob).Bytes(), ErrInvalid, "incomplete"},
		"without the blob":              {gittest.NewPack(commit, tree).Bytes(), ErrInvalid, "incomplete"},
		"a blob of 1 GiB":               {gittest.NewPack(commit, tree, blob).Raw(3, 1<<30, zeros(1<<20)).Bytes(), ErrInvalid, "at most"},
		"a blob longer than it says":    {gittest.NewPack(commit, tree, blob).Raw(3, 100, zeros(1<<24)).Bytes(), ErrInvalid, "length of an object differs"},
		"a blob shorter than it says":   {gittest.NewPack(commit, tree, blob).Raw(3, 100, zeros(50)).Bytes(), ErrInvalid, "length of an object differs"},
		"a delta that makes 1 GiB":      {gittest.NewPack(commit, tree, blob).RefDelta(blob.RawID(), gittest.Delta(5, 1<<30, 0x80|0x10, 5)).Bytes(), ErrInvalid, "at most"},
		"a delta of a wrong size":       {gittest.NewPack(commit, tree, blob).RefDelta(blob.RawID(), gittest.Delta(5, 1<<20, 0x80|0x10, 5)).Bytes(), ErrInvalid, "malformed"},
		"a delta beyond its base":       {gittest.NewPack(commit, tree, blob).RefDelta(blob.RawID(), gittest.Delta(5, 5, 0x80|0x11, 200, 5)).Bytes(), ErrInvalid, "malformed"},
		"a delta without sizes":         {gittest.NewPack(commit, tree, blob).RefDelta(blob.RawID(), nil).Bytes(), ErrInvalid, "sizes"},
		"a delta of nothing":            {gittest.NewPack(commit, tree, blob).RefDelta([]byte(id1)[:20], gittest.Delta(5, 5, 0x80|0x10, 5)).Bytes(), ErrInvalid, "malformed"},
		"a kind that does not exist":    {gittest.NewPack(commit, tree, blob).Raw(5, 5, zeros(5)).Bytes(), ErrInvalid, "kind 5"},
		"a size that does not end":      {append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\xb0"), bytes.Repeat([]byte{0xff}, 100)...), ErrInvalid, "overflow"},
		"four thousand million objects": {[]byte("PACK\x00\x00\x00\x02\xff\xff\xff\xff" + strings.Repeat("x", 100)), ErrInvalid, "objects"},
		"no zlib":                       {[]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x35" + strings.Repeat("x", 100)), ErrInvalid, "malformed"},
		"another version":               {[]byte("PACK\x00\x00\x00\x09\x00\x00\x00\x01" + strings.Repeat("x", 100)), ErrInvalid, "version"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			_, err := fetchPack(t, commit.ID(), c.pack)
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

// A history that lacks a parent of a commit is rejected.
func TestHistoryWithAHole(t *testing.T) {
	blob := gittest.ObjectOf("blob", "a: 1\n")
	tree := gittest.ObjectOf("tree", fmt.Sprintf("100644 a.yaml\x00%s", blob.RawID()))
	orphan := gittest.ObjectOf("commit", fmt.Sprintf("tree %x\nparent %s\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx\n", tree.RawID(), id1))
	_, err := fetchPack(t, orphan.ID(), gittest.NewPack(orphan, tree, blob).Bytes())
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

// The error for a repository with a large file says so.
func TestLargeObject(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n", "image.iso", strings.Repeat("x", packindex.MaxObjectBytes+1))
	_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: s.push(r, "repo.git")})
	wantError(t, err, ErrInvalid, "an object of 33554433 bytes", "large files")
}

// fetchPack fetches the commit main from a server that responds with a pack.
func fetchPack(t *testing.T, commit string, pack []byte) (*Snapshot, error) {
	t.Helper()
	return newMirrors(t).Fetch(t.Context(), Remote{URL: packServer(t, commit, bytes.NewReader(pack)) + "/x.git", Auth: secret})
}

func packServer(t *testing.T, commit string, pack io.Reader) string {
	t.Helper()
	var data []byte
	if r, ok := pack.(*bytes.Reader); ok { // it can be requested twice
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

// incompressible returns an endless sequence of objects of a pack.
func incompressible() io.Reader {
	one := gittest.NewPack(gittest.ObjectOf("blob", noise(50_000))).Bytes()
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

func readObject(t *testing.T, dir, id string) gittest.Object {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "cat-file", "tree", id)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return gittest.ObjectOf("tree", string(out))
}
