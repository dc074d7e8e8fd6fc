package fetcher

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Remote is what fetching a source in Git needs, with the credentials as they are now.
func (f *Fetcher) Remote(ctx context.Context, ps *api.ProfileSource) (source.Remote, error) {
	git := ps.Spec.Git
	remote := source.Remote{URL: git.URL, Branch: "main", Path: ps.Spec.Path, Ignore: ignored(ps), Timeout: git.Timeout.Duration, Key: ps.Namespace}
	if remote.Timeout == 0 {
		remote.Timeout = time.Minute
	}
	if ref := git.Ref; ref != nil && *ref != (api.GitReference{}) {
		if _, err := source.ParseCommit(ref.Commit); ref.Commit != "" && err != nil {
			return remote, &SpecError{Reason: meta.InvalidPathReason, Err: fmt.Errorf("spec.git.ref.commit: %w", err)}
		}
		remote.Branch, remote.Tag, remote.SemVer, remote.Name, remote.Commit = ref.Branch, ref.Tag, ref.SemVer, ref.Name, source.Commit(ref.Commit)
	}
	return f.withCredentials(ctx, ps, remote)
}

// git fetches, or takes what the server told another source of the same
// repository within the interval, so that a hundred of them ask once. What a source
// was told itself serves it once. A look that somebody asked for, and the first at a
// new spec, take nothing from before.
func (f *Fetcher) git(ctx context.Context, ps *api.ProfileSource) (*source.Snapshot, error) {
	remote, err := f.Remote(ctx, ps)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKeyFromObject(ps)
	if known, ok := f.answers.Load(key); ok {
		remote.Known = known.(time.Time)
	}
	// As long as until the next look, however it is put off: a source whose credentials
	// are others then has another mirror.
	remote.Keep = 2*max(ps.Spec.Interval.Duration, ps.Spec.RetryInterval.Duration) + time.Hour
	snap, err := f.Git.Fetch(ctx, shareable(ps, remote))
	if err != nil {
		f.answers.Store(key, time.Now())
		return nil, err
	}
	f.answers.Store(key, snap.AskedAt)
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
