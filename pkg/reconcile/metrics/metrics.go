package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// Metrics collects what the controllers report. A nil pointer accepts everything and
// stores nothing.
type Metrics struct {
	mu          sync.Mutex
	sources     map[types.NamespacedName]sourceState
	pools       map[types.NamespacedName]PoolMetrics
	connections map[string]func() bool
	webhook     func() time.Time // when the webhooks' certificate expires; nil if there is none
	nodes       func() []NodeCount

	// The metrics by name: the gauges that a scrape builds, then those that client_golang stores.
	descs      map[string]*prometheus.Desc
	counters   map[string]*prometheus.CounterVec
	histograms map[string]*prometheus.HistogramVec
	gauges     map[string]prometheus.Gauge
}

// SourceState is the reported state of a ProfileSource.
type SourceState struct {
	Kind          string // git, sourceRef, directory, builtin
	Ready, Reason string // of the Ready condition
	Suspended     bool
	Revision      string
}

type sourceState struct {
	SourceState
	read    time.Time
	windows []api.WindowStatus
}

// PoolMetrics are the values of one pool's metrics.
type PoolMetrics struct {
	Profile, Version, Commit string
	// RejectionReason is the reason of the event that says why the pool does not have what it
	// requests; empty if it has.
	RejectionReason string
	// UserData and Limit are the size and limit of the bootstrap document, in bytes; 0 if
	// unknown.
	UserData, Limit int
	// TokenEnds is when the bootstrap token expires; zero if it does not expire.
	TokenEnds time.Time
	// NodeTokenEnds is when the token expires with which nodes fetch their Secrets; zero
	// if it does not expire.
	NodeTokenEnds time.Time
}

// New returns empty metrics.
func New() *Metrics {
	m := &Metrics{
		sources: map[types.NamespacedName]sourceState{}, pools: map[types.NamespacedName]PoolMetrics{}, connections: map[string]func() bool{},
		descs: map[string]*prometheus.Desc{}, counters: map[string]*prometheus.CounterVec{}, histograms: map[string]*prometheus.HistogramVec{}, gauges: map[string]prometheus.Gauge{},
	}
	for _, metric := range AllMetrics() {
		switch metric.Type {
		case "counter":
			m.counters[metric.Name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: metric.Name, Help: metric.Help}, metric.Labels)
			if len(metric.Labels) == 0 {
				m.counters[metric.Name].WithLabelValues() // it is 0 from the beginning
			}
		case "histogram":
			m.histograms[metric.Name] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: metric.Name, Help: metric.Help, Buckets: buckets[metric.Name]}, metric.Labels)
		default:
			m.descs[metric.Name] = prometheus.NewDesc(metric.Name, metric.Help, metric.Labels, nil)
		}
	}
	for _, metric := range []Metric{provenancesStored, provenanceOn, auditLogWaiting} {
		delete(m.descs, metric.Name)
		m.gauges[metric.Name] = prometheus.NewGauge(prometheus.GaugeOpts{Name: metric.Name, Help: metric.Help})
	}
	return m
}

// count adds one to a counter.
func (m *Metrics) count(counter Metric, labels ...string) {
	if m != nil {
		m.counters[counter.Name].WithLabelValues(labels...).Inc()
	}
}

// observe adds a duration to a histogram.
func (m *Metrics) observe(histogram Metric, took time.Duration, labels ...string) {
	if m != nil {
		m.histograms[histogram.Name].WithLabelValues(labels...).Observe(took.Seconds())
	}
}

// set sets a gauge that client_golang stores.
func (m *Metrics) set(gauge Metric, value float64) {
	if m != nil {
		m.gauges[gauge.Name].Set(value)
	}
}

// update changes the state from which a scrape builds gauges.
func (m *Metrics) update(change func()) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		change()
	}
}

// SetSource stores the state of a ProfileSource.
func (m *Metrics) SetSource(key types.NamespacedName, s SourceState) {
	m.update(func() {
		had := m.sources[key]
		had.SourceState = s
		m.sources[key] = had
	})
}

// SetWindows stores the state of the maintenance windows of a ProfileSource.
func (m *Metrics) SetWindows(key types.NamespacedName, all []api.WindowStatus) {
	m.update(func() {
		s, known := m.sources[key]
		if !known && len(all) == 0 {
			return // it was deleted
		}
		s.windows = all
		m.sources[key] = s
	})
}

// ObserveFetch counts a read of a source: its duration, and the reason of its failure, empty
// for none.
func (m *Metrics) ObserveFetch(key types.NamespacedName, at time.Time, took time.Duration, failure string) {
	m.observe(sourceFetch, took, key.Namespace, key.Name)
	if failure != "" {
		m.count(sourceFailures, key.Namespace, key.Name, failure)
		return
	}
	m.update(func() {
		s := m.sources[key]
		s.read = at
		m.sources[key] = s
	})
}

// SourceGone removes a ProfileSource.
func (m *Metrics) SourceGone(key types.NamespacedName) {
	m.update(func() {
		labels := prometheus.Labels{"namespace": key.Namespace, "name": key.Name}
		m.histograms[sourceFetch.Name].DeletePartialMatch(labels)
		m.counters[sourceFailures.Name].DeletePartialMatch(labels)
		delete(m.sources, key)
	})
}

// SetPool stores the state of a pool.
func (m *Metrics) SetPool(key types.NamespacedName, s PoolMetrics) {
	m.update(func() { m.pools[key] = s })
}

// SetPoolRejection stores why a pool does not have what it requests; the rest of its state
// remains.
func (m *Metrics) SetPoolRejection(key types.NamespacedName, reason string) {
	m.update(func() {
		s := m.pools[key]
		s.RejectionReason = reason
		m.pools[key] = s
	})
}

// PoolGone removes a pool.
func (m *Metrics) PoolGone(key types.NamespacedName) {
	m.update(func() { delete(m.pools, key) })
}

// CountDocumentWrite counts a write of a pool's documents, by one of Reasons.
func (m *Metrics) CountDocumentWrite(reason string) {
	m.count(rotations, reason)
}

// EventDropped counts an event about a pool that was not emitted, by its reason.
func (m *Metrics) EventDropped(reason string) {
	m.count(unsent, reason)
}

// ObserveRender counts a rendering.
func (m *Metrics) ObserveRender(took time.Duration) {
	m.observe(renderSec, took)
}

// RegisterCluster registers up, which reports at each scrape whether a cluster answers.
func (m *Metrics) RegisterCluster(name string, up func() bool) {
	m.update(func() { m.connections[name] = up })
}

// RegisterWebhookCertificate registers ends, which returns at each scrape when the serving
// certificate of the webhooks expires, zero if there is none yet.
func (m *Metrics) RegisterWebhookCertificate(ends func() time.Time) {
	m.update(func() { m.webhook = ends })
}
