package doctor

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is an examined cluster.
type Cluster struct {
	// Name is "management" or "worker".
	Name string
	// Client reads the cluster with the permissions of the current user.
	Client client.Client

	http    *http.Client
	version string // URL
	seen    apiServerResponse
}

// apiServerResponse is what the response of an API server reveals.
type apiServerResponse struct {
	version string // such as v1.36.3; empty if it does not say
	date    time.Time
	skew    time.Duration // how far it is ahead of this machine, in whole seconds
	chain   []*x509.Certificate
}

// NewCluster prepares a cluster without connecting to it.
func NewCluster(name string, cfg *rest.Config, scheme *runtime.Scheme) (*Cluster, error) {
	cl, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the %s cluster: %w", name, err)
	}
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting to the %s cluster: %w", name, err)
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("the %s cluster: %w", name, err)
	}
	return &Cluster{Name: name, Client: cl, http: hc, version: base.ResolveReference(&url.URL{Path: base.Path + "/version"}).String()}, nil
}

// requestTimeout bounds one request to an API server that may be unreachable.
const requestTimeout = 10 * time.Second

// probeAPIServer checks that the API server answers, and records its clock and certificate. Any answer
// will do unless it rejects the credentials.
func (c *Cluster) probeAPIServer(ctx context.Context, clock func() time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.version, http.NoBody)
	if err != nil {
		return err
	}
	before := clock()
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	after := clock()
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // 64 KiB; to the end, so that the connection is used again
	if res.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("it rejects the credentials of the kubeconfig (401)")
	}
	date, err := http.ParseTime(res.Header.Get("Date"))
	if err != nil {
		return fmt.Errorf("the server sends no Date header, so it is not an API server: status %d", res.StatusCode)
	}
	// The header has whole seconds: compare it with the middle of the request.
	here := before.Add(after.Sub(before) / 2)
	var serverVersion version.Info
	_ = json.Unmarshal(body, &serverVersion) // the check of the version reports that there is none
	c.seen = apiServerResponse{version: serverVersion.GitVersion, date: date, skew: date.Add(time.Second / 2).Sub(here).Round(time.Second)}
	if res.TLS != nil {
		c.seen.chain = res.TLS.PeerCertificates
	}
	return nil
}

// examineReachability queries each cluster and reports those that do not answer.
func (w *examination) examineReachability(ctx context.Context) bool {
	all := true
	for _, c := range w.clusters() {
		if err := c.probeAPIServer(ctx, w.Clock); err != nil {
			w.report(Problem, "api-server", c, "the API server does not answer: "+err.Error(),
				"check address and credentials of the kubeconfig, and the API server itself; all other checks need it")
			all = false
			continue
		}
		w.report(OK, "api-server", c, "the API server answers", "")
	}
	return all
}

// maxSkew is the tolerated difference of two clocks. Certificates are valid from some
// minutes before they are issued; a commit status or a token of a GitHub App tolerates a
// minute.
const maxSkew = 30 * time.Second

// examineClocks compares the clocks of the API servers with each other and with this machine's.
// The check of leases compares the controller's.
func (w *examination) examineClocks() {
	if w.hasWorkerCluster() {
		if d := (w.Worker.seen.skew - w.Management.seen.skew).Abs(); d > maxSkew {
			w.report(Problem, "clocks", nil, fmt.Sprintf("the clocks of both API servers differ by %s", d),
				"set the clocks of the control planes by NTP: tokens and certificates expire early or are not valid yet")
			return
		}
	}
	for _, c := range w.clusters() {
		if c.seen.skew.Abs() > maxSkew {
			side := "ahead of"
			if c.seen.skew < 0 {
				side = "behind"
			}
			w.report(Warning, "clocks", c, fmt.Sprintf("the clock of the API server is %s %s that of this machine", c.seen.skew.Abs(), side),
				"set this machine's clock by NTP, and if that is right, that of the control plane: tokens and certificates expire early or are not valid yet")
			return
		}
	}
	w.report(OK, "clocks", nil, fmt.Sprintf("the clocks of the API server and of this machine differ by less than %s", maxSkew), "")
}
