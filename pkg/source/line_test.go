package source

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

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
				cold, err := openObjects(mirror.reader().dir)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				walk(b, cold, head, parts, line{})
			}
		})
		b.Run(fmt.Sprintf("%d commits and one more", n), func(b *testing.B) {
			o := mirror.reader()
			c, err := o.commit(b.Context(), head)
			if err != nil {
				b.Fatal(err)
			}
			old := line{head: c.parents[0], steps: walk(b, o, c.parents[0], parts, line{})}
			b.ResetTimer()
			for range b.N {
				walk(b, o, head, parts, old)
			}
		})
		b.Run(fmt.Sprintf("unchanged remote of %d commits", n), func(b *testing.B) {
			for range b.N {
				mustFetch(b, m, Remote{URL: s.url("repo.git"), Path: "profiles"})
			}
		})
	}
}

func walk(b *testing.B, o *objects, head plumbing.Hash, parts []string, old line) []Step {
	b.Helper()
	steps, err := o.line(context.WithoutCancel(b.Context()), head, parts, old)
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
