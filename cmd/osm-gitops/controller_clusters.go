package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// awayRetry is the time between two looks for an API server that is away.
	awayRetry = 2 * time.Second
	// lookTime bounds a look.
	lookTime = 5 * time.Second
)

// reached is a cluster and whether its API server answers, as the requests tell
// that are made anyway.
type reached struct {
	name   string // as people know it
	config *rest.Config
	look   rest.Interface

	mu    sync.Mutex
	known bool      // some request has ended
	err   error     // why it is away; nil when it is not
	since time.Time // of err
}

// clusters are where profiles and configurations live, and where pools do. They
// are the same one, unless the controller was given two.
type clusters struct{ management, worker *reached }

func (c clusters) apart() bool { return c.management != c.worker }

// clusters reads the kubeconfigs; no server is asked.
func (f *controllerFlags) clusters() (clusters, error) {
	cfg, err := f.restConfig()
	if err != nil {
		return clusters{}, err
	}
	if f.workerKubeconfig == "" {
		one, err := reach("cluster", cfg)
		return clusters{management: one, worker: one}, err
	}
	worker, err := fromKubeconfig("worker-cluster-kubeconfig", f.workerKubeconfig)
	if err != nil {
		return clusters{}, err
	}
	var c clusters
	if c.management, err = reach("management cluster", cfg); err != nil {
		return c, err
	}
	c.worker, err = reach("worker cluster", worker)
	return c, err
}

func (f *controllerFlags) restConfig() (*rest.Config, error) {
	if f.kubeconfig != "" {
		return fromKubeconfig("kubeconfig", f.kubeconfig)
	}
	cfg, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w: give --kubeconfig", err)
	}
	return usable("the kubeconfig of the environment", cfg)
}

func fromKubeconfig(flag, path string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return usable("--"+flag, cfg)
}

// usable refuses what would run a program: a kubeconfig is data (security.md 23).
func usable(where string, cfg *rest.Config) (*rest.Config, error) {
	switch {
	case cfg.ExecProvider != nil:
		return nil, fmt.Errorf("%s: its user has exec, and no program is run for a kubeconfig: give the user a token, tokenFile or client certificate", where)
	case cfg.AuthProvider != nil:
		return nil, fmt.Errorf("%s: its user has auth-provider %q, which is not supported: give the user a token, tokenFile or client certificate", where, cfg.AuthProvider.Name)
	}
	// The API server shares its time out fairly by itself. A limit here, 20 requests
	// a second by default, keeps a hundred pools waiting for half a minute.
	cfg.QPS = -1
	return cfg, nil
}

// reach makes a cluster whose state every request through its config tells.
func reach(name string, cfg *rest.Config) (*reached, error) {
	r := &reached{name: name, config: cfg}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return teller{of: r, next: next} })
	c, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r.look = c.RESTClient()
	return r, nil
}

// await returns once the API server answers, and false when ctx ends first.
func (r *reached) await(ctx context.Context) bool {
	err := wait.PollUntilContextCancel(ctx, awayRetry, true, func(ctx context.Context) (bool, error) {
		return r.ask(ctx) == nil, nil
	})
	return err == nil
}

// ask looks whether the API server answers, and says why it does not.
func (r *reached) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	err := r.look.Get().AbsPath("/readyz").Do(ctx).Error()
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil // it answers, and does not tell everyone
	}
	return err
}

// away says since when the API server does not answer, and why; nil when it does.
func (r *reached) away() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return fmt.Errorf("the API server of the %s does not answer since %s: %w", r.name, r.since.UTC().Format(time.RFC3339), r.err)
	case !r.known:
		return fmt.Errorf("the API server of the %s has not been asked yet", r.name)
	}
	return nil
}

// tell takes what a request came to, and logs a change.
func (r *reached) tell(err error) {
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
	r.known, r.err = true, err
}

// teller is a transport that tells what requests came to.
type teller struct {
	of   *reached
	next http.RoundTripper
}

var errCredentials = errors.New("it refuses the credentials (401): replace those of its kubeconfig")

func (t teller) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(req)
	switch {
	case err == nil && res.StatusCode == http.StatusUnauthorized:
		t.of.tell(errCredentials)
	case err == nil && res.StatusCode >= http.StatusInternalServerError && strings.HasSuffix(req.URL.Path, "/readyz"):
		t.of.tell(fmt.Errorf("it says that it is not ready (%d)", res.StatusCode))
	case err == nil:
		t.of.tell(nil)
	case err != nil && !errors.Is(req.Context().Err(), context.Canceled):
		t.of.tell(err)
	}
	return res, err
}

// WrappedRoundTripper is how client-go finds the transport's TLS configuration.
func (t teller) WrappedRoundTripper() http.RoundTripper { return t.next }
