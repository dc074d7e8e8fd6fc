package nodes

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// maxPossible bounds the configurations that one object lists; the schema has the
// same number.
const maxPossible = 64

// facts is what a conclusion is drawn from.
type facts struct {
	report   api.NodeReport
	window   api.ProvenanceWindow
	revision string // of the machine's MachineSet
	pool     timeline
}

// conclusion is what is known of how a node was provisioned.
type conclusion struct {
	evidence    api.Evidence
	explanation string
	// configuration is that of the provisioning document, bootstrap that of the other;
	// both nil where the evidence is Unknown.
	configuration, bootstrap *generation
	possible                 timeline // where there are several
	agreement                agreement
}

// agreement is whether what a node says of itself agrees with the records.
type agreement struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

// conclude draws a conclusion. The node's word counts where the records allow it; else
// what was current when the machine was created does.
func conclude(f facts) conclusion {
	candidates := f.candidates()
	reported, agreed := judge(f)
	c := conclusion{evidence: api.EvidenceUnknown, agreement: agreed}
	if len(candidates) > 1 {
		c.possible = candidates[max(0, len(candidates)-maxPossible):]
	}
	first, why := f.atCreation(candidates)
	switch {
	case reported != nil:
		c.evidence, c.configuration, c.bootstrap = api.EvidenceReported, reported, reported
		if first != nil && first.from.Before(reported.from) {
			c.bootstrap = first
		}
		c.explanation = "the node reports this configuration, and its pool had it when the machine fetched its documents"
	case first != nil:
		c.evidence, c.configuration, c.bootstrap = api.EvidenceInferred, first, first
		c.explanation = "it is what the pool had when the machine was created, and until the node joined it had no other"
		if len(candidates) > 1 {
			c.explanation = fmt.Sprintf("it is what the pool had when the machine was created; it had %d configurations until the node joined, and either document may be of any that is listed as possible", len(candidates))
		}
	default:
		c.explanation = why
		if len(candidates) == 1 { // it is possible, and not certain
			c.possible = candidates
		}
	}
	if agreed.status == metav1.ConditionFalse {
		c.explanation += "; the node says otherwise: " + agreed.message
	}
	return c
}

// candidates are the configurations that the machine may have been given. Those that
// were replaced before the revision of its MachineSet it was not: machine-controller
// creates a machine only from documents of that very revision (contract: section 12.1).
// A MachineSet that was used again later has a newer revision than then, so that they
// count where no other is left.
func (f facts) candidates() timeline {
	all := f.pool.within(f.window)
	var out timeline
	for _, g := range all {
		if !older(g.revision, f.revision) {
			out = append(out, g)
		}
	}
	if len(out) == 0 {
		return all
	}
	return out
}

// atCreation is the candidate that the pool had when the machine was created, or got
// first after that: without one a machine waits. It is nil where that cannot be told,
// with the reason.
func (f facts) atCreation(candidates timeline) (g *generation, why string) {
	if f.window.From == nil {
		return nil, "the Machine is younger than its Node, so that nothing tells when it fetched its documents: it was adopted, or restored"
	}
	created := f.window.From.Time
	for i := range candidates {
		g := &candidates[i]
		if !g.until.IsZero() && !g.until.After(created) && i+1 < len(candidates) {
			continue // it ended just before
		}
		if g.unrecorded && g.from.After(created.Add(leeway)) {
			return nil, fmt.Sprintf("when the machine was created, the pool had a configuration that there is no record of; it was replaced at %s", stamp(g.from))
		}
		return g, ""
	}
	switch {
	case len(f.pool) == 0:
		return nil, "there is no record of a configuration of its pool"
	case f.pool[0].from.After(f.window.Until.Time):
		return nil, fmt.Sprintf("the oldest configuration of its pool that there is a record of is of %s, after the node had joined", stamp(f.pool[0].from))
	}
	return nil, "there is no record of what its pool had from when the machine was created until the node joined"
}

// judge compares what a node says of itself with the records. It returns the
// configuration that the node reports where they agree on one.
func judge(f facts) (*generation, agreement) {
	says := f.report
	if says == (api.NodeReport{}) {
		return nil, agreement{metav1.ConditionUnknown, api.ReasonNothingReported, "the node has neither label " + api.LabelConfig + " nor " + api.LabelCommit}
	}
	disagree := func(reason, format string, args ...any) agreement {
		return agreement{metav1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
	}
	during := func(g generation) bool { return g.during(f.window, bridge) }
	if says.Config == "" {
		for _, g := range f.pool {
			if during(g) && g.says(says) {
				return nil, agreement{metav1.ConditionTrue, api.ReasonRecorded, "the commit that the node reports is that of a configuration which its pool had"}
			}
		}
		if f.lacksRecords() {
			return nil, noRecords()
		}
		return nil, disagree(api.ReasonOtherCommit, "it reports commit %q, and no configuration that its pool had then is of that commit", says.Commit)
	}
	// Of several times that the pool had it, one within the window comes before one just
	// before it: who had selected it differs.
	g, found := f.pool.has(says.Config, func(g generation) bool { return g.during(f.window, leeway) })
	if found && !g.during(f.window, leeway) {
		g, found = f.pool.has(says.Config, during)
	}
	switch {
	case !found && f.lacksRecords():
		return nil, noRecords()
	case !found:
		return nil, disagree(api.ReasonNeverCurrent, "it reports configuration %q, which its pool never had", says.Config)
	case !during(g):
		return nil, disagree(api.ReasonNotCurrentThen, "it reports configuration %q, which its pool had from %s until %s, and not when the machine fetched its documents", says.Config, stamp(g.from), end(g.until))
	case !g.says(says):
		return nil, disagree(api.ReasonOtherCommit, "it reports configuration %q and commit %q; that configuration is of commit %q", says.Config, says.Commit, render.LabelValue(g.commit))
	}
	return &g, agreement{metav1.ConditionTrue, api.ReasonRecorded, "its pool had the configuration that the node reports when the machine fetched its documents"}
}

// says reports whether a node of the generation reports this commit. A profile need
// not make it report one.
func (g generation) says(report api.NodeReport) bool {
	return report.Commit == "" || report.Commit == render.LabelValue(g.commit)
}

// lacksRecords reports whether the pool may have had a configuration within the window
// that there is no record of.
func (f facts) lacksRecords() bool {
	var known time.Time // until when the one before served
	for _, g := range f.pool {
		if g.unrecorded && g.from.After(known) && known.Before(f.window.Until.Time) && (f.window.From == nil || g.from.After(f.window.From.Time)) {
			return true
		}
		known = g.until
	}
	return len(f.pool) == 0
}

func noRecords() agreement {
	return agreement{metav1.ConditionUnknown, api.ReasonNoRecords, "there is no record to compare with of what its pool had then"}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func end(t time.Time) string {
	if t.IsZero() {
		return "now"
	}
	return stamp(t)
}
