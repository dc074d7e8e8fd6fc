package fetcher

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// watched is the watch of a directory.
type watched struct {
	root, path, sub string
	watch           *source.Watch
	loggedSlow      string // last logged reason for slowness
}

// readAndWatchDirectory reads a directory. The watch starts before, so that no edit is missed.
func (f *Fetcher) readAndWatchDirectory(ctx context.Context, ps *api.ProfileSource, lines *source.HistoryCache) (snap *source.Snapshot, slow string, err error) {
	if f.DirectoryRoot == "" {
		f.UnwatchDirectory(client.ObjectKeyFromObject(ps))
		return nil, "", &SpecError{Reason: api.ReasonAccessDenied, Err: errors.New("spec.directory: no directory is allowed: start the controller with --directory-root")}
	}
	dir := source.Directory{Root: f.DirectoryRoot, Path: ps.Spec.Directory.Path, Sub: ps.Spec.Path, Ignore: ignorePatterns(ps), Lines: lines}
	slow = f.ensureDirectoryWatch(ctx, ps, dir)
	snap, err = dir.Read(ctx)
	return snap, slow, err
}

// ensureDirectoryWatch maintains one watch for a ProfileSource. It returns why edits are not reported
// immediately, or "".
func (f *Fetcher) ensureDirectoryWatch(ctx context.Context, ps *api.ProfileSource, dir source.Directory) string {
	if f.changes == nil { // no controller: a caller reconciles directly
		return ""
	}
	key := client.ObjectKeyFromObject(ps)
	f.mu.Lock()
	w := f.watches[key]
	f.mu.Unlock()
	if w == nil || w.root != dir.Root || w.path != dir.Path || w.sub != dir.Sub {
		f.UnwatchDirectory(key)
		w = &watched{root: dir.Root, path: dir.Path, sub: dir.Sub}
		changed := event.GenericEvent{Object: &api.ProfileSource{ObjectMeta: *ps.ObjectMeta.DeepCopy()}}
		w.watch = dir.Watch(func(ctx context.Context) {
			select {
			case f.changes <- changed:
			case <-ctx.Done():
			}
		})
		f.mu.Lock()
		if f.watches == nil {
			f.watches = map[types.NamespacedName]*watched{}
		}
		f.watches[key] = w
		f.mu.Unlock()
	}
	slow := w.watch.SlowReason()
	if slow != w.loggedSlow {
		w.loggedSlow = slow
		log := log.FromContext(ctx).WithValues("directory", dir.Path)
		if slow == "" {
			log.Info("edits of the directory are noticed immediately again")
		} else {
			log.Info("edits of the directory are noticed only at the interval", "reason", slow)
		}
	}
	return slow
}

// UnwatchDirectory ends the watch of a ProfileSource's directory, if there is one.
func (f *Fetcher) UnwatchDirectory(key types.NamespacedName) {
	f.mu.Lock()
	w := f.watches[key]
	delete(f.watches, key)
	f.mu.Unlock()
	if w != nil {
		w.watch.Close()
	}
}

// UnwatchAll ends all watches when its context ends.
func (f *Fetcher) UnwatchAll(ctx context.Context) error {
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.watches {
		w.watch.Close()
	}
	f.watches = nil
	return nil
}

// WatchedDirectories returns the number of watched directories.
func (f *Fetcher) WatchedDirectories() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watches)
}
