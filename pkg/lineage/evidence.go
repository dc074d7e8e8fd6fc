package lineage

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// MaxPossible bounds the configurations that one object lists; the schema has the
// same number.
const MaxPossible = 64

// Observation are what a conclusion is drawn from.
type Observation struct {
	Report   api.NodeReport
	Window   api.ProvenanceWindow
	Revision string // of the machine's MachineSet
	Pool     Timeline
}

// Conclusion is what is known of how a node was provisioned.
type Conclusion struct {
	Evidence    api.Evidence
	Explanation string
	// Configuration is that of the provisioning document, Bootstrap that of the bootstrap
	// document. Both are nil if the evidence is Unknown.
	Configuration, Bootstrap *Generation
	Possible                 Timeline // if there are several
	Agreement                Agreement
}

// Agreement says whether the report of a node agrees with the records, in the form of the
// condition Agreed.
type Agreement struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// DetermineConfiguration returns the configuration that a node was provisioned from. The node's report is used if
// it agrees with the records, otherwise the configuration that was current when the machine was
// created.
func DetermineConfiguration(f Observation) Conclusion {
	candidates := f.possibleGenerations()
	reported, agreed := CompareReport(f)
	c := Conclusion{Evidence: api.EvidenceUnknown, Agreement: agreed}
	if len(candidates) > 1 {
		c.Possible = candidates[max(0, len(candidates)-MaxPossible):]
	}
	first, why := f.atCreation(candidates)
	switch {
	case reported != nil:
		c.Evidence = api.EvidenceReported
		c.Configuration = reported
		c.Bootstrap = reported
		if first != nil && first.From.Before(reported.From) {
			c.Bootstrap = first
		}
		c.Explanation = "the node reports this configuration, and its pool had it when the machine fetched its documents"
	case agreed.Reason == api.ReasonNoRecords: // it may be true, so nothing else is inferred
		c.Explanation = agreed.Message
		if claimed, known := f.reportedOne(f.Report.Config); known {
			candidates = append(slices.Clone(candidates), claimed)
		}
		c.Possible = candidates[max(0, len(candidates)-MaxPossible):]
	case first != nil:
		c.Evidence = api.EvidenceInferred
		c.Configuration = first
		c.Bootstrap = first
		c.Explanation = "the pool had this configuration from the creation of the machine until the node joined"
		if len(candidates) > 1 {
			c.Explanation = fmt.Sprintf("the pool had this configuration when the machine was created; it had %d configurations until the node joined, and each document can be from any of them", len(candidates))
		}
	default:
		c.Explanation = why
		if len(candidates) == 1 { // it is possible, and not certain
			c.Possible = candidates
		}
	}
	if agreed.Status == metav1.ConditionFalse {
		c.Explanation += "; the node says otherwise: " + agreed.Message
	}
	return c
}

// possibleGenerations returns the generations with which the machine can have been created: those of
// its window, without the ones that the pool had only before its MachineDeployment reached the revision
// of the machine's MachineSet. If none is left, it returns all of the window.
func (f Observation) possibleGenerations() Timeline {
	inWindow := f.Pool.within(f.Window)
	out := slices.DeleteFunc(slices.Clone(inWindow), func(g Generation) bool { return IsOlderRevision(g.Revision, f.Revision) })
	if len(out) == 0 {
		return inWindow
	}
	return out
}

// atCreation returns the candidate that the pool had when the machine was created, or the first one
// after that: a machine without a configuration waits. If it cannot be determined the result is nil
// with the reason.
func (f Observation) atCreation(candidates Timeline) (g *Generation, why string) {
	if f.Window.From == nil {
		return nil, "the Machine is younger than its Node, so the time when it fetched its documents is unknown: it was adopted or restored"
	}
	created := f.Window.From.Time
	for i := range candidates {
		g := &candidates[i]
		if !g.Until.IsZero() && !g.Until.After(created) && i+1 < len(candidates) {
			continue // it ended just before
		}
		if g.Unrecorded && g.From.After(created.Add(Leeway)) {
			return nil, fmt.Sprintf("when the machine was created, the pool had a configuration without a record; it was replaced at %s", FormatTime(g.From))
		}
		return g, ""
	}
	switch {
	case len(f.Pool) == 0:
		return nil, "no record of a configuration of its pool exists"
	case f.Pool[0].From.After(f.Window.Until.Time):
		return nil, fmt.Sprintf("the oldest recorded configuration of its pool is from %s, after the node had joined", FormatTime(f.Pool[0].From))
	}
	return nil, "no record exists of the configuration that its pool had from the creation of the machine until the node joined"
}

// CompareReport compares a node's report with the records. It returns the configuration that the
// node reports if the records agree.
func CompareReport(f Observation) (*Generation, Agreement) {
	report := f.Report
	if report == (api.NodeReport{}) {
		return nil, Agreement{metav1.ConditionUnknown, api.ReasonNothingReported, "the node has neither label " + api.LabelConfig + " nor " + api.LabelCommit}
	}
	disagree := func(reason, format string, args ...any) Agreement {
		return Agreement{metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
	}
	during := func(g Generation) bool { return g.WasCurrentDuring(f.Window, Bridge) }
	if report.Config == "" {
		for _, g := range f.Pool {
			if during(g) && g.matchesReportedCommit(report) {
				return nil, Agreement{metav1.ConditionTrue, api.ReasonRecorded, "the commit that the node reports is that of a configuration which its pool had"}
			}
		}
		if f.Pool.mayLackRecord(f.Window) {
			return nil, noRecords()
		}
		return nil, disagree(api.ReasonOtherCommit, "it reports commit %q, and no configuration that its pool had then is of that commit", report.Commit)
	}
	g, found := f.reportedOne(report.Config)
	switch {
	case !found && f.Pool.mayLackRecord(f.Window):
		return nil, noRecords()
	case !found:
		return nil, disagree(api.ReasonNeverCurrent, "it reports configuration %q, which its pool never had", report.Config)
	case !during(g) && g.matchesReportedCommit(report) && f.Pool.MayHaveHad(g, f.Window):
		return nil, noRecords()
	case !during(g):
		return nil, disagree(api.ReasonNotCurrentThen, "it reports configuration %q, which its pool had from %s until %s, and not when the machine fetched its documents", report.Config, FormatTime(g.From), formatTimeOrNow(g.Until))
	case !g.matchesReportedCommit(report):
		return nil, disagree(api.ReasonOtherCommit, "it reports configuration %q and commit %q; that configuration is of commit %q", report.Config, report.Commit, render.LabelValue(g.Commit))
	}
	return &g, Agreement{metav1.ConditionTrue, api.ReasonRecorded, "its pool had the configuration that the node reports when the machine fetched its documents"}
}

// reportedOne finds the generation with a digest. A pool can have had it several times, with
// different begin times and commits: a time that contains the window has precedence over one that is
// merely close.
func (f Observation) reportedOne(config string) (g Generation, found bool) {
	for _, late := range []time.Duration{0, Leeway, Bridge} {
		fits := func(g Generation) bool { return g.WasCurrentDuring(f.Window, late) }
		if g, found = f.Pool.findByLabelPreferring(config, fits); !found || fits(g) {
			break
		}
	}
	return g, found
}

// matchesReportedCommit reports whether a node of the generation reports this commit. A profile need
// not make it report one.
func (g Generation) matchesReportedCommit(report api.NodeReport) bool {
	return report.Commit == "" || report.Commit == render.LabelValue(g.Commit)
}

func noRecords() Agreement {
	return Agreement{metav1.ConditionUnknown, api.ReasonNoRecords, "no record exists of the configuration that its pool had then"}
}

// FormatTime is a time as annotations have it.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// AnnotatedTime reads a time from an annotation; it is zero if the annotation has none.
func AnnotatedTime(annotations map[string]string, key string) time.Time {
	t, err := time.Parse(time.RFC3339, annotations[key])
	if err != nil {
		return time.Time{}
	}
	return t
}

// formatTimeOrNow formats the end of an interval; "now" for a zero time.
func formatTimeOrNow(t time.Time) string {
	if t.IsZero() {
		return "now"
	}
	return FormatTime(t)
}
