package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/listen"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/webhook/pki"
	"github.com/osm-gitops/osm-gitops/test/slow"
)

// A client that sends more reviews than the limit gets an error, and the server does not
// wait for a client that does not send its request (security.md 22).
func TestBounded(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	one := boundedHandler{slots: semaphore.NewWeighted(1), bodies: listen.NewLargeBodyLimiter(1), wait: time.Millisecond, read: 50 * time.Millisecond, next: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if r.URL.Path == "/held" {
			close(begun)
			<-end
		}
	})}
	served := webhook.NewServer(webhook.Options{WebhookMux: http.NewServeMux()})
	served.Register("/", one) // as newServer does
	server := httptest.NewServer(served.WebhookMux())
	defer server.Close()
	post := func(path string, body io.Reader) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+path, body)
		if err != nil {
			t.Error(err)
			return 0
		}
		res, err := server.Client().Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	first := make(chan int)
	go func() { first <- post("/held", strings.NewReader("{}")) }()
	<-begun
	if got := post("/", strings.NewReader("{}")); got != http.StatusServiceUnavailable {
		t.Errorf("one too many is answered %d", got)
	}
	close(end)
	if got := <-first; got != http.StatusOK {
		t.Errorf("the first is answered %d", got)
	}
	unsent, never := io.Pipe()
	defer never.Close()
	if got := post("/", unsent); got != http.StatusBadRequest {
		t.Errorf("one that does not arrive is answered %d", got)
	}
	if got := post("/", strings.NewReader("{}")); got != http.StatusOK {
		t.Errorf("the next is answered %d", got)
	}
}

// Metrics report when the serving certificate expires, whether it was created here or by
// another program.
func TestEndIsTold(t *testing.T) {
	made, _, err := pki.Credentials{}.RenewIfDue([]string{"osm-gitops-webhook.kube-system.svc", "127.0.0.1"}, time.Now())
	do(t, err)
	dir := t.TempDir()
	data, err := made.EncodeSecretData()
	do(t, err)
	for _, name := range []string{"tls.crt", "tls.key"} {
		do(t, os.WriteFile(filepath.Join(dir, name), data[name], 0o600))
	}
	for what, certDir := range map[string]string{"made here": "", "made by others": dir} {
		t.Run(what, func(t *testing.T) {
			s, told := newSite(t), metrics.New()
			s.start(func(o *Options, _ *Handlers) { o.Metrics, o.CertDir = told, certDir })
			registry := prometheus.NewRegistry()
			do(t, registry.Register(told))
			eventually(t, "the metric", func() error {
				families, err := registry.Gather()
				if err != nil {
					return err
				}
				for _, f := range families {
					if f.GetName() == "osm_gitops_webhook_certificate_expiry_timestamp_seconds" {
						if left := time.Until(time.Unix(int64(f.GetMetric()[0].GetGauge().GetValue()), 0)); left < 89*24*time.Hour || left > 91*24*time.Hour {
							return fmt.Errorf("it says %s", left)
						}
						return nil
					}
				}
				return errors.New("it is not told")
			})
		})
	}
}

// held is busy with every pool.
type held struct{ begun, end chan struct{} }

func (h held) CheckRequestedProfile(context.Context, *machines.MachineDeployment) (bool, error) {
	h.begun <- struct{}{}
	<-h.end
	return false, errors.New("held")
}

// All webhooks of a server share what it does at a time.
func TestServerIsBounded(t *testing.T) {
	h := held{make(chan struct{}), make(chan struct{})}
	server, err := newServer(Options{Address: "127.0.0.1:1"}, Handlers{Pools: h}, nil)
	do(t, err)
	post := func(ctx context.Context, path string) int {
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE","object":{"metadata":{"annotations":{"k8c.io/operating-system-profile":"x"}}}}}`))
		req.Header.Set("Content-Type", "application/json")
		res := httptest.NewRecorder()
		server.WebhookMux().ServeHTTP(res, req)
		return res.Code
	}
	done := make(chan error)
	for range maxReviews {
		go func() {
			var err error
			if code := post(context.WithoutCancel(t.Context()), PathValidate); code != http.StatusOK {
				err = fmt.Errorf("answered %d", code)
			}
			done <- err
		}()
		<-h.begun
	}
	if code := post(t.Context(), PathConfig); code != http.StatusServiceUnavailable {
		t.Errorf("one too many is answered %d", code)
	}
	close(h.end)
	for range maxReviews {
		do(t, <-done)
	}
	if code := post(t.Context(), PathConfig); code != http.StatusOK {
		t.Errorf("afterwards one is answered %d", code)
	}
}

// Clients that send no review do not block the API server (security.md 41).
func TestSlowPeers(t *testing.T) {
	s := newSite(t)
	r := s.start()
	insecure := &tls.Config{InsecureSkipVerify: true}
	client := slow.Client(insecure)
	post := func() (int, error) {
		res, err := client.Post("https://"+r.address+PathValidate, "application/json", strings.NewReader(
			`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"DELETE"}}`))
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	eventually(t, "the server", func() error { _, err := post(); return err })
	slow.Post(t, 200, r.address, insecure, PathValidate)
	slow.OpenSlowConnections(t, 600, r.address, insecure, PathValidate)
	if got, err := post(); err != nil || got != http.StatusOK {
		t.Errorf("answered %d, %v", got, err)
	}
}
