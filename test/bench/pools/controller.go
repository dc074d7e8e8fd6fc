package main

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// controller is the process that is measured.
type controller struct {
	*testenv.Process
	metrics string // URL
	health  string // URL
}

// startController runs the binary; log is the path of its log.
func startController(binary, log string, flags ...string) (*controller, error) {
	metrics, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	health, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	args := append([]string{"controller", "--leader-elect=false", "--metrics-address", metrics, "--health-probe-address", health}, flags...)
	p, err := testenv.Start(log, binary, args...)
	return &controller{Process: p, metrics: "http://" + metrics + "/metrics", health: "http://" + health + "/readyz"}, err
}

// ready waits for the readiness probe.
func (p *controller) ready(ctx context.Context) error {
	return testenv.Until(ctx, 2*time.Minute, "the controller is ready", func() error {
		_, err := fetch(ctx, p.health)
		return err
	})
}

// cpu is what the process used since it began.
func (p *controller) cpu() (time.Duration, error) { return processCPU(p.Cmd.Process.Pid) }

// memory returns the resident set in bytes: now, and at most so far.
func (p *controller) memory() (now, peak int64, err error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Cmd.Process.Pid), "status"))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
		switch {
		case err != nil:
		case name == "VmRSS":
			now = kib << 10
		case name == "VmHWM":
			peak = kib << 10
		}
	}
	return now, peak, nil
}

// counters are sums of metrics over some of their labels.
type counters struct {
	requests   map[string]float64 // by method, answered
	failed     float64            // requests that were answered with an error
	reconciled float64            // pools
	errors     float64            // of reconciles of pools
	waiting    float64            // pools in the queue
	active     float64            // pools being handled

	nodes, nodesWaiting float64 // reconciled, and in the queue
}

// count reads the controller's metrics.
func (p *controller) count(ctx context.Context) (counters, error) {
	text, err := fetch(ctx, p.metrics)
	if err != nil {
		return counters{}, err
	}
	c := counters{requests: map[string]float64{}}
	for line := range strings.Lines(text) {
		series, number, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(series, "#") {
			continue
		}
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			continue
		}
		name, labels, _ := strings.Cut(series, "{")
		ofPools := strings.Contains(labels, `controller="pool"`)
		switch {
		case name == "rest_client_requests_total":
			c.requests[label(labels, "method")] += value
			if code := label(labels, "code"); !strings.HasPrefix(code, "2") {
				c.failed += value
			}
		case name == "controller_runtime_reconcile_total" && ofPools:
			c.reconciled += value
		case name == "controller_runtime_reconcile_total" && strings.Contains(labels, `controller="node"`):
			c.nodes += value
		case name == "workqueue_depth" && strings.Contains(labels, `controller="node"`):
			c.nodesWaiting += value
		case name == "controller_runtime_reconcile_errors_total" && ofPools:
			c.errors += value
		case name == "controller_runtime_active_workers" && ofPools:
			c.active += value
		case name == "workqueue_depth" && ofPools:
			c.waiting += value
		}
	}
	return c, nil
}

// writes is the number of requests that change something.
func (c counters) writes() float64 {
	return c.requests["POST"] + c.requests["PUT"] + c.requests["PATCH"] + c.requests["DELETE"]
}

// since is what was counted after another count.
func (c counters) since(before counters) counters {
	out := counters{requests: map[string]float64{}, failed: c.failed - before.failed, reconciled: c.reconciled - before.reconciled, errors: c.errors - before.errors, nodes: c.nodes - before.nodes}
	for method, n := range c.requests {
		out.requests[method] = n - before.requests[method]
	}
	return out
}

func label(labels, name string) string {
	_, after, _ := strings.Cut(labels, name+`="`)
	value, _, _ := strings.Cut(after, `"`)
	return value
}

func fetch(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	return readOKBody(http.DefaultClient.Do(req))
}
