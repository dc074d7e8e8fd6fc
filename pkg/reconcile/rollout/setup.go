package rollout

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

const (
	// profileIndex finds the pools that name a profile, replaceIndex those that configure
	// how their machines are replaced.
	profileIndex, replaceIndex = "profile that is followed", "machines that are replaced"
	// indexed is the only value of replaceIndex.
	indexed = "asked for"
	// settle is the time for changes of pools and machines to accumulate before they are
	// counted: a wave of a thousand pools must not cause a thousand writes.
	settle = 500 * time.Millisecond
)

type queue = workqueue.TypedRateLimitingInterface[crreconcile.Request]

// IndexPools adds the indexes to the cache of pools. Setup calls it, too.
func (r *Reconciler) IndexPools(ctx context.Context, worker client.FieldIndexer) error {
	err := worker.IndexField(ctx, &cluster.MachineDeployment{}, profileIndex, func(obj client.Object) []string {
		if md, ok := obj.(*cluster.MachineDeployment); ok && md.Annotations[api.AnnotationOSP] != "" {
			return []string{r.profileNamespaceOf(md) + "/" + md.Annotations[api.AnnotationOSP]}
		}
		return nil
	})
	if err == nil {
		err = worker.IndexField(ctx, &cluster.MachineDeployment{}, replaceIndex, func(obj client.Object) []string {
			if a := obj.GetAnnotations(); a[api.AnnotationOSP] != "" && a[api.AnnotationRollout] != "" {
				return []string{indexed}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("indexing MachineDeployments for rollouts: %w", err)
	}
	return nil
}

// Setup registers the controller with the manager of the cluster that has the pools,
// whose cache must store Machines and MachineSets as in nodecache.WorkerObjects. management is
// the cache of the other cluster.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager, management cache.Cache) error {
	if err := r.IndexPools(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	ours := predicate.NewPredicateFuncs(func(obj client.Object) bool { return obj.GetNamespace() == r.Namespace })
	machines := r.machines.EventHandler(func(ctx context.Context, q queue) {
		for _, req := range r.listRequests(ctx) {
			q.AddAfter(req, settle)
		}
	}, r.Clock.Now)
	built, err := ctrl.NewControllerManagedBy(mgr).
		Named("rollout").
		WatchesRawSource(source.Kind[client.Object](management, &api.ProfileSource{}, &handler.EnqueueRequestForObject{}, ours)).
		WatchesRawSource(source.Kind[client.Object](management, kubeclient.Metadata(kubeclient.ConfigKind), r.enqueueLater(r.requestsForPoolObject))).
		Watches(&cluster.MachineDeployment{}, r.enqueueLater(r.requestsForPool)).
		Watches(&corev1.Secret{}, r.enqueueLater(r.requestsForBootSecret)).
		Watches(&cluster.Machine{}, machines).
		Watches(&cluster.MachineSet{}, machines).
		// The maps of the Reconciler have no lock.
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Build(r)
	if err != nil {
		return fmt.Errorf("setting up the rollout controller: %w", err)
	}
	r.controller = built
	return nil
}

// enqueueLater returns a handler that enqueues what an object maps to after a delay, once for many
// changes.
func (r *Reconciler) enqueueLater(of func(context.Context, client.Object) []crreconcile.Request) handler.EventHandler {
	enqueue := func(ctx context.Context, q queue, objs ...client.Object) {
		for _, obj := range objs {
			for _, req := range of(ctx, obj) {
				q.AddAfter(req, settle)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		// The change can have moved a pool from one source to another.
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { enqueue(ctx, q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
	}
}

// requestsForPool maps a pool to the ProfileSource that paces it, if there is one.
func (r *Reconciler) requestsForPool(ctx context.Context, obj client.Object) []crreconcile.Request {
	md, ok := obj.(*cluster.MachineDeployment)
	if !ok || md.Annotations[api.AnnotationOSP] == "" {
		return nil
	}
	sources, err := r.sources(ctx)
	if err != nil {
		return nil
	}
	group := r.pacingSourceOf(md, sources)
	for i := range sources {
		if sources[i].Name == group && sources[i].HasWaves() {
			return []crreconcile.Request{r.request(group)}
		}
	}
	if md.Annotations[api.AnnotationRollout] != "" {
		return []crreconcile.Request{r.request(group)}
	}
	return nil
}

// requestsForPoolObject maps an object that was created for a pool.
func (r *Reconciler) requestsForPoolObject(ctx context.Context, obj client.Object) []crreconcile.Request {
	pool, ok := lineage.ParsePool(lineage.PoolOf(obj))
	if !ok {
		return nil
	}
	var md cluster.MachineDeployment
	if err := r.Worker.Get(ctx, pool, &md); err != nil {
		return nil // the pool was deleted, which has its own event
	}
	return r.requestsForPool(ctx, &md)
}

// requestsForBootSecret maps the document that machines boot from.
func (r *Reconciler) requestsForBootSecret(ctx context.Context, obj client.Object) []crreconcile.Request {
	if obj.GetNamespace() != api.NamespaceCloudInitSettings || !strings.HasSuffix(obj.GetName(), "-bootstrap-config") {
		return nil
	}
	return r.requestsForPoolObject(ctx, obj)
}

// listRequests returns the ProfileSources, and the request for pools without one.
func (r *Reconciler) listRequests(ctx context.Context) []crreconcile.Request {
	out := []crreconcile.Request{r.request("")}
	sources, err := r.sources(ctx)
	if err != nil {
		return nil
	}
	for i := range sources {
		out = append(out, r.request(sources[i].Name))
	}
	return out
}

func (r *Reconciler) request(name string) crreconcile.Request {
	return crreconcile.Request{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: name}}
}

func (r *Reconciler) sources(ctx context.Context) ([]api.ProfileSource, error) {
	var list api.ProfileSourceList // belongs to the cache: do not modify it
	if err := r.Management.List(ctx, &list, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		// The cache fails only when the controller stops.
		log.FromContext(ctx).Error(err, "listing ProfileSources")
		return nil, err
	}
	return list.Items, nil
}
