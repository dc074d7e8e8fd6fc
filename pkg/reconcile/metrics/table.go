package metrics

import "slices"

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
		prefix + "source_info", "gauge", "1 for each ProfileSource, with its Ready condition and the last revision without rejected files",
		more(ofSource, "kind", "ready", "reason", "suspended", "revision"),
	}
	sourceLastFetch = Metric{prefix + "source_last_fetch_timestamp_seconds", "gauge", "when the source was read last, as a Unix time", ofSource}
	sourceFetch     = Metric{prefix + "source_fetch_duration_seconds", "histogram", "duration of reads, including failed ones", ofSource}
	sourceFailures  = Metric{prefix + "source_failures_total", "counter", "failed reads, by reason of the Ready condition", more(ofSource, "reason")}

	windowOpen = Metric{prefix + "maintenance_window_open", "gauge", "1 while a maintenance window of a source is open, by its use, otherwise 0; absent without one", more(ofSource, "applies")}

	poolInfo = Metric{
		prefix + "pool_info", "gauge", "1 for each pool, with the profile, version and commit of its Secrets",
		more(ofPool, "profile", "version", "commit"),
	}
	poolReady     = Metric{prefix + "pool_ready", "gauge", "1 if a pool has what it requests, otherwise 0", ofPool}
	poolRejected  = Metric{prefix + "pool_refused", "gauge", "1 for each pool without what it requests, with the reason of its event", more(ofPool, "reason")}
	poolUserData  = Metric{prefix + "pool_user_data_bytes", "gauge", "size of a pool's bootstrap document, counted as by its cloud provider", ofPool}
	poolLimit     = Metric{prefix + "pool_user_data_limit_bytes", "gauge", "limit of the cloud provider, or of a Secret if that is unknown", ofPool}
	poolTokenEnds = Metric{prefix + "pool_bootstrap_token_expiry_timestamp_seconds", "gauge", "when the bootstrap token expires, as a Unix time; it is renewed 30 minutes before", ofPool}
	poolNodeEnds  = Metric{prefix + "pool_node_token_expiry_timestamp_seconds", "gauge", "when the token for Secrets expires, as a Unix time; it is renewed at half of its lifetime. Absent with --node-token=shared", ofPool}

	nodesRecorded     = Metric{prefix + "nodes", "gauge", "existing nodes with a NodeProvenance, by evidence, and if they lack their pool's version", []string{"evidence", "behind"}}
	nodesDisputed     = Metric{prefix + "nodes_disputed", "gauge", "existing nodes whose report disagrees with the records", nil}
	nodesDiffering    = Metric{prefix + "nodes_differing", "gauge", "existing nodes that report that they no longer have what their configuration put on them, or have stopped reporting, by reason", []string{"reason"}}
	records           = Metric{prefix + "node_provenances", "gauge", "NodeProvenances of existing and deleted nodes", []string{"node"}}
	dropped           = Metric{prefix + "node_provenances_dropped_total", "counter", "deleted NodeProvenances, which were too old or too many", nil}
	provenancesStored = Metric{prefix + "node_provenances_held", "gauge", "too old or too many NodeProvenances that wait for the audit log", nil}
	provenanceOn      = Metric{prefix + "node_provenance_ready", "gauge", "1 if nodes are recorded, 0 while the kind NodeProvenance is not installed", nil}

	boots       = Metric{prefix + "boots_total", "counter", "machines without a Node, by version of the profile, that joined, were first reported to fail, or were deleted: Joined, Failing or Lost", []string{"pool", "version", "outcome"}}
	bootSeconds = Metric{prefix + "boot_seconds", "histogram", "time from the creation of a machine until it has a Node", nil}

	auditLogLines   = Metric{prefix + "audit_log_lines_total", "counter", "lines written to the audit log, by kind", []string{"kind"}}
	auditLogErrors  = Metric{prefix + "audit_log_errors_total", "counter", "failed attempts to write to the audit log", nil}
	auditLogWaiting = Metric{prefix + "audit_log_waiting", "gauge", "entries that wait in memory", nil}
	auditLogLost    = Metric{prefix + "audit_log_lost_total", "counter", "lost entries; the controller's log names each", nil}

	rotations = Metric{prefix + "rotations_total", "counter", "writes of pools' documents, by cause: " + joinWithOr(Reasons), []string{"reason"}}
	unsent    = Metric{prefix + "events_dropped_total", "counter", "normal events about pools that were not emitted because many pools changed at once, by reason", []string{"reason"}}
	renderSec = Metric{prefix + "render_duration_seconds", "histogram", "duration of rendering the documents of a pool", nil}
	clusterUp = Metric{prefix + "cluster_reachable", "gauge", "1 if the API server of a cluster answered the last request, otherwise 0", []string{"cluster"}}

	webhookEnds = Metric{prefix + "webhook_certificate_expiry_timestamp_seconds", "gauge", "when the webhooks' certificate expires, as a Unix time, for each replica; the controller's own is renewed 30 days before. Absent with --webhook-address=0", nil}
)

// AllMetrics lists all metrics of this package.
func AllMetrics() []Metric {
	return []Metric{
		sourceInfo, sourceLastFetch, sourceFetch, sourceFailures, windowOpen,
		poolInfo, poolReady, poolRejected, poolUserData, poolLimit, poolTokenEnds, poolNodeEnds,
		nodesRecorded, nodesDisputed, nodesDiffering, records, dropped, provenancesStored, provenanceOn,
		boots, bootSeconds,
		auditLogLines, auditLogErrors, auditLogWaiting, auditLogLost,
		rotations, unsent, renderSec, clusterUp, webhookEnds,
	}
}

// buckets are those of the histograms.
var buckets = map[string][]float64{
	// A request to an unchanged repository takes milliseconds, a first clone minutes.
	sourceFetch.Name: {.01, .1, 1, 10, 60, 600},
	bootSeconds.Name: {30, 60, 90, 120, 180, 240, 300, 450, 600, 900, 1800},
	renderSec.Name:   {.0005, .001, .0025, .005, .01, .025, .05, .1, 1},
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

func joinWithOr(words []string) string {
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
