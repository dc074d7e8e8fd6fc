package profilesource

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// fetchShared fetches, or takes what the server told another source of the same
// repository within the interval, so that a hundred of them ask once. What a source
// was told itself serves it once. A look that somebody asked for, and the first at a
// new spec, take nothing from before.
func (r *Reconciler) fetchShared(ctx context.Context, ps *api.ProfileSource, remote source.Remote) (*source.Snapshot, error) {
	key := client.ObjectKeyFromObject(ps)
	if known, ok := r.answers.Load(key); ok {
		remote.Known = known.(time.Time)
	}
	// As long as until the next look, however it is put off: a source whose credentials
	// are others then has another mirror.
	remote.Keep = 2*max(ps.Spec.Interval.Duration, ps.Spec.RetryInterval.Duration) + time.Hour
	snap, err := r.Git.Fetch(ctx, shareable(ps, remote))
	if err != nil {
		r.answers.Store(key, time.Now())
		return nil, err
	}
	r.answers.Store(key, snap.AskedAt)
	return snap, nil
}

// shareable says how old an answer to another source may be.
func shareable(ps *api.ProfileSource, remote source.Remote) source.Remote {
	token, asked := meta.ReconcileAnnotationValue(ps.Annotations)
	if asked && token != ps.Status.GetLastHandledReconcileRequest() || ps.Generation != ps.Status.ObservedGeneration {
		return remote
	}
	remote.MaxAge = ps.Spec.Interval.Duration
	// Half, so that a source's own retry always asks.
	remote.MaxFailureAge = ps.Spec.RetryInterval.Duration / 2
	return remote
}

// untilNext counts an interval from when the server was asked, so that whoever
// shared an answer does not follow it for longer than its own interval.
func untilNext(interval time.Duration, asked time.Time) time.Duration {
	if asked.IsZero() {
		return interval
	}
	return max(interval-time.Since(asked), time.Second)
}
