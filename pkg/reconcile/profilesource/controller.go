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
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/commitstatus"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// A Reporter is told what each look at a source came to, and returns at once.
// *forge.Statuses is one.
type Reporter interface {
	Reconciled(l commitstatus.Reconciliation)
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
	// Pools are those that name profiles: a version that one pins is created, a profile that
	// one names stays in the inventory. As long as their cache is not known, no version is
	// pruned. nil if there are none, and then no profile leaves the inventory.
	Pools *Pools
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
	ours := predicate.NewPredicateFuncs(func(obj client.Object) bool { return r.Namespace == "" || obj.GetNamespace() == r.Namespace })
	b := ctrl.NewControllerManagedBy(mgr).
		Named("profilesource").
		For(&api.ProfileSource{}, builder.WithPredicates(ours, predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicates.ReconcileRequestedPredicate{}, acceptChanged(), deletionStarted(), r.Shard.Moved()))).
		Watches(&osm.OperatingSystemProfile{}, handler.EnqueueRequestsFromMapFunc(sourceOf), builder.WithPredicates(ours, deleted)).
		WatchesRawSource(changes).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency})
	if pools := r.Pools.read(); pools != nil {
		b = b.WatchesRawSource(r.watchPins(pools))
	}
	c, err := b.Build(r)
	r.controller = c
	r.Fetcher.WatchWith(c)
	return err
}

// KnowPools adds to the manager of another cluster what makes its pools known, once its
// cache is filled: nothing here waits for that cluster.
func (r *Reconciler) KnowPools(ctx context.Context, mgr ctrl.Manager) error {
	pools := mgr.GetCache()
	if err := r.Pools.index(ctx, pools); err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(context.Context) error {
		r.Pools.cache.Store(&pools)
		return r.controller.Watch(r.watchPins(pools))
	}))
}

// watchPins reconciles the sources of which a pool requests a version.
func (r *Reconciler) watchPins(pools cache.Cache) crsource.SyncingSource {
	return crsource.Kind(pools, &cluster.MachineDeployment{}, handler.TypedEnqueueRequestsFromMapFunc(r.sourcesOfPinned), pinChanged())
}

// sourcesOfPinned maps a pool that requests a version to the sources that may have it.
func (r *Reconciler) sourcesOfPinned(ctx context.Context, md *cluster.MachineDeployment) []crreconcile.Request {
	keys := r.Pools.profileKeys(md)
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

// Reconcile brings the objects of one ProfileSource in line with what it holds now.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if err := r.Fetcher.UnwatchUnnamed(ctx); err != nil {
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
		return r.remove(ctx, &ps)
	}
	if ps.Spec.Directory == nil || ps.Spec.Suspend {
		r.Fetcher.Unwatch(req.NamespacedName)
	}
	if ps.Spec.Suspend {
		return r.reportSuspended(ctx, &ps)
	}
	if err := r.ensureFinalizer(ctx, &ps); err != nil {
		return late(err)
	}
	out, err := r.sync(ctx, &ps)
	result, reported := r.report(ctx, &ps, out, err)
	if err != nil || reported != nil {
		return result, reported
	}
	if err := r.retention().settle(ctx, out); err != nil {
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
	look     syncState
	shelves  *shelves // all versions, nil where nothing can be said
	rivals   []string // who else applies a profile of this source
}

// sync reads the source and creates the objects of its current versions. An error means that
// nothing can be said about the source; rejected files are not an error.
func (r *Reconciler) sync(ctx context.Context, ps *api.ProfileSource) (outcome, error) {
	seen, out, err := r.observe(ctx, ps)
	if err != nil {
		return out, err
	}
	want := decide(ps, seen.snapshot, seen.catalogue, seen.others)
	out.refused = want.refused
	did, err := r.apply(ctx, seen.syncState, want)
	if err != nil {
		return outcome{}, err
	}
	out.created = did.created
	out.refused = append(out.refused, did.refused...)
	out.entries = inventory(ps, want, did)
	if out.rivals, err = r.rivals(ctx, ps.Namespace, want); err != nil {
		return outcome{}, err
	}
	versions := r.retention()
	if out.shelves, err = versions.collect(ctx, seen.syncState, seen.catalogue, want, seen.others); err != nil {
		return outcome{}, err
	}
	out.entries, err = versions.addVersions(ctx, ps, out.entries, out.shelves)
	return out, err
}

// retention cares for the versions that are not current.
func (r *Reconciler) retention() *retention {
	return &retention{objects: r.writer(), pools: r.Pools, recorder: r.Recorder, now: r.now}
}

func (r *Reconciler) writer() *profileWriter {
	return &profileWriter{client: r.Client, live: r.Live, argoNamespace: r.ArgoNamespace}
}
