package faults_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// gate is a proxy between the controller and the API server that counts writes.
type gate struct {
	*httptest.Server
	mu     sync.Mutex
	writes int
	at     int    // the write at which fall is called, 0 for none
	late   bool   // after the API server has done it, and before the controller knows
	fall   func() // takes the controller away
}

func newGate(t *testing.T, config *rest.Config) *gate {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(config.CAData) {
		t.Fatal("the control plane has no CA")
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 100},
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // requests of a controller that was killed
	}
	g := &gate{}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { // net/http/httputil aborts a stream in this way when its reader has disconnected
			if e := recover(); e != nil && !errors.Is(e.(error), http.ErrAbortHandler) {
				panic(e)
			}
		}()
		fall, late := g.count(r)
		if fall != nil && !late {
			fall()
			return
		}
		if fall != nil {
			proxy.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
			fall()
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	g.Config.ErrorLog = log.New(io.Discard, "", 0)
	g.StartTLS()
	t.Cleanup(func() { g.CloseClientConnections(); g.Close() })
	return g
}

// count says whether this request is the one at which the controller falls.
func (g *gate) count(r *http.Request) (fall func(), late bool) {
	switch {
	case r.Method == http.MethodGet || strings.Contains(r.URL.Path, "/events"),
		strings.Contains(r.URL.Path, "/leases"), strings.Contains(r.URL.Path, "/profilesources"):
		return nil, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes++
	if g.at == 0 || g.writes != g.at {
		return nil, false
	}
	return g.fall, g.late
}

// arm lets the controller fall at its n-th write from now on.
func (g *gate) arm(n int, late bool, fall func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes, g.at, g.late, g.fall = 0, n, late, fall
}

// written returns the writes since arm.
func (g *gate) written() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes
}

// disarm returns the writes since arm.
func (g *gate) disarm() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = 0
	return g.writes
}

// ca is the certificate to trust.
func (g *gate) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.Certificate().Raw})
}
