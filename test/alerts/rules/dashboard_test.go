package rules_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// shown is a panel of the dashboard.
type shown struct {
	Type, Title, Description string
	Targets                  []struct{ Expr, LegendFormat string }
}

// variables are the values of Grafana's variables for a user who selects everything:
// https://grafana.com/docs/grafana/latest/datasources/prometheus/template-variables/
var variables = strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*")

func panels(t *testing.T) []shown {
	t.Helper()
	b, err := os.ReadFile(root + "deploy/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels     []shown
		Templating struct {
			List []struct {
				Name  string
				Query any
			}
		}
	}
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, v := range dashboard.Templating.List {
		if q, ok := v.Query.(map[string]any); ok {
			m := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(q["query"].(string))
			if m == nil || !slices.Contains(known(t)[m[1]], m[2]) {
				t.Errorf("the variable %s asks for %v", v.Name, q)
			}
		}
	}
	return dashboard.Panels
}

// Every query of the dashboard is valid, uses metrics and labels that the page lists, and returns
// a result if there is a sample of each metric; every metric of the page is in a query.
func TestDashboard(t *testing.T) {
	known := known(t)
	known["ALERTS"] = []string{"alertname", "alertstate"} // Prometheus's own
	storage := promqltest.LoadedStorage(t, samples(t))
	defer storage.Close()
	engine := promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{MaxSamples: promqltest.DefaultMaxSamplesPerQuery, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	queries, used := 0, map[string]bool{}
	for _, p := range panels(t) {
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Title == "" || p.Description == "" {
			t.Errorf("a panel without a query, title or description: %+v", p)
		}
		for _, target := range p.Targets {
			queries++
			query := variables.Replace(target.Expr)
			if strings.Contains(query, "$") {
				t.Errorf("%s: what is the variable in %s?", p.Title, query)
			}
			for _, name := range uses(t, p.Title, query, known) {
				used[strings.TrimSuffix(name, "_bucket")] = true
			}
			q, err := engine.NewInstantQuery(t.Context(), storage, nil, query, time.Unix(600, 0))
			if err != nil {
				t.Fatalf("%s: %v", p.Title, err)
			}
			vector, err := q.Exec(t.Context()).Vector()
			if err != nil || len(vector) == 0 {
				t.Errorf("%s: %s has no answer: %v", p.Title, query, err)
			}
			for _, m := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if len(vector) > 0 && vector[0].Metric.Get(m[1]) == "" {
					t.Errorf("%s: the answer of %s has no label %s", p.Title, query, m[1])
				}
			}
			q.Close()
		}
	}
	if queries < 20 {
		t.Errorf("found %d queries", queries)
	}
	for name := range documented(t) {
		if !used[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// samples are ten minutes of each metric.
func samples(t *testing.T) string {
	var b strings.Builder
	b.WriteString("load 1m\n  ALERTS{alertname=\"OSMGitOpsAway\", alertstate=\"firing\"} 1x10\n")
	for name, m := range documented(t) {
		labels := make([]string, 0, len(m.labels)+1)
		for _, l := range m.labels {
			labels = append(labels, fmt.Sprintf("%s=%q", l, "a "+l))
		}
		if m.kind != "histogram" {
			fmt.Fprintf(&b, "  %s{%s} 1+1x10\n", name, strings.Join(labels, ","))
			continue
		}
		for _, le := range []string{"0.1", "+Inf"} {
			fmt.Fprintf(&b, "  %s_bucket{%s} 1+1x10\n", name, strings.Join(append(slices.Clone(labels), fmt.Sprintf("le=%q", le)), ","))
		}
	}
	return b.String()
}
