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

// The metrics. A name is never used again for something else.
var (
	sourceInfo = Metric{
		prefix + "source_info", "gauge", "1 for each ProfileSource, with its Ready condition and the revision of which every file was accepted last",
		more(ofSource, "kind", "ready", "reason", "suspended", "revision"),
	}
	sourceLastFetch = Metric{prefix + "source_last_fetch_timestamp_seconds", "gauge", "when what a source holds was read last, as a Unix time", ofSource}
	sourceFetch     = Metric{prefix + "source_fetch_duration_seconds", "histogram", "how long a look at what a source holds took, failed ones too", ofSource}
	sourceFailures  = Metric{prefix + "source_failures_total", "counter", "looks at a source that failed, by the reason that its Ready condition then has", more(ofSource, "reason")}

	poolInfo = Metric{
		prefix + "pool_info", "gauge", "1 for each pool, with the profile, version and commit that its Secrets have",
		more(ofPool, "profile", "version", "commit"),
	}
	poolReady     = Metric{prefix + "pool_ready", "gauge", "1 if a pool has what it asks for, else 0", ofPool}
	poolRefused   = Metric{prefix + "pool_refused", "gauge", "1 for each pool that does not have what it asks for, with the reason of the event that says what to change", more(ofPool, "reason")}
	poolUserData  = Metric{prefix + "pool_user_data_bytes", "gauge", "size of a pool's bootstrap document, as its cloud provider counts it", ofPool}
	poolLimit     = Metric{prefix + "pool_user_data_limit_bytes", "gauge", "what the cloud provider of a pool takes, or a Secret where no provider's limit is known", ofPool}
	poolTokenEnds = Metric{prefix + "pool_bootstrap_token_expiry_timestamp_seconds", "gauge", "when the bootstrap token of a pool ends, as a Unix time; it is renewed 30 minutes before", ofPool}
	poolNodeEnds  = Metric{prefix + "pool_node_token_expiry_timestamp_seconds", "gauge", "when the token ends with which the machines of a pool fetch their Secrets, as a Unix time; it is renewed at half of its life. None with --node-token=shared", ofPool}

	nodesKnown    = Metric{prefix + "nodes", "gauge", "nodes that there are and whose provenance is written down, by how it is known and whether they have the version that their pool has", []string{"evidence", "behind"}}
	nodesDisputed = Metric{prefix + "nodes_disputed", "gauge", "nodes that there are and that say something else of themselves than the records", nil}
	records       = Metric{prefix + "node_provenances", "gauge", "NodeProvenances, by whether their node is there or gone", []string{"node"}}
	dropped       = Metric{prefix + "node_provenances_dropped_total", "counter", "NodeProvenances of nodes that are gone that were deleted because they were too old or too many", nil}
	held          = Metric{prefix + "node_provenances_held", "gauge", "NodeProvenances that are too old or too many and stay until the audit log has them", nil}
	provenanceOn  = Metric{prefix + "node_provenance_ready", "gauge", "1 if the provenance of nodes is written down, 0 while the kind NodeProvenance is not installed", nil}

	journalLines   = Metric{prefix + "audit_log_lines_total", "counter", "lines written to the audit log, by kind", []string{"kind"}}
	journalErrors  = Metric{prefix + "audit_log_errors_total", "counter", "attempts to write to the audit log that failed", nil}
	journalWaiting = Metric{prefix + "audit_log_waiting", "gauge", "facts that wait in memory for the audit log to be written again", nil}
	journalLost    = Metric{prefix + "audit_log_lost_total", "counter", "facts that are not in the audit log and never will be; the log names each", nil}

	rotations = Metric{prefix + "rotations_total", "counter", "writes of pools' documents, by what was changed: " + joined(Reasons), []string{"reason"}}
	renderSec = Metric{prefix + "render_duration_seconds", "histogram", "how long rendering the documents of a pool took", nil}
	clusterUp = Metric{prefix + "cluster_reachable", "gauge", "1 if the API server of a cluster answered the last request, else 0", []string{"cluster"}}

	webhookEnds = Metric{prefix + "webhook_certificate_expiry_timestamp_seconds", "gauge", "when the certificate ends that the admission webhooks are served with, as a Unix time; each replica tells it. What the controller makes itself is renewed 30 days before. None with --webhook-address=0", nil}
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

// Why a pool's documents were written.
const (
	Created     = "created"     // the pool is new
	Profile     = "profile"     // another profile, version or content
	Pool        = "pool"        // the MachineDeployment
	Settings    = "settings"    // the controller's flags
	Credentials = "credentials" // tokens, the server, its CA, or credentials of the provider or a registry
	Restored    = "restored"    // somebody deleted or edited them
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
