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
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/retention"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// observed is everything that was read about a source and its surroundings.
type observed struct {
	objects.Approved
	catalogue *catalog.Catalog
	archive   *retention.Archive
}

// observe fetches the source, verifies that its revision can be applied, and reads its
// profiles. If approval fails, the outcome still names the revision and its repository.
func (r *Reconciler) observe(ctx context.Context, ps *api.ProfileSource) (observed, outcome, error) {
	known, err := r.sourceCacheFor(ps)
	if err != nil {
		return observed{}, outcome{}, err
	}
	began := time.Now()
	snap, slow, err := r.checkSpecAndFetch(ctx, ps, known.read)
	r.measureFetch(ctx, ps, began, err)
	if err != nil {
		return observed{}, outcome{}, err
	}
	out := outcome{revision: snap.Revision, from: snap.Repository}
	if out.approval, err = known.approver.Approve(ctx, ps, snap); err != nil {
		return observed{}, out, err // the report names the revision that was not approved
	}
	l := objects.Approved{Source: ps, Snapshot: snap, Indexer: known.indexer, Approval: out.approval}
	cat, err := l.Indexer.Catalog(ctx, snap)
	if err != nil {
		return observed{}, outcome{}, fmt.Errorf("indexing %s: %w", snap.Revision, err)
	}
	if l.Others, err = retention.OtherSources(ctx, r.Client, ps); err != nil {
		return observed{}, outcome{}, err
	}
	out.state, out.slow, out.requestedAt = l, slow, snap.RequestedAt
	out.webhookWithoutReceiver = ps.Spec.Webhook != nil && !r.Hooks
	return observed{Approved: l, catalogue: cat, archive: known.archive}, out, nil
}

// checkSpecAndFetch fetches the current content of a source, unless its spec.git.verify cannot be met.
func (r *Reconciler) checkSpecAndFetch(ctx context.Context, ps *api.ProfileSource, known *fetcher.Cache) (snap *source.Snapshot, slow string, err error) {
	if err := approval.CheckSpec(ps.Spec.Git); err != nil {
		return nil, "", err
	}
	return r.Fetcher.Fetch(ctx, ps, known)
}

// sourceCache is the indexer of a source, and what it has read. It is replaced if the source
// names another repository or folder, because its data does not apply there.
type sourceCache struct {
	of       string
	indexer  *catalog.Indexer
	read     *fetcher.Cache
	approver *approval.Approver
	archive  *retention.Archive
}

// sourceCacheFor returns the cached state of a source, a new one if its spec changed.
func (r *Reconciler) sourceCacheFor(ps *api.ProfileSource) (sourceCache, error) {
	// With the uid, a source that was deleted and created again starts without the memory of the
	// old one.
	what, err := json.Marshal([]any{ps.UID, ps.Spec.Git, ps.Spec.SourceRef, ps.Spec.Directory, ps.Spec.Path, ps.Spec.Ignore})
	if err != nil {
		return sourceCache{}, fmt.Errorf("encoding the spec: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.indexers == nil {
		r.indexers = map[types.NamespacedName]sourceCache{}
	}
	key := client.ObjectKeyFromObject(ps)
	if known, ok := r.indexers[key]; ok && known.of == string(what) {
		return known, nil
	}
	known := sourceCache{
		of:       string(what),
		indexer:  &catalog.Indexer{Check: r.Check, Builtin: r.Bases, CheckBase: approval.BaseCheck(ps.Spec.Git)},
		read:     &fetcher.Cache{},
		approver: &approval.Approver{Live: r.Live, Now: r.now},
		archive:  retention.NewArchive(),
	}
	r.indexers[key] = known
	return known, nil
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.Fetcher.Forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.indexers, key)
}
