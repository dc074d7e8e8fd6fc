package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
)

// A hundred sources of one repository, each with its own folder, walk its history once.
func TestHistoriesOfManyFolders(t *testing.T) {
	const folders = 100
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	for i := range folders {
		r.write(fmt.Sprintf("team-%d/a.yaml", i), "a: 1\n")
	}
	r.commit()
	url := s.push(r, "repo.git")
	all := func() (steps []*Step) {
		for i := range folders {
			got := mustFetch(t, m, Remote{URL: url, Path: fmt.Sprintf("team-%d", i), MaxAge: time.Hour})
			steps = append(steps, &got.Line[0])
		}
		return steps
	}
	all()
	r.commit("team-7/a.yaml", "a: 2\n")
	s.push(r, "repo.git")
	mustFetch(t, m, Remote{URL: url})
	first, again := all(), all()
	for i, step := range first {
		if again[i] != step {
			t.Fatalf("the history of folder %d was read again", i)
		}
	}
}

// What there is no room for goes, the longest unused first.
func TestRecent(t *testing.T) {
	r := history.Recent[string]{Room: 10}
	put := func(name string, weight int) { r.Put(name, "value of "+name, weight) }
	has := func(want string) {
		t.Helper()
		if got := strings.Join(slices.Sorted(maps.Keys(r.Values)), " "); got != want {
			t.Errorf("there are %q, not %q", got, want)
		}
		sum := 0
		for _, k := range r.Values {
			sum += k.Weight
		}
		if sum != r.Weight {
			t.Errorf("they weigh %d, not %d", sum, r.Weight)
		}
	}
	put("a", 4)
	put("b", 4)
	if got := r.Get("a"); got != "value of a" {
		t.Errorf("a is %q", got)
	}
	put("c", 2)
	has("a b c")
	put("d", 1)
	has("a c d")
	put("a", 5) // heavier than before
	has("a c d")
	put("e", 100) // more than there is room for, and newest
	has("e")
	put("f", 10)
	has("f")
	r.Drop("f")
	r.Drop("f")
	has("")
	if got := r.Get("f"); got != "" {
		t.Errorf("f is %q", got)
	}
}

// Commits of histories that were rewritten do not count for ever.
func TestCommitsOfManyHistories(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	r.commit("a.yaml", "a: 1\n")
	remote := Remote{URL: s.push(r, "repo.git")}
	mustFetch(t, m, remote)
	mirror := m.open[filepath.Base(mirrorDir(t, m))]
	for i := range uint32(objectstore.MaxCommits) {
		var id plumbing.Hash
		binary.BigEndian.PutUint32(id[:], i)
		mirror.store.Current.Commits[id] = objectstore.CommitInfo{}
		mirror.store.Whole[id] = true
	}
	r.commit("a.yaml", "a: 2\n")
	s.push(r, "repo.git")
	if got := mustFetch(t, m, remote); len(got.Line) != 2 {
		t.Errorf("the line has %d steps", len(got.Line))
	}
	if n := len(mirror.store.Current.Commits); n > objectstore.MaxCommits {
		t.Errorf("%d commits are remembered", n)
	}
}

// BenchmarkLine walks histories of which every tenth commit changes a profile
// file: cold, as after a restart, and for one commit more than is known.
func BenchmarkLine(b *testing.B) {
	for _, n := range []int{2_000, 50_000} {
		s := newServer(b)
		head := longHistory(b, s.path("repo.git"), n)
		m := newMirrors(b)
		b.Run(fmt.Sprintf("first fetch of %d commits", n), func(sub *testing.B) {
			for range sub.N {
				sub.StopTimer()
				m = newMirrors(b)
				sub.StartTimer()
				mustFetch(sub, m, Remote{URL: s.url("repo.git"), Path: "profiles"})
			}
		})
		var mirror *mirror
		for _, mirror = range m.open {
		}
		parts := []string{"profiles"}
		b.Run(fmt.Sprintf("%d commits cold", n), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				cold, err := objectstore.OpenObjects(mirror.store.Reader().Dir)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				walkOld(b, cold, head, parts, history.KeptLine{})
			}
		})
		b.Run(fmt.Sprintf("%d commits and one more", n), func(b *testing.B) {
			o := mirror.store.Reader()
			c, err := o.Commit(b.Context(), head)
			if err != nil {
				b.Fatal(err)
			}
			old := history.KeptLine{Head: c.Parents[0], Steps: walkOld(b, o, c.Parents[0], parts, history.KeptLine{})}
			b.ResetTimer()
			for range b.N {
				walkOld(b, o, head, parts, old)
			}
		})
		b.Run(fmt.Sprintf("unchanged remote of %d commits", n), func(b *testing.B) {
			for range b.N {
				mustFetch(b, m, Remote{URL: s.url("repo.git"), Path: "profiles"})
			}
		})
	}
}

func walkOld(b *testing.B, o *objectstore.Objects, head plumbing.Hash, parts []string, old history.KeptLine) []Step {
	b.Helper()
	steps, err := history.WalkLine(context.WithoutCancel(b.Context()), o, head, parts, old)
	if err != nil {
		b.Fatal(err)
	}
	return steps
}

// longHistory makes a repository of n commits in which 300 source files and 30
// profiles change, and returns its head.
func longHistory(b *testing.B, dir string, n int) plumbing.Hash {
	b.Helper()
	var out bytes.Buffer
	for i := range n {
		fmt.Fprintf(&out, "commit refs/heads/main\nmark :%d\ncommitter Ben <ben@example.com> %d +0000\ndata 6\nchange\n", i+1, 1_600_000_000+i*60)
		path := fmt.Sprintf("src/%d/%d.go", i%20, i%300)
		if i%10 == 0 {
			path = fmt.Sprintf("profiles/%d.yaml", i/10%30)
		}
		content := fmt.Sprintf("content: %d\n", i)
		fmt.Fprintf(&out, "M 100644 inline %s\ndata %d\n%s\n", path, len(content), content)
	}
	git(b, b.TempDir(), "init", "--quiet", "--bare", "--initial-branch=main", dir)
	gitInput(b, dir, &out, "fast-import", "--quiet")
	git(b, dir, "gc", "--quiet")
	return plumbing.NewHash(git(b, dir, "rev-parse", "main"))
}
