package manager

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/osm-gitops/osm-gitops/pkg/listen"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

// clusterState is the subject of a probe: a cluster with the caches that are filled from it.
type clusterState struct {
	cluster *connectivityMonitor
	caches  atomic.Pointer[cache.Cache] // nil before they exist
	waits   atomic.Pointer[string]      // what it waits for, if that is expected
	broken  atomic.Pointer[error]       // why it cannot start
	working sync.Mutex                  // locked while work in a separate worker cluster is running
}

// waitForManagerStop returns once no work in a separate worker cluster is running and its lease is
// released, or after a time limit.
func (p *clusterState) waitForManagerStop() {
	const patience = 20 * time.Second
	done := make(chan struct{})
	go func() {
		// The lock is free when no work is running.
		p.working.Lock()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// ready returns why nothing happens in a cluster; nil if it is healthy.
func (p *clusterState) ready(ctx context.Context) error {
	const patience = time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// The last request can be long ago, so another one decides.
	if away := p.cluster.unreachableError(); away != nil && p.cluster.probeAPIServer(ctx) != nil {
		return p.cluster.unreachableError()
	}
	if err := p.broken.Load(); err != nil {
		return fmt.Errorf("%s: %w", p.cluster.name, *err)
	}
	c := p.caches.Load()
	switch {
	case p.waits.Load() != nil:
		return nil
	case c == nil:
		return fmt.Errorf("%s: starting", p.cluster.name)
	case !(*c).WaitForCacheSync(ctx):
		return fmt.Errorf("%s: caches are not filled yet", p.cluster.name)
	}
	return nil
}

// newServers returns the servers of the flags: probes and metrics of the management cluster's
// part and, with two clusters, of the worker cluster's. They answer from the beginning, so
// that users can see what the controller waits for.
func (opts *Options) newServers(management, worker *clusterState) ([]func(context.Context) error, error) {
	out := []func(context.Context) error{}
	add := func(flag, address string, serve func(context.Context) error) {
		if address == "" || address == "0" {
			return
		}
		out = append(out, func(ctx context.Context) error {
			if err := serve(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("--%s: %w", flag, err)
			}
			return nil
		})
	}
	measure := func(flag, address string) error {
		if address == "" {
			return nil // controller-runtime would interpret "" as :8080
		}
		server, err := metricsserver.NewServer(metricsserver.Options{BindAddress: address}, nil, nil)
		if err != nil || server == nil {
			return err
		}
		add(flag, address, server.Start)
		return nil
	}
	probe := func(flag, address string, of *clusterState, alsoReported ...*clusterState) {
		add(flag, address, func(ctx context.Context) error { return serveProbe(ctx, address, of, alsoReported) })
	}
	if err := measure("metrics-address", opts.MetricsAddress); err != nil {
		return nil, err
	}
	if opts.SecondMetricsAddress != opts.MetricsAddress { // both flags can name one address
		if err := measure("metrics-bind-address", opts.SecondMetricsAddress); err != nil {
			return nil, err
		}
	}
	var alsoReported []*clusterState
	if management != worker {
		// The state of the worker cluster does not fail the probe: Git and webhooks work without
		// it.
		alsoReported = []*clusterState{worker}
	}
	probe("health-probe-address", opts.HealthAddress, management, alsoReported...)
	if opts.SecondHealthAddress != opts.HealthAddress {
		probe("health-probe-bind-address", opts.SecondHealthAddress, management, alsoReported...)
	}
	if management == worker {
		return out, nil
	}
	probe("worker-health-probe-address", opts.WorkerHealthAddress, worker)
	return out, measure("worker-metrics-address", opts.WorkerMetricsAddress)
}

// newMetrics registers our metrics next to those of controller-runtime. Both addresses
// serve all of them.
func newMetrics(c clusters) (*metrics.Metrics, error) {
	m := metrics.New()
	for role, r := range map[string]*connectivityMonitor{"management": c.management, "worker": c.worker} {
		m.RegisterCluster(role, func() bool { return r.unreachableError() == nil })
	}
	if err := ctrlmetrics.Registry.Register(m); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return m, nil
}

// serveProbe serves /healthz, which succeeds as long as the process runs, and /readyz,
// which fails for the problems of one cluster, and also reports those of others.
func serveProbe(ctx context.Context, address string, of *clusterState, alsoReported []*clusterState) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		err := of.ready(r.Context())
		writeState(&text, "-", of, err)
		well := err == nil
		for _, other := range alsoReported {
			err := other.ready(r.Context())
			writeState(&text, "!", other, err)
			well = well && err == nil
		}
		if well && !r.URL.Query().Has("verbose") {
			text.Reset()
			text.WriteString("ok")
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		fmt.Fprint(w, text.String())
	})
	const headerTime = 10 * time.Second
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTime}
	listener, err := listen.Listen(ctx, address)
	if err != nil {
		return err
	}
	return listen.Serve(ctx, server, listener, 0)
}

// writeState formats the state of a part: "+" and ok, or a mark and the reason.
func writeState(b *strings.Builder, mark string, p *clusterState, err error) {
	switch waits := p.waits.Load(); {
	case err != nil:
		fmt.Fprintf(b, "[%s]%s: %v\n", mark, p.cluster.name, err)
	case waits != nil:
		fmt.Fprintf(b, "[+]%s: ok, %s\n", p.cluster.name, *waits)
	default:
		fmt.Fprintf(b, "[+]%s: ok\n", p.cluster.name)
	}
}
