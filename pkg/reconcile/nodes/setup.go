package nodes

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apicache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
)

// Installed reports whether the API server serves the kind that Setup needs.
func Installed(mapper apimeta.RESTMapper) (bool, error) {
	kind := api.GroupVersion.WithKind("NodeProvenance")
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if apimeta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for the kind %s: %w", kind.Kind, err)
	}
	return true, nil
}

// Setup registers the controllers with the manager of the worker cluster, whose cache
// must have the objects of nodecache.WorkerObjects. The manager can be running already. A node is
// reconciled when it is created or deleted, when its report changes, and when its links
// to a pool change; its heartbeats are ignored. concurrency is the number of nodes handled at a time.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager, management cache.Cache, concurrency int) error {
	// One push can concern every node: their statuses must not be written all at once.
	r.handled = apicache.NewLRUExpireCacheWithClock(maxNodes, r.Clock)
	r.suspected = apicache.NewLRUExpireCacheWithClock(maxNodes, r.Clock)
	r.silent = apicache.NewLRUExpireCacheWithClock(maxNodes, r.Clock)
	r.pace = flowcontrol.NewTokenBucketRateLimiter(behindRate, behindBurst)
	if err := nodecache.Index(ctx, mgr.GetFieldIndexer(), management); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(r.runRetention)); err != nil {
		return fmt.Errorf("setting up the removal of old NodeProvenances: %w", err)
	}
	if err := r.exportCounts(ctx, mgr); err != nil {
		return err
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("node").
		For(&corev1.Node{}, builder.OnlyMetadata, builder.WithPredicates(nodeChanged)).
		Watches(&cluster.Machine{}, handler.EnqueueRequestsFromMapFunc(r.nodesLinkedToMachine), builder.WithPredicates(linkChanged)).
		WatchesMetadata(&cluster.MachineSet{}, handler.EnqueueRequestsFromMapFunc(r.nodesOfSet), builder.WithPredicates(linkChanged)).
		Watches(&api.NodeProvenance{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []crreconcile.Request {
			if np, ok := obj.(*api.NodeProvenance); ok {
				return []crreconcile.Request{{NamespacedName: types.NamespacedName{Name: np.Spec.Node.Name}}}
			}
			return nil
		}), builder.WithPredicates(r.provenanceDeletedOrOrphaned())).
		WatchesRawSource(source.Kind(management, kubeclient.Metadata(kubeclient.ConfigKind), handler.TypedEnqueueRequestsFromMapFunc(r.nodesOfNewPool), firstConfig)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the node controller: %w", err)
	}
	// Nodes that join do not wait for the statuses of others.
	err = ctrl.NewControllerManagedBy(mgr).
		Named("node-behind").
		WatchesRawSource(source.Kind(management, kubeclient.Metadata(kubeclient.ConfigKind), handler.TypedEnqueueRequestsFromMapFunc(
			func(_ context.Context, osc *metav1.PartialObjectMetadata) []crreconcile.Request { return poolOf(osc) }), configReplaced)).
		Complete(behindReconciler{r})
	if err != nil {
		return fmt.Errorf("setting up the controller of nodes that are behind: %w", err)
	}
	return nil
}

// exportCounts exports the numbers of NodeProvenances as metrics.
func (r *Reconciler) exportCounts(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &api.NodeProvenance{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(r.counts.eventHandler())
	}
	if err != nil {
		return fmt.Errorf("counting NodeProvenances: %w", err)
	}
	r.Metrics.RegisterNodes(r.counts.listCounts)
	r.Metrics.ProvenanceReady(true)
	return nil
}

// nodesLinkedToMachine maps a Machine to the nodes that name it, and to the one that it names.
func (r *Reconciler) nodesLinkedToMachine(ctx context.Context, obj client.Object) []crreconcile.Request {
	m, ok := obj.(*cluster.Machine)
	if !ok {
		return nil
	}
	names := map[string]bool{}
	if m.Status.NodeRef != nil {
		names[m.Status.NodeRef.Name] = true
	}
	for _, by := range []string{string(m.UID), m.Namespace + "/" + m.Name} {
		list := kubeclient.MetadataList(nodecache.NodeKind)
		if err := r.Worker.List(ctx, list, client.MatchingFields{nodecache.MachineIndex: by}, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "listing Nodes") // the cache fails only when the controller stops
			return nil
		}
		for i := range list.Items {
			names[list.Items[i].Name] = true
		}
	}
	var out []crreconcile.Request
	for name := range names {
		out = append(out, crreconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
	}
	return out
}

// nodesOfSet maps a MachineSet to the nodes of its machines.
func (r *Reconciler) nodesOfSet(ctx context.Context, obj client.Object) []crreconcile.Request {
	var machines cluster.MachineList
	if err := r.Worker.List(ctx, &machines, client.MatchingFields{nodecache.SetIndex: string(obj.GetUID())}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "listing Machines")
		return nil
	}
	var out []crreconcile.Request
	for i := range machines.Items {
		out = append(out, r.nodesLinkedToMachine(ctx, &machines.Items[i])...)
	}
	return out
}

// nodesOfNewPool maps the first configuration of a pool to the pool's existing nodes: until
// now they belonged to a MachineDeployment without a profile.
func (r *Reconciler) nodesOfNewPool(ctx context.Context, osc *metav1.PartialObjectMetadata) []crreconcile.Request {
	var out []crreconcile.Request
	for _, pool := range poolOf(osc) {
		sets := kubeclient.MetadataList(nodecache.MachineSetKind)
		if err := r.Worker.List(ctx, sets, client.InNamespace(pool.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "listing MachineSets")
			return nil
		}
		for i := range sets.Items {
			if lineage.PoolOfSet(&sets.Items[i]).Name == pool.Name {
				out = append(out, r.nodesOfSet(ctx, &sets.Items[i])...)
			}
		}
	}
	return out
}

// poolOf maps a configuration to its pool.
func poolOf(obj client.Object) []crreconcile.Request {
	pool, ok := lineage.ParsePool(lineage.PoolOf(obj))
	if !ok {
		return nil
	}
	return []crreconcile.Request{{NamespacedName: pool}}
}

// nodeChanged ignores heartbeats.
var nodeChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld, e.ObjectNew
		return was.GetUID() != is.GetUID() || lineage.ReportOf(was) != lineage.ReportOf(is) ||
			was.GetLabels()[api.LabelOwnedBy] != is.GetLabels()[api.LabelOwnedBy] ||
			was.GetAnnotations()[api.AnnotationMachine] != is.GetAnnotations()[api.AnnotationMachine] ||
			was.GetAnnotations()[api.AnnotationMatch] != is.GetAnnotations()[api.AnnotationMatch] ||
			was.GetAnnotations()[api.AnnotationProvenance] != is.GetAnnotations()[api.AnnotationProvenance] && !namesProvenance(is)
	},
}

// namesProvenance reports whether a Node names its NodeProvenance, as written by this controller.
func namesProvenance(node client.Object) bool {
	return node.GetAnnotations()[api.AnnotationProvenance] == lineage.ProvenanceName(node.GetName(), node.GetUID())
}

// linkChanged passes events that link a machine to another node or pool. Deletions link
// nothing.
var linkChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() || !sameOwners(e.ObjectOld, e.ObjectNew) || nodeRefOf(e.ObjectOld) != nodeRefOf(e.ObjectNew)
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

func sameOwners(a, b client.Object) bool {
	return slices.EqualFunc(a.GetOwnerReferences(), b.GetOwnerReferences(), func(a, b metav1.OwnerReference) bool { return a.UID == b.UID })
}

func nodeRefOf(obj client.Object) string {
	if m, ok := obj.(*cluster.Machine); ok && m.Status.NodeRef != nil {
		return m.Status.NodeRef.Name
	}
	return ""
}

// provenanceDeletedOrOrphaned passes deletions by users, which are undone, and NodeProvenances
// whose Node can be deleted already: those that existed when the controller started, and those that
// reach the cache after the deletion of their Node. It drops updates.
func (r *Reconciler) provenanceDeletedOrOrphaned() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return e.IsInInitialList || !r.hasNode(e.Object) },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
}

// hasNode reports whether the cache has the Node of a NodeProvenance.
func (r *Reconciler) hasNode(obj client.Object) bool {
	np, ok := obj.(*api.NodeProvenance)
	if !ok {
		return false
	}
	node := kubeclient.Metadata(nodecache.NodeKind)
	found, err := kubeclient.Find(context.Background(), r.Worker, types.NamespacedName{Name: np.Spec.Node.Name}, node)
	return err == nil && found && node.UID == np.Spec.Node.UID
}

// firstConfig passes new configurations that replace none; configurations that existed
// when the controller started are handled with all nodes.
var firstConfig = predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
	CreateFunc: func(e event.TypedCreateEvent[*metav1.PartialObjectMetadata]) bool {
		return !e.IsInInitialList && e.Object.Annotations[api.AnnotationReplaces] == ""
	},
	UpdateFunc: func(event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool { return false },
	DeleteFunc: func(event.TypedDeleteEvent[*metav1.PartialObjectMetadata]) bool { return false },
}

// configReplaced passes new configurations. A deletion is followed by another
// configuration, or the pool is deleted.
var configReplaced = predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
	UpdateFunc: func(e event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
		return e.ObjectOld.UID != e.ObjectNew.UID
	},
	DeleteFunc: func(event.TypedDeleteEvent[*metav1.PartialObjectMetadata]) bool { return false },
}
