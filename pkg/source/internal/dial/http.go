package dial

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// MaxHeaderBytes limits the header of a response.
const MaxHeaderBytes = 64 << 10 // 64 KiB

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
	return NewTransport(d, &http.Transport{
		Proxy:                  w.Proxy.PlainHTTPProxyURL,
		DialContext:            d.DialContext,
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    w.Timeout,
		MaxResponseHeaderBytes: MaxHeaderBytes,
		DisableKeepAlives:      true,
	})
}

// DialContext connects to a host.
func (w HTTPOptions) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return w.dialer().DialContext(ctx, network, address)
}

func (w HTTPOptions) dialer() *Dialer {
	return NewDialer(w.Timeout, w.AllowedCIDRs, w.Proxy)
}

// Transport is an http.RoundTripper that checks the addresses it connects to.
type Transport struct {
	dialer *Dialer
	http   *http.Transport
}

// NewTransport returns a transport over another one, which dials with d.
func NewTransport(d *Dialer, over *http.Transport) *Transport {
	return &Transport{dialer: d, http: over}
}

// DialTimeout bounds each connection.
func (t *Transport) DialTimeout() time.Duration { return t.dialer.direct.Timeout }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	// Without a tunnel, the proxy resolves the name of a plain http request.
	if err := t.dialer.CheckRequest(req); err != nil {
		return nil, err
	}
	return t.http.RoundTrip(req)
}

// CloseIdleConnections is called by http.Client.
func (t *Transport) CloseIdleConnections() { t.http.CloseIdleConnections() }
