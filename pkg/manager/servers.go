package manager

import (
	"context"
	"errors"
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

// part is what a probe tells of: a cluster and the caches that are filled from it.
type part struct {
	cluster *reached
	caches  atomic.Pointer[cache.Cache] // nil before there are any
	waits   atomic.Pointer[string]      // for what, where that is no fault
	broken  atomic.Pointer[error]       // what keeps it from starting
	working sync.Mutex                  // held while a worker cluster apart is worked in
}

// settled returns once nothing works in a worker cluster apart, and its lease is given
// back; it does not wait for ever.
func (p *part) settled() {
	const patience = 20 * time.Second
	done := make(chan struct{})
	go func() {
		p.working.Lock()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// ready says why nothing is done in a cluster; nil when all is well.
func (p *part) ready(ctx context.Context) error {
	const patience = time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if away := p.cluster.away(); away != nil && p.cluster.ask(ctx) != nil {
		return p.cluster.away()
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

// servers are those of the flags: probes and metrics of the management cluster's
// part and, with two clusters, of the worker cluster's. They answer from the first
// moment on, so that somebody can ask why nothing else happens.
func (opts *Options) servers(management, worker *part) ([]func(context.Context) error, error) {
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
			return nil // controller-runtime would take that for :8080
		}
		server, err := metricsserver.NewServer(metricsserver.Options{BindAddress: address}, nil, nil)
		if err != nil || server == nil {
			return err
		}
		add(flag, address, server.Start)
		return nil
	}
	probe := func(flag, address string, of *part, note ...*part) {
		add(flag, address, func(ctx context.Context) error { return serveProbe(ctx, address, of, note) })
	}
	if err := measure("metrics-address", opts.MetricsAddress); err != nil {
		return nil, err
	}
	if opts.SecondMetricsAddress != opts.MetricsAddress { // one address may be given by both names
		if err := measure("metrics-bind-address", opts.SecondMetricsAddress); err != nil {
			return nil, err
		}
	}
	var note []*part
	if management != worker {
		// What is said of the worker cluster here does not fail the probe: Git and
		// webhooks go on without it.
		note = []*part{worker}
	}
	probe("health-probe-address", opts.HealthAddress, management, note...)
	if opts.SecondHealthAddress != opts.HealthAddress {
		probe("health-probe-bind-address", opts.SecondHealthAddress, management, note...)
	}
	if management == worker {
		return out, nil
	}
	probe("worker-health-probe-address", opts.WorkerHealthAddress, worker)
	return out, measure("worker-metrics-address", opts.WorkerMetricsAddress)
}

// newMetrics are ours beside those of controller-runtime, which both addresses serve.
func newMetrics(c clusters) (*metrics.Metrics, error) {
	m := metrics.New()
	for role, r := range map[string]*reached{"management": c.management, "worker": c.worker} {
		m.Cluster(role, func() bool { return r.away() == nil })
	}
	if err := ctrlmetrics.Registry.Register(m); err != nil {
		return nil, fmt.Errorf("registering metrics: %w", err)
	}
	return m, nil
}

// serveProbe serves /healthz, which answers as long as the process runs, and
// /readyz, which says what is amiss: of a part, and of others as a note.
func serveProbe(ctx context.Context, address string, of *part, note []*part) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		err := of.ready(r.Context())
		line(&text, "-", of, err)
		well := err == nil
		for _, other := range note {
			err := other.ready(r.Context())
			line(&text, "!", other, err)
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
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// line says how a part is: "+" and ok, or a mark and why not.
func line(b *strings.Builder, mark string, p *part, err error) {
	switch waits := p.waits.Load(); {
	case err != nil:
		fmt.Fprintf(b, "[%s]%s: %v\n", mark, p.cluster.name, err)
	case waits != nil:
		fmt.Fprintf(b, "[+]%s: ok, %s\n", p.cluster.name, *waits)
	default:
		fmt.Fprintf(b, "[+]%s: ok\n", p.cluster.name)
	}
}
