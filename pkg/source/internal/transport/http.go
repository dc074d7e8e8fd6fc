package transport

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// HTTPOptions has the settings for requests to a host that an object in the cluster names:
// addresses are checked as for Mirrors (security.md 9), the environment has no influence,
// and the only proxy is the given one.
type HTTPOptions struct {
	// Timeout bounds each connection.
	Timeout time.Duration
	// AllowedCIDRs are addresses to connect to although they are loopback, link-local or
	// otherwise rejected.
	AllowedCIDRs []netip.Prefix
	// Proxy is used for every connection; nil for none.
	Proxy *Proxy
}

// Transport returns a new transport; the caller closes its idle connections.
func (w HTTPOptions) Transport(trust *tls.Config) *Transport {
	d := w.dialer()
	return &Transport{dialer: d, http: &http.Transport{
		Proxy:                  w.Proxy.plainHTTP,
		DialContext:            d.DialContext,
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    w.Timeout,
		MaxResponseHeaderBytes: MaxHeaderBytes,
		DisableKeepAlives:      true,
	}}
}

// DialContext connects to a host.
func (w HTTPOptions) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return w.dialer().DialContext(ctx, network, address)
}

func (w HTTPOptions) dialer() *dialer {
	return newDialer(w.Timeout, w.AllowedCIDRs, w.Proxy)
}

// Transport is an http.RoundTripper that checks the addresses it connects to.
type Transport struct {
	dialer *dialer
	http   *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	// Without a tunnel, the proxy resolves the name of a plain http request.
	if t.dialer.proxy != nil {
		if err := t.dialer.checkBehindProxy(net.JoinHostPort(req.URL.Hostname(), req.URL.Port())); err != nil {
			return nil, err
		}
	}
	return t.http.RoundTrip(req)
}

// CloseIdleConnections is called by http.Client.
func (t *Transport) CloseIdleConnections() { t.http.CloseIdleConnections() }
