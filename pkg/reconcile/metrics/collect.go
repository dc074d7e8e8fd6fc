package metrics

import (
	"maps"
	"strconv"
	"unique"

	"github.com/prometheus/client_golang/prometheus"
)

// internString returns the only copy of a string. unique drops copies that are no longer used.
func internString(s string) string { return unique.Make(s).Value() }

// vectors are the metrics that client_golang stores.
func (m *Metrics) vectors() []prometheus.Collector {
	return append(append(m.provenance.all(), m.auditLog.all()...), m.fetches, m.failures, m.rotated, m.unsent, m.renderings, m.booted, m.bootTimes)
}

// Describe describes all metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(to)
	}
	d := m.descs
	for _, desc := range []*prometheus.Desc{
		d.sourceInfo, d.sourceLastFetch, d.windowOpen, d.poolInfo, d.poolReady, d.poolRejected, d.poolUserData, d.poolLimit, d.poolTokenEnds, d.poolNodeEnds, d.clusterUp, d.webhookEnds,
		d.nodesByEvidence, d.nodesDisputed, d.nodesDiffering, d.records,
	} {
		to <- desc
	}
}

// Collect builds the current series.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(to)
	}
	m.mu.Lock()
	sources, pools, connections := maps.Clone(m.sources), maps.Clone(m.pools), maps.Clone(m.connections)
	webhook, nodes := m.webhook, m.nodes
	m.mu.Unlock()
	d := m.descs
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for key, s := range sources {
		if s.Kind != "" {
			gauge(d.sourceInfo, 1, key.Namespace, key.Name, s.Kind, s.Ready, s.Reason, strconv.FormatBool(s.Suspended), s.Revision)
		}
		if !s.read.IsZero() {
			gauge(d.sourceLastFetch, float64(s.read.Unix()), key.Namespace, key.Name)
		}
	}
	for key, s := range sources {
		for _, w := range s.windows {
			gauge(d.windowOpen, oneIf(w.Open), key.Namespace, key.Name, w.Applies)
		}
	}
	for key, p := range pools {
		gauge(d.poolReady, oneIf(p.RejectionReason == ""), key.Namespace, key.Name)
		if p.RejectionReason != "" {
			gauge(d.poolRejected, 1, key.Namespace, key.Name, p.RejectionReason)
		}
		if p.Profile != "" {
			gauge(d.poolInfo, 1, key.Namespace, key.Name, p.Profile, p.Version, p.Commit)
		}
		if p.UserData > 0 && p.Limit > 0 {
			gauge(d.poolUserData, float64(p.UserData), key.Namespace, key.Name)
			gauge(d.poolLimit, float64(p.Limit), key.Namespace, key.Name)
		}
		if !p.TokenEnds.IsZero() {
			gauge(d.poolTokenEnds, float64(p.TokenEnds.Unix()), key.Namespace, key.Name)
		}
		if !p.NodeTokenEnds.IsZero() {
			gauge(d.poolNodeEnds, float64(p.NodeTokenEnds.Unix()), key.Namespace, key.Name)
		}
	}
	for name, up := range connections {
		gauge(d.clusterUp, oneIf(up()), name)
	}
	if nodes != nil {
		m.collectNodes(gauge, nodes())
	}
	if webhook == nil {
		return
	}
	if ends := webhook(); !ends.IsZero() {
		gauge(d.webhookEnds, float64(ends.Unix()))
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
