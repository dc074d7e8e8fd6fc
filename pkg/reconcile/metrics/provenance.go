package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

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

// provenance counts changes of NodeProvenances.
type provenance struct {
	dropped         prometheus.Counter
	retained, ready prometheus.Gauge
}

func newProvenance() provenance {
	return provenance{dropped: dropped.one(), retained: provenancesStored.gauge(), ready: provenanceOn.gauge()}
}

func (p provenance) all() []prometheus.Collector {
	return []prometheus.Collector{p.dropped, p.retained, p.ready}
}

// RegisterNodes registers count, which returns the numbers of NodeProvenances at each scrape.
func (m *Metrics) RegisterNodes(count func() []NodeCount) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = count
}

// ProvenanceReady sets whether the provenance of nodes is recorded.
func (m *Metrics) ProvenanceReady(yes bool) {
	if m != nil {
		m.provenance.ready.Set(oneIf(yes))
	}
}

// ProvenanceExpired counts a deleted NodeProvenance that was too old, or exceeded the
// maximum.
func (m *Metrics) ProvenanceExpired() {
	if m != nil {
		m.provenance.dropped.Inc()
	}
}

// ExpiredProvenancesWaiting sets how many of those remain until the audit log has them.
func (m *Metrics) ExpiredProvenancesWaiting(n int) {
	if m != nil {
		m.provenance.retained.Set(float64(n))
	}
}

// collectNodes builds the series of nodes.
func (m *Metrics) collectNodes(gauge func(*prometheus.Desc, float64, ...string), counts []NodeCount) {
	type known struct{ evidence, behind string }
	nodes := map[known]int{}
	existing, gone, disputed := 0, 0, 0
	differing := map[string]int{api.ReasonEdited: 0, api.ReasonDisabled: 0, api.ReasonOtherVersion: 0, api.ReasonNotReported: 0}
	for _, c := range counts {
		if c.Gone {
			gone += c.Count
			continue
		}
		existing += c.Count
		nodes[known{c.Evidence, c.Behind}] += c.Count
		if c.Disputed {
			disputed += c.Count
		}
		if c.Differing != "" {
			differing[c.Differing] += c.Count
		}
	}
	for k, n := range nodes {
		if n > 0 {
			gauge(m.descs.nodesByEvidence, float64(n), k.evidence, k.behind)
		}
	}
	gauge(m.descs.nodesDisputed, float64(disputed))
	for reason, n := range differing {
		gauge(m.descs.nodesDiffering, float64(n), reason)
	}
	gauge(m.descs.records, float64(existing), "there")
	gauge(m.descs.records, float64(gone), "gone")
}

// auditLogCounts counts writes of the audit log.
type auditLogCounts struct {
	lines        *prometheus.CounterVec
	errors, lost prometheus.Counter
	waiting      prometheus.Gauge
}

func newAuditLogCounts() auditLogCounts {
	return auditLogCounts{lines: auditLogLines.counter(), errors: auditLogErrors.one(), lost: auditLogLost.one(), waiting: auditLogWaiting.gauge()}
}

func (j auditLogCounts) all() []prometheus.Collector {
	return []prometheus.Collector{j.lines, j.errors, j.lost, j.waiting}
}

// AuditEntryWritten counts a line of the audit log.
func (m *Metrics) AuditEntryWritten(kind string) {
	if m != nil {
		m.auditLog.lines.WithLabelValues(kind).Inc()
	}
}

// AuditWriteFailed counts a failed attempt.
func (m *Metrics) AuditWriteFailed() {
	if m != nil {
		m.auditLog.errors.Inc()
	}
}

// AuditEntriesWaiting sets the number of waiting entries.
func (m *Metrics) AuditEntriesWaiting(n int) {
	if m != nil {
		m.auditLog.waiting.Set(float64(n))
	}
}

// AuditEntryLost counts a lost entry.
func (m *Metrics) AuditEntryLost() {
	if m != nil {
		m.auditLog.lost.Inc()
	}
}
