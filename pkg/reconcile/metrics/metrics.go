package metrics

import (
	"sync"
	"time"
	"unique"

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

	descs      map[string]*prometheus.Desc // by the metric's name
	fetches    *prometheus.HistogramVec
	failures   *prometheus.CounterVec
	rotated    *prometheus.CounterVec
	unsent     *prometheus.CounterVec
	renderings *prometheus.HistogramVec
	booted     *prometheus.CounterVec
	bootTimes  *prometheus.HistogramVec
	// Deleted NodeProvenances, those that wait for the audit log, and whether nodes are recorded.
	dropped                   prometheus.Counter
	retained, provenanceReady prometheus.Gauge
	// Writes of the audit log.
	auditLines             *prometheus.CounterVec
	auditErrors, auditLost prometheus.Counter
	auditWaiting           prometheus.Gauge
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
		sources:     map[types.NamespacedName]sourceState{},
		pools:       map[types.NamespacedName]PoolMetrics{},
		connections: map[string]func() bool{},
		descs:       map[string]*prometheus.Desc{},
		dropped:     dropped.one(), retained: provenancesStored.gauge(), provenanceReady: provenanceOn.gauge(),
		auditLines: auditLogLines.counter(), auditErrors: auditLogErrors.one(), auditLost: auditLogLost.one(), auditWaiting: auditLogWaiting.gauge(),
		// A request to an unchanged repository takes milliseconds, a first clone minutes.
		fetches:  sourceFetch.histogram([]float64{.01, .1, 1, 10, 60, 600}),
		failures: sourceFailures.counter(),
		rotated:  rotations.counter(),
		unsent:   unsent.counter(),
		booted:   boots.counter(), bootTimes: bootSeconds.histogram([]float64{30, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1800}),
		renderings: renderSec.histogram([]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, 1}),
	}
	for _, metric := range AllMetrics() {
		m.descs[metric.Name] = metric.desc()
	}
	return m
}

// update changes the stored values; a nil pointer has none.
func (m *Metrics) update(change func()) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
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
	if m == nil {
		return
	}
	m.fetches.WithLabelValues(key.Namespace, key.Name).Observe(took.Seconds())
	if failure != "" {
		m.failures.WithLabelValues(key.Namespace, key.Name, failure).Inc()
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
	if m == nil {
		return
	}
	labels := prometheus.Labels{"namespace": key.Namespace, "name": key.Name}
	m.fetches.DeletePartialMatch(labels)
	m.failures.DeletePartialMatch(labels)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sources, key)
}

// SetPool stores the state of a pool. Strings that many pools share are stored once.
func (m *Metrics) SetPool(key types.NamespacedName, s PoolMetrics) {
	if m == nil {
		return
	}
	s.Profile, s.Version, s.Commit = unique.Make(s.Profile).Value(), unique.Make(s.Version).Value(), unique.Make(s.Commit).Value()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pools[key] = s
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
	if m != nil {
		m.rotated.WithLabelValues(reason).Inc()
	}
}

// EventDropped counts an event about a pool that was not emitted, by its reason.
func (m *Metrics) EventDropped(reason string) {
	if m != nil {
		m.unsent.WithLabelValues(reason).Inc()
	}
}

// ObserveRender counts a rendering.
func (m *Metrics) ObserveRender(took time.Duration) {
	if m != nil {
		m.renderings.WithLabelValues().Observe(took.Seconds())
	}
}

// RegisterCluster registers up, which reports at each scrape whether a cluster answers.
func (m *Metrics) RegisterCluster(name string, up func() bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connections[name] = up
}

// RegisterWebhookCertificate registers ends, which returns at each scrape when the serving
// certificate of the webhooks expires, zero if there is none yet.
func (m *Metrics) RegisterWebhookCertificate(ends func() time.Time) {
	m.update(func() { m.webhook = ends })
}
