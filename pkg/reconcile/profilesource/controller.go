package profilesource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxcd/pkg/runtime/predicates"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/commitstatus"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// A Reporter is told what each look at a source came to, and returns at once.
// *forge.Statuses is one.
type Reporter interface {
	Looked(l commitstatus.Look)
}

// A Journal keeps facts for auditors. *auditlog.Writer is one.
type Journal interface {
	// Tell keeps facts, at once or as soon as it can.
	Tell(facts ...auditlog.Fact)
}

// Reconciler keeps ProfileSources. Its fields are set once, before Setup.
type Reconciler struct {
	// Client reads through the manager's cache and writes.
	Client client.Client
	// Live reads what the cache may not have seen yet, and the Secrets with keys of signers.
	Live client.Reader
	// Recorder writes events.
	Recorder events.EventRecorder
	// Fetcher fetches what a source names.
	Fetcher *fetcher.Fetcher
	// Bases are the profiles of this binary, offered or not: those in which the base of a
	// ProfileOverlay is looked for last. nil has none.
	Bases *source.Embedded
	// Namespace is the controller's. ProfileSources elsewhere are another controller's,
	// and pools that name no namespace take their profiles from it. Empty: any.
	Namespace string
	// Shard has the ProfileSources that are handled. The pools and the other sources that
	// are looked at are all there are.
	Shard shard.Shard
	// Pools caches MachineDeployments: versions that they pin are brought, profiles that
	// they name stay in the inventory. nil knows of none, and forgets no profile.
	Pools cache.Cache
	// PoolsLater says that pools become known by KnowPools, and that no version is
	// pruned before.
	PoolsLater bool
	// ArgoNamespace has the Applications whose tracking ids name no namespace.
	ArgoNamespace string
	// Check is asked about every profile before it is applied.
	Check profile.Check
	// Hooks tells that pushes are listened for.
	Hooks bool
	// Statuses tells the repository's host; nil tells nobody.
	Statuses Reporter
	// Metrics counts; nil is nobody.
	Metrics *metrics.Metrics
	// Journal keeps facts for auditors; nil is none.
	Journal Journal
	// Now is the time by which signatures are judged; nil is the clock.
	Now func() time.Time

	mu       sync.Mutex
	indexers map[types.NamespacedName]remembered

	later      atomic.Pointer[cache.Cache] // Pools, since KnowPools
	controller controller.Controller
}

// Setup registers the controller with a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	deleted := predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	changes, err := r.Fetcher.Setup(context.Background(), mgr)
	if err != nil {
		return err
	}
	if r.Pools != nil {
		if err := r.indexPools(context.Background(), r.Pools); err != nil {
			return err
		}
	}
	ours := predicate.NewPredicateFuncs(func(obj client.Object) bool { return r.Namespace == "" || obj.GetNamespace() == r.Namespace })
	b := ctrl.NewControllerManagedBy(mgr).
		Named("profilesource").
		For(&api.ProfileSource{}, builder.WithPredicates(ours, predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicates.ReconcileRequestedPredicate{}, acceptChanged(), deletionStarted(), r.Shard.Moved()))).
		Watches(&osm.OperatingSystemProfile{}, handler.EnqueueRequestsFromMapFunc(sourceOf), builder.WithPredicates(ours, deleted)).
		WatchesRawSource(changes).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency})
	if r.Pools != nil {
		b = b.WatchesRawSource(r.pinned(r.Pools))
	}
	c, err := b.Build(r)
	r.controller = c
	r.Fetcher.WatchWith(c)
	return err
}

// sourceOf maps an OperatingSystemProfile to the ProfileSource that made it.
func sourceOf(_ context.Context, obj client.Object) []crreconcile.Request {
	name := obj.GetLabels()[api.LabelSource]
	if name == "" {
		return nil
	}
	return []crreconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// Reconcile brings the objects of one ProfileSource in line with what it holds now.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Fetcher.UnwatchUnnamed(ctx); err != nil {
		return ctrl.Result{}, err
	}
	var ps api.ProfileSource
	err := r.Client.Get(ctx, req.NamespacedName, &ps)
	if apierrors.IsNotFound(err) || err == nil && !r.Shard.Holds(&ps) {
		r.forget(req.NamespacedName)
		r.Metrics.SourceGone(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading ProfileSource %s: %w", req, err)
	}
	if !ps.DeletionTimestamp.IsZero() {
		return r.remove(ctx, &ps)
	}
	if ps.Spec.Directory == nil || ps.Spec.Suspend {
		r.Fetcher.Unwatch(req.NamespacedName)
	}
	if ps.Spec.Suspend {
		return r.reportSuspended(ctx, &ps)
	}
	if err := r.hold(ctx, &ps); err != nil {
		return late(err)
	}
	out, err := r.sync(ctx, &ps)
	result, reported := r.report(ctx, &ps, out, err)
	if err != nil || reported != nil {
		return result, reported
	}
	if err := r.settle(ctx, out); err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// outcome is what one look at a source came to.
type outcome struct {
	revision string             // what was looked at
	from     string             // the repository of it
	approval approval           // why it may be applied
	asked    time.Time          // when the server was asked; zero where there is none
	entries  []api.ProfileEntry // the new inventory
	created  []profile.Version  // versions that became objects
	refused  []error            // what of the revision was not applied
	slow     string             // why edits are not told at once
	deaf     bool               // pushes are to be told, and nobody listens
	look     look
	shelves  *shelves // all versions, nil where nothing can be said
	rivals   []string // who else applies a profile of this source
}

// sync looks at the source and creates what is missing. An error means that
// nothing can be said about the source; refused files are no error.
func (r *Reconciler) sync(ctx context.Context, ps *api.ProfileSource) (outcome, error) {
	known, err := r.remember(ps)
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	snap, slow, err := r.fetch(ctx, ps, known.read)
	r.fetched(ctx, ps, began, err)
	if err != nil {
		return outcome{}, err
	}
	out := outcome{revision: snap.Revision, from: snap.Repository}
	if out.approval, err = r.approve(ctx, ps, snap, known.ring); err != nil {
		return out, err
	}
	l := look{source: ps, snapshot: snap, indexer: known.indexer, approval: out.approval, archive: known.archive}
	cat, err := l.indexer.Catalogue(ctx, snap)
	if err != nil {
		return outcome{}, fmt.Errorf("indexing %s: %w", snap.Revision, err)
	}
	others, err := r.otherSources(ctx, ps)
	if err != nil {
		return outcome{}, err
	}
	want := decide(ps, snap, cat, others)
	out.refused, out.slow, out.asked = want.refused, slow, snap.AskedAt
	out.deaf = ps.Spec.Webhook != nil && !r.Hooks
	failed, signatures := map[string]bool{}, map[string]string{}
	for _, v := range want.apply {
		why, err := l.approval.vouch(ctx, snap, v)
		if err != nil {
			return outcome{}, err
		}
		if why != "" {
			failed[v.Name] = true
			out.refused = append(out.refused, fmt.Errorf("%s: profile %q %s is what an earlier commit holds, and nobody vouches for that: %s: give the profile a new version", v.CurrentPath, v.Name, v.Version, why))
			continue
		}
		made, signed, err := r.ensure(ctx, l, v)
		var conflict *conflictError
		switch {
		case errors.As(err, &conflict):
			failed[v.Name] = true
			out.refused = append(out.refused, err)
			continue
		case err != nil:
			return outcome{}, err
		case made:
			out.created = append(out.created, v)
		}
		// An object is never changed, not even one made before signatures were demanded.
		if signed == "" {
			if signed, err = l.signedBefore(ctx, v); err != nil {
				return outcome{}, err
			}
		}
		signatures[v.Name] = signed
	}
	out.entries = inventory(ps, want, failed)
	for i, e := range out.entries {
		if signed, applied := signatures[e.Name]; applied {
			out.entries[i].Signature = signed
		}
	}
	out.look = l
	if out.rivals, err = r.rivals(ctx, ps.Namespace, want); err != nil {
		return outcome{}, err
	}
	if out.shelves, err = r.collect(ctx, l, cat, want, others); err != nil {
		return outcome{}, err
	}
	out.entries, err = r.addVersions(ctx, ps, out.entries, out.shelves)
	return out, err
}

// signedBefore is the signature of a version whose object names none.
func (l look) signedBefore(ctx context.Context, v profile.Version) (string, error) {
	for _, e := range l.source.Status.Profiles {
		if l.approval.keys != nil && e.Signature != "" && e.Object == objectName(l.source, v) && e.Digest == v.Digest {
			return e.Signature, nil // of the look that approved it
		}
	}
	return l.approval.signatureOf(ctx, l.snapshot, v)
}

// look is one look at a source.
type look struct {
	source   *api.ProfileSource
	snapshot *source.Snapshot
	indexer  *profile.Indexer
	approval approval
	archive  *archive
}

// fetch fetches what a source contains now, unless its spec.git.verify cannot be met.
func (r *Reconciler) fetch(ctx context.Context, ps *api.ProfileSource, known *fetcher.Cache) (snap *source.Snapshot, slow string, err error) {
	if err := checkVerify(ps.Spec.Git); err != nil {
		return nil, "", err
	}
	return r.Fetcher.Fetch(ctx, ps, known)
}

// remembered is the indexer of a source, and what it has read: of another
// repository or another folder nothing that it knows holds.
type remembered struct {
	of      string
	indexer *profile.Indexer
	read    *fetcher.Cache
	ring    *keyring
	archive *archive
}

func (r *Reconciler) remember(ps *api.ProfileSource) (remembered, error) {
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
	known := remembered{of: string(what), indexer: &profile.Indexer{Check: r.Check, Builtin: r.Bases, Guard: guardOf(ps.Spec.Git)}, read: &fetcher.Cache{}, ring: &keyring{}, archive: newArchive()}
	r.indexers[key] = known
	return known, nil
}

func (r *Reconciler) forget(key types.NamespacedName) {
	r.Fetcher.Forget(key)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.indexers, key)
}

// otherSources lists the other ProfileSources of the namespace.
func (r *Reconciler) otherSources(ctx context.Context, ps *api.ProfileSource) ([]api.ProfileSource, error) {
	var list api.ProfileSourceList
	if err := r.Client.List(ctx, &list, client.InNamespace(ps.Namespace)); err != nil {
		return nil, fmt.Errorf("listing ProfileSources: %w", err)
	}
	var out []api.ProfileSource
	for _, other := range list.Items {
		if other.UID != ps.UID {
			out = append(out, other)
		}
	}
	return out, nil
}

// ensure creates the object of a version, unless it exists. It reports whether it
// created it, and the signature that the object names.
func (r *Reconciler) ensure(ctx context.Context, l look, v profile.Version) (made bool, signed string, err error) {
	key := types.NamespacedName{Namespace: l.source.Namespace, Name: objectName(l.source, v)}
	var have osm.OperatingSystemProfile
	err = r.Client.Get(ctx, key, &have)
	if apierrors.IsNotFound(err) {
		signed, err = r.create(ctx, key, l, v)
		if !apierrors.IsAlreadyExists(err) {
			return err == nil, signed, err
		}
		err = r.Live.Get(ctx, key, &have) // the cache is behind
	}
	if err != nil {
		return false, "", fmt.Errorf("reading OperatingSystemProfile %s: %w", key, err)
	}
	if got := profile.Digest(have.Spec); got != v.Digest {
		return false, "", &conflictError{fmt.Errorf("%s: OperatingSystemProfile %s exists with other content (digest %s%s, not %s%s): give the profile a new version, or delete the object if nothing uses it",
			cmp.Or(v.CurrentPath, v.Path), key, got, ofCommit(have.Annotations[api.AnnotationCommit]), v.Digest, ofCommit(string(v.Commit)))}
	}
	if by := ownership.Marks(&have, r.ArgoNamespace); len(by) > 0 {
		return false, "", &conflictError{fmt.Errorf("%s: OperatingSystemProfile %s is applied by %s as well as by ProfileSource %q, and would go with it: take it out of what that applies",
			cmp.Or(v.CurrentPath, v.Path), key, by[0], l.source.Name)}
	}
	return false, have.Annotations[api.AnnotationSignature], nil
}

// ofCommit names a commit where one is known.
func ofCommit(commit string) string {
	if commit == "" {
		return ""
	}
	return " of commit " + redact.Clean(commit)
}

// create makes the object of a version. An error that it exists comes as it is.
func (r *Reconciler) create(ctx context.Context, key types.NamespacedName, l look, v profile.Version) (string, error) {
	doc, err := l.indexer.Document(ctx, l.snapshot, v)
	if err != nil {
		return "", err
	}
	author, err := profile.ChangeOf(ctx, l.snapshot, v)
	if err != nil {
		return "", err
	}
	signed, err := l.approval.signatureOf(ctx, l.snapshot, v)
	if err != nil {
		return "", err
	}
	err = r.Client.Create(ctx, object(key, origin{source: l.source, snapshot: l.snapshot, version: v, author: author, signature: signed}, doc), client.FieldOwner(api.FieldManager))
	switch {
	case apierrors.IsInvalid(err):
		return "", &conflictError{fmt.Errorf("%s: the API server refuses profile %q %s: %w", cmp.Or(v.CurrentPath, v.Path), v.Name, v.Version, err)}
	case err != nil && !apierrors.IsAlreadyExists(err):
		return "", fmt.Errorf("creating OperatingSystemProfile %s: %w", key, err)
	}
	return signed, err
}

// conflictError says that a version cannot become an object.
type conflictError struct{ err error }

func (e *conflictError) Error() string { return e.err.Error() }
func (e *conflictError) Unwrap() error { return e.err }
