package profilesource

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/approval"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/inventory"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/retention"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// observed is everything that was read about a source and its surroundings.
type observed struct {
	objects.Approved
	catalogue *catalog.Catalog
	archive   *retention.Archive
	slow      string // why edits are noticed with a delay
}

// observe fetches the source, verifies that its revision can be applied, and reads its
// profiles. If approval fails, it still returns the revision and the result.
func (r *Reconciler) observe(ctx context.Context, ps *api.ProfileSource) (observed, error) {
	cached, err := r.sourceCacheFor(ps)
	if err != nil {
		return observed{}, err
	}
	began := time.Now()
	snap, slow, err := r.checkSpecAndFetch(ctx, ps, cached.fetched)
	r.measureFetch(ctx, ps, began, err)
	if err != nil {
		return observed{}, err
	}
	seen := observed{Approved: objects.Approved{Source: ps, Snapshot: snap, Indexer: cached.indexer}, archive: cached.archive, slow: slow}
	if seen.Approval, err = cached.approver.Approve(ctx, ps, snap); err != nil {
		return seen, err // the report names the revision that was not approved
	}
	if seen.catalogue, err = seen.Indexer.Catalog(ctx, snap); err != nil {
		return observed{}, fmt.Errorf("indexing %s: %w", snap.Revision, err)
	}
	if seen.Others, err = retention.OtherSources(ctx, r.Client, ps); err != nil {
		return observed{}, err
	}
	return seen, nil
}

// observeVersions reads what exists after the objects of current versions were written: all versions
// of the source's profiles, what refers to them, and who else applies a profile of the source.
func (r *Reconciler) observeVersions(ctx context.Context, others *retention.Retainer, seen observed, want inventory.Plan, entries []api.ProfileEntry) (versions retention.Observed, conflicts []string, err error) {
	conflicts, err = r.writer().ConflictingAppliers(ctx, seen.Source.Namespace, want.Current)
	if err != nil {
		return versions, nil, err
	}
	versions, err = others.Observe(ctx, seen.Approved, seen.catalogue, want, entries)
	return versions, conflicts, err
}

// checkSpecAndFetch fetches the current content of a source, unless its spec.git.verify cannot be met.
func (r *Reconciler) checkSpecAndFetch(ctx context.Context, ps *api.ProfileSource, cached *fetcher.Cache) (snap *source.Snapshot, slow string, err error) {
	if err := approval.CheckSpec(ps.Spec.Git); err != nil {
		return nil, "", err
	}
	return r.Fetcher.Fetch(ctx, ps, cached)
}

// sourceCache has what was read from the repository and folder of one ProfileSource.
type sourceCache struct {
	key      string // of the fields that select repository and folder, see cacheKey
	indexer  *catalog.Indexer
	fetched  *fetcher.Cache
	approver *approval.Approver
	archive  *retention.Archive
}

// sourceCacheFor returns the cache of a source. A source that was deleted and created again, or that
// selects another repository or folder, gets an empty one.
func (r *Reconciler) sourceCacheFor(ps *api.ProfileSource) (sourceCache, error) {
	key, err := cacheKey(ps)
	if err != nil {
		return sourceCache{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.caches == nil {
		r.caches = map[types.NamespacedName]sourceCache{}
	}
	name := client.ObjectKeyFromObject(ps)
	if cached, ok := r.caches[name]; ok && cached.key == key {
		return cached, nil
	}
	created := sourceCache{
		key:      key,
		indexer:  &catalog.Indexer{Check: r.Check, Builtin: r.Bases, CheckBase: approval.BaseCheck(ps.Spec.Git)},
		fetched:  &fetcher.Cache{},
		approver: &approval.Approver{Live: r.Live, Now: r.now},
		archive:  retention.NewArchive(),
	}
	r.caches[name] = created
	return created, nil
}

// cacheKey returns the fields of a source that decide what is read from where. Others, such as the
// interval or the rollout, do not change what was read.
func cacheKey(ps *api.ProfileSource) (string, error) {
	key, err := json.Marshal([]any{ps.UID, ps.Spec.Git, ps.Spec.SourceRef, ps.Spec.Directory, ps.Spec.Path, ps.Spec.Ignore})
	if err != nil {
		return "", fmt.Errorf("encoding the spec: %w", err)
	}
	return string(key), nil
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.Fetcher.Forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.caches, key)
}
