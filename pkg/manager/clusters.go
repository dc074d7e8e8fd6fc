package manager

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
)

const (
	// awayRetry is the interval of checks for an unreachable API server.
	awayRetry = 2 * time.Second
	// checkTimeout bounds a check.
	checkTimeout = 5 * time.Second
)

// kubeconfigFile is the content of a kubeconfig when it was read. The zero value stands for
// no file.
type kubeconfigFile struct {
	flag, path string
	digest     [sha256.Size]byte
}

// digestKubeconfig returns the digest of what a kubeconfig contains now, with which hasChanged
// compares it later. It ignores errors: they were reported when the file was first read.
func digestKubeconfig(flag, path string) kubeconfigFile {
	k := kubeconfigFile{flag: flag, path: path}
	if path != "" {
		b, _ := os.ReadFile(path) // the operator names it; errors were reported when it was read first
		k.digest = sha256.Sum256(b)
	}
	return k
}

// hasChanged reports whether the file now contains another kubeconfig.
func (k kubeconfigFile) hasChanged() bool {
	if k.path == "" {
		return false
	}
	now := digestKubeconfig(k.flag, k.path)
	if now.digest == k.digest {
		return false
	}
	_, err := kubeclient.FileConfig(k.flag, k.path) // an incompletely written file does not count
	return err == nil
}

// replacedInterval is the interval of checks of a kubeconfig.
const replacedInterval = 10 * time.Second

// errReplaced ends the process, which reads the kubeconfig after its restart.
var errReplaced = errors.New("has changed, and the API server does not answer with the previous content: restart to use it")

// waitForNewKubeconfig returns an error when a cluster is unreachable and its kubeconfig has
// changed, for instance with a new token or address; nil when ctx ends first.
func (c clusters) waitForNewKubeconfig(ctx context.Context, every time.Duration) error {
	err := wait.PollUntilContextCancel(ctx, every, false, func(context.Context) (bool, error) {
		for _, r := range []*connectivityMonitor{c.management, c.worker} {
			if r.unreachableError() != nil && r.read.hasChanged() {
				return false, fmt.Errorf("--%s: %s %w", r.read.flag, r.read.path, errReplaced)
			}
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // shutting down
	}
	return err
}

// connectivityMonitor is a cluster and whether its API server answers, according to the requests of all
// clients.
type connectivityMonitor struct {
	name   string // for messages
	config *rest.Config
	client rest.Interface
	read   kubeconfigFile
	clock  clock.PassiveClock

	mu             sync.Mutex
	checked        bool      // a request has completed
	err            error     // why it is unreachable; nil if it is reachable
	since          time.Time // time of err
	date, received time.Time // of the last response, by the API server's clock and by ours
}

// clusters are the cluster with profiles and configurations, and the cluster with pools.
// They are the same unless flags name two.
type clusters struct{ management, worker *connectivityMonitor }

func (c clusters) apart() bool { return c.management != c.worker }

// newClusters reads the kubeconfigs without sending requests.
func (opts *Options) newClusters() (clusters, error) {
	// Read them before they are used, so that no change is missed.
	read := digestKubeconfig("kubeconfig", opts.Kubeconfig)
	readWorker := digestKubeconfig("worker-cluster-kubeconfig", opts.WorkerKubeconfig)
	cfg, err := kubeclient.ControllerConfig(opts.Kubeconfig)
	if err != nil {
		return clusters{}, err
	}
	if opts.WorkerKubeconfig == "" {
		one, err := newConnectivityMonitor("cluster", cfg, read)
		return clusters{management: one, worker: one}, err
	}
	worker, err := kubeclient.FileConfig("worker-cluster-kubeconfig", opts.WorkerKubeconfig)
	if err != nil {
		return clusters{}, err
	}
	var c clusters
	if c.management, err = newConnectivityMonitor("management cluster", cfg, read); err != nil {
		return c, err
	}
	c.worker, err = newConnectivityMonitor("worker cluster", worker, readWorker)
	return c, err
}

// newConnectivityMonitor returns a monitor of a cluster's API server. Every request that uses cfg
// updates its state.
func newConnectivityMonitor(name string, cfg *rest.Config, read kubeconfigFile) (*connectivityMonitor, error) {
	r := &connectivityMonitor{name: name, config: cfg, read: read, clock: clock.RealClock{}}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return recordingTransport{of: r, next: next} })
	c, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r.client = c.RESTClient()
	return r, nil
}

// waitUntilReachable returns true once the API server answers, and false when ctx ends first.
func (r *connectivityMonitor) waitUntilReachable(ctx context.Context) bool {
	err := wait.PollUntilContextCancel(ctx, awayRetry, true, func(ctx context.Context) (bool, error) {
		return r.probeAPIServer(ctx) == nil, nil
	})
	return err == nil
}

// checkPeriodically checks at an interval until stop, while no client sends requests that would update
// the state.
func (r *connectivityMonitor) checkPeriodically(ctx context.Context, stop <-chan struct{}, every time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		_ = r.probeAPIServer(ctx) // the transport records the result
	}, every)
}

// probeAPIServer checks whether the API server answers, and returns why it does not.
func (r *connectivityMonitor) probeAPIServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := r.client.Get().AbsPath("/readyz").Do(ctx).Error()
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil // a rejection is also an answer
	}
	return err
}

// unreachableError returns since when the API server has not answered, and why; nil if it answers.
func (r *connectivityMonitor) unreachableError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return fmt.Errorf("the API server of the %s does not answer since %s: %w", r.name, r.since.UTC().Format(time.RFC3339), r.err)
	case !r.checked:
		return fmt.Errorf("the API server of the %s has not received a request yet", r.name)
	}
	return nil
}

// recordResult records the result of a request, and logs a change.
func (r *connectivityMonitor) recordResult(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	log := ctrl.Log.WithValues("cluster", r.name)
	switch {
	case err != nil && r.err == nil:
		r.since = time.Now()
		log.Error(err, "the API server does not answer")
	case err == nil && r.err != nil:
		log.Info("the API server answers again", "away", time.Since(r.since).Round(time.Second).String())
	}
	r.checked, r.err = true, err
}

// recordDate records what the clock of the API server showed when it sent a response.
func (r *connectivityMonitor) recordDate(header string) {
	if at, err := http.ParseTime(header); err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.date, r.received = at, r.clock.Now()
	}
}

// clockAhead returns how far the clock of the API server is ahead of the controller's, with a
// precision of seconds; 0 before the first response. A clock that was set since the last response
// does not change how long ago that was.
func (r *connectivityMonitor) clockAhead() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.received.IsZero() {
		return 0
	}
	return r.date.Add(r.clock.Since(r.received)).Sub(r.clock.Now())
}

// recordingTransport is a transport that records the results of requests.
type recordingTransport struct {
	of   *connectivityMonitor
	next http.RoundTripper
}

var errCredentials = errors.New("it rejects the credentials (401): replace those in its kubeconfig")

func (t recordingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	if err == nil {
		t.of.recordDate(res.Header.Get("Date"))
	}
	switch {
	// Without new credentials no request succeeds.
	case err == nil && res.StatusCode == http.StatusUnauthorized:
		t.of.recordResult(errCredentials)
	case err == nil && res.StatusCode >= http.StatusInternalServerError && strings.HasSuffix(req.URL.Path, "/readyz"):
		t.of.recordResult(fmt.Errorf("it reports that it is not ready (%d)", res.StatusCode))
	case err == nil && (res.StatusCode == http.StatusBadGateway || res.StatusCode == http.StatusServiceUnavailable):
		t.of.recordResult(fmt.Errorf("it, or a proxy in front of it, does not serve (%d)", res.StatusCode))
	case err == nil && res.StatusCode >= http.StatusInternalServerError: // proves neither
	case err == nil:
		t.of.recordResult(nil)
	// A canceled request says nothing about the API server.
	case err != nil && !errors.Is(req.Context().Err(), context.Canceled):
		t.of.recordResult(err)
	}
	return res, err
}

// WrappedRoundTripper lets client-go find the TLS configuration of the transport.
func (t recordingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
