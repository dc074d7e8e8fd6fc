// Command dashboard writes the Grafana dashboard of deploy/monitoring from the table of
// metrics: each metric has a panel, with the metric's own description. It is run by make
// generate.
//
// The JSON is what Grafana exports and imports:
// https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

const usage = "usage: go run ./deploy/monitoring/dashboard FILE"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	text, err := encode(dashboard(metrics.AllMetrics()))
	if err == nil {
		err = write(os.Args[1], text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

// write does not touch a file that has the right content, because another process can be reading it.
func write(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, text) { //nolint:gosec // the caller names it
		return nil
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // all users can read it
}

func encode(d object) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(d) // keys in their order, so that equal tables give equal bytes
	return b.Bytes(), err
}

// object is JSON.
type object = map[string]any

// source is the data source that the user selects.
var source = object{"type": "prometheus", "uid": "${datasource}"}

// dashboard has a row of answers to the first questions, and a row of panels for each
// group of metrics.
func dashboard(table []metrics.Metric) object {
	g := &grid{}
	g.row("At a glance")
	for _, p := range glance() {
		g.add(p, 4, 4)
	}
	g.row("Alerts")
	g.add(panel{kind: "table", title: "Alerts that fire", about: "of deploy/monitoring/alerts.yaml", query: `ALERTS{alertname=~"OSMGitOps.+", alertstate="firing"}`}, 24, 6)
	group := ""
	for _, m := range table {
		if next := groupOf(m.Name); next != group {
			group = next
			g.row(group)
		}
		g.add(panelOf(m), 12, 8)
	}
	return object{
		"title": "osm-gitops", "uid": "osm-gitops", "tags": []string{"osm-gitops"}, "editable": true, "schemaVersion": 39,
		"description": "Which profiles come in, what pools have, where nodes come from. Generated from the table of docs/metrics.md by make generate.",
		"time":        object{"from": "now-6h", "to": "now"}, "refresh": "1m", "timezone": "",
		"templating": object{"list": []object{
			{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
			{
				"name": "namespace", "label": "Namespace", "type": "query", "datasource": source, "multi": true, "includeAll": true, "allValue": ".*",
				"query": object{"query": "label_values(osm_gitops_pool_ready, namespace)", "refId": "A"}, "refresh": 2, "sort": 1,
				"current": object{"text": "All", "value": "$__all"},
			},
		}},
		"panels": g.panels,
	}
}

// groups are the rows, by how the names of their metrics begin after osm_gitops_.
var groups = []struct{ prefix, title string }{
	{"source_", "ProfileSources"},
	{"pool_", "Pools"},
	{"node", "Nodes"},
	{"audit_log_", "Audit log"},
	{"", "Controller"},
}

func groupOf(name string) string {
	for _, g := range groups {
		if strings.HasPrefix(name, "osm_gitops_"+g.prefix) {
			return g.title
		}
	}
	return ""
}

// panel is one query and how it is shown.
type panel struct {
	kind, title, about string
	query, legend      string
	unit               string
	red                bool // more than nothing is wrong
}

// glance answers what one asks first.
func glance() []panel {
	return []panel{
		{kind: "stat", title: "Sources not ready", query: `count(osm_gitops_source_info{ready!="True", suspended="false"}) or vector(0)`, red: true, about: "ProfileSources whose Ready condition is not True"},
		{kind: "stat", title: "Pools", query: `count(osm_gitops_pool_ready{namespace=~"$namespace"}) or vector(0)`, about: "MachineDeployments with a profile"},
		{kind: "stat", title: "Pools refused", query: `count(osm_gitops_pool_ready{namespace=~"$namespace"} == 0) or vector(0)`, red: true, about: "pools that do not have what they ask for"},
		{kind: "stat", title: "Nodes behind", query: `sum(osm_gitops_nodes{behind="Yes"}) or vector(0)`, about: "nodes whose pool has a newer version"},
		{kind: "stat", title: "Nodes disputed", query: `max(osm_gitops_nodes_disputed) or vector(0)`, red: true, about: "nodes whose report disagrees with the records"},
		{kind: "stat", title: "Clusters away", query: `count(max by (cluster) (osm_gitops_cluster_reachable) == 0) or vector(0)`, red: true, about: "API servers that do not answer the controller"},
	}
}

// panelOf shows a metric by what its name, type and labels say.
func panelOf(m metrics.Metric) panel {
	short := strings.TrimPrefix(m.Name, "osm_gitops_")
	p := panel{kind: "timeseries", title: title(short), about: m.Help, legend: legend(m.Labels)}
	x := m.Name + selector(m)
	switch {
	case m.Type == "histogram":
		p.unit = "s"
		p.query = fmt.Sprintf("histogram_quantile(0.95, sum by (%s) (rate(%s_bucket%s[$__rate_interval])))", strings.Join(append([]string{"le"}, m.Labels...), ", "), m.Name, selector(m))
	case m.Type == "counter":
		p.query = fmt.Sprintf("%s(increase(%s[$__rate_interval]))", sumBy(m.Labels), x)
	case short == "pool_info":
		p.legend, p.query = "{{profile}} {{version}}", fmt.Sprintf("count by (profile, version) (%s)", x)
	case strings.HasSuffix(short, "_info"):
		p.kind, p.query = "table", x
	case strings.HasSuffix(short, "expiry_timestamp_seconds"):
		p.unit, p.query = "s", fmt.Sprintf("bottomk(10, %s - time())", x)
	case strings.HasSuffix(short, "_timestamp_seconds"):
		p.unit, p.query = "s", fmt.Sprintf("time() - %s", x)
	case strings.HasSuffix(short, "_bytes"):
		p.unit, p.query = "bytes", fmt.Sprintf("topk(10, %s)", x)
	case short == "pool_ready":
		p.legend, p.query = "{{namespace}}", fmt.Sprintf("sum by (namespace) (%s)", x)
	default:
		p.query = fmt.Sprintf("max by (%s) (%s)", strings.Join(m.Labels, ", "), x)
		if len(m.Labels) == 0 {
			p.query = fmt.Sprintf("max(%s)", x)
		}
	}
	return p
}

// title is a metric's name for people: "pool user data bytes".
func title(short string) string {
	for _, unit := range []string{"_timestamp_seconds", "_seconds", "_total", "_bytes"} {
		short = strings.TrimSuffix(short, unit)
	}
	short = strings.ReplaceAll(short, "_", " ")
	return strings.ToUpper(short[:1]) + short[1:]
}

// selector limits what is about a MachineDeployment to the namespaces that were chosen.
func selector(m metrics.Metric) string {
	if strings.HasPrefix(m.Name, "osm_gitops_pool_") {
		return `{namespace=~"$namespace"}`
	}
	return ""
}

func sumBy(labels []string) string {
	if len(labels) == 0 {
		return "sum"
	}
	return "sum by (" + strings.Join(labels, ", ") + ") "
}

// legend names a series by its labels.
func legend(labels []string) string {
	parts := make([]string, len(labels))
	for i, l := range labels {
		parts[i] = "{{" + l + "}}"
	}
	return strings.Join(parts, " ")
}
