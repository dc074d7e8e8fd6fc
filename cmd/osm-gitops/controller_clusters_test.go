package main

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Whether a cluster is there is known from what its API server answers to whatever
// is asked, and said without any credential.
func TestReached(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusInternalServerError)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer server.Close()
	r, err := reach("worker cluster", &rest.Config{Host: server.URL, BearerToken: "canary-token"}, kubeconfigFile{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.away(); err == nil || !strings.Contains(err.Error(), "has not been asked yet") {
		t.Errorf("at first: %v", err)
	}
	for _, c := range []struct {
		status int
		asks   bool
		says   string // "" is there
	}{
		{http.StatusInternalServerError, false, "it says that it is not ready (500)"},
		{http.StatusOK, true, ""},
		{http.StatusForbidden, true, ""}, // it answers, and does not tell everyone
		{http.StatusNotFound, true, ""},
		{http.StatusUnauthorized, false, "it refuses the credentials (401)"},
	} {
		status.Store(int64(c.status))
		if err := r.ask(t.Context()); (err == nil) != c.asks {
			t.Errorf("%d: asked: %v", c.status, err)
		}
		err := r.away()
		if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%d: %v, want %q", c.status, err, c.says)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%d: a credential is told: %v", c.status, err)
		}
	}
	// Whatever else is asked: what stands before an API server that is away answers for
	// it, and an error of the API server says neither.
	for _, c := range []struct {
		status int
		away   bool
	}{{http.StatusOK, false}, {http.StatusBadGateway, true}, {http.StatusInternalServerError, true}, {http.StatusNotFound, false}, {http.StatusServiceUnavailable, true}, {http.StatusConflict, false}, {http.StatusInternalServerError, false}} {
		status.Store(int64(c.status))
		r.look.Get().AbsPath("/api/v1/namespaces").Do(t.Context())
		if err := r.away(); (err != nil) != c.away {
			t.Errorf("after %d: %v, want away %t", c.status, err, c.away)
		}
	}
	// A request that was given up by whoever made it says nothing.
	status.Store(http.StatusOK)
	if err := r.ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.ask(given); err == nil || r.away() != nil {
		t.Errorf("a request that was given up: %v, away: %v", err, r.away())
	}
	server.Close()
	if err := r.ask(t.Context()); err == nil || r.away() == nil || !strings.Contains(r.away().Error(), "the worker cluster does not answer since ") {
		t.Errorf("a server that is gone: %v, away: %v", err, r.away())
	}
}

// await goes on until there is an answer, or until it is told to stop.
func TestAwait(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	r, err := reach("cluster", &rest.Config{Host: server.URL}, kubeconfigFile{})
	if err != nil {
		t.Fatal(err)
	}
	if !r.await(t.Context()) || asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
	server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if r.await(ctx) {
		t.Error("a server that is gone is taken for there")
	}
}

// Where nobody else asks, what is known of a cluster is looked after, until somebody
// else does.
func TestFollow(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	r, err := reach("worker cluster", &rest.Config{Host: server.URL}, kubeconfigFile{})
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		r.follow(t.Context(), stop, time.Millisecond)
	}()
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	until("it is never known to be there", func() bool { return r.away() == nil })
	server.Close()
	until("it is still taken for there", func() bool { return r.away() != nil })
	close(stop)
	<-done
}

// A kubeconfig that somebody replaces, since with what it says the cluster is away, is
// used: the process ends, to be started again. While all is well it goes on.
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
		token string // that is used
		text  string // of the file by now; "" for another kubeconfig
		ends  bool
	}{
		"refused, replaced":          {"canary-token", "", true},
		"refused, half of it so far": {"canary-token", "apiVersion: v1\nkind: Conf", false},
		"there, replaced":            {"good", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f, _, err := parsed("-namespace=kube-system", "-kubeconfig", kubeconfig(t, "", with("good")), "-worker-cluster-kubeconfig", kubeconfig(t, "", with(c.token)))
			if err != nil {
				t.Fatal(err)
			}
			two, err := f.clusters()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []*reached{two.management, two.worker} {
				_ = r.ask(t.Context())
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			go func() { ended <- two.untilReplaced(ctx, time.Millisecond) }()
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
			if err := os.WriteFile(f.workerKubeconfig, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if !c.ends {
				time.Sleep(50 * time.Millisecond)
				cancel()
			}
			err = <-ended
			if c.ends != errors.Is(err, errReplaced) || err != nil && (!strings.Contains(err.Error(), "--worker-cluster-kubeconfig: ") || strings.Contains(err.Error(), "canary")) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// A controller that waits, for its credentials are refused, ends when it is given others.
func TestControllerEndsForAnotherKubeconfig(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	with := func(token string) func(*clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) {
			c.Clusters["c"] = &clientcmdapi.Cluster{Server: server.URL, CertificateAuthorityData: ca}
			c.AuthInfos["c"].Token = token
		}
	}
	f, _, err := parsed("-namespace=kube-system", "-kubeconfig", kubeconfig(t, "", with("canary-token")), "-cache-dir", t.TempDir(),
		"-metrics-address=0", "-health-probe-address=0", "-webhook-address=0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- runController(t.Context(), f) }()
	b, err := os.ReadFile(kubeconfig(t, "", with("another")))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // it has read the first by then
	if err := os.WriteFile(f.kubeconfig, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errReplaced) || strings.Contains(err.Error(), "canary") {
		t.Errorf("it ended with %v", err)
	}
}

// A port that is taken ends the controller with the flag's name.
func TestPortTaken(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	address := server.Listener.Addr().String()
	f, _, err := parsed("-namespace=kube-system", "-metrics-address=0", "-health-probe-address", address)
	if err != nil {
		t.Fatal(err)
	}
	one := &part{}
	servers, err := f.servers(one, one)
	if err != nil || len(servers) != 1 {
		t.Fatalf("%d servers, %v", len(servers), err)
	}
	if err := servers[0](t.Context()); err == nil || !strings.Contains(err.Error(), "--health-probe-address: ") || errors.Is(err, http.ErrServerClosed) {
		t.Errorf("error %v", err)
	}
}
