package profilesource

import (
	"context"
	"fmt"
	"sync"
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
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	crsource "sigs.k8s.io/controller-runtime/pkg/source"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/commitstatus"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/inventory"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/retention"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Reconciler reconciles ProfileSources. Its fields are set once, before Setup.
type Reconciler struct {
	// Client reads through the manager's cache and writes.
	Client client.Client
	// Live reads from the API server: objects that the cache does not contain yet, and the
	// Secrets with the public keys of signers.
	Live client.Reader
	// Recorder writes events.
	Recorder events.EventRecorder
	// Fetcher fetches what a source names.
	Fetcher *fetcher.Fetcher
	// Bases are the profiles of this binary, offered or not: the last place to search for
	// the base of a ProfileOverlay. nil has none.
	Bases *source.Embedded
	// Custom makes each profile's current version a CustomOperatingSystemProfile, in a seed of
	// KKP, and nothing else: no other version exists in the cluster, and Pools is nil.
	Custom bool
	// Namespace is the controller's: it ignores ProfileSources in others, and pools that
	// name no namespace take their profiles from it. Empty selects all namespaces.
	Namespace string
	// Shard selects the ProfileSources to reconcile. It does not limit which pools and
	// other sources are read.
	Shard shard.Shard
	// Pools finds the pools that name profiles: a requested version is created, and a named
	// profile stays in the inventory. Until its cache is known, no version is pruned. nil
	// means that there are none; then no profile leaves the inventory.
	Pools *retention.Pools
	// ArgoNamespace is the namespace of Applications whose tracking ids name none.
	ArgoNamespace string
	// Check validates every profile before it is applied.
	Check catalog.Check
	// Hooks states that the controller listens for push events.
	Hooks bool
	// Statuses reports to the repository's host; nil disables it.
	Statuses *commitstatus.Statuses
	// Metrics receives the metrics; nil disables them.
	Metrics *metrics.Metrics
	// AuditLog stores events for auditors; nil disables it.
	AuditLog *auditlog.Writer
	// Now is the time at which keys must be valid; nil uses the system clock.
	Now func() time.Time

	mu     sync.Mutex
	caches map[types.NamespacedName]sourceCache

	controller controller.Controller
}

// Setup registers the controller with a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	deleted := predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	changes, err := r.Fetcher.Setup(context.Background(), mgr.GetFieldIndexer())
	if err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(r.Fetcher.UnwatchAll)); err != nil {
		return err
	}
	ours := predicate.NewPredicateFuncs(func(obj client.Object) bool { return r.Namespace == "" || obj.GetNamespace() == r.Namespace })
	sources, changed := handler.EnqueueRequestsFromMapFunc(sourceOf), predicate.Predicate(deleted)
	if r.Custom {
		sources, changed = handler.EnqueueRequestsFromMapFunc(r.owningSourceOrAll), customProfileChanged()
	}
	b := ctrl.NewControllerManagedBy(mgr).
		Named("profilesource").
		For(&api.ProfileSource{}, builder.WithPredicates(ours, predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicates.ReconcileRequestedPredicate{}, acceptRewriteChanged(), r.Shard.MembershipChanged()))).
		Watches(r.writer().ConvertToKind(&osm.OperatingSystemProfile{}), sources, builder.WithPredicates(ours, changed)).
		WatchesRawSource(crsource.Channel(changes, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency})
	if pools := r.Pools.Cache(); pools != nil {
		b = b.WatchesRawSource(r.watchPins(pools))
	}
	c, err := b.Build(r)
	if err != nil {
		return err
	}
	r.controller = c
	if flux := r.Fetcher.Flux; flux != nil {
		flux.Watch = func(kind client.Object, sources func(context.Context, client.Object) []crreconcile.Request, changed predicate.Predicate) error {
			return c.Watch(crsource.Kind(flux.Cache, kind, handler.EnqueueRequestsFromMapFunc(sources), changed))
		}
	}
	return nil
}

// WatchPools watches the pools of another cluster once the cache of its manager is filled. Nothing
// here waits for that cluster.
func (r *Reconciler) WatchPools(ctx context.Context, mgr ctrl.Manager) error {
	pools := mgr.GetCache()
	if err := r.Pools.Index(ctx, pools); err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(context.Context) error {
		r.Pools.SetCache(pools)
		return r.controller.Watch(r.watchPins(pools))
	}))
}

// watchPins triggers the sources of a profile when a pool requests a version of it.
func (r *Reconciler) watchPins(pools cache.Cache) crsource.SyncingSource {
	return crsource.Kind(pools, &cluster.MachineDeployment{}, handler.TypedEnqueueRequestsFromMapFunc(r.sourcesOfPinned), retention.PinAddedOrChanged())
}

// sourcesOfPinned maps a pool that requests a version to the sources that may contain it.
func (r *Reconciler) sourcesOfPinned(ctx context.Context, md *cluster.MachineDeployment) []crreconcile.Request {
	keys := r.Pools.ProfileKeys(md)
	if len(keys) == 0 || keys[0] != r.Namespace+"/"+md.Annotations[api.AnnotationOSP] {
		return nil
	}
	var list api.ProfileSourceList
	if err := r.Client.List(ctx, &list, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // reads of the cache fail only when the controller stops
	}
	var out []crreconcile.Request
	for i := range list.Items {
		ps := &list.Items[i]
		for _, e := range ps.Status.Profiles {
			if e.Name == md.Annotations[api.AnnotationOSP] {
				out = append(out, crreconcile.Request{NamespacedName: types.NamespacedName{Namespace: ps.Namespace, Name: ps.Name}})
			}
		}
	}
	return out
}

// sourceOf maps an OperatingSystemProfile to the ProfileSource that made it.
func sourceOf(_ context.Context, obj client.Object) []crreconcile.Request {
	name := obj.GetLabels()[api.LabelSource]
	if name == "" {
		return nil
	}
	return []crreconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// Reconcile makes the objects of one ProfileSource match what the source contains now.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Fetcher.UnwatchUnusedFluxKinds(ctx); err != nil {
		return ctrl.Result{}, err
	}
	var ps api.ProfileSource
	err := r.Client.Get(ctx, req.NamespacedName, &ps)
	if apierrors.IsNotFound(err) || err == nil && !r.Shard.Includes(&ps) {
		r.forget(req.NamespacedName)
		r.Metrics.SourceGone(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading ProfileSource %s: %w", req, err)
	}
	if !ps.DeletionTimestamp.IsZero() {
		if r.Custom { // KKP's copies remain, and so does what they were copied from
			r.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return r.finalize(ctx, &ps)
	}
	// Edits of a directory must not start runs of a suspended source, or of one with another kind
	// of source.
	if ps.Spec.Directory == nil || ps.Spec.Suspend {
		r.Fetcher.UnwatchDirectory(req.NamespacedName)
	}
	if ps.Spec.Suspend {
		return r.reportSuspended(ctx, &ps)
	}
	// The finalizer comes before the first object, so that a deletion finds all objects.
	if !r.Custom {
		switch err := r.ensureFinalizer(ctx, &ps); {
		case apierrors.IsConflict(err):
			return ctrl.Result{RequeueAfter: racedRetry}, nil
		case err != nil:
			return ctrl.Result{}, err
		}
	}
	return r.reconcile(ctx, &ps)
}

// reconcile observes, plans and applies twice. Current versions come first: pools wait for them, and
// no error of reading the others may stop them. What decides about the others is read after that
// write, so that it contains the new objects and is recent when objects are deleted. The report in
// between writes the status, with the inventory of both plans, before anything is deleted.
func (r *Reconciler) reconcile(ctx context.Context, ps *api.ProfileSource) (ctrl.Result, error) {
	seen, err := r.observe(ctx, ps)
	if err != nil {
		return r.report(ctx, ps, seen.outcome(), err)
	}
	want := inventory.NewPlan(ps, seen.Snapshot, seen.catalogue, seen.Others)
	did, err := r.ensureObjects(ctx, seen.Approved, want)
	if err != nil {
		return r.report(ctx, ps, outcome{}, err)
	}
	entries := inventory.NextEntries(ps, want, did.failed, did.signatures, r.writer().ObjectNameFor)
	if r.Custom { // a seed has no other versions
		return r.report(ctx, ps, r.newOutcome(seen, want, did, entries, nil), nil)
	}

	others := r.retention(seen.archive)
	versions, conflicts, err := r.observeVersions(ctx, others, seen, want, entries)
	if err != nil {
		return r.report(ctx, ps, outcome{}, err)
	}
	todo := retention.NewPlan(ps, entries, versions)
	result, err := r.report(ctx, ps, r.newOutcome(seen, want, did, todo.Entries, conflicts), nil)
	if err != nil {
		return result, err
	}
	done, err := others.Apply(ctx, seen.Approved, todo)
	if err := others.Report(ctx, ps, done, err); err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// retention returns the part that handles the versions that are not current.
func (r *Reconciler) retention(archive *retention.Archive) *retention.Retainer {
	return &retention.Retainer{Objects: r.writer(), Archive: archive, Pools: r.Pools, Recorder: r.Recorder, Now: r.now}
}

func (r *Reconciler) writer() *objects.Writer {
	return &objects.Writer{Client: r.Client, Live: r.Live, ArgoNamespace: r.ArgoNamespace, Custom: r.Custom}
}

// acceptRewriteChanged passes updates that change the annotation that accepts a rewritten history.
func acceptRewriteChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		key := api.AnnotationAcceptRewrite
		return e.ObjectOld != nil && e.ObjectNew != nil && e.ObjectOld.GetAnnotations()[key] != e.ObjectNew.GetAnnotations()[key]
	}}
}

func (r *Reconciler) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

// customProfileChanged passes events after which a CustomOperatingSystemProfile can differ from what
// this controller wrote.
func customProfileChanged() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// owningSourceOrAll maps a CustomOperatingSystemProfile to the ProfileSource that made it, or to all
// of its namespace if none did: each of them can have a profile of this name.
func (r *Reconciler) owningSourceOrAll(ctx context.Context, obj client.Object) []crreconcile.Request {
	if obj.GetLabels()[api.LabelSource] != "" {
		return sourceOf(ctx, obj)
	}
	var list api.ProfileSourceList
	if err := r.Client.List(ctx, &list, client.InNamespace(obj.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil // reads of the cache fail only when the controller stops
	}
	var out []crreconcile.Request
	for _, ps := range list.Items {
		out = append(out, crreconcile.Request{NamespacedName: types.NamespacedName{Namespace: ps.Namespace, Name: ps.Name}})
	}
	return out
}
