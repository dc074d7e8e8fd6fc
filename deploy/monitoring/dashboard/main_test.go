package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

// The dashboard is what the table of metrics makes of it, and shows each of them.
func TestDashboardIsGenerated(t *testing.T) {
	want, err := encode(dashboard(metrics.AllMetrics()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("dashboard.json is not what the table of metrics makes of it: run make generate")
	}
	for _, m := range metrics.AllMetrics() {
		if n := strings.Count(string(want), m.Name); n == 0 {
			t.Errorf("%s is not shown", m.Name)
		}
	}
}

// A metric that is added is shown, in its group, without a word here.
func TestNewMetric(t *testing.T) {
	text, err := encode(dashboard(append(metrics.AllMetrics(), metrics.Metric{Name: "osm_gitops_pool_wishes_total", Type: "counter", Help: "wishes", Labels: []string{"kind"}})))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"expr": "sum by (kind) (increase(osm_gitops_pool_wishes_total{namespace=~\"$namespace\"}[$__rate_interval]))"`) {
		t.Errorf("it is not shown:\n%s", text)
	}
}

// No two panels overlap, and none is outside the grid.
func TestGrid(t *testing.T) {
	taken, ids := map[[2]int]bool{}, map[int]bool{}
	for _, p := range dashboard(metrics.AllMetrics())["panels"].([]object) {
		if id := p["id"].(int); ids[id] {
			t.Errorf("%d is there twice", id)
		} else {
			ids[id] = true
		}
		at := p["gridPos"].(object)
		for x := at["x"].(int); x < at["x"].(int)+at["w"].(int); x++ {
			for y := at["y"].(int); y < at["y"].(int)+at["h"].(int); y++ {
				if taken[[2]int{x, y}] || x >= width {
					t.Fatalf("%s lies on another, or beside the grid, at %d, %d", p["title"], x, y)
				}
				taken[[2]int{x, y}] = true
			}
		}
	}
}
