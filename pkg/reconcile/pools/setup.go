package pools

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
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
