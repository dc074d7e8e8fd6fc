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
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// observed is everything that was read about a source and its surroundings.
type observed struct {
	syncState
	catalogue *profile.Catalogue
}

// observe fetches the source, verifies that its revision can be applied, and reads its
// profiles. If approval fails, the outcome still names the revision and its repository.
func (r *Reconciler) observe(ctx context.Context, ps *api.ProfileSource) (observed, outcome, error) {
	known, err := r.remember(ps)
	if err != nil {
		return observed{}, outcome{}, err
	}
	began := time.Now()
	snap, slow, err := r.fetch(ctx, ps, known.read)
	r.fetched(ctx, ps, began, err)
	if err != nil {
		return observed{}, outcome{}, err
	}
	out := outcome{revision: snap.Revision, from: snap.Repository}
	if out.approval, err = r.approve(ctx, ps, snap, known.ring); err != nil {
		return observed{}, out, err // the report names the revision that was not approved
	}
	l := syncState{source: ps, snapshot: snap, indexer: known.indexer, approval: out.approval, archive: known.archive}
	cat, err := l.indexer.Catalogue(ctx, snap)
	if err != nil {
		return observed{}, outcome{}, fmt.Errorf("indexing %s: %w", snap.Revision, err)
	}
	if l.others, err = listOtherSources(ctx, r.Client, ps); err != nil {
		return observed{}, outcome{}, err
	}
	out.state, out.slow, out.requestedAt = l, slow, snap.RequestedAt
	out.webhookWithoutReceiver = ps.Spec.Webhook != nil && !r.Hooks
	return observed{syncState: l, catalogue: cat}, out, nil
}

// signedBefore is the signature of a version whose object, with the given name, names none.
func (l syncState) signedBefore(ctx context.Context, v profile.Version, object string) (string, error) {
	for _, e := range l.source.Status.Profiles {
		if l.approval.keys != nil && e.Signature != "" && e.Object == object && e.Digest == v.Digest {
			return e.Signature, nil // from the reconciliation that approved it
		}
	}
	return l.approval.signatureOf(ctx, l.snapshot, v)
}

// syncState is the input of one reconciliation of a source.
type syncState struct {
	source   *api.ProfileSource
	snapshot *source.Snapshot
	indexer  *profile.Indexer
	approval approval
	archive  *archive
	others   []api.ProfileSource // of the same namespace
}

// fetch fetches the current content of a source, unless its spec.git.verify cannot be met.
func (r *Reconciler) fetch(ctx context.Context, ps *api.ProfileSource, known *fetcher.Cache) (snap *source.Snapshot, slow string, err error) {
	if err := checkVerify(ps.Spec.Git); err != nil {
		return nil, "", err
	}
	return r.Fetcher.Fetch(ctx, ps, known)
}

// remembered is the indexer of a source, and what it has read. It is replaced if the source
// names another repository or folder, because its data does not apply there.
type remembered struct {
	of      string
	indexer *profile.Indexer
	read    *fetcher.Cache
	ring    *keyring
	archive *archive
}

func (r *Reconciler) remember(ps *api.ProfileSource) (remembered, error) {
	// With the uid, a source that was deleted and created again starts without the memory of the
	// old one.
	what, err := json.Marshal([]any{ps.UID, ps.Spec.Git, ps.Spec.SourceRef, ps.Spec.Directory, ps.Spec.Path, ps.Spec.Ignore})
	if err != nil {
		return remembered{}, fmt.Errorf("encoding the spec: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.indexers == nil {
		r.indexers = map[types.NamespacedName]remembered{}
	}
	key := client.ObjectKeyFromObject(ps)
	if known, ok := r.indexers[key]; ok && known.of == string(what) {
		return known, nil
	}
	known := remembered{of: string(what), indexer: &profile.Indexer{Check: r.Check, Builtin: r.Bases, CheckBase: baseCheck(ps.Spec.Git)}, read: &fetcher.Cache{}, ring: &keyring{}, archive: newArchive()}
	r.indexers[key] = known
	return known, nil
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.Fetcher.Forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.indexers, key)
}
