package manager

import (
	"context"
	"encoding/pem"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"

	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// The state of a cluster follows from the responses of its API server to any request, and
// is reported without credentials.
func TestReached(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusInternalServerError)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer server.Close()
	r, err := newConnectivityMonitor("worker cluster", &rest.Config{Host: server.URL, BearerToken: "canary-token"}, kubeconfigFile{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.unreachableError(); err == nil || !strings.Contains(err.Error(), "has not received a request yet") {
		t.Errorf("at first: %v", err)
	}
	for _, c := range []struct {
		status int
		asks   bool
		says   string // "" if it is reachable
	}{
		{http.StatusInternalServerError, false, "it reports that it is not ready (500)"},
		{http.StatusOK, true, ""},
		{http.StatusForbidden, true, ""}, // a rejection is an answer
		{http.StatusNotFound, true, ""},
		{http.StatusUnauthorized, false, "it rejects the credentials (401)"},
	} {
		status.Store(int64(c.status))
		if err := r.probeAPIServer(t.Context()); (err == nil) != c.asks {
			t.Errorf("%d: asked: %v", c.status, err)
		}
		err := r.unreachableError()
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%d: %v, want %q", c.status, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%d: a credential is told: %v", c.status, err)
		}
	}
	// A proxy that answers for an unreachable API server reports it as unreachable; an error
	// of the API server itself proves neither.
	for _, c := range []struct {
		status int
		away   bool
	}{{http.StatusOK, false}, {http.StatusBadGateway, true}, {http.StatusInternalServerError, true}, {http.StatusNotFound, false}, {http.StatusServiceUnavailable, true}, {http.StatusConflict, false}, {http.StatusInternalServerError, false}} {
		status.Store(int64(c.status))
		r.client.Get().AbsPath("/api/v1/namespaces").Do(t.Context())
		if err := r.unreachableError(); (err != nil) != c.away {
			t.Errorf("after %d: %v, want away %t", c.status, err, c.away)
		}
	}
	// A canceled request proves nothing.
	status.Store(http.StatusOK)
	if err := r.probeAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.probeAPIServer(given); err == nil || r.unreachableError() != nil {
		t.Errorf("a request that was given up: %v, away: %v", err, r.unreachableError())
	}
	server.Close()
	if err := r.probeAPIServer(t.Context()); err == nil || r.unreachableError() == nil || !strings.Contains(r.unreachableError().Error(), "the worker cluster does not answer since ") {
		t.Errorf("a server that is gone: %v, away: %v", err, r.unreachableError())
	}
}

// Each response says how the API server's clock differs.
func TestClockAhead(t *testing.T) {
	var ahead atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Duration(ahead.Load())).UTC().Format(http.TimeFormat))
	}))
	defer server.Close()
	r, err := newConnectivityMonitor("cluster", &rest.Config{Host: server.URL}, kubeconfigFile{})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.clockAhead(); got != 0 {
		t.Errorf("before a response: %s", got)
	}
	for _, want := range []time.Duration{time.Hour, -time.Hour, 0} {
		ahead.Store(int64(want))
		if err := r.probeAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := r.clockAhead(); got < want-time.Minute || got > want+time.Minute {
			t.Errorf("it is %s ahead, want %s", got, want)
		}
	}
}

// steppedClock is a clock that was set during the test, while the process measures time as before.
type steppedClock struct {
	clock.RealClock

	step *atomic.Int64
}

func (c steppedClock) Now() time.Time { return time.Now().Add(time.Duration(c.step.Load())) }

// If the controller's clock is set, the difference is right before the next response.
func TestClockAheadAfterAStep(t *testing.T) {
	var step atomic.Int64
	r := &connectivityMonitor{clock: steppedClock{step: &step}}
	r.recordDate(time.Now().UTC().Format(http.TimeFormat))
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		step.Store(int64(by))
		if got := r.clockAhead(); got < -by-time.Minute || got > -by+time.Minute {
			t.Errorf("the controller's clock was set by %s: the API server's is %s ahead", by, got)
		}
	}
}

// await retries until the server answers or the context ends.
func TestAwait(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	r, err := newConnectivityMonitor("cluster", &rest.Config{Host: server.URL}, kubeconfigFile{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.waitUntilReachable(t.Context()) || asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if r.waitUntilReachable(ctx) {
		t.Error("a server that is gone is taken for there")
	}
}

// While no client sends requests, the state of a cluster is checked at an interval.
func TestFollow(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	r, err := newConnectivityMonitor("worker cluster", &rest.Config{Host: server.URL}, kubeconfigFile{})
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		r.checkPeriodically(t.Context(), stop, time.Millisecond)
	}()
	testenv.Await(t, time.Minute, "it is known to be there", r.unreachableError)
	server.Close()
	testenv.Await(t, time.Minute, "it is known to be away", func() error {
		if r.unreachableError() == nil {
			return errors.New("it is taken for there")
		}
		return nil
	})
	close(stop)
	<-done
}

// If a cluster is unreachable and its kubeconfig is replaced, the process ends, to be
// restarted with the new one. Otherwise it continues.
func TestKubeconfigReplaced(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	with := func(token string) func(*clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) {
			c.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
			c.AuthInfos["c"].Token = token
		}
	}
	for name, c := range map[string]struct {
		token string // the token in use
		text  string // of the changed file; "" for another kubeconfig
		ends  bool
	}{
		"refused, replaced":          {"canary-token", "", true},
		"refused, half of it so far": {"canary-token", "apiVersion: v1\nkind: Conf", false},
		"there, replaced":            {"good", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			opts := &Options{Kubeconfig: kubeconfig(t, "", with("good")), WorkerKubeconfig: kubeconfig(t, "", with(c.token))}
			two, err := opts.newClusters()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*connectivityMonitor{two.management, two.worker} {
				_ = r.probeAPIServer(t.Context())
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			go func() { ended <- two.waitForNewKubeconfig(ctx, time.Millisecond) }()
			select {
			case err := <-ended:
				t.Fatalf("it ended before anything was replaced: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			if c.text == "" {
				b, err := os.ReadFile(kubeconfig(t, "", with("another")))
				if err != nil {
					t.Fatal(err)
				}
				c.text = string(b)
			}
			if err := os.WriteFile(opts.WorkerKubeconfig, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if !c.ends {
				time.Sleep(50 * time.Millisecond) // it has read the file some fifty times, and would have ended
				cancel()
			}
			err = <-ended
			if c.ends != errors.Is(err, errReplaced) || err != nil && (!strings.Contains(err.Error(), "--worker-cluster-kubeconfig: ") || strings.Contains(err.Error(), "canary")) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// A controller that waits because its credentials are rejected ends when they are replaced.
func TestControllerEndsForAnotherKubeconfig(t *testing.T) {
	asked := make(chan struct{})
	once := sync.OnceFunc(func() { close(asked) })
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		once()
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	with := func(token string) func(*clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) {
			c.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
			c.AuthInfos["c"].Token = token
		}
	}
	opts := &Options{Namespace: "kube-system", Kubeconfig: kubeconfig(t, "", with("canary-token")), CacheDir: t.TempDir()}
	ended := make(chan error)
	go func() { ended <- Run(t.Context(), opts) }()
	b, err := os.ReadFile(kubeconfig(t, "", with("another")))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked: // so it has read the first one
	case err := <-ended:
		t.Fatalf("it ended before anything was replaced: %v", err)
	}
	if err := os.WriteFile(opts.Kubeconfig, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errReplaced) || strings.Contains(err.Error(), "canary") {
		t.Errorf("it ended with %v", err)
	}
}

// A port in use ends the controller with an error that names the flag.
func TestPortTaken(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	address := server.Listener.Addr().String()
	opts := &Options{HealthAddress: address}
	one := &clusterState{}
	servers, err := opts.newServers(one, one)
	if err != nil || len(servers) != 1 {
		t.Fatalf("%d servers, %v", len(servers), err)
	}
	if err := servers[0](t.Context()); err == nil || !strings.Contains(err.Error(), "--health-probe-address: ") || errors.Is(err, http.ErrServerClosed) {
		t.Errorf("error %v", err)
	}
}

// kubeconfig writes a kubeconfig with its own CA, changed by the caller.
func kubeconfig(t *testing.T, ca string, change func(*clientcmdapi.Config)) string {
	t.Helper()
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://127.0.0.1:1", CertificateAuthorityData: []byte(ca)}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: "canary-token"}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}
	change(&config)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func asItIs(*clientcmdapi.Config) {}

// The CA for nodes: from the flag, otherwise from the worker cluster's kubeconfig,
// otherwise from the management cluster's, otherwise the CAs that the process itself
// trusts.
func TestNodeCA(t *testing.T) {
	const pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	bundle, empty := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "empty.pem")
	for path, text := range map[string]string{bundle: pem, empty: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	management, worker := kubeconfig(t, "management CA", asItIs), kubeconfig(t, "worker CA", asItIs)
	two := kubeconfig(t, "worker CA", func(c *clientcmdapi.Config) { c.Clusters["d"] = &clientcmdapi.Cluster{Server: "https://d"} })
	none := kubeconfig(t, "", asItIs)
	for name, c := range map[string]struct {
		opts      Options
		cfg       *rest.Config
		want, err string
	}{
		"the flag":                       {Options{Kubeconfig: management, KubernetesCAFile: bundle}, &rest.Config{}, pem, ""},
		"the worker cluster's":           {Options{Kubeconfig: management, WorkerKubeconfig: worker}, &rest.Config{}, "worker CA", ""},
		"of the worker's alone":          {Options{WorkerKubeconfig: worker}, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte("in-cluster CA")}}, "worker CA", ""},
		"the management cluster's":       {Options{Kubeconfig: management}, &rest.Config{}, "management CA", ""},
		"without kubeconfig, the data":   {Options{}, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte("in-cluster CA")}}, "in-cluster CA", ""},
		"without kubeconfig, the file":   {Options{}, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: bundle}}, pem, ""},
		"none is known":                  {Options{}, &rest.Config{}, "", "--kubernetes-ca-bundle"},
		"a bundle without certificate":   {Options{KubernetesCAFile: empty}, &rest.Config{}, "", "--kubernetes-ca-bundle: "},
		"a kubeconfig with two clusters": {Options{Kubeconfig: management, WorkerKubeconfig: two}, &rest.Config{}, "", "--worker-cluster-kubeconfig: " + two + " has 2 clusters"},
		"a kubeconfig without data":      {Options{Kubeconfig: none}, &rest.Config{}, "", "--kubeconfig: " + none + " has no certificate-authority-data"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.opts.readSettings(c.cfg)
			if c.err == "" && (err != nil || got.KubernetesCACert != c.want) {
				t.Errorf("got %q, %v, want %q", got.KubernetesCACert, err, c.want)
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// security.md 23: a kubeconfig of either cluster that would run a program or load a plugin
// is rejected before the first request.
func TestKubeconfigRunsNothing(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	execs := kubeconfig(t, "CA", func(c *clientcmdapi.Config) {
		c.AuthInfos["c"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			Command: "/usr/bin/touch", Args: []string{marker}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}
	})
	plugin := kubeconfig(t, "CA", func(c *clientcmdapi.Config) {
		c.AuthInfos["c"] = &clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "oidc", Config: map[string]string{"cmd-path": "/usr/bin/touch"}}}
	})
	good := kubeconfig(t, "CA", asItIs)
	for _, c := range []struct{ management, worker, says string }{
		{execs, "", "--kubeconfig: its user has exec"},
		{good, execs, "--worker-cluster-kubeconfig: its user has exec"},
		{plugin, "", "--kubeconfig: its user has auth-provider \"oidc\""},
		{good, plugin, "--worker-cluster-kubeconfig: its user has auth-provider"},
	} {
		opts := &Options{Namespace: "kube-system", Kubeconfig: c.management, WorkerKubeconfig: c.worker, CacheDir: t.TempDir()}
		if err := Run(t.Context(), opts); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want %q", err, c.says)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the program ran")
	}
	t.Setenv("KUBECONFIG", execs)
	if _, err := (&Options{}).newClusters(); err == nil || !strings.Contains(err.Error(), "its user has exec") {
		t.Errorf("the environment's: error %v", err)
	}
	// One kubeconfig gives one cluster, two give two, also with the same address.
	good = kubeconfig(t, "", asItIs)
	opts := &Options{Kubeconfig: good, WorkerKubeconfig: good}
	two, err := opts.newClusters()
	if err != nil || !two.apart() || !reflect.DeepEqual([]string{two.management.name, two.worker.name}, []string{"management cluster", "worker cluster"}) {
		t.Errorf("clusters %+v, %v", two, err)
	}
	opts.WorkerKubeconfig = ""
	if one, err := opts.newClusters(); err != nil || one.apart() {
		t.Errorf("one cluster: %+v, %v", one, err)
	}
}

// Addresses are used unchanged; "0" and "" disable a server.
func TestNoServers(t *testing.T) {
	var counts []int
	const health, metrics, workerHealth, workerMetrics = "127.0.0.1:8085", "127.0.0.1:8080", "127.0.0.1:8086", "127.0.0.1:8081"
	for _, opts := range []Options{
		{HealthAddress: "0", MetricsAddress: "0", WorkerHealthAddress: workerHealth, WorkerMetricsAddress: workerMetrics},
		{WorkerHealthAddress: workerHealth, WorkerMetricsAddress: workerMetrics},
		{HealthAddress: health, MetricsAddress: metrics, WorkerHealthAddress: workerHealth, WorkerMetricsAddress: workerMetrics},
		{
			HealthAddress: health, MetricsAddress: metrics, WorkerHealthAddress: workerHealth, WorkerMetricsAddress: workerMetrics,
			SecondHealthAddress: ":8081", SecondMetricsAddress: ":8080", // the webhook's
		},
		{
			HealthAddress: health, MetricsAddress: metrics, WorkerHealthAddress: workerHealth, WorkerMetricsAddress: workerMetrics,
			SecondHealthAddress: health, SecondMetricsAddress: metrics,
		},
	} {
		one := &clusterState{}
		servers, err := opts.newServers(one, one)
		two, err2 := opts.newServers(one, &clusterState{})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		counts = append(counts, len(servers), len(two))
	}
	if want := []int{0, 2, 0, 2, 2, 4, 4, 6, 2, 4}; !slices.Equal(counts, want) {
		t.Errorf("numbers of servers %v, want %v", counts, want)
	}
}

// By default, profiles are watched only in the controller's own namespace (security.md 24).
func TestProfileNamespaces(t *testing.T) {
	for _, c := range []struct{ others, want []string }{
		{nil, []string{"kube-system"}},
		{[]string{"platform", "team-b"}, []string{"kube-system", "platform", "team-b"}},
		{[]string{"*"}, []string{""}},
	} {
		opts := Options{Namespace: "kube-system", CrossNamespaces: c.others}
		if got := slices.Sorted(maps.Keys(opts.profileNamespaces())); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.others, got, c.want)
		}
	}
}

// The cloudProviderSpecs of pools can refer to objects of other namespaces only if the flag
// names them (security.md 35).
func TestCloudProviderReferences(t *testing.T) {
	for _, want := range [][]types.NamespacedName{nil, {{Namespace: "kube-system", Name: "openstack"}}} {
		opts := Options{CloudProviderReferences: want}
		if got := opts.poolReconciler(dependencies{}).CloudProviderReferences; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
