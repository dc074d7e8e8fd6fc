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

// Timing and limits of a watch. A change is reported after watchQuiet without another one, so
// that changes in a burst are reported together, but at most watchPatience after the first.
const (
	// maxWatched is the number of folders that the kernel watches for one source. Each
	// takes about 1 KiB of kernel memory (inotify(7): max_user_watches).
	maxWatched = 4096

	watchQuiet    = 100 * time.Millisecond
	watchPatience = 500 * time.Millisecond
	// watchPoll is the interval of polling if the kernel does not report events.
	watchPoll = 10 * time.Second
	// watchRescan is the interval of searching for folders if there are no events.
	watchRescan = time.Minute
)

// Watch reports changes of a directory until it is closed.
type Watch struct {
	dir     Directory
	changed func(context.Context)
	limit   int           // of folders
	poll    time.Duration // used if the kernel does not report events

	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	slow string

	// Used by the goroutine only.
	kernel  *fsnotify.Watcher // nil if the kernel does not watch
	folders map[string]*watchedFolder
}

// Watch starts watching a directory: the folder of the profiles and all folders below it, the
// links in its path, and the commit that is checked out. It calls changed within a second of
// a change, from one goroutine, with a context that ends with Close. Every change after Watch
// has returned is reported. If the kernel refuses to watch or there are too many folders,
// changed is called every ten seconds instead.
func (d Directory) Watch(changed func(context.Context)) *Watch {
	return d.watch(changed, maxWatched, watchPoll)
}

func (d Directory) watch(changed func(context.Context), limit int, poll time.Duration) *Watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watch{dir: d, changed: changed, limit: limit, poll: poll, cancel: cancel, done: make(chan struct{})}
	w.scan()
	go w.run(ctx)
	return w
}

// Close stops the watch. It waits until a running call of changed has returned.
func (w *Watch) Close() {
	w.cancel()
	<-w.done
}

// Slow returns why changes are not reported at once, "" if they are.
func (w *Watch) Slow() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slow
}

func (w *Watch) run(ctx context.Context) {
	defer close(w.done)
	defer w.stop()
	rescan := time.NewTimer(w.wait())
	defer rescan.Stop()
	var pending *time.Timer // nil if there is no change to report
	var first time.Time
	report := func() {
		pending = nil
		w.scan() // before the report: a change after the report's read is then already watched
		w.changed(ctx)
		rescan.Reset(w.wait())
	}
	for ctx.Err() == nil {
		var quiet <-chan time.Time
		if pending != nil {
			quiet = pending.C
		}
		events, faults := w.channels()
		select {
		case <-ctx.Done():
		case <-quiet:
			report()
		case <-rescan.C:
			if w.scan() || w.Slow() != "" {
				w.changed(ctx)
			}
			rescan.Reset(w.wait())
		case e := <-events:
			if !w.matters(e) {
				continue
			}
			if pending == nil {
				first = time.Now()
				pending = time.NewTimer(watchQuiet)
			} else {
				// Changes without a pause are reported after watchPatience at the latest.
				pending.Reset(max(0, min(watchQuiet, watchPatience-time.Since(first))))
			}
		case fault := <-faults: // usually an overflow of the event queue: events were lost
			if fault != nil {
				report()
			}
		}
	}
}

func (w *Watch) wait() time.Duration {
	if w.Slow() != "" {
		return w.poll
	}
	return watchRescan
}

func (w *Watch) channels() (chan fsnotify.Event, chan error) {
	if w.kernel == nil {
		return nil, nil
	}
	return w.kernel.Events, w.kernel.Errors
}

func (w *Watch) stop() {
	if w.kernel != nil {
		_ = w.kernel.Close() // its events are no longer needed
		w.kernel = nil
	}
}

// watchedFolder is a watched folder.
type watchedFolder struct {
	all   bool            // a folder of profiles: all profile files and folders in it matter
	names map[string]bool // entries that matter in any case
}

// matters reports whether an event can change what is read.
func (w *Watch) matters(e fsnotify.Event) bool {
	if w.folders[e.Name] != nil { // a watched folder was created, deleted or replaced
		return true
	}
	at, name := w.folders[filepath.Dir(e.Name)], filepath.Base(e.Name)
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
	// The entry can be a folder. Kubernetes replaces the files of a mounted ConfigMap by
	// renaming the link "..data".
	return name == ".git" || strings.HasPrefix(name, "..") || !strings.HasPrefix(name, ".")
}

// scan finds the folders to watch, and watches them. It reports whether they differ from
// those of the previous scan.
func (w *Watch) scan() (differs bool) {
	s := scanner{watch: w, folders: map[string]*watchedFolder{}}
	if w.kernel == nil {
		var err error
		if w.kernel, err = fsnotify.NewWatcher(); err != nil {
			s.slow = explainWatch(err)
		}
	}
	s.directory()
	for path := range w.folders {
		if s.folders[path] == nil {
			differs = true
			if w.kernel != nil {
				_ = w.kernel.Remove(path) // fails if the folder was deleted
			}
		}
	}
	for path := range s.folders {
		differs = differs || w.folders[path] == nil
	}
	w.folders = s.folders
	if s.slow != "" {
		w.stop() // poll instead: with some folders not watched, events would be incomplete
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = s.slow
	return differs
}

// explainWatch returns why the kernel does not watch, with the setting to raise.
func explainWatch(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "the kernel allows no more watchers; raise the sysctl fs.inotify.max_user_instances"
	case errors.Is(err, syscall.ENOSPC):
		return "the kernel watches no more folders; raise the sysctl fs.inotify.max_user_watches"
	}
	return fmt.Sprintf("the kernel does not watch: %v", err)
}

// scanner collects the folders to watch.
type scanner struct {
	watch   *Watch
	folders map[string]*watchedFolder
	slow    string
	links   int
}

// add watches a folder. Every scan adds it again, because the folder can have been replaced
// by another one of the same name.
func (s *scanner) add(path string) *watchedFolder {
	if p := s.folders[path]; p != nil {
		return p
	}
	p := &watchedFolder{names: map[string]bool{}}
	s.folders[path] = p
	if len(s.folders) > s.watch.limit && s.slow == "" {
		s.slow = fmt.Sprintf("there are more than %d folders; point spec.path at those of the profiles", s.watch.limit)
	}
	if s.slow != "" {
		return p
	}
	err := s.watch.kernel.Add(path)
	deleted := errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOTDIR)
	if err != nil && !deleted { // its parent, which is watched, reports when it can be opened again
		s.slow = explainWatch(err)
	}
	return p
}

// directory watches the path to the folder of the profiles, and the folder itself.
func (s *scanner) directory() {
	d := s.watch.dir
	base, err := filepath.EvalSymlinks(d.Root)
	if err != nil {
		return
	}
	lexical, err := filepath.Rel(d.Root, d.Name())
	if err != nil || !filepath.IsLocal(lexical) {
		return
	}
	path, ok := s.follow(base, base, lexical)
	if !ok {
		return
	}
	s.repository(base, path)
	if path, ok = s.follow(base, path, filepath.FromSlash(d.Sub)); ok {
		s.folder(base, path, 0)
	}
}

// follow walks along a path from a folder, watches each name in the path and the targets of
// links, and returns where the path leads. It never leaves base.
func (s *scanner) follow(base, at, path string) (string, bool) {
	for _, name := range strings.Split(filepath.Clean(path), string(filepath.Separator)) {
		if name == "." || name == "" {
			continue
		}
		next := filepath.Join(at, name)
		// A link must not lead the watch out of the root.
		if rel, err := filepath.Rel(base, next); err != nil || !filepath.IsLocal(rel) {
			return "", false
		}
		if name != ".." {
			s.add(at).names[name] = true
		}
		info, err := os.Lstat(next)
		if err != nil {
			return "", false
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at = next
			continue
		}
		const most = 40 // path_resolution(7): Linux follows as many links
		to, err := os.Readlink(next)
		if s.links++; err != nil || s.links > most {
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
		if at, ok = s.follow(base, from, to); !ok {
			return "", false
		}
	}
	return at, true
}

// repository watches the files that determine the commit that is checked out.
func (s *scanner) repository(base, path string) {
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
		s.add(filepath.Join(base, top)).names[".git"] = true
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
		s.add(filepath.Join(base, t.gitDir)).names["HEAD"] = true
		common := filepath.Join(base, t.common)
		s.add(common).names["packed-refs"] = true
		if _, branch, err := t.readHead(); err == nil && branch != "" {
			s.follow(base, common, filepath.FromSlash(revision.BranchPrefix+branch))
		}
		return
	}
}

// folder watches a folder of profiles and the folders below it.
func (s *scanner) folder(base, path string, depth int) {
	if s.slow != "" || depth > filter.MaxDepth {
		return
	}
	s.add(path).all = true // before listing it: an entry created later causes an event
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
			s.folder(base, filepath.Join(path, e.Name()), depth+1)
		case e.Type()&os.ModeSymlink != 0 && filter.IsProfileFile(e.Name()):
			s.links = 0
			s.follow(base, path, e.Name())
		}
	}
}
