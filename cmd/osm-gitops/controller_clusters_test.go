package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Whether a cluster is there is known from what its API server answers to whatever
// is asked, and said without any credential.
func TestReached(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusInternalServerError)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer server.Close()
	r, err := reach("worker cluster", &rest.Config{Host: server.URL, BearerToken: "canary-token"})
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
	r, err := reach("cluster", &rest.Config{Host: server.URL})
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
