package profilesource

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// maxDeleted is how many deleted objects are remembered that no history has.
const maxDeleted = 100

// prune deletes versions that left the source, that are beyond the limit and to
// which nothing refers, and says which.
//
// A pool may begin to use one between the look and the deletion. The next look,
// which the deletion starts, finds its configuration and makes the object again: of
// the history, or where there is none of what was deleted.
func (r *Reconciler) prune(ctx context.Context, l look, s *shelves) ([]string, error) {
	if r.PoolsLater && r.pools() == nil {
		return nil, nil // a pool may ask for what nobody has yet
	}
	var candidates []*osm.OperatingSystemProfile
	for _, sh := range s.byName {
		if sh.unread {
			continue
		}
		keep := sh.retained(historyLimit(l.source))
		for i, e := range sh.editions {
			if e.object != nil && !keep[i] && !s.foreign[e.object.Name] {
				candidates = append(candidates, e.object)
			}
		}
	}
	candidates, err := r.unrecorded(ctx, l, candidates)
	if err != nil {
		return nil, err
	}
	var gone []string
	var errs []error
	for _, o := range candidates {
		deleted, err := r.discard(ctx, o)
		errs = append(errs, err)
		if !deleted {
			continue
		}
		gone = append(gone, nameOf(o))
		if len(l.snapshot.Line) == 0 && len(l.archive.deleted) < maxDeleted {
			l.archive.deleted[o.Name] = o.DeepCopy()
		}
	}
	slices.Sort(gone)
	return gone, errors.Join(errs...)
}

// unrecorded leaves out what archived records refer to.
func (r *Reconciler) unrecorded(ctx context.Context, l look, candidates []*osm.OperatingSystemProfile) ([]*osm.OperatingSystemProfile, error) {
	now := r.now()
	maps.DeleteFunc(l.archive.recorded, func(_ string, seen time.Time) bool { return now.Sub(seen) >= recordTrust })
	var out []*osm.OperatingSystemProfile
	for _, o := range candidates {
		if _, ok := l.archive.recorded[o.Name]; ok {
			continue
		}
		recorded, err := r.recorded(ctx, o)
		if err != nil {
			return nil, err
		}
		if recorded {
			l.archive.recorded[o.Name] = now
			continue
		}
		out = append(out, o)
	}
	return out, nil
}

// discard deletes exactly the object that was looked at, and reports whether it did.
func (r *Reconciler) discard(ctx context.Context, o *osm.OperatingSystemProfile) (bool, error) {
	err := r.Client.Delete(ctx, &osm.OperatingSystemProfile{ObjectMeta: *o.ObjectMeta.DeepCopy()},
		client.Preconditions{UID: &o.UID, ResourceVersion: &o.ResourceVersion})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // another look will tell
		return false, nil
	case err != nil:
		return false, fmt.Errorf("deleting OperatingSystemProfile %s: %w", client.ObjectKeyFromObject(o), err)
	}
	return true, nil
}
