package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/mirror"
)

// Many pushes leave few packs: when there are mirror.MaxPacks, the next fetch gets the whole
// repository as one pack.
func TestManyPushesBecomeOnePack(t *testing.T) {
	t.Parallel()
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("noise.bin", noise(300_000))
	remote := Remote{URL: s.push(r, "repo.git")}
	first := mustFetch(t, m, remote)
	var early *Snapshot
	fewest, most, whole := mirror.MaxPacks, 0, 0
	for i := range mirror.MaxPacks + 5 {
		// Every third push reverts to content in an older pack.
		r.commit("a.yaml", strings.Repeat("x", i%3+1)+"\n", "b.txt", noise(10))
		s.push(r, "repo.git")
		var got *Snapshot
		_, size := s.cost(func() { got = mustFetch(t, m, remote) })
		if size > 10_000 {
			whole++
		}
		if len(got.Line) != i+1 {
			t.Fatalf("after %d pushes the line has %d steps", i+1, len(got.Line))
		}
		if early == nil {
			early = got
		}
		packs := len(glob(t, mirrorDir(t, m), "objects/pack/*.pack"))
		most = max(most, packs)
		if i > mirror.MaxPacks-3 {
			fewest = min(fewest, packs)
		}
	}
	if most != mirror.MaxPacks || fewest != 1 {
		t.Errorf("there were up to %d packs, and %d afterwards", most, fewest)
	}
	if whole != 1 {
		t.Errorf("%d pushes made it fetch all of it", whole)
	}
	git(t, mirrorDir(t, m), "fsck", "--full", "--strict", "--no-dangling")
	if left := len(glob(t, mirrorDir(t, m), "objects/pack/*")); left > 2*7 { // one pack, and those of the six pushes since
		t.Errorf("%d files are left", left)
	}
	// Earlier snapshots remain readable, and a new process reads the same.
	if data, err := early.Read(t.Context(), early.Line[0].Changes[0].Blob); err != nil || string(data) != "x\n" {
		t.Errorf("an early snapshot reads %q, %v", data, err)
	}
	if author, err := early.LastChange(t.Context(), early.Head, "a.yaml"); err != nil || author.Commit != early.Head {
		t.Errorf("an early snapshot finds %+v, %v, after %s", author, err, first.Head)
	}
	restarted := &Mirrors{Dir: m.Dir, AllowInsecure: true, AllowedCIDRs: loopback}
	var again *Snapshot
	if requests, _ := s.cost(func() { again = mustFetch(t, restarted, remote) }); requests != 1 {
		t.Errorf("a new process took %d requests", requests)
	}
	if diff := cmp.Diff(mustFetch(t, m, remote), again, snapshots); diff != "" {
		t.Error(diff)
	}
}

// Commits that a force-push removed are eventually deleted from the mirror.
func TestRewrittenHistoriesAreDropped(t *testing.T) {
	t.Parallel()
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	base := r.commit("a.yaml", "a: 0\n")
	remote := Remote{URL: s.push(r, "repo.git")}
	mustFetch(t, m, remote)
	gone := r.commit("a.yaml", "a: lost\n", "noise.bin", noise(300_000))
	s.push(r, "repo.git")
	mustFetch(t, m, remote)
	r.git("reset", "--quiet", "--hard", string(base))
	for i := range mirror.MaxPacks + 2 {
		r.commit("a.yaml", strings.Repeat("y", i+1)+"\n")
		s.push(r, "repo.git")
		if got := mustFetch(t, m, remote); len(got.Line) != i+2 {
			t.Fatalf("after %d pushes the line has %d steps", i+1, len(got.Line))
		}
	}
	if n := len(glob(t, mirrorDir(t, m), "objects/pack/*.pack")); n > 5 {
		t.Errorf("there are %d packs", n)
	}
	if out := gitInput(t, mirrorDir(t, m), strings.NewReader(string(gone)+"\n"), "cat-file", "--batch-check"); !strings.HasSuffix(out, "missing") {
		t.Errorf("the lost commit is still there: %s", out)
	}
}

// If a process is killed while one pack replaces many, the next process reads the same.
func TestKilledWhileFetchedAgain(t *testing.T) {
	t.Parallel()
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	remote := Remote{}
	for i := range 4 {
		r.commit("a.yaml", strings.Repeat("x", i+1)+"\n")
		remote.URL = s.push(r, "repo.git")
		mustFetch(t, m, remote)
	}
	want := mustFetch(t, m, remote)
	id := filepath.Base(mirrorDir(t, m))
	before := t.TempDir()
	if err := os.CopyFS(before, os.DirFS(mirrorDir(t, m))); err != nil {
		t.Fatal(err)
	}
	var old []string // each pack before its index, in the order of deletion
	for _, pack := range glob(t, before, "objects/pack/*.pack") {
		old = append(old, pack, strings.TrimSuffix(pack, ".pack")+".idx")
	}
	packs := t.TempDir()
	objects := git(t, before, "rev-list", "--objects", string(want.Head)) + "\n"
	gitInput(t, before, strings.NewReader(objects), "pack-objects", "--quiet", filepath.Join(packs, "pack"))
	placed := append(glob(t, packs, "*.idx"), glob(t, packs, "*.pack")...)
	for done := range len(placed) + 1 + len(old) + 1 {
		next := newMirrors(t)
		dir := filepath.Join(next.Dir, id)
		if err := os.CopyFS(dir, os.DirFS(before)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.Chmod(dir, 0o700), os.Mkdir(filepath.Join(dir, "incoming-1"), 0o700)); err != nil {
			t.Fatal(err)
		}
		for _, file := range placed[:min(done, len(placed))] {
			data, err := os.ReadFile(file)
			if err = errors.Join(err, os.WriteFile(filepath.Join(dir, "objects/pack", filepath.Base(file)), data, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		if done > len(placed) { // the list of tips is deleted before any pack
			if err := os.WriteFile(filepath.Join(dir, "packed-refs"), []byte("# pack-refs with: \n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, file := range old[:max(0, done-len(placed)-1)] {
			if err := os.Remove(filepath.Join(dir, "objects/pack", filepath.Base(file))); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(want, mustFetch(t, next, remote), snapshots); diff != "" {
			t.Errorf("after %d steps: %s", done, diff)
		}
		if left := globbed(t, dir, "incoming-*"); left != nil {
			t.Errorf("after %d steps %v is left", done, left)
		}
	}
}

// A flipped bit in one of the packs is repaired when the mirror is fetched again.
func TestDamageIsFetchedAgain(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("noise.bin", noise(5000))
	remote := Remote{URL: s.push(r, "repo.git")}
	mustFetch(t, m, remote)
	first := glob(t, mirrorDir(t, m), "objects/pack/*.pack")[0]
	for i := range mirror.MaxPacks + 1 {
		r.commit("a.yaml", strings.Repeat("x", i+1)+"\n")
		s.push(r, "repo.git")
		if i == mirror.MaxPacks/2 {
			data, err := os.ReadFile(first)
			if err != nil {
				t.Fatal(err)
			}
			data[2000] ^= 1
			if err := os.WriteFile(first, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		mustFetch(t, m, remote)
	}
	if pathExists(first) {
		t.Error("the damaged pack is still there")
	}
	git(t, mirrorDir(t, m), "fsck", "--full", "--strict", "--no-dangling")
}

// Some servers can only name the base of a delta by its id. From them, too, one pack is
// fetched when there are many.
func TestManyPushesToAServerWithoutOffsets(t *testing.T) {
	t.Parallel()
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		proxy := proxyTo(t, s.proxy.URL)
		if strings.HasSuffix(req.URL.Path, "/info/refs") {
			proxy.ModifyResponse = func(res *http.Response) error {
				body, err := io.ReadAll(res.Body)
				res.Body = io.NopCloser(bytes.NewReader(bytes.Replace(body, []byte(" ofs-delta"), []byte(" xxx-delta"), 1)))
				return err
			}
		}
		proxy.ServeHTTP(w, req)
	}))
	defer server.Close()
	text := strings.Repeat("a line of it\n", 50)
	r.commit("a.yaml", text)
	s.push(r, "repo.git")
	remote := Remote{URL: server.URL + "/repo.git"}
	mustFetch(t, m, remote)
	most, named := 0, false
	for i := range mirror.MaxPacks + 5 {
		r.commit("a.yaml", fmt.Sprintf("%s# %d\n", text, i%3), "b.yaml", fmt.Sprintf("%s# %d\n", text, i%3+3))
		s.push(r, "repo.git")
		if got := mustFetch(t, m, remote); len(got.Line) != i+2 {
			t.Fatalf("after %d pushes the line has %d steps", i+1, len(got.Line))
		}
		packs := glob(t, mirrorDir(t, m), "objects/pack/*.pack")
		most = max(most, len(packs))
		for _, path := range packs {
			named = named || namesBaseByID(t, path)
		}
	}
	if !named {
		t.Error("the server named no base by its id: this test shows nothing")
	}
	if most > mirror.MaxPacks || len(glob(t, mirrorDir(t, m), "objects/pack/*.pack")) > 7 {
		t.Errorf("there were up to %d packs", most)
	}
	git(t, mirrorDir(t, m), "fsck", "--full", "--strict", "--no-dangling")
}

// namesBaseByID reports whether a delta of a pack names its base by an id.
func namesBaseByID(t *testing.T, path string) bool {
	t.Helper()
	pack, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.Open(strings.TrimSuffix(path, ".pack") + ".idx")
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	for line := range strings.Lines(gitInput(t, filepath.Dir(path), index, "show-index")) {
		var offset int
		if _, err := fmt.Sscan(line, &offset); err != nil {
			t.Fatal(err)
		}
		if plumbing.ObjectType(pack[offset]>>4&7) == plumbing.REFDeltaObject {
			return true
		}
	}
	return false
}

// A mirror of many branches, each with a source, is not fetched again without a push.
func TestManyBranches(t *testing.T) {
	t.Parallel()
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 0\n")
	var branches []string
	var stream strings.Builder
	for i := range 2*mirror.MaxPacks + 3 {
		branch := fmt.Sprintf("branch-%d", i)
		content := fmt.Sprintf("a: %d\n", i)
		fmt.Fprintf(&stream, "commit refs/heads/%s\ncommitter A <a@x> 1700000000 +0000\ndata 0\nfrom refs/heads/main^0\nM 100644 inline a.yaml\ndata %d\n%s\n", branch, len(content), content)
		branches = append(branches, branch)
	}
	gitInput(t, r.Dir, strings.NewReader(stream.String()), "fast-import", "--quiet")
	remote := Remote{URL: s.push(r, "repo.git")}
	look := func() {
		for _, branch := range branches {
			of := remote
			of.Branch = branch
			mustFetch(t, m, of)
		}
	}
	look()
	if n := len(glob(t, mirrorDir(t, m), "objects/pack/*.pack")); n > mirror.MaxPacks {
		t.Errorf("there are %d packs", n)
	}
	if requests, _ := s.cost(look); requests != int64(len(branches)) {
		t.Errorf("where nothing changed, %d looks took %d requests", len(branches), requests)
	}
}

// If the disk has no space for a second copy of the packs, they remain, and new pushes are
// still fetched.
func TestNoRoomToFetchAgain(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	mountSmall(t, m.Dir)
	r.commit("a.yaml", "a: 0\n", "noise.bin", noise(200_000))
	remote := Remote{URL: s.push(r, "repo.git")}
	mustFetch(t, m, remote)
	filler := filepath.Join(m.Dir, "filler")
	fill(t, filler, (mirror.MaxPacks+8)*2*4096) // for a pack and an index each
	for i := range mirror.MaxPacks + 3 {
		r.commit("a.yaml", strings.Repeat("x", i+1)+"\n")
		s.push(r, "repo.git")
		if got := mustFetch(t, m, remote); len(got.Line) != i+2 {
			t.Fatalf("after %d pushes the line has %d steps", i+1, len(got.Line))
		}
		if i == mirror.MaxPacks {
			if n := len(globbed(t, m.Dir, "*/objects/pack/*.pack")); n <= mirror.MaxPacks {
				t.Errorf("there are %d packs: there was room, and this test shows nothing", n)
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(globbed(t, m.Dir, "*/objects/pack/*.pack")); n > 3 {
		t.Errorf("with room again there are %d packs", n)
	}
}
