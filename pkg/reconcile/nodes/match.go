package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/drift"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// matchRetry is the time after which a configuration that cannot be rendered, or a node that is not
// Ready, is checked again.
const matchRetry = time.Hour

// observedMatch is what a node reports about its files and units.
type observedMatch struct {
	// report is nil if the node has none that can be used, invalid is why; both are nil without one.
	report  *drift.Report
	invalid error
	// own is the configuration of the node; nil if it is not known.
	own      *lineage.Generation
	timeline lineage.Timeline
	// changed says that the status is not up to date. state is that of a node without a report.
	changed bool
	state   api.MatchState
	// next is the time until the node has to be observed again; 0 for never.
	next time.Duration
}

// observeMatch compares a node's own report with the status. The result is never nil; with an error
// nothing has changed. It reads only caches if the node matches its configuration, or its
// configuration was rendered before.
func (r *Reconciler) observeMatch(ctx context.Context, node *metav1.PartialObjectMetadata, np statusTarget) (*observedMatch, error) {
	now, have := r.Clock.Now(), np.Status.Match
	seen := &observedMatch{timeline: np.pool}
	text, last := node.Annotations[api.AnnotationMatch], np.Spec.Node.Joined.Time
	if text != "" {
		report, err := drift.Parse(text, now)
		if seen.invalid = err; err == nil {
			seen.report, last = &report, report.Time
		}
	}
	if text == "" && have != nil && have.State == api.MatchStateNotSupported {
		return seen, nil
	}
	deadline := drift.Deadline(last)
	var err error
	if seen.report == nil || !now.Before(deadline) {
		err = r.observeSilence(ctx, np.NodeProvenance, text == "", deadline, seen)
	} else {
		seen.next = deadline.Sub(now)
		err = r.filterReport(ctx, np.NodeProvenance, seen)
	}
	if err != nil {
		return &observedMatch{}, fmt.Errorf("comparing node %s with its configuration: %w", node.Name, err)
	}
	return seen, nil
}

// findOwnGeneration finds the configuration that a node compares itself with among those that it can
// have been provisioned from, or else the one that it was provisioned from.
func (r *Reconciler) findOwnGeneration(ctx context.Context, np *api.NodeProvenance, seen *observedMatch) error {
	var err error
	if seen.timeline == nil {
		if seen.timeline, err = r.TimelineOf(ctx, poolOfNode(np), false); err != nil {
			return err
		}
	}
	for _, g := range slices.Backward(seen.timeline) {
		recorded := np.Spec.Configuration != nil && g.InputDigest == np.Spec.Configuration.InputDigest
		reported := seen.report != nil && g.ConfigLabel() == seen.report.Config && g.WasCurrentDuring(np.Spec.Window, lineage.Bridge)
		if reported || recorded && seen.own == nil {
			seen.own = &g
		}
	}
	return nil
}

func poolOfNode(np *api.NodeProvenance) types.NamespacedName {
	return types.NamespacedName{Namespace: np.Spec.Pool.Namespace, Name: np.Spec.Pool.Name}
}

// filterReport removes from a report what the node's configuration does not have.
func (r *Reconciler) filterReport(ctx context.Context, np *api.NodeProvenance, seen *observedMatch) error {
	report, recorded := *seen.report, ""
	if c := np.Spec.Configuration; c != nil {
		recorded = render.ShortDigest(c.InputDigest)
	}
	if recorded != report.Config || report.Differs() {
		if err := r.findOwnGeneration(ctx, np, seen); err != nil {
			return err
		}
		switch {
		case seen.own == nil && recorded == "": // nothing says what the node has to be like
			seen.report, seen.next = nil, 0
			seen.changed, seen.state = np.Status.Match == nil || np.Status.Match.State != api.MatchStateNotSupported, api.MatchStateNotSupported
			return nil
		case seen.own == nil && recorded == report.Config: // its record is missing
		case seen.own == nil || seen.own.ConfigLabel() != report.Config:
			report = report.OfOtherConfiguration()
		case report.Differs():
			m, err := r.ManifestOf(ctx, poolOfNode(np), seen.own)
			switch {
			case errors.Is(err, observe.ErrNoManifest):
			case err != nil:
				return err
			case m == nil:
				report = report.OfOtherConfiguration()
			default:
				if report, err = r.withoutFirstStage(ctx, np, seen, report.Of(m)); err != nil {
					return err
				}
			}
		}
	}
	seen.report, seen.changed = &report, !drift.IsKnown(np.Status.Match, report)
	return nil
}

// withoutFirstStage removes the files whose content is that of another configuration which the machine
// can have fetched: if the configuration changed between its two stages, the files of the first one are
// those of the earlier configuration.
func (r *Reconciler) withoutFirstStage(ctx context.Context, np *api.NodeProvenance, seen *observedMatch, report drift.Report) (drift.Report, error) {
	for _, g := range seen.timeline {
		if g.InputDigest == seen.own.InputDigest || !g.WasCurrentDuring(np.Spec.Window, lineage.Bridge) {
			continue
		}
		m, err := r.ManifestOf(ctx, poolOfNode(np), &g)
		if err != nil && !errors.Is(err, observe.ErrNoManifest) {
			return report, err
		}
		if m != nil {
			report = report.WithoutContentOf(m)
		}
	}
	return report, nil
}

// observeSilence handles a node whose last report is old, or that has none.
func (r *Reconciler) observeSilence(ctx context.Context, np *api.NodeProvenance, never bool, deadline time.Time, seen *observedMatch) error {
	seen.report = nil
	if have := np.Status.Match; have != nil && have.State == api.MatchStateNotReported {
		return nil
	}
	if never {
		supported, known, err := r.makesNodeReport(ctx, np, seen)
		switch {
		case err != nil:
			return err
		case !known:
			seen.next = matchRetry
			return nil
		case !supported:
			seen.changed, seen.state = true, api.MatchStateNotSupported
			return nil
		}
	}
	now := r.Clock.Now()
	if seen.next = deadline.Sub(now); seen.next > 0 {
		return nil
	}
	ready, isReady, err := r.readySince(ctx, np)
	switch {
	case err != nil:
		return err
	case !isReady:
		seen.next = matchRetry
	case now.Before(drift.Settled(ready)):
		seen.next = drift.Settled(ready).Sub(now)
	default:
		seen.changed, seen.state, seen.next = true, api.MatchStateNotReported, 0
	}
	return nil
}

// makesNodeReport returns whether the configuration of a node makes it report, and whether that is
// known.
func (r *Reconciler) makesNodeReport(ctx context.Context, np *api.NodeProvenance, seen *observedMatch) (supported, known bool, err error) {
	if np.Spec.Configuration == nil {
		return false, true, nil
	}
	if err := r.findOwnGeneration(ctx, np, seen); err != nil || seen.own == nil {
		return false, false, err
	}
	m, err := r.ManifestOf(ctx, poolOfNode(np), seen.own)
	if errors.Is(err, observe.ErrNoManifest) {
		return false, false, nil
	}
	return m != nil, err == nil, err
}

// readySince returns since when the kubelet of a node is Ready; false if it is not.
func (r *Reconciler) readySince(ctx context.Context, np *api.NodeProvenance) (time.Time, bool, error) {
	var live corev1.Node
	found, err := kubeclient.Find(ctx, r.Worker.Live, types.NamespacedName{Name: np.Spec.Node.Name}, &live)
	if err != nil || !found || live.UID != np.Spec.Node.UID {
		return time.Time{}, false, err
	}
	for _, c := range live.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.LastTransitionTime.Time, c.Status == corev1.ConditionTrue, nil
		}
	}
	return time.Time{}, false, nil
}

// concludeMatch returns the new status of a node whose report has changed.
func (r *Reconciler) concludeMatch(ctx context.Context, np *api.NodeProvenance, seen *observedMatch) (*api.NodeMatch, error) {
	now := metav1.NewTime(r.Clock.Now()).Rfc3339Copy()
	if seen.report == nil {
		return drift.WithoutReport(seen.state, now.Time), nil
	}
	report := *seen.report
	hasContent := slices.ContainsFunc(report.Differences, func(d api.MatchDifference) bool { return d.Found != "" })
	if hasContent && seen.own != nil {
		versions, err := r.OtherVersions(ctx, poolOfNode(np), seen.own, seen.timeline)
		if err != nil {
			return nil, err
		}
		report.Differences = drift.FindVersions(report.Differences, versions)
	}
	return drift.Reported(report, now.Time), nil
}

// setConditions adds conditions to a status, or replaces those of their types. The others are read
// again, because the cache does not have their messages. It returns false if the NodeProvenance was
// deleted.
func (r *Reconciler) setConditions(ctx context.Context, np statusTarget, next *api.NodeProvenance, conditions []metav1.Condition) (bool, error) {
	current := np.NodeProvenance
	if !np.untrimmed {
		current = &api.NodeProvenance{}
		found, err := kubeclient.Find(ctx, r.Worker.Live, client.ObjectKeyFromObject(np), current)
		if err != nil || !found || current.UID != np.UID {
			return false, err
		}
	}
	next.Status.Conditions = slices.Clone(current.Status.Conditions)
	for _, c := range conditions {
		apimeta.SetStatusCondition(&next.Status.Conditions, c) // whose time is that of the last change of its status
	}
	return true, nil
}

// replaceMatch returns a value for a merge patch that leaves nothing of the value before.
func replaceMatch(m *api.NodeMatch) map[string]any {
	out := map[string]any{"state": m.State, "since": m.Since, "reported": m.Reported, "config": nil, "differences": nil, "others": nil}
	if m.Config != "" {
		out["config"] = m.Config
	}
	if len(m.Differences) > 0 {
		out["differences"] = m.Differences
	}
	if m.Others > 0 {
		out["others"] = m.Others
	}
	return out
}
