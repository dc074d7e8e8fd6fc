package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	current  *lineage.Generation
	timeline lineage.Timeline
	// changed says that the status is not up to date; restored, that it only lacks its condition, which
	// earlier releases remove. state is that of a node without a report.
	changed, restored bool
	state             api.MatchState
	// next is the time until the node has to be observed again; 0 for never.
	next time.Duration
}

// conclude compares the status with a state without a report.
func (seen *observedMatch) conclude(state api.MatchState, np *api.NodeProvenance) {
	seen.report, seen.state, seen.next = nil, state, 0
	seen.compare(np, np.Status.Match != nil && np.Status.Match.State == state)
}

// compare notes whether a status is up to date, given that its match is the same.
func (seen *observedMatch) compare(np *api.NodeProvenance, same bool) {
	seen.restored = same && apimeta.FindStatusCondition(np.Status.Conditions, api.MatchesCondition) == nil
	seen.changed = !same || seen.restored
}

// observeMatch compares a node's own report with the status. The result is never nil; with an error
// nothing has changed. It reads only caches if the node matches its configuration, or its
// configuration was rendered before.
func (r *Reconciler) observeMatch(ctx context.Context, node *metav1.PartialObjectMetadata, np statusTarget) (*observedMatch, error) {
	seen := &observedMatch{timeline: np.pool}
	if err := r.evaluate(ctx, node, np.NodeProvenance, seen); err != nil {
		return &observedMatch{}, fmt.Errorf("comparing node %s with its configuration: %w", node.Name, err)
	}
	return seen, nil
}

func (r *Reconciler) evaluate(ctx context.Context, node *metav1.PartialObjectMetadata, np *api.NodeProvenance, seen *observedMatch) error {
	now := r.Clock.Now()
	text, last := node.Annotations[api.AnnotationMatch], np.Spec.Node.Joined.Time
	if text == "" {
		supported, known, err := r.makesNodeReport(ctx, np, seen)
		if err != nil {
			return err
		}
		if !known && r.fresh(node) { // the cache can lack it
			seen.next = freshness
			return nil
		}
		if !supported {
			seen.conclude(api.MatchStateNotSupported, np)
			if !known {
				seen.next = matchRetry
			}
			return nil
		}
	} else {
		var report drift.Report
		if report, seen.invalid = drift.Parse(text, now); seen.invalid != nil {
			seen.conclude(api.MatchStateNotReported, np)
			return nil //nolint:nilerr // the status says why
		}
		seen.report, last = &report, report.Time
	}
	if seen.next = drift.Deadline(last).Sub(now); seen.next <= 0 { // by the clock of the node, if it has reported
		if !oncePerMinute(r.suspected, node.UID) { // root on a node can write an old time at any rate
			return errAgain
		}
		silence, err := r.observeSilence(ctx, np, text)
		if err != nil {
			r.suspected.Remove(node.UID) // the next attempt reads it again
			return err
		}
		if silence.silent {
			seen.conclude(api.MatchStateNotReported, np)
			return nil
		}
		if seen.next = silence.next; !silence.recent {
			seen.report = nil
		}
	}
	if seen.report == nil {
		return nil
	}
	return r.filterReport(ctx, np, seen)
}

// findProvisionedGeneration finds the configuration that a node compares itself with among those that it can
// have been provisioned from, or else the one that it was provisioned from.
func (r *Reconciler) findProvisionedGeneration(ctx context.Context, np *api.NodeProvenance, seen *observedMatch) error {
	var err error
	if seen.timeline == nil {
		if seen.timeline, err = r.TimelineOf(ctx, poolOfNode(np), false); err != nil {
			return err
		}
	}
	for _, g := range slices.Backward(seen.timeline) {
		recorded := np.Spec.Configuration != nil && g.InputDigest == np.Spec.Configuration.InputDigest
		reported := seen.report != nil && g.ConfigLabel() == seen.report.Config && g.WasCurrentDuring(np.Spec.Window, lineage.Bridge)
		if reported || recorded && seen.current == nil {
			seen.current = &g
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
		if err := r.findProvisionedGeneration(ctx, np, seen); err != nil {
			return err
		}
		switch {
		case seen.current == nil && recorded == "": // nothing says what the node has to be like
			seen.conclude(api.MatchStateNotSupported, np)
			return nil
		case seen.current == nil && recorded == report.Config: // its record is missing
		case seen.current == nil || seen.current.ConfigLabel() != report.Config:
			report = report.OfOtherConfiguration()
		case report.Differs():
			m, err := r.ManifestOf(ctx, poolOfNode(np), seen.current)
			switch {
			case errors.Is(err, observe.ErrNoManifest):
			case err != nil:
				return err
			case m.Config == "":
				report = report.OfOtherConfiguration()
			default:
				if report, err = r.withoutFirstStage(ctx, np, seen, report.RestrictedTo(m)); err != nil {
					return err
				}
			}
		}
	}
	seen.report = &report
	seen.compare(np, drift.IsKnown(np.Status.Match, report))
	return nil
}

// withoutFirstStage removes the files whose content is that of another configuration which the machine
// can have fetched: if the configuration changed between its two stages, the files of the first one are
// those of the earlier configuration.
func (r *Reconciler) withoutFirstStage(ctx context.Context, np *api.NodeProvenance, seen *observedMatch, report drift.Report) (drift.Report, error) {
	for _, g := range seen.timeline {
		if g.InputDigest == seen.current.InputDigest || !g.WasCurrentDuring(np.Spec.Window, lineage.Bridge) {
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

// makesNodeReport returns whether the configuration of a node makes it report, and whether that is
// known.
func (r *Reconciler) makesNodeReport(ctx context.Context, np *api.NodeProvenance, seen *observedMatch) (supported, known bool, err error) {
	if np.Spec.Configuration == nil {
		return false, true, nil
	}
	if err := r.findProvisionedGeneration(ctx, np, seen); err != nil || seen.current == nil {
		return false, false, err
	}
	m, err := r.ManifestOf(ctx, poolOfNode(np), seen.current)
	if errors.Is(err, observe.ErrNoManifest) {
		return false, false, nil
	}
	return err == nil && m.Config != "", err == nil, err
}

// silence is what is known of a node whose report seems old, or that has none.
type silence struct {
	silent bool
	// recent says that the report is younger than it seems, as with a clock that is slow.
	recent bool
	// next is the time until the node has to be observed again; 0 for never.
	next time.Duration
}

// observeSilence finds out whether a node has stopped to report, by the clocks of the API server and of
// this controller. Everything is read from the API server. Because nodes cannot report while that is
// unavailable, a node is silent only if it was for long enough before.
func (r *Reconciler) observeSilence(ctx context.Context, np *api.NodeProvenance, text string) (silence, error) {
	var node corev1.Node
	found, err := kubeclient.Find(ctx, r.Worker.Live, types.NamespacedName{Name: np.Spec.Node.Name}, &node)
	if err != nil || !found || node.UID != np.Spec.Node.UID {
		return silence{}, err
	}
	if node.Annotations[api.AnnotationMatch] != text { // the cache is behind
		return silence{next: later}, nil
	}
	now, reported := r.Clock.Now(), np.Spec.Node.Joined.Time
	for _, f := range node.ManagedFields {
		if f.Time != nil && f.FieldsV1 != nil && strings.Contains(f.FieldsV1.GetRawString(), `"f:`+api.AnnotationMatch+`"`) {
			reported = f.Time.Time
		}
	}
	if next := drift.Deadline(reported).Sub(now); next > 0 {
		return silence{recent: text != "", next: next}, nil
	}
	i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if i < 0 || node.Status.Conditions[i].Status != corev1.ConditionTrue {
		return silence{next: matchRetry}, nil
	}
	since := node.Status.Conditions[i].LastTransitionTime.Time
	if np.Status.Match == nil || np.Status.Match.State != api.MatchStateNotReported {
		first, ok := r.silent.Get(node.UID)
		if !ok {
			first = now
			r.silent.Add(node.UID, now, 2*drift.Settled(now).Sub(now))
		}
		if at, _ := first.(time.Time); at.After(since) {
			since = at
		}
	}
	next := drift.Settled(since).Sub(now)
	return silence{silent: next <= 0, next: max(next, 0)}, nil
}

// concludeMatch returns the new status of a node whose report has changed.
func (r *Reconciler) concludeMatch(ctx context.Context, np *api.NodeProvenance, seen *observedMatch) (*api.NodeMatch, error) {
	if seen.restored {
		return np.Status.Match, nil
	}
	now := metav1.NewTime(r.Clock.Now()).Rfc3339Copy()
	if seen.report == nil {
		return drift.WithoutReport(seen.state, now.Time), nil
	}
	report := *seen.report
	hasContent := slices.ContainsFunc(report.Differences, func(d api.MatchDifference) bool { return d.Found != "" })
	if hasContent && seen.current != nil {
		versions, err := r.OtherVersions(ctx, poolOfNode(np), seen.current, seen.timeline)
		if err != nil {
			return nil, err
		}
		report.Differences = drift.FindVersions(report.Differences, versions)
	}
	return drift.StatusFromReport(report, now.Time), nil
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
