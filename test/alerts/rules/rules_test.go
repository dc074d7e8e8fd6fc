// Package rules_test evaluates the alerts of deploy/monitoring with Prometheus' own library, and
// makes each of them fire. It is a separate module, so that the product does not depend on
// Prometheus.
package rules_test

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"go.yaml.in/yaml/v3"
)

const root = "../../../"

// alerts are the rules by name, as `promtool check rules` reads them.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	b, err := os.ReadFile(root + "deploy/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		APIVersion, Kind string
		Spec             yaml.Node
	}
	if err := yaml.Unmarshal(b, &object); err != nil {
		t.Fatal(err)
	}
	spec, err := yaml.Marshal(&object.Spec)
	if err != nil || object.Kind != "PrometheusRule" {
		t.Fatalf("kind %q, %v", object.Kind, err)
	}
	groups, errs := rulefmt.Parse(spec, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	out := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if out[r.Alert].Alert != "" {
				t.Errorf("%s is there twice", r.Alert)
			}
			out[r.Alert] = r
		}
	}
	if len(out) < 8 {
		t.Fatalf("found %d alerts", len(out))
	}
	return out
}

// foreign are metrics of others that alerts use: controller-runtime's.
var foreign = map[string][]string{"controller_runtime_reconcile_errors_total": {"controller"}}

// metric is a row of docs/metrics.md.
type metric struct {
	kind   string
	labels []string
}

// documented are the metrics of the page by name.
func documented(t *testing.T) map[string]metric {
	t.Helper()
	page, err := os.ReadFile(root + "docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]metric{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(osm_gitops_[a-z_]+)` \\| (\\w+) \\| ([^|]*) \\|").FindAllSubmatch(page, -1) {
		m := metric{kind: string(row[2])}
		for _, label := range regexp.MustCompile("`([a-z_]+)`").FindAllSubmatch(row[3], -1) {
			m.labels = append(m.labels, string(label[1]))
		}
		out[string(row[1])] = m
	}
	if len(out) < 10 {
		t.Fatalf("found %d metrics in the page", len(out))
	}
	return out
}

// known are the labels of each metric that a query may name: those of the page, and some
// of others.
func known(t *testing.T) map[string][]string {
	t.Helper()
	out := maps.Clone(foreign)
	for name, m := range documented(t) {
		out[name] = m.labels
		if m.kind == "histogram" {
			out[name+"_bucket"] = append(slices.Clone(m.labels), "le")
		}
	}
	return out
}

// uses wants every metric and label of a query to be known, and returns the metrics.
func uses(t *testing.T, where, query string, known map[string][]string) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	var names []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		names = append(names, s.Name)
		has, ok := known[s.Name]
		if !ok {
			t.Errorf("%s: there is no metric %s", where, s.Name)
		}
		for _, m := range s.LabelMatchers {
			if m.Name != labels.MetricName && !slices.Contains(has, m.Name) {
				t.Errorf("%s: %s has no label %s", where, s.Name, m.Name)
			}
		}
		return nil
	})
	return names
}

// Alerts use metrics and labels that the page has, and say what to do.
func TestAlertsUseWhatThereIs(t *testing.T) {
	known := known(t)
	for name, rule := range alerts(t) {
		names := uses(t, name, rule.Expr, known)
		if len(names) == 0 || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Labels["severity"] == "" {
			t.Errorf("%s looks at %d metrics and says %q", name, len(names), rule.Annotations)
		}
	}
}

// good is a system in which all is well, from the beginning of time to hour 8.
var good = map[string]string{
	`osm_gitops_source_info{namespace="n",name="s",kind="git",ready="True",reason="Succeeded",suspended="false",revision="r"}`: "1x480",
	`osm_gitops_source_last_fetch_timestamp_seconds{namespace="n",name="s"}`:                                                   "28700x480",
	`osm_gitops_pool_ready{namespace="shop",name="web"}`:                                                                       "1x480",
	`osm_gitops_pool_user_data_bytes{namespace="shop",name="web"}`:                                                             "4000x480",
	`osm_gitops_pool_user_data_limit_bytes{namespace="shop",name="web"}`:                                                       "16384x480",
	`osm_gitops_pool_bootstrap_token_expiry_timestamp_seconds{namespace="shop",name="web"}`:                                    "31000x480",
	`osm_gitops_pool_node_token_expiry_timestamp_seconds{namespace="shop",name="web"}`:                                         "72000x480",
	`osm_gitops_rotations_total{reason="profile"}`:                                                                             "5x480",
	`osm_gitops_rotations_total{reason="restored"}`:                                                                            "5x480",
	`osm_gitops_boots_total{pool="shop/web",version="v1.0.0",outcome="Failing"}`:                                               "2x480",
	`osm_gitops_boots_total{pool="shop/web",version="v1.0.0",outcome="Joined"}`:                                                "5+1x479",
	`osm_gitops_nodes_disputed`:                               "0x480",
	`osm_gitops_nodes_differing{reason="Edited"}`:             "0x480",
	`osm_gitops_node_provenance_ready{namespace="n",pod="a"}`: "1x480",
	`osm_gitops_node_provenance_ready{namespace="n",pod="b"}`: "0x480", // it does not lead
	`osm_gitops_audit_log_errors_total`:                       "3x480",
	`osm_gitops_audit_log_lost_total`:                         "3x480",
	// Two replicas of a controller, and another that shares the cluster.
	`osm_gitops_cluster_reachable{cluster="worker",namespace="n",pod="a"}`: "1x480",
	`osm_gitops_cluster_reachable{cluster="worker",namespace="n",pod="b"}`: "0x480",
	`osm_gitops_cluster_reachable{cluster="worker",namespace="other"}`:     "1x480",
	`osm_gitops_webhook_certificate_expiry_timestamp_seconds`:              "5000000x480",
	`controller_runtime_reconcile_errors_total{controller="pool"}`:         "7x480",
	`controller_runtime_reconcile_errors_total{controller="rollout"}`:      "7x480",
}

// Each alert fires for its own cause and for no other.
func TestAlertsFire(t *testing.T) {
	rules := alerts(t)
	const git = `osm_gitops_source_info{namespace="n",name="s",kind="git",ready="True",reason="Succeeded",suspended="false",revision="r"}`
	many := map[string]string{`osm_gitops_rotations_total{reason="profile"}`: "5x470 100+1x9"}
	for _, name := range strings.Split("abcdefghijklm", "") {
		many[`osm_gitops_pool_ready{namespace="shop",name="`+name+`"}`] = "1x480"
	}
	fired := map[string]bool{}
	for want, bad := range map[string]map[string]string{
		"": {},
		"OSMGitOpsSourceNotReady": {
			git: "_x480", `osm_gitops_source_info{namespace="n",name="s",kind="git",ready="False",reason="Unreachable",suspended="false",revision="r"}`: "1x480",
		},
		"OSMGitOpsSourceNotRead":        {`osm_gitops_source_last_fetch_timestamp_seconds{namespace="n",name="s"}`: "600x480"},
		"OSMGitOpsPoolRefused":          {`osm_gitops_pool_refused{namespace="shop",name="web",reason="Waiting"}`: "1x480"},
		"OSMGitOpsUserDataNearLimit":    {`osm_gitops_pool_user_data_bytes{namespace="shop",name="web"}`: "16000x480"},
		"OSMGitOpsBootstrapTokenEnds":   {`osm_gitops_pool_bootstrap_token_expiry_timestamp_seconds{namespace="shop",name="web"}`: "29400x480"},
		"OSMGitOpsNodeTokenEnds":        {`osm_gitops_pool_node_token_expiry_timestamp_seconds{namespace="shop",name="web"}`: "30000x480"},
		"OSMGitOpsBootsFail":            {`osm_gitops_boots_total{pool="shop/web",version="v1.1.0",outcome="Failing"}`: "_x475 1x4"},
		"OSMGitOpsManyPoolsRotated":     many,
		"OSMGitOpsPutBackAgainAndAgain": {`osm_gitops_rotations_total{reason="restored"}`: "5x440 6+1x39"},
		"OSMGitOpsNodesDisputed":        {`osm_gitops_nodes_disputed`: "2x480"},
		"OSMGitOpsNodesDiffer":          {`osm_gitops_nodes_differing{reason="Edited"}`: "2x480"},
		"OSMGitOpsProvenanceOff":        {`osm_gitops_node_provenance_ready{namespace="n",pod="a"}`: "0x480"},
		"OSMGitOpsAuditLogNotWritten":   {`osm_gitops_audit_log_errors_total`: "3x440 4+1x39"},
		"OSMGitOpsAuditLogLost":         {`osm_gitops_audit_log_lost_total`: "3x440 4x39"},
		"OSMGitOpsAway": {
			`osm_gitops_cluster_reachable{cluster="worker",namespace="n",pod="a"}`: "_x480",
			`osm_gitops_cluster_reachable{cluster="worker",namespace="n",pod="b"}`: "_x480",
			`osm_gitops_cluster_reachable{cluster="worker",namespace="other"}`:     "_x480",
		},
		"OSMGitOpsClusterAway":            {`osm_gitops_cluster_reachable{cluster="worker",namespace="n",pod="a"}`: "0x480"},
		"OSMGitOpsWebhookCertificateEnds": {`osm_gitops_webhook_certificate_expiry_timestamp_seconds`: "1000000x480"},
		"OSMGitOpsReconcileErrors":        {`controller_runtime_reconcile_errors_total{controller="rollout"}`: "7x460 8+1x19"},
	} {
		t.Run(want, func(t *testing.T) {
			series := maps.Clone(good)
			maps.Copy(series, bad)
			var load bytes.Buffer
			load.WriteString("load 1m\n")
			for name, values := range series {
				load.WriteString("  " + name + " " + values + "\n")
			}
			storage := promqltest.LoadedStorage(t, load.String())
			defer storage.Close()
			engine := promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{MaxSamples: promqltest.DefaultMaxSamplesPerQuery, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
			for name, rule := range rules {
				q, err := engine.NewInstantQuery(t.Context(), storage, nil, rule.Expr, time.Unix(8*3600, 0))
				if err != nil {
					t.Fatal(err)
				}
				result := q.Exec(t.Context())
				vector, err := result.Vector()
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if fires := len(vector) > 0; fires != (name == want) {
					t.Errorf("%s fires: %v: %v", name, fires, vector)
				} else if fires {
					fired[name] = true
				}
				q.Close()
			}
		})
	}
	for name := range rules {
		if !fired[name] {
			t.Errorf("%s is shown nothing to fire for", name)
		}
	}
}
