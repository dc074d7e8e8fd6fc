package metrics

import (
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// NodeCount is the number of NodeProvenances with equal labels.
type NodeCount struct {
	Evidence, Behind string
	// Differing is the reason why the node does not match its configuration, "" if it does.
	Differing      string
	Disputed, Gone bool
	Count          int
}

// RegisterNodes registers count, which returns the numbers of NodeProvenances at each scrape.
func (m *Metrics) RegisterNodes(count func() []NodeCount) {
	m.update(func() { m.nodes = count })
}

// ProvenanceReady sets whether the provenance of nodes is recorded.
func (m *Metrics) ProvenanceReady(yes bool) {
	m.set(provenanceOn, oneIf(yes))
}

// ProvenanceExpired counts a deleted NodeProvenance that was too old, or exceeded the
// maximum.
func (m *Metrics) ProvenanceExpired() {
	m.count(dropped)
}

// ExpiredProvenancesWaiting sets how many of those remain until the audit log has them.
func (m *Metrics) ExpiredProvenancesWaiting(n int) {
	m.set(provenancesStored, float64(n))
}

// collectNodes builds the series of nodes.
func collectNodes(gauge func(Metric, float64, ...string), counts []NodeCount) {
	type provenanceState struct{ evidence, behind string }
	nodes := map[provenanceState]int{}
	existing := 0
	gone := 0
	disputed := 0
	differing := map[string]int{api.ReasonEdited: 0, api.ReasonDisabled: 0, api.ReasonOtherVersion: 0, api.ReasonNotReported: 0}
	for _, c := range counts {
		if c.Gone {
			gone += c.Count
			continue
		}
		existing += c.Count
		nodes[provenanceState{c.Evidence, c.Behind}] += c.Count
		if c.Disputed {
			disputed += c.Count
		}
		if c.Differing != "" {
			differing[c.Differing] += c.Count
		}
	}
	for k, n := range nodes {
		if n > 0 {
			gauge(nodesRecorded, float64(n), k.evidence, k.behind)
		}
	}
	gauge(nodesDisputed, float64(disputed))
	for reason, n := range differing {
		gauge(nodesDiffering, float64(n), reason)
	}
	gauge(records, float64(existing), "there")
	gauge(records, float64(gone), "gone")
}

// AuditEntryWritten counts a line of the audit log.
func (m *Metrics) AuditEntryWritten(kind string) {
	m.count(auditLogLines, kind)
}

// AuditWriteFailed counts a failed attempt.
func (m *Metrics) AuditWriteFailed() {
	m.count(auditLogErrors)
}

// AuditEntriesWaiting sets the number of waiting entries.
func (m *Metrics) AuditEntriesWaiting(n int) {
	m.set(auditLogWaiting, float64(n))
}

// AuditEntryLost counts a lost entry.
func (m *Metrics) AuditEntryLost() {
	m.count(auditLogLost)
}
