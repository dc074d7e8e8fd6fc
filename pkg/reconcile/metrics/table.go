package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is a row of the table.
type Metric struct {
	Name, Type, Help string
	Labels           []string
}

const prefix = "osm_gitops_"

var (
	ofSource = []string{"namespace", "name"} // of a ProfileSource
	ofPool   = []string{"namespace", "name"} // of a MachineDeployment
)

func more(labels []string, and ...string) []string { return slices.Concat(labels, and) }

// The metrics. A name is never used again for another meaning.
var (
	sourceInfo = Metric{
		prefix + "source_info", "gauge", "1 for each ProfileSource, with its Ready condition and the last revision whose files were all accepted",
		more(ofSource, "kind", "ready", "reason", "suspended", "revision"),
	}
	sourceLastFetch = Metric{prefix + "source_last_fetch_timestamp_seconds", "gauge", "when the source was read last, as a Unix time", ofSource}
	sourceFetch     = Metric{prefix + "source_fetch_duration_seconds", "histogram", "duration of reads of a source, including failed ones", ofSource}
	sourceFailures  = Metric{prefix + "source_failures_total", "counter", "failed reads of a source, by the resulting reason of its Ready condition", more(ofSource, "reason")}

	poolInfo = Metric{
		prefix + "pool_info", "gauge", "1 for each pool, with the profile, version and commit of its Secrets",
		more(ofPool, "profile", "version", "commit"),
	}
	poolReady     = Metric{prefix + "pool_ready", "gauge", "1 if a pool has what it requests, otherwise 0", ofPool}
	poolRefused   = Metric{prefix + "pool_refused", "gauge", "1 for each pool that does not have what it requests, with the reason of the event that says what to change", more(ofPool, "reason")}
	poolUserData  = Metric{prefix + "pool_user_data_bytes", "gauge", "size of a pool's bootstrap document, counted as by its cloud provider", ofPool}
	poolLimit     = Metric{prefix + "pool_user_data_limit_bytes", "gauge", "limit of the pool's cloud provider, or of a Secret if the provider's limit is unknown", ofPool}
	poolTokenEnds = Metric{prefix + "pool_bootstrap_token_expiry_timestamp_seconds", "gauge", "when the bootstrap token of a pool expires, as a Unix time; it is renewed 30 minutes before", ofPool}
	poolNodeEnds  = Metric{prefix + "pool_node_token_expiry_timestamp_seconds", "gauge", "when the token expires with which the machines of a pool fetch their Secrets, as a Unix time; it is renewed at half of its lifetime. Absent with --node-token=shared", ofPool}

	nodesKnown    = Metric{prefix + "nodes", "gauge", "existing nodes with a NodeProvenance, by evidence and by whether they have the version of their pool", []string{"evidence", "behind"}}
	nodesDisputed = Metric{prefix + "nodes_disputed", "gauge", "existing nodes whose report disagrees with the records", nil}
	records       = Metric{prefix + "node_provenances", "gauge", "NodeProvenances, by whether their node exists or was deleted", []string{"node"}}
	dropped       = Metric{prefix + "node_provenances_dropped_total", "counter", "deleted NodeProvenances of deleted nodes that were too old or too many", nil}
	held          = Metric{prefix + "node_provenances_held", "gauge", "NodeProvenances that are too old or too many and remain until the audit log has them", nil}
	provenanceOn  = Metric{prefix + "node_provenance_ready", "gauge", "1 if the provenance of nodes is recorded, 0 while the kind NodeProvenance is not installed", nil}

	journalLines   = Metric{prefix + "audit_log_lines_total", "counter", "lines written to the audit log, by kind", []string{"kind"}}
	journalErrors  = Metric{prefix + "audit_log_errors_total", "counter", "failed attempts to write to the audit log", nil}
	journalWaiting = Metric{prefix + "audit_log_waiting", "gauge", "entries that wait in memory until the audit log can be written", nil}
	journalLost    = Metric{prefix + "audit_log_lost_total", "counter", "entries that were lost and will never be in the audit log; the controller's log names each", nil}

	rotations = Metric{prefix + "rotations_total", "counter", "writes of pools' documents, by cause: " + joined(Reasons), []string{"reason"}}
	renderSec = Metric{prefix + "render_duration_seconds", "histogram", "duration of rendering the documents of a pool", nil}
	clusterUp = Metric{prefix + "cluster_reachable", "gauge", "1 if the API server of a cluster answered the last request, otherwise 0", []string{"cluster"}}

	webhookEnds = Metric{prefix + "webhook_certificate_expiry_timestamp_seconds", "gauge", "when the serving certificate of the admission webhooks expires, as a Unix time; each replica reports it. A certificate that the controller creates is renewed 30 days before. Absent with --webhook-address=0", nil}
)

// Table lists all metrics of this package.
func Table() []Metric {
	return []Metric{
		sourceInfo, sourceLastFetch, sourceFetch, sourceFailures,
		poolInfo, poolReady, poolRefused, poolUserData, poolLimit, poolTokenEnds, poolNodeEnds,
		nodesKnown, nodesDisputed, records, dropped, held, provenanceOn,
		journalLines, journalErrors, journalWaiting, journalLost,
		rotations, renderSec, clusterUp, webhookEnds,
	}
}

// Reasons are the values of the label reason of rotations_total.
var Reasons = []string{Created, Profile, Pool, Settings, Credentials, Restored}

// Causes of writing a pool's documents.
const (
	Created     = "created"     // the pool is new
	Profile     = "profile"     // another profile, version or content
	Pool        = "pool"        // the MachineDeployment
	Settings    = "settings"    // the controller's flags
	Credentials = "credentials" // tokens, the server, its CA, or credentials of the provider or a registry
	Restored    = "restored"    // a user deleted or edited them
)

func joined(words []string) string {
	out := ""
	for i, w := range words {
		switch {
		case i == len(words)-1:
			out += " or "
		case i > 0:
			out += ", "
		}
		out += w
	}
	return out
}

func (m Metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }

func (m Metric) counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.Labels)
}

func (m Metric) one() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: m.Name, Help: m.Help})
}

func (m Metric) gauge() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: m.Name, Help: m.Help})
}

func (m Metric) histogram(buckets []float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.Name, Help: m.Help, Buckets: buckets}, m.Labels)
}
