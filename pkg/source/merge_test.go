package source

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Many pushes leave few packs: they are made one, beside the others, and nothing is
// fetched a second time.
func TestManyPushesBecomeOnePack(t *testing.T) {
	t.Parallel()
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("noise.bin", noise(300_000))
	remote := Remote{URL: s.push(r, "repo.git")}
	first := mustFetch(t, m, remote)
	var early *Snapshot
	fewest, most := maxPacks, 0
	for i := range maxPacks + 5 {
		// Every third push reverts to a content that is in an older pack.
		r.commit("a.yaml", strings.Repeat("x", i%3+1)+"\n", "b.txt", noise(10))
		s.push(r, "repo.git")
		var got *Snapshot
		_, size := s.cost(func() { got = mustFetch(t, m, remote) })
		if size > 10_000 {
			t.Errorf("push %d made it fetch %d bytes", i, size)
		}
		if len(got.Line) != i+1 {
			t.Fatalf("after %d pushes the line has %d steps", i+1, len(got.Line))
		}
		if early == nil {
			early = got
		}
		packs := len(glob(t, mirrorDir(t, m), "objects/pack/*.pack"))
		most = max(most, packs)
		if i > maxPacks-3 {
			fewest = min(fewest, packs)
		}
	}
	if most >= maxPacks || fewest != 1 {
		t.Errorf("there were up to %d packs, and %d afterwards", most, fewest)
	}
	git(t, mirrorDir(t, m), "fsck", "--full", "--strict", "--no-dangling")
	if left := len(glob(t, mirrorDir(t, m), "objects/pack/*")); left > 2*7 { // the one, and the six pushes since
		t.Errorf("%d files are left", left)
	}
	// Who read before reads on, and a new process reads the same.
	if data, err := early.Read(t.Context(), early.Line[0].Changes[0].Blob); err != nil || string(data) != "x\n" {
		t.Errorf("an early snapshot reads %q, %v", data, err)
	}
	if author, err := early.ChangeOf(t.Context(), early.Head, "a.yaml"); err != nil || author.Commit != early.Head {
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

// What a force-push took away does not stay in the mirror for ever.
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
	for i := range maxPacks + 2 {
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

// A bit that changed in one of the packs is found when they are made one, and the
// mirror begins anew.
func TestDamageIsNotMerged(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("noise.bin", noise(5000))
	remote := Remote{URL: s.push(r, "repo.git")}
	mustFetch(t, m, remote)
	first := glob(t, mirrorDir(t, m), "objects/pack/*.pack")[0]
	for i := range maxPacks {
		r.commit("a.yaml", strings.Repeat("x", i+1)+"\n")
		s.push(r, "repo.git")
		if i == maxPacks/2 {
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
	if fileExists(first) {
		t.Error("the damaged pack is still there")
	}
	git(t, mirrorDir(t, m), "fsck", "--full", "--strict", "--no-dangling")
}
