package admission

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Paths. All but the second are the contract's (section 10).
const (
	PathDefault  = "/mutate-v1alpha1-machinedeployment"
	PathValidate = "/validate-v1alpha1-machinedeployment"
	PathProfile  = "/operatingsystemprofile"
	PathConfig   = "/operatingsystemconfig"
)

// Whoever reaches the port is answered, unless the API server has a certificate to show
// and is told to. What that may cost is bounded; an API server passes over a webhook that
// does not answer.
const (
	// maxReviews are read and answered at a time; each may have 7 MiB:
	// https://github.com/kubernetes-sigs/controller-runtime/blob/v0.24.1/pkg/webhook/admission/http.go
	maxReviews = 16
	// slotTime is how long others wait for their turn, readTime how long one may take to
	// arrive. The API server gives up after five seconds (deploy/webhook.yaml).
	slotTime = 2 * time.Second
	readTime = 5 * time.Second
)

// newServer returns the server of the webhooks.
func newServer(o Options, h Handlers, get getCertificate) (webhook.Server, error) {
	host, port, err := SplitAddress(o.Address)
	if err != nil {
		return nil, err
	}
	callers, err := readCallers(o.ClientCAFile)
	if err != nil {
		return nil, err
	}
	server := webhook.NewServer(webhook.Options{
		Host: host, Port: port, WebhookMux: http.NewServeMux(),
		TLSOpts: []func(*tls.Config){func(c *tls.Config) {
			c.MinVersion = tls.VersionTLS12
			c.NextProtos = []string{"http/1.1"} // one request at a time on a connection
			c.GetCertificate = get
			if callers != nil {
				c.ClientCAs, c.ClientAuth = callers, tls.RequireAndVerifyClientCert
			}
		}},
	})
	slots := make(chan struct{}, maxReviews)
	for path, handle := range map[string]admission.HandlerFunc{
		PathDefault:  h.defaultProfile,
		PathValidate: h.validatePool,
		PathProfile:  h.validateProfile,
		PathConfig:   h.validateConfig,
	} {
		server.Register(path, bounded{next: &admission.Webhook{Handler: handle}, slots: slots, wait: slotTime, read: readTime})
	}
	return server, nil
}

// bounded answers a few requests at a time, each of which has to arrive within a time.
type bounded struct {
	next       http.Handler
	slots      chan struct{}
	wait, read time.Duration
}

func (b bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	turn := time.NewTimer(b.wait)
	defer turn.Stop()
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-turn.C:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case <-r.Context().Done():
		return
	}
	// The server sets another deadline for the next request.
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(b.read)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b.next.ServeHTTP(w, r)
}

// SplitAddress takes an address to listen at apart.
func SplitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("%q is no address: write host:port, or :port for every address of this machine", address)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("%q has no port between 1 and 65535", address)
	}
	return host, port, nil
}

func readCallers(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, fmt.Errorf("reading the CA of whoever may call the webhooks: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, errors.New("reading the CA of whoever may call the webhooks: " + file + " holds no certificate in PEM")
	}
	return pool, nil
}
