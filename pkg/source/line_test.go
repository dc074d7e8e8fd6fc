package source

import (
	"fmt"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/test/gittest"
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
	all := func() (steps []*HistoryEntry) {
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

// BenchmarkFetch fetches histories in which every tenth commit changes a profile file.
func BenchmarkFetch(b *testing.B) {
	for _, n := range []int{2_000, 50_000} {
		s := newServer(b)
		gittest.LongHistory(b, s.path("repo.git"), n)
		m := newMirrors(b)
		b.Run(fmt.Sprintf("first fetch of %d commits", n), func(sub *testing.B) {
			for range sub.N {
				sub.StopTimer()
				m = newMirrors(b)
				sub.StartTimer()
				mustFetch(sub, m, Remote{URL: s.url("repo.git"), Path: "profiles"})
			}
		})
		b.Run(fmt.Sprintf("unchanged remote of %d commits", n), func(b *testing.B) {
			for range b.N {
				mustFetch(b, m, Remote{URL: s.url("repo.git"), Path: "profiles"})
			}
		})
	}
}
