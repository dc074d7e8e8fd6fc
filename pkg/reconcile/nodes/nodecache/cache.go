package nodecache

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// The kinds of which the caches only have metadata.
var (
	NodeKind       = corev1.SchemeGroupVersion.WithKind("Node")
	MachineSetKind = cluster.GroupVersion.WithKind("MachineSet")
	RecordKind     = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
)

// Indexes of the caches.
const (
	UIDIndex     = "uid"     // of Machines
	SetIndex     = "set"     // of Machines, by the uid of their MachineSet
	NodeIndex    = "node"    // of Machines and NodeProvenances, by the name of the node
	MachineIndex = "machine" // of Nodes, by what names their Machine; of NodeProvenances, by its uid
	PoolIndex    = "pool"    // of NodeProvenances and records, by "namespace/name"
)

// WorkerObjects configures the cache of the worker cluster for kinds with many objects: it
// only stores the required fields of nodes, machines and NodeProvenances.
func WorkerObjects() map[client.Object]cache.ByObject {
	everywhere := map[string]cache.Config{cache.AllNamespaces: {}}
	return map[client.Object]cache.ByObject{
		&corev1.Node{}:        {Transform: trimNode},
		&cluster.Machine{}:    {Transform: trimMachine, Namespaces: everywhere},
		&cluster.MachineSet{}: {Transform: trimMachineSet, Namespaces: everywhere},
	}
}

// TrimTransform trims all other objects in the cache of the worker cluster. They include
// NodeProvenances: a cache with a rule for a kind does not start before the kind is
// installed.
func TrimTransform() toolscache.TransformFunc {
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

// IndexMachines adds SetIndex to the cache of the worker cluster, which other controllers use, too.
func IndexMachines(ctx context.Context, worker client.FieldIndexer) error {
	err := worker.IndexField(ctx, &cluster.Machine{}, SetIndex, func(obj client.Object) []string {
		if set := lineage.MachineSetOf(obj); set.Name != "" {
			return []string{string(set.UID)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Machines by %s: %w", SetIndex, err)
	}
	return nil
}

// Index adds the other indexes to the caches. Reconciler.Setup of package nodes calls it, too.
func Index(ctx context.Context, worker client.FieldIndexer, management client.FieldIndexer) error {
	for _, i := range []struct {
		in    client.FieldIndexer
		obj   client.Object
		name  string
		value func(client.Object) []string
	}{
		{worker, &cluster.Machine{}, UIDIndex, func(obj client.Object) []string { return []string{string(obj.GetUID())} }},
		{worker, &cluster.Machine{}, NodeIndex, func(obj client.Object) []string {
			if m, ok := obj.(*cluster.Machine); ok && m.Status.NodeRef != nil {
				return []string{m.Status.NodeRef.Name}
			}
			return nil
		}},
		{worker, kubeclient.Metadata(NodeKind), MachineIndex, func(obj client.Object) []string {
			// A Node can name its Machine in either way.
			return []string{obj.GetLabels()[api.LabelOwnedBy], obj.GetAnnotations()[api.AnnotationMachine]}
		}},
		{worker, &api.NodeProvenance{}, NodeIndex, provenanceIndexer(func(s *api.NodeProvenanceSpec) string { return s.Node.Name })},
		{worker, &api.NodeProvenance{}, MachineIndex, provenanceIndexer(func(s *api.NodeProvenanceSpec) string { return string(s.Machine.UID) })},
		{worker, &api.NodeProvenance{}, PoolIndex, provenanceIndexer(func(s *api.NodeProvenanceSpec) string { return s.Pool.Namespace + "/" + s.Pool.Name })},
		{management, kubeclient.Metadata(RecordKind), PoolIndex, func(obj client.Object) []string { return []string{obj.GetAnnotations()[api.AnnotationPool]} }},
	} {
		if err := i.in.IndexField(ctx, i.obj, i.name, i.value); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", i.obj, i.name, err)
		}
	}
	return nil
}

func provenanceIndexer(key func(*api.NodeProvenanceSpec) string) func(client.Object) []string {
	return func(obj client.Object) []string {
		if np, ok := obj.(*api.NodeProvenance); ok {
			return []string{key(&np.Spec)}
		}
		return nil
	}
}
