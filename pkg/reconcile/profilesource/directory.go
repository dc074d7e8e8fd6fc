package profilesource

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// watched is the watch of a directory.
type watched struct {
	root, path, sub string
	watch           *source.Watch
	told            string // why it is slow, as it was logged
}

// directory reads a directory, and watches it from just before on.
func (r *Reconciler) directory(ctx context.Context, ps *api.ProfileSource, lines *source.Lines) (snap *source.Snapshot, slow string, err error) {
	if r.DirectoryRoot == "" {
		r.unwatch(client.ObjectKeyFromObject(ps))
		return nil, "", &specError{reason: api.ReasonAccessDenied, err: errors.New("spec.directory: no directory is allowed: start the controller with --directory-root")}
	}
	dir := source.Directory{Root: r.DirectoryRoot, Path: ps.Spec.Directory.Path, Sub: ps.Spec.Path, Ignore: ignored(ps), Lines: lines}
	slow = r.watch(ctx, ps, dir)
	snap, err = dir.Read(ctx)
	return snap, slow, err
}

// watch keeps one watch for a ProfileSource. It returns why that does not tell of
// edits at once, "" when it does.
func (r *Reconciler) watch(ctx context.Context, ps *api.ProfileSource, dir source.Directory) string {
	if r.changes == nil { // somebody reconciles by hand
		return ""
	}
	key := client.ObjectKeyFromObject(ps)
	r.mu.Lock()
	w := r.watches[key]
	r.mu.Unlock()
	if w == nil || w.root != dir.Root || w.path != dir.Path || w.sub != dir.Sub {
		r.unwatch(key)
		w = &watched{root: dir.Root, path: dir.Path, sub: dir.Sub}
		changed := event.GenericEvent{Object: &api.ProfileSource{ObjectMeta: *ps.ObjectMeta.DeepCopy()}}
		w.watch = dir.Watch(func(ctx context.Context) {
			select {
			case r.changes <- changed:
			case <-ctx.Done():
			}
		})
		r.mu.Lock()
		if r.watches == nil {
			r.watches = map[types.NamespacedName]*watched{}
		}
		r.watches[key] = w
		r.mu.Unlock()
	}
	slow := w.watch.Slow()
	if slow != w.told {
		w.told = slow
		log := ctrl.LoggerFrom(ctx).WithValues("directory", dir.Path)
		if slow == "" {
			log.Info("edits of the directory are told at once again")
		} else {
			log.Info("edits of the directory are only looked for", "reason", slow)
		}
	}
	return slow
}

// unwatch ends the watch of a ProfileSource, if there is one.
func (r *Reconciler) unwatch(key types.NamespacedName) {
	r.mu.Lock()
	w := r.watches[key]
	delete(r.watches, key)
	r.mu.Unlock()
	if w != nil {
		w.watch.Close()
	}
}

// unwatchAll ends all watches once the controller stops.
func (r *Reconciler) unwatchAll(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.watches {
		w.watch.Close()
	}
	r.watches = nil
	return nil
}
