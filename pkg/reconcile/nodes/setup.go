package nodes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
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
)

// Indexes of the caches.
const (
	uidIndex     = "uid"     // of Machines
	setIndex     = "set"     // of Machines, by the uid of their MachineSet
	nodeIndex    = "node"    // of Machines and NodeProvenances, by the name of the node
	machineIndex = "machine" // of Nodes, by what names their Machine; of NodeProvenances, by its uid
	poolIndex    = "pool"    // of NodeProvenances and records, by "namespace/name"
)

// Watches are watched in addition to the manager's cache.
type Watches struct {
	// Management is the cache of the management cluster.
	Management cache.Cache
	// Concurrency is the number of nodes handled at a time.
	Concurrency int
}

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
// must have the objects of WorkerCache. The manager can be running already. A node is
// reconciled when it is created or deleted, when its report changes, and when its links
// to a pool change; its heartbeats are ignored.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager, w Watches) error {
	// One push can concern every node: their statuses must not be written all at once.
	r.pace = flowcontrol.NewTokenBucketRateLimiter(behindRate, behindBurst)
	if err := Index(ctx, mgr.GetFieldIndexer(), w.Management); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(r.retain)); err != nil {
		return fmt.Errorf("setting up the removal of old NodeProvenances: %w", err)
	}
	if err := r.count(ctx, mgr); err != nil {
		return err
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("node").
		For(&corev1.Node{}, builder.OnlyMetadata, builder.WithPredicates(nodeChanged)).
		Watches(&cluster.Machine{}, handler.EnqueueRequestsFromMapFunc(r.nodesOf), builder.WithPredicates(linkChanged)).
		WatchesMetadata(&cluster.MachineSet{}, handler.EnqueueRequestsFromMapFunc(r.nodesOfSet), builder.WithPredicates(linkChanged)).
		Watches(&api.NodeProvenance{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []crreconcile.Request {
			if np, ok := obj.(*api.NodeProvenance); ok {
				return []crreconcile.Request{{NamespacedName: types.NamespacedName{Name: np.Spec.Node.Name}}}
			}
			return nil
		}), builder.WithPredicates(r.provenanceChanged())).
		WatchesRawSource(source.Kind(w.Management, kubeclient.Metadata(kubeclient.ConfigKind), handler.TypedEnqueueRequestsFromMapFunc(r.nodesOfNew), firstConfig)).
		WithOptions(controller.Options{MaxConcurrentReconciles: w.Concurrency}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the node controller: %w", err)
	}
	// Nodes that join do not wait for the statuses of others.
	err = ctrl.NewControllerManagedBy(mgr).
		Named("node-behind").
		WatchesRawSource(source.Kind(w.Management, kubeclient.Metadata(kubeclient.ConfigKind), handler.TypedEnqueueRequestsFromMapFunc(
			func(_ context.Context, osc *metav1.PartialObjectMetadata) []crreconcile.Request { return poolOf(osc) }), configReplaced)).
		Complete(behindReconciler{r})
	if err != nil {
		return fmt.Errorf("setting up the controller of nodes that are behind: %w", err)
	}
	return nil
}

// count exports NodeProvenances as metrics.
func (r *Reconciler) count(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &api.NodeProvenance{}, cache.BlockUntilSynced(false))
	if err == nil {
		_, err = informer.AddEventHandler(r.counts.handler())
	}
	if err != nil {
		return fmt.Errorf("counting NodeProvenances: %w", err)
	}
	r.Metrics.Nodes(r.counts.all)
	r.Metrics.ProvenanceReady(true)
	return nil
}

// WorkerCache configures the cache of the worker cluster for kinds with many objects: it
// only stores the required fields of nodes, machines and NodeProvenances.
func WorkerCache() map[client.Object]cache.ByObject {
	everywhere := map[string]cache.Config{cache.AllNamespaces: {}}
	return map[client.Object]cache.ByObject{
		&corev1.Node{}:        {Transform: trimNode},
		&cluster.Machine{}:    {Transform: trimMachine, Namespaces: everywhere},
		&cluster.MachineSet{}: {Transform: trimMachineSet, Namespaces: everywhere},
	}
}

// Transform trims all other objects in the cache of the worker cluster. They include
// NodeProvenances: a cache with a rule for a kind does not start before the kind is
// installed.
func Transform() toolscache.TransformFunc {
	strip := cache.TransformStripManagedFields()
	return func(in any) (any, error) {
		if np, ok := in.(*api.NodeProvenance); ok {
			return trimProvenance(np), nil
		}
		return strip(in)
	}
}

// Records configures the cache of the management cluster for archived records: only those
// of --namespace, without their data.
func Records(namespace string) cache.ByObject {
	return cache.ByObject{
		Namespaces: map[string]cache.Config{namespace: {}},
		Label:      labels.SelectorFromSet(labels.Set{api.LabelManagedBy: api.FieldManager}),
	}
}

// Index adds the indexes to the caches. Setup calls it, too.
func Index(ctx context.Context, worker client.FieldIndexer, management client.FieldIndexer) error {
	for _, i := range []struct {
		in    client.FieldIndexer
		obj   client.Object
		name  string
		value func(client.Object) []string
	}{
		{worker, &cluster.Machine{}, uidIndex, func(obj client.Object) []string { return []string{string(obj.GetUID())} }},
		{worker, &cluster.Machine{}, setIndex, func(obj client.Object) []string {
			if set := lineage.MachineSetOf(obj); set.Name != "" {
				return []string{string(set.UID)}
			}
			return nil
		}},
		{worker, &cluster.Machine{}, nodeIndex, func(obj client.Object) []string {
			if m, ok := obj.(*cluster.Machine); ok && m.Status.NodeRef != nil {
				return []string{m.Status.NodeRef.Name}
			}
			return nil
		}},
		{worker, kubeclient.Metadata(nodeKind), machineIndex, func(obj client.Object) []string {
			// A Node can name its Machine in either way.
			return []string{obj.GetLabels()[api.LabelOwnedBy], obj.GetAnnotations()[api.AnnotationMachine]}
		}},
		{worker, &api.NodeProvenance{}, nodeIndex, ofProvenance(func(s *api.NodeProvenanceSpec) string { return s.Node.Name })},
		{worker, &api.NodeProvenance{}, machineIndex, ofProvenance(func(s *api.NodeProvenanceSpec) string { return string(s.Machine.UID) })},
		{worker, &api.NodeProvenance{}, poolIndex, ofProvenance(func(s *api.NodeProvenanceSpec) string { return s.Pool.Namespace + "/" + s.Pool.Name })},
		{management, kubeclient.Metadata(recordKind), poolIndex, func(obj client.Object) []string { return []string{obj.GetAnnotations()[api.AnnotationPool]} }},
	} {
		if err := i.in.IndexField(ctx, i.obj, i.name, i.value); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", i.obj, i.name, err)
		}
	}
	return nil
}

func ofProvenance(key func(*api.NodeProvenanceSpec) string) func(client.Object) []string {
	return func(obj client.Object) []string {
		if np, ok := obj.(*api.NodeProvenance); ok {
			return []string{key(&np.Spec)}
		}
		return nil
	}
}

// nodesOf maps a Machine to the nodes that name it, and to the one that it names.
func (r *Reconciler) nodesOf(ctx context.Context, obj client.Object) []crreconcile.Request {
	m, ok := obj.(*cluster.Machine)
	if !ok {
		return nil
	}
	names := map[string]bool{}
	if m.Status.NodeRef != nil {
		names[m.Status.NodeRef.Name] = true
	}
	for _, by := range []string{string(m.UID), m.Namespace + "/" + m.Name} {
		list := kubeclient.MetadataList(nodeKind)
		if err := r.Worker.List(ctx, list, client.MatchingFields{machineIndex: by}, client.UnsafeDisableDeepCopy); err != nil {
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
	if err := r.Worker.List(ctx, &machines, client.MatchingFields{setIndex: string(obj.GetUID())}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "listing Machines")
		return nil
	}
	var out []crreconcile.Request
	for i := range machines.Items {
		out = append(out, r.nodesOf(ctx, &machines.Items[i])...)
	}
	return out
}

// nodesOfNew maps the first configuration of a pool to the pool's existing nodes: until
// now they belonged to a MachineDeployment without a profile.
func (r *Reconciler) nodesOfNew(ctx context.Context, osc *metav1.PartialObjectMetadata) []crreconcile.Request {
	var out []crreconcile.Request
	for _, pool := range poolOf(osc) {
		sets := kubeclient.MetadataList(machineSetKind)
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
			was.GetAnnotations()[api.AnnotationProvenance] != is.GetAnnotations()[api.AnnotationProvenance] && !named(is)
	},
}

// named reports whether a Node names its NodeProvenance, as written by this controller.
func named(node client.Object) bool {
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
	had, has := a.GetOwnerReferences(), b.GetOwnerReferences()
	if len(had) != len(has) {
		return false
	}
	for i := range had {
		if had[i].UID != has[i].UID {
			return false
		}
	}
	return true
}

func nodeRefOf(obj client.Object) string {
	if m, ok := obj.(*cluster.Machine); ok && m.Status.NodeRef != nil {
		return m.Status.NodeRef.Name
	}
	return ""
}

// provenanceChanged passes deletions by users, which are undone, and NodeProvenances whose Node
// can be deleted already: those that existed when the controller started, and those that reach
// the cache after the deletion of their Node.
func (r *Reconciler) provenanceChanged() predicate.Funcs {
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
	node := kubeclient.Metadata(nodeKind)
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
