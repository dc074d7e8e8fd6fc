package nodes

import (
	"slices"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/drift"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// plan is what apply writes, in the order of these fields.
type plan struct {
	// removed are statuses that say that a node was deleted.
	removed []statusPlan
	// create is a new NodeProvenance, nil for none. Its status is planned when it exists.
	create *api.NodeProvenance
	// annotate is the name of the NodeProvenance that the Node does not have yet, "" for none.
	annotate string
	// status is that of the node's NodeProvenance, nil if it remains.
	status *statusPlan
	// events are those of the Node.
	events []warning
}

// statusPlan is a change of a NodeProvenance's status, and the audit log entries that come before it.
type statusPlan struct {
	of      *api.NodeProvenance
	entries []auditlog.Event
	change  map[string]any // in a merge patch
}

type warning struct{ reason, note string }

// newPlan plans from what was observed, which can be incomplete. It has no client and no clock.
func newPlan(seen *observed) plan {
	var p plan
	for _, np := range seen.removed {
		p.removed = append(p.removed, planRemoved(seen, np))
	}
	if seen.joining != nil {
		p.create = newProvenance(seen.joining)
	}
	if seen.current == nil || seen.postponed {
		return p
	}
	if !namesProvenance(seen.node) {
		p.annotate = seen.current.Name
	}
	if seen.complete {
		p.status, p.events = planStatus(seen)
	}
	return p
}

// planRemoved plans to record that a node was deleted, and the missing audit log entries about it.
func planRemoved(seen *observed, np provenance) statusPlan {
	next, change := seen.asRemoved(np.NodeProvenance), map[string]any{}
	if np.Status.Removed == nil {
		change["removed"] = next.Status.Removed
	}
	return newStatusPlan(seen, np, next, change)
}

// asRemoved returns a NodeProvenance that says that its node was deleted.
func (seen *observed) asRemoved(np *api.NodeProvenance) *api.NodeProvenance {
	next := np.DeepCopy()
	if next.Status.Removed == nil {
		next.Status.Removed = new(metav1.NewTime(seen.now).Rfc3339Copy())
	}
	return next
}

// newStatusPlan returns the plan for a change that leads to next, with the audit log entries that are
// missing then.
func newStatusPlan(seen *observed, np provenance, next *api.NodeProvenance, change map[string]any) statusPlan {
	entries := seen.missingEntries(next)
	for i := range entries {
		addDetails(&entries[i], np.untrimmed, next)
	}
	return statusPlan{of: np.NodeProvenance, entries: entries, change: change}
}

// newProvenance returns the NodeProvenance for a conclusion.
func newProvenance(j *joining) *api.NodeProvenance {
	node := &j.node
	from := j.chain
	c := j.conclusion
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
				Namespace: from.Pool.Namespace, Name: from.Pool.Name, UID: from.Pool.UID, MachineSet: from.MachineSet.Name, Revision: redact.Shorten(j.facts.Revision, 64),
			},
			Evidence: c.Evidence, Explanation: c.Explanation, Window: j.facts.Window,
			Possible: c.Possible.Configurations(),
		},
	}
	if j.facts.Report != (api.NodeReport{}) {
		np.Spec.Reported = new(j.facts.Report)
	}
	if c.Configuration == nil {
		return np
	}
	np.Spec.Configuration, np.Spec.Bootstrap = j.configuration, new(c.Bootstrap.Configuration())
	addLabels(np)
	return np
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

// planStatus plans the parts of a status that are missing or outdated, except for Behind that changes
// later, see planBehind.
func planStatus(seen *observed) (*statusPlan, []warning) {
	np := seen.current
	next, change := np.DeepCopy(), map[string]any{}
	if np.Status.Behind == "" {
		change["behind"], change["missing"] = behindState(np.NodeProvenance, seen.timeline)
	}
	var agreed lineage.Agreement
	var conditions []metav1.Condition
	if !seen.isEvaluated() {
		report := lineage.ReportOf(seen.node)
		agreed = seen.agreement(report)
		conditions = append(conditions, metav1.Condition{
			Type: api.AgreedCondition, Status: agreed.Status, Reason: agreed.Reason, Message: redact.RemoveControlChars(agreed.Message),
			ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(seen.now),
		})
		next.Status.Reported, change["reported"] = nil, nil
		if report != (api.NodeReport{}) {
			next.Status.Reported = &report
			change["reported"] = report
		}
	}
	var matches metav1.Condition
	if seen.match.changed {
		next.Status.Match = nextMatch(seen)
		change["match"] = replaceMatch(next.Status.Match)
		matches = drift.Condition(next.Status.Match, seen.match.invalid)
		conditions = append(conditions, matches)
	}
	if len(conditions) > 0 {
		next.Status.Conditions = slices.Clone(np.untrimmed.Status.Conditions)
		for _, c := range conditions {
			apimeta.SetStatusCondition(&next.Status.Conditions, c) // whose time is that of the last change of its status
		}
		change["conditions"] = next.Status.Conditions
	}
	var events []warning
	if matches.Status == metav1.ConditionFalse && !seen.match.restored {
		events = append(events, warning{api.EventNodeDiffers, redact.Shorten(matches.Message+": see NodeProvenance "+np.Name, redact.MaxEvent)})
	}
	if agreed.Status == metav1.ConditionFalse {
		events = append(events, warning{api.EventProvenanceDisputed, redact.Shorten(agreed.Message+": see NodeProvenance "+np.Name, redact.MaxEvent)})
	}
	return new(newStatusPlan(seen, *np, next, change)), events
}

// agreement compares the node's report with the records, and its recorded machine with the machines.
func (seen *observed) agreement(report api.NodeReport) lineage.Agreement {
	if seen.contradiction != "" {
		return lineage.Agreement{Status: metav1.ConditionFalse, Reason: api.ReasonOtherMachine, Message: seen.contradiction}
	}
	_, agreed := lineage.CompareReport(lineage.Observation{Report: report, Window: seen.current.Spec.Window, Pool: seen.timeline})
	return agreed
}

// nextMatch returns the new match of a node whose match has changed.
func nextMatch(seen *observed) *api.NodeMatch {
	if seen.match.restored {
		return seen.current.Status.Match
	}
	now := metav1.NewTime(seen.now).Rfc3339Copy()
	if seen.match.report == nil {
		return drift.WithoutReport(seen.match.state, now.Time)
	}
	report := *seen.match.report
	report.Differences = drift.FindVersions(report.Differences, seen.match.versions)
	return drift.StatusFromReport(report, now.Time)
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

// planBehind plans the statuses of nodes that are behind their pool, or no longer are.
func planBehind(nodes []api.NodeProvenance, pool lineage.Timeline) []statusPlan {
	if _, ok := pool.Current(); !ok {
		return nil // the configuration is being replaced, or the pool was deleted: change nothing
	}
	var out []statusPlan
	for i := range nodes {
		np := &nodes[i]
		is, missing := behindState(np, pool)
		if np.Status.Removed == nil && np.Status.Behind != is {
			out = append(out, statusPlan{of: np, change: map[string]any{"behind": is, "missing": missing}})
		}
	}
	return out
}

// behindState returns whether a node is behind, and the first version that followed the node's
// version, if there is one.
func behindState(np *api.NodeProvenance, pool lineage.Timeline) (api.Behind, *api.MissingVersion) {
	is, missing := lineage.FindMissingVersions(np, pool)
	if len(missing) == 0 {
		return is, nil
	}
	return is, &missing[0]
}
