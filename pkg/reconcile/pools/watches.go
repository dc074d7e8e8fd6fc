package pools

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// profileIndex finds the pools that name a profile.
const profileIndex = "profile"

// stemIndex finds pools by their stems.
const stemIndex = "stem"

// Watches are what Setup watches in addition to the manager's cache.
type Watches struct {
	// Management holds profiles, their sources and configurations.
	Management cache.Cache
	// ClusterInfo holds the ConfigMap kube-public/cluster-info.
	ClusterInfo cache.Cache
	// Registry holds the Secret of registry credentials; nil for none.
	Registry cache.Cache
	// Concurrency is the number of pools handled at a time.
	Concurrency int
}

// Setup registers the controller with the manager of the worker cluster. A pool runs again when its
// profile, its profile's source, an object made for it, or the cluster's
// endpoint, getter token or registry credentials change.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager, watches Watches) error {
	if err := Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	r.Indexed = true
	r.Management.Client = recordingClient{r.Management.Client, &r.ownWrites}
	r.Worker.Client = recordingClient{r.Worker.Client, &r.ownWrites}
	// The priority of what is unchanged is low: changed pools come before those of a restart.
	startOwner := handler.WithLowPriorityWhenUnchanged[client.Object, crreconcile.Request](ownedObjectHandler{&r.ownWrites, r.Worker})
	if err := mgr.Add(manager.RunnableFunc(r.newArchive().Run)); err != nil {
		return fmt.Errorf("setting up the removal of old records: %w", err)
	}
	affected := r.poolFinder()
	clockSet := make(chan event.GenericEvent, 1)
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return r.watchClock(ctx, clockPoll, clockSet) })); err != nil {
		return fmt.Errorf("setting up the watch of the clock: %w", err)
	}
	controllerBuilder := ctrl.NewControllerManagedBy(mgr).
		Named("pool").
		For(&cluster.MachineDeployment{}, builder.WithPredicates(concerned, predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, waveChanged, r.Shard.MembershipChanged()))).
		WatchesRawSource(source.Kind[client.Object](watches.Management, &osm.OperatingSystemProfile{}, affected.profileObjectHandler())).
		WatchesRawSource(source.Kind[client.Object](watches.Management, &api.ProfileSource{}, affected.profileSourceHandler())).
		WatchesRawSource(source.Kind[client.Object](watches.Management, kubeclient.Metadata(kubeclient.ConfigKind), deletedRecordHandler{startOwner, &r.cache, &r.ownWrites}, predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(affected.poolsUsingGetterToken)).
		Watches(&corev1.Secret{}, startOwner).
		Watches(&corev1.ServiceAccount{}, startOwner).
		Watches(&rbacv1.Role{}, startOwner).
		Watches(&rbacv1.RoleBinding{}, startOwner).
		WatchesRawSource(source.Kind(watches.ClusterInfo, &corev1.ConfigMap{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, _ *corev1.ConfigMap) []crreconcile.Request { return affected.allPools(ctx) }), endpointChanged)).
		WatchesRawSource(source.Channel(clockSet, handler.EnqueueRequestsFromMapFunc(
			func(ctx context.Context, _ client.Object) []crreconcile.Request { return affected.allPools(ctx) }))).
		WithOptions(controller.Options{MaxConcurrentReconciles: watches.Concurrency})
	if watches.Registry != nil {
		controllerBuilder = controllerBuilder.WatchesRawSource(source.Kind(watches.Registry, &corev1.Secret{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, _ *corev1.Secret) []crreconcile.Request { return affected.allPools(ctx) })))
	}
	return controllerBuilder.Complete(r)
}

// Index adds the field indexes by which this package lists objects of the worker cluster.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &cluster.MachineDeployment{}, profileIndex, func(obj client.Object) []string {
		if name := obj.GetAnnotations()[api.AnnotationOSP]; name != "" {
			return []string{name}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing MachineDeployments by profile: %w", err)
	}
	err = indexer.IndexField(ctx, &cluster.MachineDeployment{}, stemIndex, func(obj client.Object) []string {
		if md, ok := obj.(*cluster.MachineDeployment); ok && requestsProfile(md) {
			return lineage.NameStems(keyOf(md))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing MachineDeployments by the names of what is made for them: %w", err)
	}
	err = indexer.IndexField(ctx, &corev1.Secret{}, token.Index, func(obj client.Object) []string {
		if pool := obj.GetLabels()[api.LabelTokenPool]; pool != "" {
			return []string{pool}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing bootstrap tokens: %w", err)
	}
	err = indexer.IndexField(ctx, &cluster.Machine{}, bootingIndex, func(obj client.Object) []string {
		if machine, ok := obj.(*cluster.Machine); ok && takeover.MayBoot(machine) {
			return []string{"true"}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Machines that boot: %w", err)
	}
	return nil
}

// AccessCacheOptions returns the cache options of the worker cluster for the objects that let nodes read
// their Secrets: those of cloud-init-settings, trimmed.
func AccessCacheOptions() map[client.Object]cache.ByObject {
	here := cache.ByObject{Namespaces: map[string]cache.Config{api.NamespaceCloudInitSettings: {Transform: DigestSecretsAndTrim}}}
	return map[client.Object]cache.ByObject{&corev1.ServiceAccount{}: here, &rbacv1.Role{}: here, &rbacv1.RoleBinding{}: here}
}

// concerned passes MachineDeployments that are pools, or were: of the latter, those that
// have the finalizer, and those that lost it together with the annotation.
var concerned = predicate.Funcs{
	CreateFunc:  func(e event.CreateEvent) bool { return ours(e.Object) },
	UpdateFunc:  func(e event.UpdateEvent) bool { return ours(e.ObjectNew) || requestsProfile(e.ObjectOld) },
	DeleteFunc:  func(e event.DeleteEvent) bool { return ours(e.Object) },
	GenericFunc: func(e event.GenericEvent) bool { return ours(e.Object) },
}

func ours(md client.Object) bool {
	return requestsProfile(md) || controllerutil.ContainsFinalizer(md, api.FinalizerPool)
}

func requestsProfile(md client.Object) bool { return md.GetAnnotations()[api.AnnotationOSP] != "" }

// waveChanged passes pools that moved to another wave.
var waveChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetLabels()[api.LabelWave] != e.ObjectNew.GetLabels()[api.LabelWave]
	},
}

// endpointChanged ignores the signatures in cluster-info. There is one for every bootstrap token:
// otherwise each new pool would start a run of all others.
var endpointChanged = predicate.TypedFuncs[*corev1.ConfigMap]{
	UpdateFunc: func(e event.TypedUpdateEvent[*corev1.ConfigMap]) bool {
		return e.ObjectOld.Data[kubeclient.ClusterInfoKey] != e.ObjectNew.Data[kubeclient.ClusterInfoKey]
	},
}

// clockPoll is the time between two reads of the clock.
const clockPoll = 5 * time.Second

// watchClock reconciles all pools when the clock was set, such as after a machine slept.
// Tokens expire by the wall clock, but RequeueAfter counts elapsed time, and
// controller-runtime has no queue that follows the wall clock. A shorter RequeueAfter
// would instead reconcile every pool at rest.
func (r *Reconciler) watchClock(ctx context.Context, every time.Duration, set chan<- event.GenericEvent) error {
	lastTime, lastRead := r.Clock.Now().Round(0), time.Now()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		now, passed := r.Clock.Now().Round(0), time.Since(lastRead) // by the two clocks of the system
		jump := now.Sub(lastTime) - passed
		lastTime, lastRead = now, lastRead.Add(passed)
		if jump.Abs() < token.ClockJump {
			return
		}
		log.FromContext(ctx).Info("the clock was set, all pools are reconciled", "by", jump.Round(time.Second))
		select {
		case set <- event.GenericEvent{Object: &cluster.MachineDeployment{}}:
		default: // they are about to be
		}
	}, every)
	return nil
}

// poolFinder finds the pools to which a change of an object matters.
type poolFinder struct {
	management, worker client.Reader
	namespace          string // of configurations
	profiles           desired.Profiles
	cache              *poolCache
}

// profileObjectHandler maps an OperatingSystemProfile to the pools that it affects. Pools that name
// the object itself run on every change: if it is deleted, a built-in profile can take its
// place. The other pools get the version of a profile from the inventory of a source; a change
// of the inventory starts them, and the object exists before that. So a created object affects
// only the pools that read objects themselves: see poolsReadingProfileObject. A deleted object affects none of
// them: a pool that uses it has its configuration, and reports when it needs the object again.
// An edited object can affect all of them; a source never edits one.
//
// When the controller starts, all pools run, after all objects are known.
func (a poolFinder) profileObjectHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[crreconcile.Request]
	add := func(q queue, pools ...[]crreconcile.Request) {
		for _, some := range pools {
			for _, pool := range some {
				q.Add(pool)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				add(q, a.poolsNaming(ctx, e.Object.GetName()), a.poolsReadingProfileObject(ctx, e.Object))
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			was, is := e.ObjectOld, e.ObjectNew
			if was.GetUID() == is.GetUID() && was.GetGeneration() == is.GetGeneration() && maps.Equal(was.GetLabels(), is.GetLabels()) && maps.Equal(was.GetAnnotations(), is.GetAnnotations()) {
				return // the informer's own
			}
			// Both labels count: an edit can move the object from one profile to another.
			add(q, a.poolsNaming(ctx, is.GetName()), a.poolsNaming(ctx, was.GetLabels()[api.LabelProfile]), a.poolsNaming(ctx, is.GetLabels()[api.LabelProfile]), a.poolsReadingProfileObject(ctx, is))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			add(q, a.poolsNaming(ctx, e.Object.GetName()))
		},
	}
}

// poolsReadingProfileObject maps a profile object to the pools that read it themselves: pools with a pinned
// version, which select among the objects; pools that lack it; and pools made from it, because a
// different object can have replaced it.
func (a poolFinder) poolsReadingProfileObject(ctx context.Context, obj client.Object) []crreconcile.Request {
	var out []crreconcile.Request
	for _, pool := range a.cache.poolsLacking(a.profiles.FormatRef(obj.GetNamespace(), obj.GetName())) {
		out = append(out, requestFor(pool)...)
	}
	if name := obj.GetLabels()[api.LabelProfile]; name != "" {
		pinned := func(md *cluster.MachineDeployment) bool { return md.Annotations[api.AnnotationVersionPin] != "" }
		out = append(out, a.listPoolRequests(ctx, pinned, client.MatchingFields{profileIndex: name})...)
	}
	return append(out, a.poolsUsing(ctx, obj)...)
}

// poolsUsing maps a profile object to the pools whose configuration has its profile and version.
func (a poolFinder) poolsUsing(ctx context.Context, obj client.Object) []crreconcile.Request {
	configs, err := kubeclient.ListConfigMetadata(ctx, a.management, a.namespace)
	if err != nil {
		log.FromContext(ctx).Error(err, "finding pools by their configurations") // the cache answers; it fails only when the controller stops
		return nil
	}
	version := ""
	if osp, ok := obj.(*osm.OperatingSystemProfile); ok {
		version = osp.Spec.Version
	}
	var out []crreconcile.Request
	for i := range configs {
		annotations := configs[i].Annotations
		switch annotations[api.AnnotationProfile] {
		case "":
		case obj.GetName():
			out = append(out, requestFor(annotations[api.AnnotationPool])...)
		// The label names the profile, of which the pool can have another version.
		case obj.GetLabels()[api.LabelProfile]:
			if annotations[api.AnnotationVersion] == version {
				out = append(out, requestFor(annotations[api.AnnotationPool])...)
			}
		}
	}
	return out
}

// profileSourceHandler enqueues the pools that name a profile whose versions in a ProfileSource
// changed.
func (a poolFinder) profileSourceHandler() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[crreconcile.Request]
	enqueue := func(ctx context.Context, q queue, names map[string]bool) {
		for name := range names {
			for _, req := range a.poolsNaming(ctx, name) {
				q.Add(req)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			enqueue(ctx, q, changedProfiles(nil, e.Object))
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			enqueue(ctx, q, changedProfiles(e.ObjectOld, e.ObjectNew))
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			enqueue(ctx, q, changedProfiles(e.Object, nil))
		},
	}
}

// changedProfiles names the profiles whose entry differs between two states of a source. If the
// source becomes, or no longer is, the one for built-in profiles, it names all of them, because
// built-in profiles yield to all others.
func changedProfiles(before, after client.Object) map[string]bool {
	entries := func(obj client.Object) (out map[string][]api.ProfileEntry, builtin bool) {
		if ps, ok := obj.(*api.ProfileSource); ok && ps != nil {
			builtin = ps.Spec.Builtin != nil
		}
		return versionsForWaves(obj), builtin
	}
	old, wasBuiltin := entries(before)
	now, isBuiltin := entries(after)
	changed := map[string]bool{}
	for name, e := range now {
		if was, ok := old[name]; !ok || wasBuiltin != isBuiltin || !equality.Semantic.DeepEqual(was, e) {
			changed[name] = true
		}
	}
	for name := range old {
		if _, ok := now[name]; !ok {
			changed[name] = true
		}
	}
	return changed
}

func (a poolFinder) poolsNaming(ctx context.Context, profile string) []crreconcile.Request {
	if profile == "" {
		return nil
	}
	return a.listPoolRequests(ctx, isPool, client.MatchingFields{profileIndex: profile})
}

func (a poolFinder) allPools(ctx context.Context) []crreconcile.Request {
	return a.listPoolRequests(ctx, isPool)
}

// listPoolRequests lists the requests of all MachineDeployments that pass the filter.
func (a poolFinder) listPoolRequests(ctx context.Context, which func(*cluster.MachineDeployment) bool, opts ...client.ListOption) []crreconcile.Request {
	var list cluster.MachineDeploymentList
	if err := a.worker.List(ctx, &list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		// The cache answers; it fails only when the controller stops.
		log.FromContext(ctx).Error(err, "listing MachineDeployments")
		return nil
	}
	out := make([]crreconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		if md := &list.Items[i]; which(md) {
			out = append(out, crreconcile.Request{NamespacedName: client.ObjectKeyFromObject(md)})
		}
	}
	return out
}

// poolsUsingGetterToken maps the Secret with the getter token to all pools, and other objects to
// none.
func (a poolFinder) poolsUsingGetterToken(ctx context.Context, obj client.Object) []crreconcile.Request {
	if obj.GetNamespace() == api.NamespaceCloudInitSettings && obj.GetName() == api.SecretGetterToken {
		return a.allPools(ctx)
	}
	return nil
}

func requestFor(pool string) []crreconcile.Request {
	key, ok := lineage.ParsePool(pool)
	if !ok {
		return nil
	}
	return []crreconcile.Request{{NamespacedName: key}}
}

// versionsForWaves are what the waves get of the profiles of a source, and all there is to
// know of one that has no waves.
func versionsForWaves(obj client.Object) map[string][]api.ProfileEntry {
	out := map[string][]api.ProfileEntry{}
	ps, ok := obj.(*api.ProfileSource)
	if !ok || ps == nil {
		return out
	}
	for _, e := range ps.Status.Profiles {
		out[e.Name] = []api.ProfileEntry{e} // pins and removals
		for wave := int32(0); ps.HasWaves() && wave <= api.LastWave; wave++ {
			waveEntry, decided := selection.EntryForWave(ps, e, wave)
			// Before the decision it does not matter what the wave would get: only the decision
			// is a change.
			if !decided {
				waveEntry = api.ProfileEntry{}
			}
			out[e.Name] = append(out[e.Name], waveEntry)
		}
	}
	return out
}
