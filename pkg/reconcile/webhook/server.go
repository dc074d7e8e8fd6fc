package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/osm-gitops/osm-gitops/pkg/listen"
)

// Paths. All except the second are those of operating-system-manager.
const (
	PathDefault  = "/mutate-v1alpha1-machinedeployment"
	PathValidate = "/validate-v1alpha1-machinedeployment"
	PathProfile  = "/operatingsystemprofile"
	PathConfig   = "/operatingsystemconfig"
)

// Every client that can connect gets an answer, unless client certificates are required
// and the API server is configured to present one. These limits bound the cost; an API
// server ignores a webhook that does not answer.
const (
	// maxReviews is the number of concurrent reviews, and of concurrently read large
	// ones. Each can have maxReview bytes:
	// https://github.com/kubernetes-sigs/controller-runtime/blob/v0.24.1/pkg/webhook/admission/http.go
	maxReviews = 16
	maxReview  = 7 << 20
	// slotTime is how long a request waits for a slot, readTime how long it can take to
	// arrive. The API server gives up after five seconds (deploy/webhook.yaml).
	slotTime = 2 * time.Second
	readTime = 5 * time.Second
	idleTime = 90 * time.Second // as in http.DefaultTransport
	stopTime = 10 * time.Second
)

func newServer(o Options, h Handlers, get getCertificate) (webhook.Server, error) {
	host, port, err := SplitAddress(o.Address)
	if err != nil {
		return nil, err
	}
	callers, err := readClientCAs(o.ClientCAFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"}, // one request at a time on a connection
		GetCertificate: get,
	}
	if callers != nil {
		config.ClientCAs, config.ClientAuth = callers, tls.RequireAndVerifyClientCert
	}
	server := &boundedServer{
		Server:  webhook.NewServer(webhook.Options{WebhookMux: http.NewServeMux()}),
		address: net.JoinHostPort(host, strconv.Itoa(port)), tls: config,
	}
	slots, bodies := semaphore.NewWeighted(maxReviews), listen.NewLargeBodyLimiter(maxReviews)
	for path, handle := range map[string]admission.HandlerFunc{
		PathDefault:  h.completePool,
		PathValidate: h.validatePool,
		PathProfile:  h.validateProfile,
		PathConfig:   h.validateConfigUnchanged,
	} {
		server.Register(path, boundedHandler{next: &admission.Webhook{Handler: handle}, slots: slots, bodies: bodies, wait: slotTime, read: readTime})
	}
	return server, nil
}

// boundedServer is controller-runtime's server, which opens its port itself, with a limit
// on connections.
type boundedServer struct {
	webhook.Server
	address string
	tls     *tls.Config
}

// Start serves until ctx ends.
func (s *boundedServer) Start(ctx context.Context) error {
	listener, err := listen.Listen(ctx, s.address)
	if err != nil {
		return fmt.Errorf("listening for admission reviews: %w", err)
	}
	server := &http.Server{
		Handler: s.WebhookMux(), BaseContext: func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: readTime, IdleTimeout: idleTime,
	}
	if err := listen.Serve(ctx, server, tls.NewListener(listener, s.tls), stopTime); err != nil {
		return fmt.Errorf("serving admission reviews: %w", err)
	}
	return nil
}

// boundedHandler limits the number of concurrent requests. A request must arrive completely,
// within a time limit, before it waits for a slot.
type boundedHandler struct {
	next       http.Handler
	slots      *semaphore.Weighted
	bodies     *listen.LargeBodyLimiter
	wait, read time.Duration
}

func (b boundedHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The server sets a new deadline for the next request.
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(b.read)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	// The body is read before a slot is taken, because its sender can be slow.
	body, err := b.bodies.Read(w, r, maxReview)
	switch {
	case listen.IsTooLarge(err):
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	waitCtx, cancel := context.WithTimeout(r.Context(), b.wait)
	defer cancel()
	if b.slots.Acquire(waitCtx, 1) != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer b.slots.Release(1)
	b.next.ServeHTTP(w, r)
}

// SplitAddress splits a listen address.
func SplitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("invalid address %q: write host:port, or :port for every address of this machine", address)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("%q has no port between 1 and 65535", address)
	}
	return host, port, nil
}

func readClientCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("reading the client CA of the webhooks: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, errors.New("reading the client CA of the webhooks: " + file + " has no certificate in PEM")
	}
	return pool, nil
}
