package nodes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
)

// observed is what one run reads about the nodes with one name. Planning reads nothing else.
type observed struct {
	now time.Time
	// audited says that there is an audit log.
	audited bool
	// node is the one that has the name now; nil for none.
	node *metav1.PartialObjectMetadata
	// removed are the NodeProvenances of deleted nodes that do not say so, or whose audit log entries are
	// incomplete.
	removed []provenance
	// recorded is the NodeProvenance of the node as the cache has it; nil for none.
	recorded *api.NodeProvenance
	// pending says that entries of the audit log wait for another run, since an earlier round.
	pending bool

	// The rest is for the node that has the name now.

	// joining is nil unless the node lacks a NodeProvenance and belongs to a pool.
	joining *joining

	// current is the NodeProvenance of the node; nil if it has none, or is being deleted. The other fields
	// are what its status depends on.
	current *provenance
	match   observedMatch
	// postponed says that the node changes what it reports too often: the rest was not read.
	postponed bool
	// contradiction is how machines contradict the recorded machine; "" if they do not.
	contradiction string
	// timeline has the records of the node's pool; nil if no missing part of the status depends on them.
	timeline lineage.Timeline
	// complete says that the status is missing something, and that everything it depends on was read.
	complete bool
}

// provenance is a NodeProvenance as the cache has it, and untrimmed as the API server has it, which is
// nil if the plan does not need it.
type provenance struct {
	*api.NodeProvenance

	untrimmed *api.NodeProvenance
}

// joining is what the NodeProvenance of a node is made from.
type joining struct {
	node       corev1.Node
	chain      lineage.Chain
	facts      lineage.Observation
	conclusion lineage.Conclusion
	// configuration is that of the conclusion, nil for none.
	configuration *api.ProvenanceConfiguration
}

// observe reads the node that has a name now, and the NodeProvenances of those that had it before. With an
// error it returns what it has read: one that cannot be read does not prevent that others are recorded.
func (r *Reconciler) observe(ctx context.Context, name string) (*observed, error) {
	seen := &observed{now: r.Clock.Now(), audited: r.AuditLog != nil}
	node := kubeclient.Metadata(nodecache.NodeKind)
	found, err := kubeclient.Find(ctx, r.Worker, types.NamespacedName{Name: name}, node)
	if err != nil {
		return seen, err
	}
	if found {
		seen.node = node
	}
	existing, err := r.ProvenancesOf(ctx, name)
	if err != nil {
		return seen, err
	}
	for i := range existing {
		switch np := &existing[i]; {
		case np.Spec.Node.Name != name: // two names with the same label
		case found && np.Spec.Node.UID == node.UID:
			seen.recorded = np
		default:
			if err := r.observeRemoved(ctx, seen, np); err != nil {
				return seen, err
			}
		}
	}
	return seen, nil
}

// observeNode reads what is known of the node that has the name now, after the round about those that had
// it before.
func (r *Reconciler) observeNode(ctx context.Context, seen *observed) (err error) {
	seen.removed = nil
	switch {
	case seen.node == nil || !seen.node.DeletionTimestamp.IsZero():
		return nil
	case seen.recorded == nil:
		seen.joining, err = r.observeJoining(ctx, seen)
		return err
	}
	seen.current = &provenance{NodeProvenance: seen.recorded}
	return r.observeStatus(ctx, seen)
}

// observeRemoved reads a NodeProvenance whose node the cache no longer has, after the API server has
// confirmed that the node was deleted.
func (r *Reconciler) observeRemoved(ctx context.Context, seen *observed, np *api.NodeProvenance) error {
	lacksEntries := len(seen.missingEntries(seen.asRemoved(np))) > 0
	if np.Status.Removed != nil && !lacksEntries {
		return nil
	}
	if np.Status.Removed == nil {
		live := kubeclient.Metadata(nodecache.NodeKind)
		found, err := kubeclient.Find(ctx, r.Worker.Live, types.NamespacedName{Name: np.Spec.Node.Name}, live)
		if err != nil || found && live.UID == np.Spec.Node.UID {
			return err
		}
	}
	removed := provenance{NodeProvenance: np}
	if lacksEntries {
		var err error
		if removed.untrimmed, err = r.readUntrimmed(ctx, np); err != nil || removed.untrimmed == nil {
			return err
		}
	}
	seen.removed = append(seen.removed, removed)
	return nil
}

// readUntrimmed reads a NodeProvenance from the API server. It returns nil if that was deleted, which
// triggers another run.
func (r *Reconciler) readUntrimmed(ctx context.Context, np *api.NodeProvenance) (*api.NodeProvenance, error) {
	var live api.NodeProvenance
	found, err := kubeclient.Find(ctx, r.Worker.Live, client.ObjectKeyFromObject(np), &live)
	if err != nil || !found || live.UID != np.UID {
		return nil, err
	}
	return &live, nil
}

// observeJoining reads what the NodeProvenance of a node is made from. It returns nil for a node
// without a pool, or whose pool is not known yet: the object that links it to a pool triggers it again.
func (r *Reconciler) observeJoining(ctx context.Context, seen *observed) (*joining, error) {
	from, err := r.ChainOf(ctx, seen.node)
	if err != nil || from.Pool.Name == "" {
		return nil, err
	}
	// The spec is immutable, so it is based on live reads: the node always, the records
	// as long as a cache can be behind.
	j := &joining{chain: from}
	found, err := kubeclient.Find(ctx, r.Worker.Live, client.ObjectKeyFromObject(seen.node), &j.node)
	if err != nil || !found || j.node.UID != seen.node.UID {
		return nil, err
	}
	pool, err := r.TimelineOf(ctx, from.Pool.NamespacedName, seen.isFresh())
	if err != nil {
		return nil, err
	}
	if len(pool) == 0 {
		if asks, err := r.IsPool(ctx, from.Pool.NamespacedName); err != nil || !asks {
			return nil, err // other machines than ours
		}
	}
	window, err := r.ProvenanceWindow(ctx, seen.node, from)
	if err != nil {
		return nil, err
	}
	j.facts = lineage.Observation{Report: lineage.ReportOf(&j.node), Window: window, Revision: from.Revision, Pool: pool}
	// Only the record of the conclusion is read.
	j.conclusion = lineage.DetermineConfiguration(j.facts)
	if j.conclusion.Configuration != nil {
		if j.configuration, err = r.ConfigurationOf(ctx, from.Pool.NamespacedName, j.conclusion.Configuration); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// observeCreated reads what the status of a new NodeProvenance depends on. created has no UID if an
// object with its name exists already, which counts then, because its spec is immutable.
func (r *Reconciler) observeCreated(ctx context.Context, before *observed, created *api.NodeProvenance) (*observed, error) {
	seen := &observed{now: before.now, audited: before.audited, pending: before.pending, node: before.node, timeline: before.joining.facts.Pool}
	np := created
	if created.UID == "" {
		np = &api.NodeProvenance{}
		if err := r.Worker.Live.Get(ctx, client.ObjectKeyFromObject(created), np); err != nil {
			return seen, fmt.Errorf("reading NodeProvenance %s: %w", created.Name, err)
		}
		if np.Spec.Node.UID != seen.node.UID {
			return seen, fmt.Errorf("NodeProvenance %s is of another node, whose uid begins as that of node %s does: rename or delete one of the two", created.Name, seen.node.Name)
		}
	}
	seen.current = &provenance{NodeProvenance: np, untrimmed: np}
	return seen, r.observeStatus(ctx, seen)
}

// observeStatus reads what the status of the node's NodeProvenance depends on, except for Behind that
// changes later, see behind.go.
func (r *Reconciler) observeStatus(ctx context.Context, seen *observed) error {
	np := seen.current
	seen.match = r.observeMatch(ctx, seen)
	if isNew := np.untrimmed != nil; !isNew && !r.mayReact(seen) {
		seen.postponed = true
		return nil
	}
	var err error
	if seen.contradiction, err = r.MachineContradiction(ctx, seen.node, np.NodeProvenance); err != nil {
		return err
	}
	evaluated, lacksEntries := seen.isEvaluated(), len(seen.missingEntries(np.NodeProvenance)) > 0
	if evaluated && !seen.match.changed && np.Status.Behind != "" && !lacksEntries {
		return nil
	}
	// Records are read only if a missing part of the status depends on them.
	if seen.timeline == nil && (!evaluated || np.Status.Behind == "") {
		if seen.timeline, err = r.TimelineOf(ctx, poolOfNode(np.NodeProvenance), seen.isFresh()); err != nil {
			return err
		}
	}
	if seen.match.needsVersions() {
		if seen.match.versions, err = r.OtherVersions(ctx, poolOfNode(np.NodeProvenance), seen.match.current, seen.match.timeline); err != nil {
			return err
		}
	}
	// The cache lacks the messages of conditions, and details for entries.
	if np.untrimmed == nil && (!evaluated || seen.match.changed || lacksEntries) {
		if np.untrimmed, err = r.readUntrimmed(ctx, np.NodeProvenance); err != nil || np.untrimmed == nil {
			return err
		}
	}
	seen.complete = true
	return nil
}

// freshness is the age of a node up to which the records of its pool are read from the
// API server: records that the cache lacks would be missing for ever.
const freshness = 5 * time.Minute

// isFresh reports whether a cache can lack objects that matter for the node.
func (seen *observed) isFresh() bool {
	return seen.now.Sub(seen.node.CreationTimestamp.Time) < freshness
}

// isEvaluated reports whether the condition Agreed is about the node's present report and machine.
func (seen *observed) isEvaluated() bool {
	before := apimeta.FindStatusCondition(seen.current.Status.Conditions, api.AgreedCondition)
	return before != nil && sameReport(seen.current.Status.Reported, lineage.ReportOf(seen.node)) && (before.Reason == api.ReasonOtherMachine) == (seen.contradiction != "")
}

// isReportOrNameChanged reports whether the node's report differs from the last one that was compared, or
// whether the Node does not name its NodeProvenance.
func (seen *observed) isReportOrNameChanged() bool {
	evaluated := apimeta.FindStatusCondition(seen.current.Status.Conditions, api.AgreedCondition) != nil
	return evaluated && (!namesProvenance(seen.node) || !sameReport(seen.current.Status.Reported, lineage.ReportOf(seen.node)))
}

func sameReport(had *api.NodeReport, has api.NodeReport) bool {
	if had == nil {
		return has == (api.NodeReport{})
	}
	return *had == has
}

func poolOfNode(np *api.NodeProvenance) types.NamespacedName {
	return types.NamespacedName{Namespace: np.Spec.Pool.Namespace, Name: np.Spec.Pool.Name}
}
