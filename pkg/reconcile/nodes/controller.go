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
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// allNamespaces in ProfileNamespaces stands for every one.
const allNamespaces = "*"

// Cluster is how a cluster is read and written.
type Cluster struct {
	// Client reads through a cache and writes.
	client.Client
	// Live reads what the cache does not hold.
	Live client.Reader
}

// Retention is how long the provenance of nodes that are gone is kept.
type Retention struct {
	// Age is the time since the node was gone.
	Age time.Duration
	// Max is the number of NodeProvenances there may be. Beyond it the oldest of nodes
	// that are gone go first; those of nodes that are there always stay.
	Max int
}

// Reconciler keeps NodeProvenances. Its fields are set once, before Setup.
type Reconciler struct {
	// Management has configurations, their records, and profiles.
	Management Cluster
	// Worker has nodes, machines and NodeProvenances: the same cluster, unless the
	// controller was given two.
	Worker Cluster
	// Recorder writes events into the worker cluster.
	Recorder events.EventRecorder
	// Clock tells when a node was gone.
	Clock clock.PassiveClock
	// Namespace holds configurations, records and profiles.
	Namespace string
	// ProfileNamespaces are others from which pools may take profiles; "*" stands for
	// every one.
	ProfileNamespaces []string
	// Retention of what was written about nodes that are gone.
	Retention Retention
	// Journal keeps facts for auditors; nil is none. Nothing is deleted before it is there.
	Journal Journal
	// Metrics counts; nil is nobody.
	Metrics *metrics.Metrics

	timelines      timelines
	configurations configurations
	answers        answers
	counts         counts
	pace           flowcontrol.RateLimiter // of writes that a push brings about
}

// Reconcile brings what is written about the nodes of one name in line with the node
// that has it now, and with those that had it.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	err := r.reconcile(ctx, req)
	if errors.Is(err, errUnkept) || errors.Is(err, errAgain) { // the audit log says why, or there is nothing to say
		return ctrl.Result{RequeueAfter: wait.Jitter(later, 1)}, nil
	}
	return ctrl.Result{}, err
}

func (r *Reconciler) reconcile(ctx context.Context, req ctrl.Request) error {
	node := kubeclient.Metadata(nodeKind)
	there, err := kubeclient.Find(ctx, r.Worker, types.NamespacedName{Name: req.Name}, node)
	if err != nil {
		return err
	}
	if !there {
		node = nil
	}
	known, err := r.knownOf(ctx, req.Name)
	if err != nil {
		return err
	}
	var own *api.NodeProvenance
	var unkept error
	for i := range known {
		switch np := &known[i]; {
		case np.Spec.Node.Name != req.Name: // two names with one label
		case node != nil && np.Spec.Node.UID == node.UID:
			own = np
		case np.Status.Removed == nil || len(r.owed(np)) > 0:
			err := r.markRemoved(ctx, np)
			if errors.Is(err, errUnkept) {
				unkept, err = err, nil
			}
			if err != nil {
				return err
			}
		}
	}
	if node == nil || !node.DeletionTimestamp.IsZero() {
		return unkept
	}
	var pool lineage.Timeline
	whole := false
	if own == nil {
		if own, pool, err = r.write(ctx, node); err != nil {
			return err
		}
		if own == nil {
			return unkept
		}
		whole = true
	}
	if !whole && r.changed(node, own) && !r.answers.allow(node.UID, r.Clock.Now()) {
		return errAgain
	}
	if err := r.annotate(ctx, node, own.Name); err != nil {
		return err
	}
	if err := r.keepStatus(ctx, node, subject{own, whole, pool}); err != nil {
		return err
	}
	return unkept
}

// errAgain says that a node was answered to just now: whoever has root on it can change
// what it says as often as he likes, and each time would be a write, an event and a
// line of the audit log.
var errAgain = errors.New("the node changed what it says again")

// changed reports whether a node says something else than what it was last compared
// with, or does not name what is written about it.
func (r *Reconciler) changed(node *metav1.PartialObjectMetadata, np *api.NodeProvenance) bool {
	judged := apimeta.FindStatusCondition(np.Status.Conditions, api.AgreedCondition) != nil
	return judged && (!named(node) || !sameReport(np.Status.Reported, lineage.ReportOf(node)))
}

// subject is a NodeProvenance whose status is looked at. Whole says that nothing was
// trimmed of it; pool are the records of its pool, nil where they were not read yet.
type subject struct {
	*api.NodeProvenance

	whole bool
	pool  lineage.Timeline
}

// write writes down where a node comes from. It returns nil for a node that is of no
// pool, or not yet known to be: what links it to one brings it here again.
// With it come the records of its pool.
func (r *Reconciler) write(ctx context.Context, node *metav1.PartialObjectMetadata) (*api.NodeProvenance, lineage.Timeline, error) {
	from, err := r.chainOf(ctx, node)
	if err != nil || from.Pool.Name == "" {
		return nil, nil, err
	}
	// What is written stays, so it is read from where nothing is behind: the node always,
	// the records as long as a cache may be.
	var live corev1.Node
	found, err := kubeclient.Find(ctx, r.Worker.Live, client.ObjectKeyFromObject(node), &live)
	if err != nil || !found || live.UID != node.UID {
		return nil, nil, err
	}
	pool, err := r.timelineOf(ctx, from.Pool.NamespacedName, r.fresh(node))
	if err != nil {
		return nil, nil, err
	}
	if len(pool) == 0 {
		if asks, err := r.isPool(ctx, from.Pool.NamespacedName); err != nil || !asks {
			return nil, nil, err // other machines than ours
		}
	}
	window, err := r.windowOf(ctx, node, from)
	if err != nil {
		return nil, nil, err
	}
	f := lineage.Facts{Report: lineage.ReportOf(&live), Window: window, Revision: from.Revision, Pool: pool}
	c := lineage.Conclude(f)
	np, err := r.provenance(ctx, &live, from, f, c)
	if err != nil {
		return nil, nil, err
	}
	err = r.Worker.Create(ctx, np, client.FieldOwner(api.FieldManager))
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

// fresh reports whether a cache may lack what matters for a node.
func (r *Reconciler) fresh(node client.Object) bool {
	return r.Clock.Now().Sub(node.GetCreationTimestamp().Time) < freshness
}

// provenance is the object for a conclusion.
func (r *Reconciler) provenance(ctx context.Context, node *corev1.Node, from lineage.Chain, f lineage.Facts, c lineage.Conclusion) (*api.NodeProvenance, error) {
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
	if np.Spec.Configuration, err = r.configurationOf(ctx, from.Pool.NamespacedName, c.Configuration); err != nil {
		return nil, err
	}
	bootstrap := c.Bootstrap.Configuration()
	np.Spec.Bootstrap = &bootstrap
	addLabels(np)
	return np, nil
}

// addLabels are for selecting: the nodes of a commit, of a version. What no label holds
// is in the spec.
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

// annotate lets the Node name what was written about it.
func (r *Reconciler) annotate(ctx context.Context, node *metav1.PartialObjectMetadata, name string) error {
	if named(node) {
		return nil
	}
	patch, err := merge(map[string]any{"metadata": map[string]any{
		"uid": node.UID, "annotations": map[string]string{api.AnnotationProvenance: name}, // of no other node of the name
	}})
	if err != nil {
		return err
	}
	into := kubeclient.Metadata(nodeKind)
	into.Name = node.Name
	err = r.Worker.Patch(ctx, into, patch, client.FieldOwner(api.FieldManager))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("annotating Node %s: %w", node.Name, err)
	}
	return nil // or it is gone, which brings it here again
}

// keepStatus writes what of a status is missing or no longer so. A push to the pool is
// not among that, see behind.go. What the audit log lacks comes first.
func (r *Reconciler) keepStatus(ctx context.Context, node *metav1.PartialObjectMetadata, np subject) error {
	report := lineage.ReportOf(node)
	before := apimeta.FindStatusCondition(np.Status.Conditions, api.AgreedCondition)
	against, err := r.contradicted(ctx, node, np.NodeProvenance)
	if err != nil {
		return err
	}
	judged := before != nil && sameReport(np.Status.Reported, report) && (before.Reason == api.ReasonOtherMachine) == (against != "")
	if judged && np.Status.Behind != "" && len(r.owed(np.NodeProvenance)) == 0 {
		return nil
	}
	pool := types.NamespacedName{Namespace: np.Spec.Pool.Namespace, Name: np.Spec.Pool.Name}
	if np.pool == nil && (!judged || np.Status.Behind == "") {
		if np.pool, err = r.timelineOf(ctx, pool, r.fresh(node)); err != nil {
			return err
		}
	}
	next, change := np.DeepCopy(), map[string]any{}
	if np.Status.Behind == "" {
		change["behind"], change["missing"] = behind(np.NodeProvenance, np.pool)
	}
	var agreed lineage.Agreement
	if !judged {
		_, agreed = lineage.CompareReport(lineage.Facts{Report: report, Window: np.Spec.Window, Pool: np.pool})
		if against != "" {
			agreed = lineage.Agreement{Status: metav1.ConditionFalse, Reason: api.ReasonOtherMachine, Message: against}
		}
		condition := metav1.Condition{
			Type: api.AgreedCondition, Status: agreed.Status, Reason: agreed.Reason, Message: redact.Printable(agreed.Message),
			ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(r.Clock.Now()),
		}
		if before != nil && before.Status == agreed.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
		next.Status.Conditions, next.Status.Reported = []metav1.Condition{condition}, nil
		change["conditions"], change["reported"] = next.Status.Conditions, nil
		if report != (api.NodeReport{}) {
			next.Status.Reported = &report
			change["reported"] = report
		}
	}
	if err := r.patchWithFacts(ctx, next, np.whole, change); err != nil {
		return err
	}
	if agreed.Status == metav1.ConditionFalse {
		r.Recorder.Eventf(nodeReference(node), nil, corev1.EventTypeWarning, api.EventProvenanceDisputed, "Compare", "%s",
			redact.Shorten(agreed.Message+": see NodeProvenance "+np.Name, redact.MaxEvent))
	}
	return nil
}

// nodeReference is a Node as an event names it.
func nodeReference(node *metav1.PartialObjectMetadata) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: nodeKind.Kind, Name: node.Name, UID: node.UID}
}

func sameReport(had *api.NodeReport, has api.NodeReport) bool {
	if had == nil {
		return has == (api.NodeReport{})
	}
	return *had == has
}

// markRemoved notes that a node is gone, once the API server has said so, and what the
// audit log has of it.
func (r *Reconciler) markRemoved(ctx context.Context, np *api.NodeProvenance) error {
	next, change := np.DeepCopy(), map[string]any{}
	if np.Status.Removed == nil {
		live := kubeclient.Metadata(nodeKind)
		found, err := kubeclient.Find(ctx, r.Worker.Live, types.NamespacedName{Name: np.Spec.Node.Name}, live)
		if err != nil || found && live.UID == np.Spec.Node.UID {
			return err
		}
		now := metav1.NewTime(r.Clock.Now()).Rfc3339Copy()
		next.Status.Removed, change["removed"] = &now, now
	}
	return r.patchWithFacts(ctx, next, false, change)
}

// patchWithFacts changes the status to that of next, and notes in it what the audit log
// has by then. Where that cannot be written, the rest is, and the error is errUnkept.
func (r *Reconciler) patchWithFacts(ctx context.Context, next *api.NodeProvenance, whole bool, change map[string]any) error {
	noted, unkept := r.keepFacts(ctx, next, whole)
	if unkept != nil && !errors.Is(unkept, errUnkept) {
		return unkept
	}
	if noted != nil {
		change["journaled"] = noted
	}
	if len(change) > 0 {
		if err := r.patchStatus(ctx, next, change); err != nil {
			return err
		}
	}
	return unkept
}
