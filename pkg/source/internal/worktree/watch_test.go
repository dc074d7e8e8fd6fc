package worktree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/watch"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// second is the time within which a change must be reported.
const second = time.Second

// watching counts the reports of a watch.
type watching struct {
	*watch.Watch
	t        testing.TB
	reported chan struct{}
}

func newWatch(t testing.TB, d Directory) *watching {
	t.Helper()
	w := &watching{t: t, reported: make(chan struct{}, 1000)}
	w.Watch = d.watch(func(context.Context) { w.reported <- struct{}{} }, watch.MaxFolders, watch.Poll)
	t.Cleanup(w.Close)
	return w
}

func mustRead(t testing.TB, d Directory) State {
	t.Helper()
	state, err := d.Read(t.Context(), new(history.Cache))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// reports makes a change and fails the test if it is not reported within a second.
func (w *watching) reports(what string, change func()) {
	w.t.Helper()
	w.calm()
	change()
	select {
	case <-w.reported:
	case <-time.After(second):
		w.t.Fatalf("%s: not reported within a second", what)
	}
}

// silent makes a change and fails the test if it is reported.
func (w *watching) silent(what string, change func()) {
	w.t.Helper()
	w.calm()
	change()
	select {
	case <-w.reported:
		w.t.Errorf("%s: reported", what)
	case <-time.After(watch.Patience + watch.Quiet):
	}
}

// calm waits until no report is pending.
func (w *watching) calm() {
	w.t.Helper()
	for end := time.After(20 * time.Second); ; {
		select {
		case <-w.reported:
		case <-time.After(3 * watch.Quiet):
			return
		case <-end:
			w.t.Fatal("it never stops telling")
		}
	}
}

func (w *watching) try(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	root := t.TempDir()
	r := (&gittest.Repo{T: t, Dir: root})
	at := func(path string) string { return filepath.Join(root, path) }
	r.Write("team/p/a.yaml", "a: 1\n")
	w := newWatch(t, Directory{Root: root, Path: "team", Sub: "p"})
	w.reports("a file written in place", func() { r.Write("team/p/a.yaml", "a: 2\n") })
	w.reports("an editor that renames", func() {
		r.Write("team/p/.a.yaml.swp", "a: 3\n")
		w.try(os.Rename(at("team/p/.a.yaml.swp"), at("team/p/a.yaml")))
	})
	w.reports("an editor that keeps the old file", func() {
		w.try(os.Rename(at("team/p/a.yaml"), at("team/p/a.yaml~")))
		r.Write("team/p/a.yaml", "a: 4\n")
	})
	w.reports("a file in a new folder", func() { r.Write("team/p/new/b.yaml", "b: 1\n") })
	w.reports("an edit there", func() { r.Write("team/p/new/b.yaml", "b: 2\n") })
	w.reports("a file in new folders, far down", func() { r.Write("team/p/x/y/z/c.yaml", "c: 1\n") })
	w.reports("an edit down there", func() { r.Write("team/p/x/y/z/c.yaml", "c: 2\n") })
	w.reports("rules", func() { r.Write("team/p/.osmignore", "x\n") })
	w.reports("a deleted file", func() { r.Write("team/p/new/b.yaml", "") })
	w.reports("a file without permission to read", func() { w.try(os.Chmod(at("team/p/a.yaml"), 0)) })
	w.reports("a folder that is moved away", func() { w.try(os.Rename(at("team/p/x"), at("aside"))) })
	w.silent("an edit where it is now", func() { r.Write("aside/y/z/c.yaml", "c: 3\n") })
	w.reports("the folder moved back", func() { w.try(os.Rename(at("aside"), at("team/p/x"))) })
	w.reports("an edit after that", func() { r.Write("team/p/x/y/z/c.yaml", "c: 4\n") })
	w.reports("the whole folder replaced", func() {
		w.try(os.Rename(at("team"), at("old")))
		r.Write("team/p/a.yaml", "a: 5\n")
	})
	w.reports("an edit in the new one", func() { r.Write("team/p/a.yaml", "a: 6\n") })
	w.reports("everything deleted", func() { w.try(os.RemoveAll(at("team"))) })
	w.reports("and made again", func() { r.Write("team/p/a.yaml", "a: 7\n") })
	w.reports("an edit in that", func() { r.Write("team/p/a.yaml", "a: 8\n") })

	w.silent("a file outside the path", func() { r.Write("team/b.yaml", "b: 1\n"); r.Write("other/b.yaml", "b: 1\n") })
	w.silent("files that are not profiles", func() { r.Write("team/p/.hidden", "x"); r.Write("team/p/.b.yaml.swp", "x") })
	r.Write("team/p/notes.txt", "x")
	w.silent("an edit of a file that is not a profile", func() { r.Write("team/p/notes.txt", "y") })
	w.silent("our own reading", func() { mustRead(t, Directory{Root: root, Path: "team", Sub: "p"}) })
	if w.SlowReason() != "" {
		t.Errorf("it is slow: %s", w.SlowReason())
	}
	w.Close()
	w.silent("an edit after the end", func() { r.Write("team/p/a.yaml", "a: 9\n") })
}

// A commit or a checkout changes which files are dirty, without a change of any file.
func TestWatchWorkTree(t *testing.T) {
	r := gittest.New(t)
	r.Commit("p/a.yaml", "a: 1\n")
	d := Directory{Root: filepath.Dir(r.Dir), Path: r.Dir, Sub: "p"}
	w := newWatch(t, d)
	w.reports("an edit", func() { r.Write("p/a.yaml", "a: 2\n") })
	w.silent("git add", func() { r.Git("add", "p/a.yaml") })
	w.reports("a commit", func() { r.Git("commit", "--quiet", "--message=x") })
	if got := mustRead(t, d); got.Branch != "main" || got.Dirty {
		t.Errorf("got branch %q, dirty %v", got.Branch, got.Dirty)
	}
	w.reports("another branch of the same commit", func() { r.Git("checkout", "--quiet", "-b", "team/next") })
	w.reports("a commit there", func() { r.Commit("p/a.yaml", "a: 3\n") })
	w.reports("another commit of the same files", func() { r.Commit() })
	w.reports("packed references", func() { r.Git("pack-refs", "--all") })
	w.reports("a commit after that", func() { r.Commit() })
	w.reports("a commit checked out by its id", func() { r.Git("checkout", "--quiet", "main^{commit}") })
}

// git-sync stores several work trees in one folder and switches a link atomically.
func TestWatchSwappedLink(t *testing.T) {
	root, r := t.TempDir(), gittest.New(t)
	first := r.Commit("p/a.yaml", "a: 1\n")
	second := r.Commit("p/a.yaml", "a: 2\n")
	gittest.Git(t, root, "clone", "--quiet", "--bare", r.Dir, ".repo")
	sync := func(c string) {
		t.Helper()
		gittest.Git(t, filepath.Join(root, ".repo"), "worktree", "add", "--quiet", "--force", "--detach", filepath.Join(root, ".worktrees", c), c)
		gittest.Link(t, filepath.Join(".worktrees", c), filepath.Join(root, "tmp-link"))
		if err := os.Rename(filepath.Join(root, "tmp-link"), filepath.Join(root, "current")); err != nil {
			t.Fatal(err)
		}
	}
	d := Directory{Root: root, Path: "current", Sub: "p"}
	w := newWatch(t, d) // the link does not exist yet
	w.reports("the first link", func() { sync(first) })
	if got := mustRead(t, d); string(got.Head) != first {
		t.Errorf("got %s", got.Head)
	}
	w.reports("another link", func() { sync(second) })
	if got := mustRead(t, d); string(got.Head) != second {
		t.Errorf("got %s", got.Head)
	}
	w.reports("an edit where it leads", func() {
		w.try(os.WriteFile(filepath.Join(root, ".worktrees", string(second), "p", "a.yaml"), []byte("a: 3\n"), 0o600))
	})
	w.silent("an edit where it led", func() {
		w.try(os.WriteFile(filepath.Join(root, ".worktrees", string(first), "p", "a.yaml"), []byte("a: 3\n"), 0o600))
	})
}

// Kubernetes replaces all files of a mounted ConfigMap by renaming one link.
func TestWatchConfigMap(t *testing.T) {
	root := t.TempDir()
	r := (&gittest.Repo{T: t, Dir: root})
	r.Write("..1/a.yaml", "a: 1\n")
	r.Write("..2/a.yaml", "a: 2\n")
	gittest.Link(t, "..1", filepath.Join(root, "..data"))
	gittest.Link(t, "..data/a.yaml", filepath.Join(root, "a.yaml"))
	w := newWatch(t, Directory{Root: root})
	w.reports("the swap", func() {
		gittest.Link(t, "..2", filepath.Join(root, "..data_tmp"))
		w.try(os.Rename(filepath.Join(root, "..data_tmp"), filepath.Join(root, "..data")))
	})
	w.reports("an edit of where a link leads", func() { r.Write("..2/a.yaml", "a: 3\n") })
}

// Thousands of events cause a few reports, and none is delayed for long.
func TestWatchStorm(t *testing.T) {
	root := t.TempDir()
	r := (&gittest.Repo{T: t, Dir: root})
	for i := range 50 {
		r.Write(fmt.Sprintf("d%02d/a.yaml", i), "a: 0\n")
	}
	w := newWatch(t, Directory{Root: root})
	w.calm()
	begin := time.Now()
	for i := range 20_000 {
		r.Write(fmt.Sprintf("d%02d/a.yaml", i%50), fmt.Sprintf("a: %d\n", i+1))
	}
	storm := time.Since(begin)
	time.Sleep(second) // a report comes within a second
	reported := len(w.reported)
	// On the slowest machine, too, one report covers at least a hundred edits.
	if reported < 1 || reported > 200 {
		t.Errorf("20,000 edits in %s were reported %d times, want 1 to 200", storm, reported)
	}
	t.Logf("20,000 edits in %s were reported %d times", storm, reported)
	w.reports("an edit after the storm", func() { r.Write("d07/a.yaml", "a: x\n") })
}

// Nothing outside the root is watched, even if a link leads there (security.md 13).
func TestWatchStaysBelowTheRoot(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	(&gittest.Repo{T: t, Dir: outside}).Write("p/a.yaml", "a: 1\n")
	gittest.Link(t, outside, filepath.Join(root, "out"))
	gittest.Link(t, "../"+filepath.Base(outside), filepath.Join(root, "up"))
	gittest.Link(t, "loop", filepath.Join(root, "loop"))
	gittest.Link(t, filepath.Join(outside, "p", "a.yaml"), filepath.Join(root, "a.yaml"))
	for _, d := range []Directory{
		{Root: root}, {Root: root, Path: "out", Sub: "p"}, {Root: root, Path: "up/p"}, {Root: root, Path: "loop"}, {Root: root, Path: outside},
		{Root: root, Path: "../" + filepath.Base(outside)}, {Root: root, Sub: "../" + filepath.Base(outside)}, {Root: filepath.Join(root, "absent")},
	} {
		w := newWatch(t, d)
		w.Close()
		for _, path := range w.Paths() {
			if rel, err := filepath.Rel(root, path); err != nil || !filepath.IsLocal(rel) {
				t.Errorf("%+v watches %s", d, path)
			}
		}
	}
}

// If the kernel does not report events, the directory is polled, and Slow returns why.
func TestWatchWithoutTheKernel(t *testing.T) {
	root := t.TempDir()
	r := (&gittest.Repo{T: t, Dir: root})
	for i := range 20 {
		r.Write(fmt.Sprintf("d%02d/a.yaml", i), "a: 0\n")
	}
	t.Run("too many folders", func(t *testing.T) {
		reported := make(chan struct{}, 10)
		w := Directory{Root: root}.watch(func(context.Context) { reported <- struct{}{} }, 10, watch.Quiet)
		defer w.Close()
		if !strings.Contains(w.SlowReason(), "more than 10 folders") {
			t.Errorf("it says %q", w.SlowReason())
		}
		select {
		case <-reported:
		case <-time.After(5 * second):
			t.Error("it is not looked at")
		}
	})
	t.Run("no watchers left", func(t *testing.T) {
		var held []*fsnotify.Watcher
		defer func() {
			for _, w := range held {
				w.Close()
			}
		}()
		for len(held) < 20_000 { // fs.inotify.max_user_instances is 128 as a rule
			k, err := fsnotify.NewWatcher()
			if err != nil {
				break
			}
			held = append(held, k)
		}
		w := newWatch(t, Directory{Root: root})
		if len(held) == 20_000 {
			t.Skip("this machine's limit is too high to reach")
		}
		if !strings.Contains(w.SlowReason(), "max_user_instances") {
			t.Errorf("it says %q", w.SlowReason())
		}
	})
}

// Closing a watch ends its goroutine and closes its descriptors.
func TestWatchLeavesNothing(t *testing.T) {
	root := t.TempDir()
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before, routines := open(), runtime.NumGoroutine()
	for range 30 {
		Directory{Root: root}.Watch(func(context.Context) {}).Close()
	}
	for end := time.Now().Add(10 * second); open() > before+3 || runtime.NumGoroutine() > routines+3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d descriptors and %d goroutines before, %d and %d after", before, routines, open(), runtime.NumGoroutine())
		}
	}
}
