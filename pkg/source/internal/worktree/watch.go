package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
)

// How a directory is watched. An edit is told after quiet, so that many together are
// told once, but no later than patience after the first.
const (
	// maxWatched is the number of folders that one source has the kernel watch, which
	// takes about 1 KiB of its memory for each (inotify(7): max_user_watches).
	maxWatched = 4096

	watchQuiet    = 100 * time.Millisecond
	watchPatience = 500 * time.Millisecond
	// watchPoll is the time between two looks where the kernel does not tell.
	watchPoll = 10 * time.Second
	// watchAgain is when the folders are looked for anew although nothing was told.
	watchAgain = time.Minute
)

// Watch tells of changes of a directory until it is closed.
type Watch struct {
	dir     Directory
	changed func(context.Context)
	limit   int           // of folders
	poll    time.Duration // where the kernel does not tell

	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	slow string

	// Of the goroutine alone.
	kernel *fsnotify.Watcher // nil where there is none to be had
	places map[string]*place
}

// Watch begins to watch a directory: the folder of the profiles and all below it, the
// links on the way there, and which commit is checked out. It calls changed within a
// second of a change, from one goroutine, with a context that ends with Close. What
// changes after Watch has returned is told. Where the kernel refuses to watch, and
// where the folders are too many, changed is called every ten seconds instead.
func (d Directory) Watch(changed func(context.Context)) *Watch {
	return d.watch(changed, maxWatched, watchPoll)
}

func (d Directory) watch(changed func(context.Context), limit int, poll time.Duration) *Watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watch{dir: d, changed: changed, limit: limit, poll: poll, cancel: cancel, done: make(chan struct{})}
	w.look()
	go w.run(ctx)
	return w
}

// Close ends the watch. It waits for a call of changed to return.
func (w *Watch) Close() {
	w.cancel()
	<-w.done
}

// Slow says why changes are not told at once, "" where they are.
func (w *Watch) Slow() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slow
}

func (w *Watch) run(ctx context.Context) {
	defer close(w.done)
	defer w.stop()
	again := time.NewTimer(w.wait())
	defer again.Stop()
	var due *time.Timer // set while something is to be told
	var first time.Time
	tell := func() {
		due = nil
		w.look() // before it is told, so that nothing falls between reading and watching
		w.changed(ctx)
		again.Reset(w.wait())
	}
	for ctx.Err() == nil {
		var told <-chan time.Time
		if due != nil {
			told = due.C
		}
		events, faults := w.channels()
		select {
		case <-ctx.Done():
		case <-told:
			tell()
		case <-again.C:
			if w.look() || w.Slow() != "" {
				w.changed(ctx)
			}
			again.Reset(w.wait())
		case e := <-events:
			if !w.matters(e) {
				continue
			}
			if due == nil {
				first = time.Now()
				due = time.NewTimer(watchQuiet)
			} else {
				due.Reset(max(0, min(watchQuiet, watchPatience-time.Since(first))))
			}
		case fault := <-faults: // too many events at once, most likely: look at everything
			if fault != nil {
				tell()
			}
		}
	}
}

func (w *Watch) wait() time.Duration {
	if w.Slow() != "" {
		return w.poll
	}
	return watchAgain
}

func (w *Watch) channels() (chan fsnotify.Event, chan error) {
	if w.kernel == nil {
		return nil, nil
	}
	return w.kernel.Events, w.kernel.Errors
}

func (w *Watch) stop() {
	if w.kernel != nil {
		_ = w.kernel.Close() // there is nothing to lose
		w.kernel = nil
	}
}

// place is a folder that is watched.
type place struct {
	all   bool            // as a folder of profiles
	names map[string]bool // the entries of it that matter in any case
}

// matters keeps out what is certain to change nothing.
func (w *Watch) matters(e fsnotify.Event) bool {
	if w.places[e.Name] != nil { // a folder itself, which came, went, or is another
		return true
	}
	at, name := w.places[filepath.Dir(e.Name)], filepath.Base(e.Name)
	switch {
	case at == nil:
		return false
	case at.names[name]:
		return true
	case !at.all:
		return false
	case filter.IsProfileFile(name):
		return name == filter.IgnoreFile || !strings.HasPrefix(name, ".")
	case !e.Has(fsnotify.Create) && !e.Has(fsnotify.Remove) && !e.Has(fsnotify.Rename):
		return false
	}
	// A folder, perhaps. "..data" is how Kubernetes swaps the files of a ConfigMap.
	return name == ".git" || strings.HasPrefix(name, "..") || !strings.HasPrefix(name, ".")
}

// look finds what is to be watched now, and watches it. It reports whether that is
// something else than before.
func (w *Watch) look() (news bool) {
	l := lookout{watch: w, places: map[string]*place{}}
	if w.kernel == nil {
		var err error
		if w.kernel, err = fsnotify.NewWatcher(); err != nil {
			l.slow = explainWatch(err)
		}
	}
	l.directory()
	for path := range w.places {
		if l.places[path] == nil {
			news = true
			if w.kernel != nil {
				_ = w.kernel.Remove(path) // it may be gone already
			}
		}
	}
	for path := range l.places {
		news = news || w.places[path] == nil
	}
	w.places = l.places
	if l.slow != "" {
		w.stop() // half of the events would be worse than none
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = l.slow
	return news
}

// explainWatch words what keeps the kernel from telling.
func explainWatch(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "the kernel allows no more watchers; raise the sysctl fs.inotify.max_user_instances"
	case errors.Is(err, syscall.ENOSPC):
		return "the kernel watches no more folders; raise the sysctl fs.inotify.max_user_watches"
	}
	return fmt.Sprintf("the kernel does not watch: %v", err)
}

// lookout collects places.
type lookout struct {
	watch  *Watch
	places map[string]*place
	slow   string
	links  int
}

// add watches a folder. Each time anew: under the same name there may be another.
func (l *lookout) add(path string) *place {
	if p := l.places[path]; p != nil {
		return p
	}
	p := &place{names: map[string]bool{}}
	l.places[path] = p
	if len(l.places) > l.watch.limit && l.slow == "" {
		l.slow = fmt.Sprintf("there are more than %d folders; point spec.path at those of the profiles", l.watch.limit)
	}
	if l.slow != "" {
		return p
	}
	err := l.watch.kernel.Add(path)
	gone := errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOTDIR)
	if err != nil && !gone { // gone: what is above it tells
		l.slow = explainWatch(err)
	}
	return p
}

// directory watches the way to the folder of the profiles, and all in it.
func (l *lookout) directory() {
	d := l.watch.dir
	base, err := filepath.EvalSymlinks(d.Root)
	if err != nil {
		return
	}
	lexical, err := filepath.Rel(d.Root, d.Name())
	if err != nil || !filepath.IsLocal(lexical) {
		return
	}
	path, ok := l.way(base, base, lexical)
	if !ok {
		return
	}
	l.repository(base, path)
	if path, ok = l.way(base, path, filepath.FromSlash(d.Sub)); ok {
		l.folder(base, path, 0)
	}
}

// way goes from a folder along a path, watches each name on it and where links lead,
// and returns where it ends. Nothing above base is looked at.
func (l *lookout) way(base, at, path string) (string, bool) {
	for _, name := range strings.Split(filepath.Clean(path), string(filepath.Separator)) {
		if name == "." || name == "" {
			continue
		}
		next := filepath.Join(at, name)
		if rel, err := filepath.Rel(base, next); err != nil || !filepath.IsLocal(rel) {
			return "", false
		}
		if name != ".." {
			l.add(at).names[name] = true
		}
		info, err := os.Lstat(next)
		if err != nil {
			return "", false
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at = next
			continue
		}
		const most = 40 // as Linux follows links
		to, err := os.Readlink(next)
		if l.links++; err != nil || l.links > most {
			return "", false
		}
		from := at
		if filepath.IsAbs(to) {
			if to, err = filepath.Rel(base, to); err != nil {
				return "", false
			}
			from = base
		}
		var ok bool
		if at, ok = l.way(base, from, to); !ok {
			return "", false
		}
	}
	return at, true
}

// repository watches what says which commit is checked out.
func (l *lookout) repository(base, path string) {
	root, err := os.OpenRoot(base)
	if err != nil {
		return
	}
	defer root.Close()
	rel, err := filepath.Rel(base, path)
	if err != nil {
		return
	}
	for top := rel; ; top = filepath.Dir(top) {
		l.add(filepath.Join(base, top)).names[".git"] = true
		info, err := root.Lstat(filepath.Join(top, ".git"))
		if err != nil && top != "." {
			continue
		}
		if err != nil {
			return
		}
		t := &Repository{root: root, top: top, gitDir: filepath.Join(top, ".git")}
		if t.locate(info) != "" {
			return
		}
		l.add(filepath.Join(base, t.gitDir)).names["HEAD"] = true
		common := filepath.Join(base, t.common)
		l.add(common).names["packed-refs"] = true
		if _, branch, err := t.readHead(); err == nil && branch != "" {
			l.way(base, common, filepath.FromSlash(revision.BranchPrefix+branch))
		}
		return
	}
}

// folder watches a folder of profiles and those below it.
func (l *lookout) folder(base, path string, depth int) {
	if l.slow != "" || depth > filter.MaxDepth {
		return
	}
	l.add(path).all = true // before it is listed, so that nothing comes in between
	dir, err := os.Open(path)
	if err != nil {
		return
	}
	defer dir.Close()
	entries, err := dir.ReadDir(filter.MaxEntries)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && e.Name() != filter.IgnoreFile {
			continue
		}
		switch {
		case e.IsDir():
			l.folder(base, filepath.Join(path, e.Name()), depth+1)
		case e.Type()&os.ModeSymlink != 0 && filter.IsProfileFile(e.Name()):
			l.links = 0
			l.way(base, path, e.Name())
		}
	}
}
