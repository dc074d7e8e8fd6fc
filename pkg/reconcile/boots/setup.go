package boots

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	apicache "k8s.io/apimachinery/pkg/util/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// poolIndex finds MachineSets by the pool that owns them, "namespace/name".
const poolIndex = "pool"

// concurrency is the number of pools handled at a time. Most runs read only caches.
const concurrency = 2

// Setup registers the controller, with a queue of its own, with the manager of the worker cluster,
// which can be running already. Its cache has MachineDeployments, MachineSets and Machines, with
// nodecache.SetIndex. reports is a cache of the BootReports in cloud-init-settings. A pool is
// reconciled when a machine of it reports, is created, gets a Node or is deleted.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager, reports cache.Cache) error {
	r.Reports = reports
	r.known = apicache.NewLRUExpireCacheWithClock(maxKnown, r.Clock)
	err := mgr.GetFieldIndexer().IndexField(ctx, &cluster.MachineSet{}, poolIndex, func(obj client.Object) []string {
		if pool := lineage.PoolOfSet(obj); pool.Name != "" {
			return []string{pool.String()}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing MachineSets by pool: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("boot").
		WatchesRawSource(source.Kind[client.Object](reports, &api.BootReport{}, handler.EnqueueRequestsFromMapFunc(
			func(_ context.Context, obj client.Object) []crreconcile.Request {
				return requestsOf(lineage.PoolOf(obj))
			}))).
		Watches(&cluster.MachineDeployment{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(poolEnded)).
		Watches(&cluster.MachineSet{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []crreconcile.Request {
			return requestsOf(lineage.PoolOfSet(obj).String())
		}), builder.WithPredicates(predicate.Funcs{
			// Machines can be in the cache before their MachineSet.
			CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		Watches(&cluster.Machine{}, handler.EnqueueRequestsFromMapFunc(r.poolOfMachine), builder.WithPredicates(bootChanged)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the boot controller: %w", err)
	}
	return nil
}

// requestsOf returns the request for a pool, "namespace/name".
func requestsOf(pool string) []crreconcile.Request {
	key, ok := lineage.ParsePool(pool)
	if !ok {
		return nil
	}
	return []crreconcile.Request{{NamespacedName: key}}
}

// poolOfMachine maps a Machine to its pool. The MachineSet can be deleted already. It does not use
// lineage.FollowOwners, which reads metadata: they have another cache than the MachineSets that Setup
// watches, and it can lack one whose event was handled.
func (r *Reconciler) poolOfMachine(ctx context.Context, obj client.Object) []crreconcile.Request {
	var set cluster.MachineSet
	owner := lineage.MachineSetOf(obj)
	found, err := kubeclient.Find(ctx, r.Worker, types.NamespacedName{Namespace: obj.GetNamespace(), Name: owner.Name}, &set)
	if err == nil && found {
		return requestsOf(lineage.PoolOfSet(&set).String())
	}
	return requestsOf(r.poolOfBooting(obj.GetUID()))
}

// poolEnded passes pools that are deleted or lose their profile.
var poolEnded = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !e.ObjectNew.GetDeletionTimestamp().IsZero() || e.ObjectNew.GetAnnotations()[api.AnnotationOSP] != e.ObjectOld.GetAnnotations()[api.AnnotationOSP]
	},
}

// bootChanged passes machines that begin or end to boot.
var bootChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !joined(e.Object) },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || joined(e.ObjectOld) != joined(e.ObjectNew)
	},
	DeleteFunc: func(e event.DeleteEvent) bool { return !joined(e.Object) },
}

func joined(obj client.Object) bool {
	m, ok := obj.(*cluster.Machine)
	return ok && machine{Machine: m}.joined()
}
