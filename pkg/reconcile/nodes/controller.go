package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/drift"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Retention limits how long the NodeProvenances of deleted nodes are retained.
type Retention struct {
	// Age is the maximum time since the node was deleted.
	Age time.Duration
	// Max is the maximum number of NodeProvenances. If there are more, the oldest of
	// deleted nodes are deleted first; those of existing nodes always remain.
	Max int
}

// Reconciler maintains NodeProvenances. Its fields are set once, before Setup.
type Reconciler struct {
	// Reader reads both clusters: Management, and Worker, which has the nodes.
	observe.Reader

	// Recorder writes events into the worker cluster.
	Recorder events.EventRecorder
	// Clock is used for the time at which a node was deleted.
	Clock clock.PassiveClock
	// Retention limits the NodeProvenances of deleted nodes.
	Retention Retention
	// AuditLog is the audit log; nil disables it. No object is deleted before the audit
	// log has its entries.
	AuditLog *auditlog.Writer
	// Metrics counts NodeProvenances; nil disables it.
	Metrics *metrics.Metrics

	// handled are the nodes whose changed report was handled, suspected those whose silence was checked
	// against the API server, both in the last minute; silent are those that seemed to report no more: since
	// when.
	handled, suspected, silent *cache.LRUExpireCache

	counts nodeCounts
	pace   flowcontrol.RateLimiter // limits writes that a push causes
}

// Reconcile updates the NodeProvenances of all nodes with one name: the node that has it
// now, and those that had it before.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	next, err := r.reconcile(ctx, req)
	if errors.Is(err, errAuditPending) || errors.Is(err, errAgain) { // the audit log has reported it, or there is nothing to report
		return ctrl.Result{RequeueAfter: wait.Jitter(later, 1)}, nil
	}
	return ctrl.Result{RequeueAfter: next}, err
}

// reconcile returns the time until a node that does not report has to be handled again; 0 for never.
func (r *Reconciler) reconcile(ctx context.Context, req ctrl.Request) (time.Duration, error) {
	node := kubeclient.Metadata(nodecache.NodeKind)
	found, err := kubeclient.Find(ctx, r.Worker, types.NamespacedName{Name: req.Name}, node)
	if err != nil {
		return 0, err
	}
	if !found {
		node = nil
	}
	existing, err := r.ProvenancesOf(ctx, req.Name)
	if err != nil {
		return 0, err
	}
	var provenance *api.NodeProvenance
	var auditErr error
	for i := range existing {
		switch np := &existing[i]; {
		case np.Spec.Node.Name != req.Name: // two names with the same label
		case node != nil && np.Spec.Node.UID == node.UID:
			provenance = np
		case np.Status.Removed == nil || len(r.missingAuditEntries(np)) > 0:
			err := r.markRemoved(ctx, np)
			// An unavailable audit log must not stop the rest; its error is returned at the end.
			if errors.Is(err, errAuditPending) {
				auditErr, err = err, nil
			}
			if err != nil {
				return 0, err
			}
		}
	}
	if node == nil || !node.DeletionTimestamp.IsZero() {
		return 0, auditErr
	}
	var pool lineage.Timeline
	untrimmed := false
	if provenance == nil {
		if provenance, pool, err = r.createProvenance(ctx, node); err != nil {
			return 0, err
		}
		if provenance == nil {
			return 0, auditErr
		}
		untrimmed = true
	}
	target := statusTarget{provenance, untrimmed, pool}
	match, unmatched := r.observeMatch(ctx, node, target)
	// A node can change its own labels and annotation at any rate, and must not cause as many writes.
	if !untrimmed && (match.changed || r.isReportOrNameChanged(node, provenance)) && !oncePerMinute(r.handled, node.UID) {
		return 0, errAgain
	}
	// One mistake can concern every node.
	if !untrimmed && match.changed && !r.pace.TryAccept() {
		return 0, errAgain
	}
	if err := r.annotateProvenanceName(ctx, node, provenance.Name); err != nil {
		return 0, err
	}
	if err := r.updateStatus(ctx, node, target, match); err != nil {
		return 0, err
	}
	return match.next, errors.Join(auditErr, unmatched)
}

// later is the minimum time between two reactions to changing reports of one node,
// and the time until entries that could not be written are retried.
const later = time.Minute

// maxNodes is the maximum number of nodes that a cache has, which is more than a cluster does.
const maxNodes = 1 << 17

// oncePerMinute reports whether a cache does not have a node, and adds it for a minute.
func oncePerMinute(recent *cache.LRUExpireCache, node types.UID) bool {
	if _, recently := recent.Get(node); recently {
		return false
	}
	recent.Add(node, nil, later)
	return true
}

// errAgain reports that a node's report was handled recently, or that of many nodes: root on a
// node can change it at any rate, and each change would cause a write, an event and an audit log
// entry.
var errAgain = errors.New("the node changed what it says again")

// isReportOrNameChanged reports whether a node's report differs from the last one that was compared, or
// whether the Node does not name its NodeProvenance.
func (r *Reconciler) isReportOrNameChanged(node *metav1.PartialObjectMetadata, np *api.NodeProvenance) bool {
	evaluated := apimeta.FindStatusCondition(np.Status.Conditions, api.AgreedCondition) != nil
	return evaluated && (!namesProvenance(node) || !sameReport(np.Status.Reported, lineage.ReportOf(node)))
}

// statusTarget is a NodeProvenance whose status is checked. untrimmed reports that nothing was
// trimmed from it; pool has the records of its pool, nil if they were not read yet.
type statusTarget struct {
	*api.NodeProvenance

	untrimmed bool
	pool      lineage.Timeline
}

// createProvenance creates the NodeProvenance of a node. It returns nil for a node without a pool,
// or whose pool is not known yet: the object that links it to a pool triggers it again. It also
// returns the timeline of the pool.
func (r *Reconciler) createProvenance(ctx context.Context, node *metav1.PartialObjectMetadata) (*api.NodeProvenance, lineage.Timeline, error) {
	from, err := r.ChainOf(ctx, node)
	if err != nil || from.Pool.Name == "" {
		return nil, nil, err
	}
	// The spec is immutable, so it is based on live reads: the node always, the records
	// as long as a cache can be behind.
	var live corev1.Node
	found, err := kubeclient.Find(ctx, r.Worker.Live, client.ObjectKeyFromObject(node), &live)
	if err != nil || !found || live.UID != node.UID {
		return nil, nil, err
	}
	pool, err := r.TimelineOf(ctx, from.Pool.NamespacedName, r.fresh(node))
	if err != nil {
		return nil, nil, err
	}
	if len(pool) == 0 {
		if asks, err := r.IsPool(ctx, from.Pool.NamespacedName); err != nil || !asks {
			return nil, nil, err // other machines than ours
		}
	}
	window, err := r.ProvenanceWindow(ctx, node, from)
	if err != nil {
		return nil, nil, err
	}
	f := lineage.Observation{Report: lineage.ReportOf(&live), Window: window, Revision: from.Revision, Pool: pool}
	c := lineage.DetermineConfiguration(f)
	np, err := r.newProvenance(ctx, &live, from, f, c)
	if err != nil {
		return nil, nil, err
	}
	err = r.Worker.Create(ctx, np, client.FieldOwner(api.FieldManager))
	// The first object counts, because its spec is immutable.
	if apierrors.IsAlreadyExists(err) {
		var have api.NodeProvenance
		if err := r.Worker.Live.Get(ctx, client.ObjectKeyFromObject(np), &have); err != nil {
			return nil, nil, fmt.Errorf("reading NodeProvenance %s: %w", np.Name, err)
		}
		if have.Spec.Node.UID != node.UID {
			return nil, nil, fmt.Errorf("NodeProvenance %s is of another node, whose uid begins as that of node %s does: rename or delete one of the two", np.Name, node.Name)
		}
		return &have, pool, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("creating NodeProvenance %s: %w", np.Name, err)
	}
	return np, pool, nil
}

// freshness is the age of a node up to which the records of its pool are read from the
// API server: records that the cache lacks would be missing for ever.
const freshness = 5 * time.Minute

// fresh reports whether a cache can lack objects that matter for a node.
func (r *Reconciler) fresh(node client.Object) bool {
	return r.Clock.Now().Sub(node.GetCreationTimestamp().Time) < freshness
}

// newProvenance returns the NodeProvenance for a conclusion.
func (r *Reconciler) newProvenance(ctx context.Context, node *corev1.Node, from lineage.Chain, f lineage.Observation, c lineage.Conclusion) (*api.NodeProvenance, error) {
	np := &api.NodeProvenance{
		ObjectMeta: metav1.ObjectMeta{
			Name: lineage.ProvenanceName(node.Name, node.UID),
			Labels: map[string]string{
				api.LabelManagedBy: api.FieldManager,
				api.LabelNode:      api.NodeLabel(node.Name),
				api.LabelPool:      api.PoolLabel(from.Pool.Namespace, from.Pool.Name),
			},
		},
		Spec: api.NodeProvenanceSpec{
			Node: api.ProvenanceNode{Name: node.Name, UID: node.UID, ProviderID: redact.Shorten(node.Spec.ProviderID, 2048), Joined: node.CreationTimestamp},
			Machine: api.ProvenanceMachine{
				Namespace: from.Machine.Namespace, Name: from.Machine.Name, UID: from.Machine.UID, Created: from.Created,
			},
			Pool: api.ProvenancePool{
				Namespace: from.Pool.Namespace, Name: from.Pool.Name, UID: from.Pool.UID, MachineSet: from.MachineSet.Name, Revision: redact.Shorten(f.Revision, 64),
			},
			Evidence: c.Evidence, Explanation: c.Explanation, Window: f.Window,
			Possible: c.Possible.Configurations(),
		},
	}
	if f.Report != (api.NodeReport{}) {
		np.Spec.Reported = &f.Report
	}
	if c.Configuration == nil {
		return np, nil
	}
	var err error
	if np.Spec.Configuration, err = r.ConfigurationOf(ctx, from.Pool.NamespacedName, c.Configuration); err != nil {
		return nil, err
	}
	bootstrap := c.Bootstrap.Configuration()
	np.Spec.Bootstrap = &bootstrap
	addLabels(np)
	return np, nil
}

// addLabels adds labels for selection: by commit, by version. Values that no label can
// have are in the spec.
func addLabels(np *api.NodeProvenance) {
	c := np.Spec.Configuration
	for key, value := range map[string]string{
		api.LabelProfile: c.Profile, api.LabelVersion: render.LabelValue(c.Version), api.LabelCommit: render.LabelValue(c.Commit),
		api.LabelConfig: render.ShortDigest(c.InputDigest),
	} {
		if value != "" && len(validation.IsValidLabelValue(value)) == 0 {
			np.Labels[key] = value
		}
	}
}

// annotateProvenanceName sets the name of the NodeProvenance on the Node.
func (r *Reconciler) annotateProvenanceName(ctx context.Context, node *metav1.PartialObjectMetadata, name string) error {
	if namesProvenance(node) {
		return nil
	}
	patch, err := mergePatch(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "annotations": map[string]string{api.AnnotationProvenance: name}, // not of another node with the same name
	}})
	if err != nil {
		return err
	}
	into := kubeclient.Metadata(nodecache.NodeKind)
	into.Name = node.Name
	err = r.Worker.Patch(ctx, into, patch, client.FieldOwner(api.FieldManager))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("annotating Node %s: %w", node.Name, err)
	}
	return nil // the node can be deleted, which triggers it again
}

// updateStatus writes the parts of a status that are missing or outdated, except for
// Behind, see behind.go. Missing audit log entries are written first.
func (r *Reconciler) updateStatus(ctx context.Context, node *metav1.PartialObjectMetadata, np statusTarget, match *observedMatch) error {
	report := lineage.ReportOf(node)
	before := apimeta.FindStatusCondition(np.Status.Conditions, api.AgreedCondition)
	against, err := r.MachineContradiction(ctx, node, np.NodeProvenance)
	if err != nil {
		return err
	}
	evaluated := before != nil && sameReport(np.Status.Reported, report) && (before.Reason == api.ReasonOtherMachine) == (against != "")
	if evaluated && !match.changed && np.Status.Behind != "" && len(r.missingAuditEntries(np.NodeProvenance)) == 0 {
		return nil
	}
	pool := types.NamespacedName{Namespace: np.Spec.Pool.Namespace, Name: np.Spec.Pool.Name}
	// Records are read only if a missing part of the status depends on them.
	if np.pool == nil && (!evaluated || np.Status.Behind == "") {
		if np.pool, err = r.TimelineOf(ctx, pool, r.fresh(node)); err != nil {
			return err
		}
	}
	next, change := np.DeepCopy(), map[string]any{}
	if np.Status.Behind == "" {
		change["behind"], change["missing"] = behindState(np.NodeProvenance, np.pool)
	}
	var agreed lineage.Agreement
	var conditions []metav1.Condition
	if !evaluated {
		_, agreed = lineage.CompareReport(lineage.Observation{Report: report, Window: np.Spec.Window, Pool: np.pool})
		if against != "" {
			agreed = lineage.Agreement{Status: metav1.ConditionFalse, Reason: api.ReasonOtherMachine, Message: against}
		}
		conditions = append(conditions, metav1.Condition{
			Type: api.AgreedCondition, Status: agreed.Status, Reason: agreed.Reason, Message: redact.RemoveControlChars(agreed.Message),
			ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
		})
		next.Status.Reported, change["reported"] = nil, nil
		if report != (api.NodeReport{}) {
			next.Status.Reported = &report
			change["reported"] = report
		}
	}
	var matches metav1.Condition
	if match.changed {
		if next.Status.Match, err = r.concludeMatch(ctx, np.NodeProvenance, match); err != nil {
			return err
		}
		change["match"], matches = replaceMatch(next.Status.Match), drift.Condition(next.Status.Match, match.invalid)
		conditions = append(conditions, matches)
	}
	if len(conditions) > 0 {
		if found, err := r.setConditions(ctx, np, next, conditions); err != nil || !found {
			return err // a deleted NodeProvenance triggers it again
		}
		change["conditions"] = next.Status.Conditions
	}
	err = r.patchWithEvents(ctx, next, np.untrimmed, change)
	if err != nil && !errors.Is(err, errAuditPending) {
		return err
	}
	if matches.Status == metav1.ConditionFalse && !match.restored {
		r.Recorder.Eventf(nodeReference(node), nil, corev1.EventTypeWarning, api.EventNodeDiffers, "Compare", "%s",
			redact.Shorten(matches.Message+": see NodeProvenance "+np.Name, redact.MaxEvent))
	}
	if agreed.Status == metav1.ConditionFalse {
		r.Recorder.Eventf(nodeReference(node), nil, corev1.EventTypeWarning, api.EventProvenanceDisputed, "Compare", "%s",
			redact.Shorten(agreed.Message+": see NodeProvenance "+np.Name, redact.MaxEvent))
	}
	return err
}

// nodeReference returns the reference to a Node for an event.
func nodeReference(node *metav1.PartialObjectMetadata) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: nodecache.NodeKind.Kind, Name: node.Name, UID: node.UID}
}

func sameReport(had *api.NodeReport, has api.NodeReport) bool {
	if had == nil {
		return has == (api.NodeReport{})
	}
	return *had == has
}

// markRemoved records that a node was deleted, after the API server has confirmed it, and
// which audit log entries exist.
func (r *Reconciler) markRemoved(ctx context.Context, np *api.NodeProvenance) error {
	next, change := np.DeepCopy(), map[string]any{}
	if np.Status.Removed == nil {
		live := kubeclient.Metadata(nodecache.NodeKind)
		found, err := kubeclient.Find(ctx, r.Worker.Live, types.NamespacedName{Name: np.Spec.Node.Name}, live)
		if err != nil || found && live.UID == np.Spec.Node.UID {
			return err
		}
		now := metav1.NewTime(r.Clock.Now()).Rfc3339Copy()
		next.Status.Removed, change["removed"] = &now, now
	}
	return r.patchWithEvents(ctx, next, false, change)
}

// patchWithEvents updates the status to that of next, including the ids of audit log
// entries written by then. If the audit log cannot be written, the rest is still updated,
// and the error is errAuditPending.
func (r *Reconciler) patchWithEvents(ctx context.Context, next *api.NodeProvenance, untrimmed bool, change map[string]any) error {
	entryIDs, auditErr := r.storeEvents(ctx, next, untrimmed)
	if auditErr != nil && !errors.Is(auditErr, errAuditPending) {
		return auditErr
	}
	if entryIDs != nil {
		change["journaled"] = entryIDs
	}
	if len(change) > 0 {
		if err := r.patchStatus(ctx, next, change); err != nil {
			return err
		}
	}
	return auditErr
}
