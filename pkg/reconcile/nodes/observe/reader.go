package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// allNamespaces in ProfileNamespaces means every namespace.
const allNamespaces = "*"

// Reader reads objects of both clusters. Its fields are set once, before the first read.
type Reader struct {
	// Management has the configurations, their records, and profiles.
	Management kubeclient.Cluster
	// Worker has nodes, machines and NodeProvenances: the same cluster, unless the
	// controller has two.
	Worker kubeclient.Cluster
	// Namespace is that of configurations, records and profiles.
	Namespace string
	// ProfileNamespaces are other namespaces from which pools can use profiles; "*" means
	// every namespace.
	ProfileNamespaces []string
	// Engine renders manifests.
	Engine *render.Engine

	timelines      timelineCache
	configurations configurationCache
	manifests      manifestCache
}

// ChainOf follows a Node to its pool. The chain has no pool if it ends earlier: such a
// node is none of ours, or not yet.
func (r *Reader) ChainOf(ctx context.Context, node *metav1.PartialObjectMetadata) (lineage.Chain, error) {
	machine, err := r.machineOf(ctx, node)
	if err != nil || machine == nil {
		return lineage.Chain{}, err
	}
	return lineage.FollowOwners(ctx, kubeclient.Owners{r.Worker}, machine)
}

// machineOf finds the Machine of a Node: the one whose status names it, otherwise by the
// Node's label or annotation. A node can write these two itself at any time: they are
// ignored if their Machine names another node, or if another Machine names this node.
func (r *Reader) machineOf(ctx context.Context, node *metav1.PartialObjectMetadata) (*cluster.Machine, error) {
	if m, err := r.machineNotOfOtherNode(ctx, node, client.MatchingFields{nodecache.NodeIndex: node.Name}); err != nil || m != nil {
		return m, err
	}
	if uid := node.Labels[api.LabelOwnedBy]; uid != "" {
		m, err := r.machineNotOfOtherNode(ctx, node, client.MatchingFields{nodecache.UIDIndex: uid})
		if err != nil || m != nil {
			return m, err
		}
	}
	namespace, name, ok := strings.Cut(node.Annotations[api.AnnotationMachine], "/")
	if !ok {
		return nil, nil
	}
	var m cluster.Machine
	found, err := kubeclient.Find(ctx, r.Worker, types.NamespacedName{Namespace: namespace, Name: name}, &m)
	if err != nil || !found || !namesNoOtherNode(&m, node) {
		return nil, err
	}
	return &m, nil
}

// MachineContradiction returns how machines contradict the recorded machine of a node, "" if they
// do not: that machine can have been recorded from the node's labels before the machines named
// their nodes.
func (r *Reader) MachineContradiction(ctx context.Context, node *metav1.PartialObjectMetadata, np *api.NodeProvenance) (string, error) {
	var written cluster.MachineList
	if err := r.Worker.List(ctx, &written, client.MatchingFields{nodecache.UIDIndex: string(np.Spec.Machine.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing Machines: %w", err)
	}
	for i := range written.Items {
		switch ref := written.Items[i].Status.NodeRef; {
		case ref == nil:
		case ref.Name == node.Name:
			return "", nil
		default:
			return fmt.Sprintf("recorded from the node's own labels as the node of machine %s, but this machine names node %q", np.Spec.Machine.Name, ref.Name), nil
		}
	}
	other, err := r.machineNotOfOtherNode(ctx, node, client.MatchingFields{nodecache.NodeIndex: node.Name})
	if err != nil || other == nil || other.UID == np.Spec.Machine.UID || other.CreationTimestamp.After(np.Spec.Node.Joined.Add(lineage.Leeway)) {
		return "", err // a machine that adopted an existing node
	}
	return fmt.Sprintf("recorded from the node's own labels as the node of machine %s, but machine %s/%s names this node", np.Spec.Machine.Name, other.Namespace, other.Name), nil
}

func (r *Reader) machineNotOfOtherNode(ctx context.Context, node *metav1.PartialObjectMetadata, by client.MatchingFields) (*cluster.Machine, error) {
	var list cluster.MachineList
	if err := r.Worker.List(ctx, &list, by, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	for i := range list.Items {
		if namesNoOtherNode(&list.Items[i], node) {
			return list.Items[i].DeepCopy(), nil
		}
	}
	return nil, nil
}

// namesNoOtherNode reports whether a Machine does not name another node. For a Node that was created
// again it can have the name, but not yet the uid.
func namesNoOtherNode(m *cluster.Machine, node *metav1.PartialObjectMetadata) bool {
	return m.Status.NodeRef == nil || m.Status.NodeRef.Name == node.Name
}

// ProvenancesOf lists the NodeProvenances of all nodes with a name. They are trimmed and belong
// to the cache: do not modify them.
func (r *Reader) ProvenancesOf(ctx context.Context, name string) ([]api.NodeProvenance, error) {
	return r.ListProvenances(ctx, client.MatchingFields{nodecache.NodeIndex: name})
}

// ListProvenances lists NodeProvenances, as ProvenancesOf does.
func (r *Reader) ListProvenances(ctx context.Context, by ...client.ListOption) ([]api.NodeProvenance, error) {
	var list api.NodeProvenanceList
	if err := r.Worker.List(ctx, &list, append(by, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing NodeProvenances: %w", err)
	}
	return list.Items, nil
}

// ProvenanceWindow returns the time in which a machine fetched its documents. It ended when the
// first of its nodes joined: a Node can be deleted and created again while its machine
// remains.
func (r *Reader) ProvenanceWindow(ctx context.Context, node *metav1.PartialObjectMetadata, from lineage.Chain) (api.ProvenanceWindow, error) {
	w := api.ProvenanceWindow{Until: node.CreationTimestamp}
	earlier, err := r.ListProvenances(ctx, client.MatchingFields{nodecache.MachineIndex: string(from.Machine.UID)})
	if err != nil {
		return w, err
	}
	for i := range earlier {
		if earlier[i].Spec.Node.Name != node.Name {
			continue // only the node itself named the machine
		}
		if joined := earlier[i].Spec.Node.Joined; joined.Before(&w.Until) {
			w.Until = joined
		}
	}
	return lineage.NewProvenanceWindow(from.Created, w.Until), nil
}

// TimelineOf reads the records of a pool, from caches or live from the API server.
func (r *Reader) TimelineOf(ctx context.Context, pool types.NamespacedName, live bool) (lineage.Timeline, error) {
	key := pool.Namespace + "/" + pool.Name
	osc, err := r.configOf(ctx, pool, live)
	if err != nil {
		return nil, err
	}
	records := kubeclient.MetadataList(nodecache.RecordKind)
	if live {
		err = r.Management.Live.List(ctx, records, client.InNamespace(r.Namespace), client.MatchingLabels{
			api.LabelManagedBy: api.FieldManager, api.LabelPool: api.PoolLabel(pool.Namespace, pool.Name),
		})
	} else {
		err = r.Management.List(ctx, records, client.InNamespace(r.Namespace), client.MatchingFields{nodecache.PoolIndex: key}, client.UnsafeDisableDeepCopy)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the archived records of pool %s: %w", key, err)
	}
	references := slices.DeleteFunc(records.Items, func(obj metav1.PartialObjectMetadata) bool { return obj.Annotations[api.AnnotationPool] != key })
	return r.timelines.getOrBuild(key, osc, references), nil
}

// configOf reads the metadata of the OperatingSystemConfig of a pool, which includes its
// record; nil if there is none. The spec is large.
func (r *Reader) configOf(ctx context.Context, pool types.NamespacedName, live bool) (client.Object, error) {
	var from client.Reader = r.Management
	if live {
		from = r.Management.Live
	}
	osc := kubeclient.Metadata(kubeclient.ConfigKind)
	key := types.NamespacedName{Namespace: r.Namespace, Name: lineage.NamesOf(pool).Config}
	found, err := kubeclient.Find(ctx, from, key, osc)
	if err != nil || !found || osc.GetAnnotations()[api.AnnotationPool] != pool.Namespace+"/"+pool.Name {
		return nil, err
	}
	return osc, nil
}

// IsPool reports whether a MachineDeployment requests a profile.
func (r *Reader) IsPool(ctx context.Context, key types.NamespacedName) (bool, error) {
	var md cluster.MachineDeployment
	found, err := kubeclient.Find(ctx, r.Worker, key, &md)
	return found && md.Annotations[api.AnnotationOSP] != "", err
}
