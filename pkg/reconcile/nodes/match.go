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
	"k8s.io/apimachinery/pkg/types"

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
	// current is the configuration of the node; nil if it is not known.
	current  *lineage.Generation
	timeline lineage.Timeline
	// changed says that the status is not up to date; restored, that it only lacks its condition, which
	// earlier releases remove. state is that of a node without a report.
	changed, restored bool
	state             api.MatchState
	// versions are those that a differing file can be from, if the status has to name one.
	versions []drift.Version
	// next is the time until the node has to be observed again; 0 for never.
	next time.Duration
	// postponed says that the API server was asked recently whether the node is silent, err why the match
	// cannot be known. In both cases nothing has changed.
	postponed bool
	err       error
}

// conclude compares the status with a state without a report.
func (m *observedMatch) conclude(state api.MatchState, np *api.NodeProvenance) {
	m.report = nil
	m.state = state
	m.next = 0
	m.compare(np, np.Status.Match != nil && np.Status.Match.State == state)
}

// compare notes whether a status is up to date, given that its match is the same.
func (m *observedMatch) compare(np *api.NodeProvenance, same bool) {
	m.restored = same && apimeta.FindStatusCondition(np.Status.Conditions, api.MatchesCondition) == nil
	m.changed = !same || m.restored
}

// needsVersions reports whether the new status names the versions that differing files are from.
func (m *observedMatch) needsVersions() bool {
	return m.changed && !m.restored && m.report != nil && m.current != nil &&
		slices.ContainsFunc(m.report.Differences, func(d api.MatchDifference) bool { return d.Found != "" })
}

// observeMatch compares a node's own report with the status. It reads only caches if the node matches
// its configuration, or its configuration was rendered before.
//
// It concludes while it reads, unlike the rest: the report says which configuration the node can have,
// the manifest of that one whether more of them have to be rendered, each from a record, a profile and
// settings that are read from the API server.
func (r *Reconciler) observeMatch(ctx context.Context, seen *observed) observedMatch {
	match := observedMatch{timeline: seen.timeline}
	if err := r.evaluate(ctx, seen, &match); err != nil {
		return observedMatch{err: fmt.Errorf("comparing node %s with its configuration: %w", seen.node.Name, err)}
	}
	return match
}

func (r *Reconciler) evaluate(ctx context.Context, seen *observed, match *observedMatch) error {
	np := seen.current.NodeProvenance
	text, last := seen.node.Annotations[api.AnnotationMatch], np.Spec.Node.Joined.Time
	if text == "" {
		supported, known, err := r.makesNodeReport(ctx, np, match)
		if err != nil {
			return err
		}
		if !known && seen.isFresh() { // the cache can lack it
			match.next = freshness
			return nil
		}
		if !supported {
			match.conclude(api.MatchStateNotSupported, np)
			if !known {
				match.next = matchRetry
			}
			return nil
		}
	} else {
		var report drift.Report
		if report, match.invalid = drift.Parse(text, seen.now); match.invalid != nil {
			match.conclude(api.MatchStateNotReported, np)
			return nil //nolint:nilerr // the status says why
		}
		match.report, last = &report, report.Time
	}
	if match.next = drift.Deadline(last).Sub(seen.now); match.next <= 0 { // by the clock of the node, if it has reported
		if !oncePerMinute(r.suspected, seen.node.UID) { // root on a node can write an old time at any rate
			*match = observedMatch{postponed: true}
			return nil
		}
		silence, err := r.observeSilence(ctx, np, text)
		if err != nil {
			r.suspected.Remove(seen.node.UID) // the next attempt reads it again
			return err
		}
		if silence.silent {
			match.conclude(api.MatchStateNotReported, np)
			return nil
		}
		if match.next = silence.next; !silence.recent {
			match.report = nil
		}
	}
	if match.report == nil {
		return nil
	}
	return r.filterReport(ctx, np, match)
}

// findProvisionedGeneration finds the configuration that a node compares itself with among those that it can
// have been provisioned from, or else the one that it was provisioned from.
func (r *Reconciler) findProvisionedGeneration(ctx context.Context, np *api.NodeProvenance, match *observedMatch) error {
	var err error
	if match.timeline == nil {
		if match.timeline, err = r.TimelineOf(ctx, poolOfNode(np), false); err != nil {
			return err
		}
	}
	for _, g := range slices.Backward(match.timeline) {
		recorded := np.Spec.Configuration != nil && g.InputDigest == np.Spec.Configuration.InputDigest
		reported := match.report != nil && g.ConfigLabel() == match.report.Config && g.WasCurrentDuring(np.Spec.Window, lineage.Bridge)
		if reported || recorded && match.current == nil {
			match.current = &g
		}
	}
	return nil
}

// filterReport removes from a report what the node's configuration does not have.
func (r *Reconciler) filterReport(ctx context.Context, np *api.NodeProvenance, match *observedMatch) error {
	report, recorded := *match.report, ""
	if c := np.Spec.Configuration; c != nil {
		recorded = render.ShortDigest(c.InputDigest)
	}
	if recorded != report.Config || report.Differs() {
		if err := r.findProvisionedGeneration(ctx, np, match); err != nil {
			return err
		}
		switch {
		case match.current == nil && recorded == "": // nothing says what the node has to be like
			match.conclude(api.MatchStateNotSupported, np)
			return nil
		case match.current == nil && recorded == report.Config: // its record is missing
		case match.current == nil || match.current.ConfigLabel() != report.Config:
			report = report.OfOtherConfiguration()
		case report.Differs():
			m, err := r.ManifestOf(ctx, poolOfNode(np), match.current)
			switch {
			case errors.Is(err, observe.ErrNoManifest):
			case err != nil:
				return err
			case m.Config == "":
				report = report.OfOtherConfiguration()
			default:
				if report, err = r.withoutFirstStage(ctx, np, match, report.RestrictedTo(m)); err != nil {
					return err
				}
			}
		}
	}
	match.report = &report
	match.compare(np, drift.IsKnown(np.Status.Match, report))
	return nil
}

// withoutFirstStage removes the files whose content is that of another configuration which the machine
// can have fetched: if the configuration changed between its two stages, the files of the first one are
// those of the earlier configuration.
func (r *Reconciler) withoutFirstStage(ctx context.Context, np *api.NodeProvenance, match *observedMatch, report drift.Report) (drift.Report, error) {
	for _, g := range match.timeline {
		if g.InputDigest == match.current.InputDigest || !g.WasCurrentDuring(np.Spec.Window, lineage.Bridge) {
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
func (r *Reconciler) makesNodeReport(ctx context.Context, np *api.NodeProvenance, match *observedMatch) (supported, known bool, err error) {
	if np.Spec.Configuration == nil {
		return false, true, nil
	}
	if err := r.findProvisionedGeneration(ctx, np, match); err != nil || match.current == nil {
		return false, false, err
	}
	m, err := r.ManifestOf(ctx, poolOfNode(np), match.current)
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
