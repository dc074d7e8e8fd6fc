package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// server is the API server and its storage, as they are measured.
type server struct {
	cluster *cluster.Cluster
	client  *http.Client // the administrator's
}

func newServer(c *cluster.Cluster) (*server, error) {
	cl, err := rest.HTTPClientFor(c.Config)
	return &server{cluster: c, client: cl}, err
}

// load is what the API server and etcd did for something.
type load struct {
	apiserver, etcd time.Duration      // CPU
	requests        map[string]float64 // answered, by method and resource
}

// ofPools are the resources that belong to pools. This program reads none of them meanwhile, and
// creates only MachineDeployments; kube-controller-manager writes none of them.
var ofPools = []string{
	"machinedeployments", "secrets", "operatingsystemconfigs", "serviceaccounts", "roles", "rolebindings", "controllerrevisions", "events",
}

// meter starts a measurement; the returned function ends it.
func (s *server) meter(ctx context.Context) (func() (load, error), error) {
	before, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	return func() (load, error) {
		l, err := s.read(ctx)
		if err != nil {
			return l, err
		}
		l.apiserver, l.etcd = l.apiserver-before.apiserver, l.etcd-before.etcd
		for request, n := range before.requests {
			l.requests[request] -= n
		}
		maps.DeleteFunc(l.requests, func(_ string, n float64) bool { return n == 0 })
		return l, nil
	}, nil
}

// read reads everything since the start. The time at which the metrics are collected is not part
// of a measurement that begins afterwards, and is of one that ends with it: tens of milliseconds.
func (s *server) read(ctx context.Context) (load, error) {
	l := load{requests: map[string]float64{}}
	text, err := s.get(ctx, "/metrics")
	if err != nil {
		return l, err
	}
	for line := range strings.Lines(text) {
		series, number, ok := strings.Cut(strings.TrimSpace(line), " ")
		name, labels, _ := strings.Cut(series, "{")
		resource, method := label(labels, "resource"), label(labels, "verb")
		if sub := label(labels, "subresource"); sub != "" {
			resource += "/" + sub
		}
		of, _, _ := strings.Cut(resource, "/")
		if !ok || name != "apiserver_request_total" || method == "WATCH" || !slices.Contains(ofPools, of) {
			continue
		}
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return l, err
		}
		l.requests[strings.ToLower(method)+" "+resource] += value
	}
	pid, err := s.cluster.APIServerPID()
	if err != nil {
		return l, err
	}
	if l.apiserver, err = processCPU(pid); err != nil {
		return l, err
	}
	l.etcd, err = processCPU(s.cluster.StoragePID())
	return l, err
}

func (s *server) get(ctx context.Context, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.cluster.URL+path, nil)
	if err != nil {
		return "", err
	}
	return readOKBody(s.client.Do(req))
}

// readOKBody is the body of a response with status 200.
func readOKBody(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Request.URL, resp.Status)
	}
	return string(body), err
}

// profile stores a CPU profile of the API server in a file of dir, from now on, for as long as
// some pools need; the returned function waits for it. Without a dir it does nothing.
func (s *server) profile(ctx context.Context, dir, name string, pools int) (wait func() error) {
	if dir == "" {
		return func() error { return nil }
	}
	const poolsPerSecond = 80 // so that the load lasts longer
	done := make(chan error, 1)
	go func() {
		text, err := s.get(ctx, fmt.Sprintf("/debug/pprof/profile?seconds=%d", max(1, pools/poolsPerSecond)))
		if err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+".pprof"), []byte(text), 0o644)
		}
		done <- err
	}()
	return func() error { return <-done }
}

// total is the number of requests.
func (l load) total() float64 {
	var n float64
	for _, some := range l.requests {
		n += some
	}
	return n
}

// spare is the number of requests per pool for what is read and written once for all pools, and
// for the events that pass.
const spare = 0.1

// addRequests says how many requests each of some pools took, and which. Most is the target, 0 for
// none.
func (b *bench) addRequests(l load, pools int, most float64) {
	n := float64(pools)
	target := ""
	if most > 0 {
		target = fmt.Sprintf("at most %.0f", most)
	}
	b.add("  requests per pool", fmt.Sprintf("%.2f", l.total()/n), target, l.total()/n <= most+spare)
	for _, request := range slices.SortedFunc(maps.Keys(l.requests), func(a, b string) int {
		return strings.Compare(afterSpace(a)+a, afterSpace(b)+b)
	}) {
		b.add("    "+request, fmt.Sprintf("%.2f", l.requests[request]/n), "", true)
	}
}

func afterSpace(s string) string {
	_, after, _ := strings.Cut(s, " ")
	return after
}

// processCPU is what a process used since it began.
func processCPU(pid int) (time.Duration, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	// proc_pid_stat(5): after the name, which is in brackets, utime is field 14 of the line and
	// stime 15, in clock ticks (100 per second on Linux).
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	const utime, stime, tick = 11, 12, 10 * time.Millisecond
	user, err := strconv.ParseInt(fields[utime], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[stime], 10, 64)
	return time.Duration(user+system) * tick, err
}
