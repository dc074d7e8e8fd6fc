package metrics

import "github.com/prometheus/client_golang/prometheus"

// NodeCount is how many NodeProvenances are alike.
type NodeCount struct {
	Evidence, Behind string
	Disputed, Gone   bool
	Count            int
}

// provenance counts what happens to NodeProvenances.
type provenance struct {
	dropped     prometheus.Counter
	held, ready prometheus.Gauge
}

func newProvenance() provenance {
	return provenance{dropped: dropped.one(), held: held.gauge(), ready: provenanceOn.gauge()}
}

func (p provenance) all() []prometheus.Collector {
	return []prometheus.Collector{p.dropped, p.held, p.ready}
}

// Nodes asks count at each scrape what NodeProvenances there are.
func (m *Metrics) Nodes(count func() []NodeCount) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = count
}

// ProvenanceReady says whether the provenance of nodes is written down.
func (m *Metrics) ProvenanceReady(yes bool) {
	if m != nil {
		m.provenance.ready.Set(oneIf(yes))
	}
}

// ProvenanceDropped counts a NodeProvenance that was too old, or one too many.
func (m *Metrics) ProvenanceDropped() {
	if m != nil {
		m.provenance.dropped.Inc()
	}
}

// ProvenanceHeld is how many of those stay until the audit log has them.
func (m *Metrics) ProvenanceHeld(n int) {
	if m != nil {
		m.provenance.held.Set(float64(n))
	}
}

// collectNodes makes the series of nodes.
func (m *Metrics) collectNodes(gauge func(*prometheus.Desc, float64, ...string), counts []NodeCount) {
	type known struct{ evidence, behind string }
	nodes := map[known]int{}
	there, gone, disputed := 0, 0, 0
	for _, c := range counts {
		if c.Gone {
			gone += c.Count
			continue
		}
		there += c.Count
		nodes[known{c.Evidence, c.Behind}] += c.Count
		if c.Disputed {
			disputed += c.Count
		}
	}
	for k, n := range nodes {
		if n > 0 {
			gauge(m.descs.nodesKnown, float64(n), k.evidence, k.behind)
		}
	}
	gauge(m.descs.nodesDisputed, float64(disputed))
	gauge(m.descs.records, float64(there), "there")
	gauge(m.descs.records, float64(gone), "gone")
}

// journalCounts counts what happens to the audit log.
type journalCounts struct {
	lines        *prometheus.CounterVec
	errors, lost prometheus.Counter
	waiting      prometheus.Gauge
}

func newJournalCounts() journalCounts {
	return journalCounts{lines: journalLines.counter(), errors: journalErrors.one(), lost: journalLost.one(), waiting: journalWaiting.gauge()}
}

func (j journalCounts) all() []prometheus.Collector {
	return []prometheus.Collector{j.lines, j.errors, j.lost, j.waiting}
}

// JournalWritten counts a line of the audit log.
func (m *Metrics) JournalWritten(kind string) {
	if m != nil {
		m.journal.lines.WithLabelValues(kind).Inc()
	}
}

// JournalFailed counts an attempt that failed.
func (m *Metrics) JournalFailed() {
	if m != nil {
		m.journal.errors.Inc()
	}
}

// JournalWaits is how many facts wait.
func (m *Metrics) JournalWaits(n int) {
	if m != nil {
		m.journal.waiting.Set(float64(n))
	}
}

// JournalLost counts a fact that is lost.
func (m *Metrics) JournalLost() {
	if m != nil {
		m.journal.lost.Inc()
	}
}
