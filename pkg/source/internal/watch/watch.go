package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// Timing and limits of a watch. A change is reported after Quiet without another one, so
// that changes in a burst are reported together, but at most Patience after the first.
const (
	// MaxFolders is the number of folders that the kernel watches for one source. Each
	// takes about 1 KiB of kernel memory (inotify(7): max_user_watches).
	MaxFolders = 4096

	Quiet    = 100 * time.Millisecond
	Patience = 500 * time.Millisecond
	// Poll is the interval of polling if the kernel does not report events.
	Poll = 10 * time.Second
	// rescan is the interval of searching for folders if there are no events.
	rescan = time.Minute
)

// Watch reports changes of folders until it is closed.
type Watch struct {
	find    func(*Scan)
	changed func(context.Context)
	limit   int           // of folders
	poll    time.Duration // used if the kernel does not report events

	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	slow string

	// Used by the goroutine only.
	kernel  *fsnotify.Watcher // nil if the kernel does not watch
	folders map[string]*Folder
}

// Start watches the folders that find adds to a scan. It calls changed within a second of a change
// that matters, from one goroutine, with a context that ends with Close. Every change after Start has
// returned is reported. If the kernel refuses to watch or there are more folders than limit, changed
// is called in the interval of poll instead.
func Start(find func(*Scan), changed func(context.Context), limit int, poll time.Duration) *Watch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Watch{find: find, changed: changed, limit: limit, poll: poll, cancel: cancel, done: make(chan struct{})}
	w.updateWatches()
	go w.run(ctx)
	return w
}

// Close stops the watch. It waits until a running call of changed has returned.
func (w *Watch) Close() {
	w.cancel()
	<-w.done
}

// SlowReason returns why changes are not reported at once, "" if they are.
func (w *Watch) SlowReason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slow
}

// Paths returns the watched folders, after Close.
func (w *Watch) Paths() []string { return slices.Collect(maps.Keys(w.folders)) }

func (w *Watch) run(ctx context.Context) {
	defer close(w.done)
	defer w.closeNotifier()
	rescan := time.NewTimer(w.rescanInterval())
	defer rescan.Stop()
	var pending *time.Timer // nil if there is no change to report
	var first time.Time
	report := func() {
		pending = nil
		w.updateWatches() // before the report: a change after the report's read is then already watched
		w.changed(ctx)
		rescan.Reset(w.rescanInterval())
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
			if w.updateWatches() || w.SlowReason() != "" {
				w.changed(ctx)
			}
			rescan.Reset(w.rescanInterval())
		case e := <-events:
			if !w.isRelevant(e) {
				continue
			}
			if pending == nil {
				first = time.Now()
				pending = time.NewTimer(Quiet)
			} else {
				// Changes without a pause are reported after Patience at the latest.
				pending.Reset(max(0, min(Quiet, Patience-time.Since(first))))
			}
		case fault := <-faults: // usually an overflow of the event queue: events were lost
			if fault != nil {
				report()
			}
		}
	}
}

// rescanInterval returns the time until the folders are searched again.
func (w *Watch) rescanInterval() time.Duration {
	if w.SlowReason() != "" {
		return w.poll
	}
	return rescan
}

func (w *Watch) channels() (chan fsnotify.Event, chan error) {
	if w.kernel == nil {
		return nil, nil
	}
	return w.kernel.Events, w.kernel.Errors
}

func (w *Watch) closeNotifier() {
	if w.kernel != nil {
		_ = w.kernel.Close() // its events are no longer needed
		w.kernel = nil
	}
}

// Folder is a watched folder.
type Folder struct {
	All   bool            // a folder of profiles: all profile files and folders in it matter
	Names map[string]bool // entries that matter in any case
}

// isRelevant reports whether an event can change what is read.
func (w *Watch) isRelevant(e fsnotify.Event) bool {
	if w.folders[e.Name] != nil { // a watched folder was created, deleted or replaced
		return true
	}
	at, name := w.folders[filepath.Dir(e.Name)], filepath.Base(e.Name)
	switch {
	case at == nil:
		return false
	case at.Names[name]:
		return true
	case !at.All:
		return false
	case filter.IsProfileOrIgnoreFile(name):
		return name == filter.IgnoreFile || !strings.HasPrefix(name, ".")
	case !e.Has(fsnotify.Create) && !e.Has(fsnotify.Remove) && !e.Has(fsnotify.Rename):
		return false
	}
	// The entry can be a folder. Kubernetes replaces the files of a mounted ConfigMap by
	// renaming the link "..data".
	return name == ".git" || strings.HasPrefix(name, "..") || !strings.HasPrefix(name, ".")
}

// updateWatches finds the folders to watch, and watches them. It reports whether they differ from
// those of the previous call.
func (w *Watch) updateWatches() (differs bool) {
	s := Scan{watch: w, folders: map[string]*Folder{}}
	if w.kernel == nil {
		var err error
		if w.kernel, err = fsnotify.NewWatcher(); err != nil {
			s.slow = explainWatchError(err)
		}
	}
	w.find(&s)
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
		w.closeNotifier() // poll instead: with some folders not watched, events would be incomplete
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = s.slow
	return differs
}

// explainWatchError returns why the kernel does not watch, with the setting to raise.
func explainWatchError(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "the kernel allows no more watchers; raise the sysctl fs.inotify.max_user_instances"
	case errors.Is(err, syscall.ENOSPC):
		return "the kernel watches no more folders; raise the sysctl fs.inotify.max_user_watches"
	}
	return fmt.Sprintf("the kernel does not watch: %v", err)
}

// Scan collects the folders to watch.
type Scan struct {
	watch   *Watch
	folders map[string]*Folder
	slow    string
}

// WatchFolder watches a folder. Every scan adds it again, because the folder can have been replaced
// by another one of the same name.
func (s *Scan) WatchFolder(path string) *Folder {
	if p := s.folders[path]; p != nil {
		return p
	}
	p := &Folder{Names: map[string]bool{}}
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
		s.slow = explainWatchError(err)
	}
	return p
}

// IsSlow reports whether the folders cannot all be watched, so that more need not be added.
func (s *Scan) IsSlow() bool { return s.slow != "" }
