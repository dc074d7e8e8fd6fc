package source

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/location"
)

var snapshots = cmp.Options{cmpopts.IgnoreUnexported(Snapshot{}), cmpopts.IgnoreFields(Snapshot{}, "RequestedAt"), cmpopts.EquateEmpty()}

func TestFirstFetch(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("README.md", "hello", "profiles/a.yaml", "a: 1\n")
	one := r.commit("profiles/a.yaml", "a: 2\n", "profiles/sub/b.yml", "b: 1\n", "profiles/notes.txt", "x", "other.yaml", "o: 1\n")
	two := r.commit("README.md", "unrelated")
	url := s.push(r, "repo.git")

	got := mustFetch(t, newMirrors(t), Remote{URL: url, Path: "profiles"})

	blob := func(path string) string { return r.git("rev-parse", "HEAD:"+path) }
	root := r.git("rev-list", "--max-parents=0", "HEAD")
	first := r.git("rev-parse", root+":profiles/a.yaml")
	want := &Snapshot{
		Revision:   "main@sha1:" + string(two),
		Reference:  "refs/heads/main",
		Repository: url,
		Head:       two,
		Files: []File{
			{Path: "profiles/a.yaml", Blob: blob("profiles/a.yaml"), Data: []byte("a: 2\n")},
			{Path: "profiles/sub/b.yml", Blob: blob("profiles/sub/b.yml"), Data: []byte("b: 1\n")},
		},
		Line: []HistoryEntry{
			{Commit: Commit(root), Changes: []Change{{Path: "profiles/a.yaml", Blob: first}}},
			{Commit: one, Changes: []Change{{Path: "profiles/a.yaml", Blob: blob("profiles/a.yaml")}, {Path: "profiles/sub/b.yml", Blob: blob("profiles/sub/b.yml")}}},
		},
	}
	if diff := cmp.Diff(want, got, snapshots, cmpopts.IgnoreFields(HistoryEntry{}, "CommittedAt")); diff != "" {
		t.Error(diff)
	}
	if data, err := got.Read(t.Context(), first); err != nil || string(data) != "a: 1\n" {
		t.Errorf("reading the first version: %q, %v", data, err)
	}
	_, err := got.Read(t.Context(), id1)
	wantError(t, err, ErrNotFound, id1)
	_, err = got.LastChange(t.Context(), id1, "profiles/a.yaml")
	wantError(t, err, ErrNotFound, id1)
	author, err := got.LastChange(t.Context(), two, "profiles/a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if author.Commit != one || author.Name != "Ada" || author.Email != "ada@example.com" || author.At.IsZero() {
		t.Errorf("the change is %+v", author)
	}
}

func TestIncrementalFetch(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("profiles/a.yaml", "a: 1\n", "noise.bin", noise(300_000))
	remote := Remote{URL: s.push(r, "repo.git"), Path: "profiles"}

	requests, size := s.cost(func() { mustFetch(t, m, remote) })
	if requests != 2 || size < 300_000 {
		t.Errorf("the first fetch took %d requests and %d bytes", requests, size)
	}
	requests, _ = s.cost(func() { mustFetch(t, m, remote) })
	if requests != 1 {
		t.Errorf("an unchanged remote took %d requests", requests)
	}
	r.commit("profiles/a.yaml", "a: 2\n")
	s.push(r, "repo.git")
	var got *Snapshot
	requests, size = s.cost(func() { got = mustFetch(t, m, remote) })
	if requests != 2 || size > 3000 {
		t.Errorf("a small push took %d requests and %d bytes", requests, size)
	}
	if len(got.Line) != 2 || string(got.Files[0].Data) != "a: 2\n" {
		t.Errorf("after the push: %+v", got)
	}
	// A new process starts with the mirror on disk.
	again := &Mirrors{Dir: m.Dir, AllowInsecure: true, AllowedCIDRs: loopback}
	var restarted *Snapshot
	requests, _ = s.cost(func() { restarted = mustFetch(t, again, remote) })
	if requests != 1 {
		t.Errorf("after a restart an unchanged remote took %d requests", requests)
	}
	if diff := cmp.Diff(got, restarted, snapshots); diff != "" {
		t.Error(diff)
	}
}

func TestForcePush(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n", "noise.bin", noise(300_000))
	base := r.head()
	r.commit("a.yaml", "a: 2\n")
	r.commit("a.yaml", "a: 3\n")
	remote := Remote{URL: s.push(r, "repo.git")}
	before := mustFetch(t, m, remote)

	r.git("reset", "--quiet", "--hard", string(base))
	rewritten := r.commit("a.yaml", "a: rewritten\n")
	s.push(r, "repo.git")
	git(t, s.path("repo.git"), "gc", "--quiet", "--prune=now") // the server deletes commits that the mirror has
	var got *Snapshot
	_, size := s.cost(func() { got = mustFetch(t, m, remote) })
	if size > 3000 {
		t.Errorf("after a force-push %d bytes were fetched", size)
	}
	if got.Head != rewritten || len(got.Line) != 2 || got.Line[1].Commit != rewritten {
		t.Errorf("the new history is %+v", got.Line)
	}
	if diff := cmp.Diff(mustFetch(t, newMirrors(t), remote), got, snapshots); diff != "" {
		t.Errorf("whoever starts today sees another history: %s", diff)
	}
	if _, err := before.Read(t.Context(), before.Line[1].Changes[0].Blob); err != nil {
		t.Errorf("the earlier snapshot: %v", err)
	}
}

func TestCommit(t *testing.T) {
	for name, config := range map[string][]string{
		"a server that gives out branches only": nil,
		"a server that gives out any commit":    {"config", "uploadpack.allowReachableSHA1InWant", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := newServer(t), newRepo(t)
			r.commit("a.yaml", "a: 1\n")
			pinned := r.commit("a.yaml", "a: 2\n")
			r.commit("a.yaml", "a: 3\n")
			url := s.push(r, "repo.git")
			if config != nil {
				git(t, s.path("repo.git"), config...)
			}
			m := newMirrors(t)
			got := mustFetch(t, m, Remote{URL: url, Commit: pinned})
			if got.Revision != "sha1:"+string(pinned) || got.Head != pinned || len(got.Line) != 2 || string(got.Files[0].Data) != "a: 2\n" {
				t.Errorf("got %+v", got)
			}
			if requests, _ := s.cost(func() { mustFetch(t, m, Remote{URL: url, Commit: pinned}) }); requests != 1 {
				t.Errorf("a commit that is here took %d requests", requests)
			}
			_, err := m.Fetch(t.Context(), Remote{URL: url, Commit: Commit(strings.Repeat("1", 40))})
			wantError(t, err, ErrNotFound, "commit")
		})
	}
}

func TestBranches(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n")
	r.git("checkout", "--quiet", "-b", "release/1.0")
	r.commit("a.yaml", "a: release\n")
	url := s.push(r, "repo.git")
	if got := mustFetch(t, m, Remote{URL: url, Branch: "release/1.0"}); !strings.HasPrefix(got.Revision, "release/1.0@sha1:") || len(got.Line) != 2 {
		t.Errorf("got %+v", got)
	}
	if got := mustFetch(t, m, Remote{URL: url}); len(got.Line) != 1 || string(got.Files[0].Data) != "a: 1\n" {
		t.Errorf("got %+v", got)
	}
	_, err := m.Fetch(t.Context(), Remote{URL: url, Branch: "mian"})
	wantError(t, err, ErrNotFound, "mian", `"main"`, `"release/1.0"`)
	_, err = m.Fetch(t.Context(), Remote{URL: url, Path: "no/such"})
	wantError(t, err, ErrNotFound, `"no"`, "main@sha1:")
	_, err = m.Fetch(t.Context(), Remote{URL: url, Path: "a.yaml"})
	wantError(t, err, ErrInvalid, "a file")
}

// Two tenants share nothing, even if the server gives both access.
func TestKeysSeparateMirrors(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n")
	url := s.push(r, "repo.git")
	mustFetch(t, m, Remote{URL: url, Key: "tenant-a"})
	requests, _ := s.cost(func() { mustFetch(t, m, Remote{URL: url, Key: "tenant-b"}) })
	if requests != 2 {
		t.Errorf("a second tenant took %d requests: it read the first one's mirror", requests)
	}
	requests, _ = s.cost(func() { mustFetch(t, m, Remote{URL: url, Key: "tenant-a"}) })
	if requests != 1 {
		t.Errorf("the same tenant took %d requests", requests)
	}
}

func TestConcurrentFetches(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n", "sub/b.yaml", "b: 1\n")
	url := s.push(r, "repo.git")
	var parallel []func(t *testing.T)
	for range 4 {
		for _, path := range []string{"", "sub"} {
			parallel = append(parallel, func(t *testing.T) {
				t.Parallel()
				for range 5 {
					got := mustFetch(t, m, Remote{URL: url, Path: path})
					for _, step := range got.Line {
						if _, err := got.Read(t.Context(), step.Changes[0].Blob); err != nil {
							t.Error(err)
						}
						if _, err := got.LastChange(t.Context(), got.Head, step.Changes[0].Path); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	t.Run("", func(t *testing.T) {
		for _, f := range parallel {
			t.Run("", f)
		}
		for range 3 {
			r.commit("sub/b.yaml", noise(10))
			s.push(r, "repo.git")
		}
	})
}

// Damage that is only found while reading is repaired by the next fetch.
func TestDamageUnderASnapshot(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n", "x.txt", noise(100))
	r.commit("a.yaml", "a: 2\n")
	remote := Remote{URL: s.push(r, "repo.git")}
	mustFetch(t, m, remote)
	again := &Mirrors{Dir: m.Dir, AllowInsecure: true, AllowedCIDRs: loopback}
	got := mustFetch(t, again, remote)
	// Overwrite the pack in place, while it is open.
	each("objects/pack/*.pack", func(data []byte) []byte { clear(data[12 : len(data)-20]); return data })(t, mirrorDir(t, m))
	_, err := got.Read(t.Context(), got.Line[0].Changes[0].Blob)
	wantError(t, err, ErrUnreachable, "rebuilds the mirror")
	mustFetch(t, again, remote)
	if data, err := got.Read(t.Context(), got.Line[0].Changes[0].Blob); err != nil || string(data) != "a: 1\n" {
		t.Errorf("after the next fetch: %q, %v", data, err)
	}
}

func TestSweep(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n")
	remote := Remote{URL: s.push(r, "repo.git")}
	old := mustFetch(t, m, remote)
	if err := m.DeleteUnused(1 << 40); err != nil {
		t.Fatal(err)
	}
	if requests, _ := s.cost(func() { mustFetch(t, m, remote) }); requests != 1 {
		t.Errorf("a mirror in use was swept")
	}
	if err := m.DeleteUnused(0); err != nil {
		t.Fatal(err)
	}
	if _, err := old.LastChange(t.Context(), old.Head, "a.yaml"); err == nil {
		t.Error("a swept mirror is still read")
	}
	if requests, _ := s.cost(func() { mustFetch(t, m, remote) }); requests != 2 {
		t.Errorf("a mirror out of use was not swept")
	}
}

// Sweep deletes no mirror before the time that a fetch set, and none during a fetch.
func TestSweepOfMirrorsThatAreKept(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n")
	url := s.push(r, "repo.git")
	mustFetch(t, m, Remote{URL: url, Key: "today", Retention: time.Hour})
	mustFetch(t, m, Remote{URL: url, Key: "today", Retention: time.Nanosecond}) // another source, with a shorter interval
	mustFetch(t, m, Remote{URL: url, Key: "yesterday", Retention: time.Nanosecond})
	fetched := m.getMirror(target{Remote: Remote{Key: "yesterday"}, Location: location.Location{Repository: url}}.mirrorID())
	if err := fetched.idle.Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	sweep := func(want int) {
		t.Helper()
		if err := m.DeleteUnused(0); err != nil {
			t.Fatal(err)
		}
		if n := len(glob(t, m.Dir, "*/HEAD")); n != want {
			t.Errorf("there are %d mirrors, not %d", n, want)
		}
	}
	sweep(2)
	fetched.idle.Release(1)
	sweep(1)
	// The next process does not know the times that fetches set.
	if err := (&Mirrors{Dir: m.Dir}).DeleteUnused(time.Hour); err != nil {
		t.Fatal(err)
	}
	if requests, _ := s.cost(func() { mustFetch(t, m, Remote{URL: url, Key: "today"}) }); requests != 1 {
		t.Errorf("a mirror that is wanted was swept")
	}
}

// noise returns data that does not compress, different in each call.
func noise(n int) string {
	random := rand.New(rand.NewPCG(1, noises.Add(1)))
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteByte(byte(random.UintN(256)))
	}
	return b.String()
}

var noises atomic.Uint64

func TestURLWithASlashAtItsEnd(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n")
	url := s.push(r, "repo.git")
	want := mustFetch(t, m, Remote{URL: url})
	if requests, _ := s.cost(func() {
		if got := mustFetch(t, m, Remote{URL: url + "/"}); got.Repository != want.Repository || got.Head != want.Head {
			t.Errorf("got %+v", got)
		}
	}); requests != 1 {
		t.Errorf("it took %d requests: the mirror is not shared", requests)
	}
}
