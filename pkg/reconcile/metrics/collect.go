package metrics

import (
	"maps"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// vectors are the metrics that client_golang stores.
func (m *Metrics) vectors() []prometheus.Collector {
	var out []prometheus.Collector
	for _, v := range m.counters {
		out = append(out, v)
	}
	for _, v := range m.histograms {
		out = append(out, v)
	}
	for _, v := range m.gauges {
		out = append(out, v)
	}
	return out
}

// Describe describes all metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(to)
	}
	for _, desc := range m.descs {
		to <- desc
	}
}

// Collect builds the current series.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(to)
	}
	m.mu.Lock()
	sources := maps.Clone(m.sources)
	pools := maps.Clone(m.pools)
	connections := maps.Clone(m.connections)
	webhook, nodes := m.webhook, m.nodes
	m.mu.Unlock()
	gauge := func(metric Metric, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(m.descs[metric.Name], prometheus.GaugeValue, value, labels...)
	}
	for key, s := range sources {
		if s.Kind != "" {
			gauge(sourceInfo, 1, key.Namespace, key.Name, s.Kind, s.Ready, s.Reason, strconv.FormatBool(s.Suspended), s.Revision)
		}
		if !s.read.IsZero() {
			gauge(sourceLastFetch, float64(s.read.Unix()), key.Namespace, key.Name)
		}
		for _, w := range s.windows {
			gauge(windowOpen, oneIf(w.Open), key.Namespace, key.Name, w.Applies)
		}
	}
	for key, p := range pools {
		gauge(poolReady, oneIf(p.RejectionReason == ""), key.Namespace, key.Name)
		if p.RejectionReason != "" {
			gauge(poolRejected, 1, key.Namespace, key.Name, p.RejectionReason)
		}
		if p.Profile != "" {
			gauge(poolInfo, 1, key.Namespace, key.Name, p.Profile, p.Version, p.Commit)
		}
		if p.UserData > 0 && p.Limit > 0 {
			gauge(poolUserData, float64(p.UserData), key.Namespace, key.Name)
			gauge(poolLimit, float64(p.Limit), key.Namespace, key.Name)
		}
		if !p.TokenEnds.IsZero() {
			gauge(poolTokenEnds, float64(p.TokenEnds.Unix()), key.Namespace, key.Name)
		}
		if !p.NodeTokenEnds.IsZero() {
			gauge(poolNodeEnds, float64(p.NodeTokenEnds.Unix()), key.Namespace, key.Name)
		}
	}
	for name, up := range connections {
		gauge(clusterUp, oneIf(up()), name)
	}
	if nodes != nil {
		collectNodes(gauge, nodes())
	}
	if webhook == nil {
		return
	}
	if ends := webhook(); !ends.IsZero() {
		gauge(webhookEnds, float64(ends.Unix()))
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
