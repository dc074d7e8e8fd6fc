package fetcher

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// NewRemote returns the inputs for fetching a source in Git, with its current credentials.
func (f *Fetcher) NewRemote(ctx context.Context, ps *api.ProfileSource) (source.Remote, error) {
	git := ps.Spec.Git
	remote := source.Remote{URL: git.URL, Branch: "main", Path: ps.Spec.Path, Ignore: ignorePatterns(ps), Timeout: cmp.Or(git.Timeout.Duration, time.Minute), Key: ps.Namespace}
	if ref := git.Ref; ref != nil && *ref != (api.GitReference{}) {
		if _, err := source.ParseCommit(ref.Commit); ref.Commit != "" && err != nil {
			return remote, &SpecError{Reason: meta.InvalidPathReason, Err: fmt.Errorf("spec.git.ref.commit: %w", err)}
		}
		remote.Branch = ref.Branch
		remote.Tag = ref.Tag
		remote.SemVer = ref.SemVer
		remote.Name = ref.Name
		remote.Commit = source.Commit(ref.Commit)
	}
	return f.withCredentials(ctx, ps, remote)
}

// fetchGit fetches a repository, or uses the server's answer to another source of the same
// repository within the interval, so that a hundred sources send one request. A source uses
// its own answer once. A requested reconciliation, and the first one of a new spec, use no
// earlier answer.
func (f *Fetcher) fetchGit(ctx context.Context, ps *api.ProfileSource) (*source.Snapshot, error) {
	remote, err := f.NewRemote(ctx, ps)
	if err != nil {
		return nil, err
	}
	key := client.ObjectKeyFromObject(ps)
	if known, ok := f.lastRequests.Load(key); ok {
		remote.LastFetched = known.(time.Time)
	}
	// Until the next reconciliation, however it is delayed: with changed credentials the
	// source has another mirror.
	remote.Retention = 2*max(ps.Spec.Interval.Duration, ps.Spec.RetryInterval.Duration) + time.Hour
	snap, err := f.Git.Fetch(ctx, withMaxCacheAge(ps, remote))
	if err != nil {
		// A failure counts as this source's request, too: its next one must not use an earlier
		// answer.
		f.lastRequests.Store(key, time.Now())
		return nil, err
	}
	f.lastRequests.Store(key, snap.RequestedAt)
	return snap, nil
}

// withMaxCacheAge sets how old the answer to another source can be.
func withMaxCacheAge(ps *api.ProfileSource, remote source.Remote) source.Remote {
	token, requested := meta.ReconcileAnnotationValue(ps.Annotations)
	if requested && token != ps.Status.GetLastHandledReconcileRequest() || ps.Generation != ps.Status.ObservedGeneration {
		return remote
	}
	remote.MaxAge = ps.Spec.Interval.Duration
	// Half of it, so that a source's own retry always sends a request.
	remote.MaxFailureAge = ps.Spec.RetryInterval.Duration / 2
	return remote
}
