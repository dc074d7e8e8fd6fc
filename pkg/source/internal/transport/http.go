package transport

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Way is how to ask a host that stands in an object of the cluster: addresses are
// judged as Mirrors does (security.md 9), the environment has no say, and a proxy is
// the one that is given.
type Way struct {
	// Timeout bounds each connection.
	Timeout time.Duration
	// AllowedCIDRs are addresses to connect to although they are loopback,
	// link-local or otherwise refused.
	AllowedCIDRs []netip.Prefix
	// Proxy stands in between; nil is none.
	Proxy *Proxy
}

// Transport is a transport of its own; whoever has it closes its idle connections.
func (w Way) Transport(trust *tls.Config) *Transport {
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
func (w Way) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return w.dialer().DialContext(ctx, network, address)
}

func (w Way) dialer() *dialer {
	return newDialer(w.Timeout, w.AllowedCIDRs, w.Proxy)
}

// Transport is an http.RoundTripper that judges where it goes.
type Transport struct {
	dialer *dialer
	http   *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	// Without a tunnel the proxy resolves the name of a plain http request.
	if t.dialer.proxy != nil {
		if err := t.dialer.checkBehindProxy(net.JoinHostPort(req.URL.Hostname(), req.URL.Port())); err != nil {
			return nil, err
		}
	}
	return t.http.RoundTrip(req)
}

// CloseIdleConnections is found by http.Client.
func (t *Transport) CloseIdleConnections() { t.http.CloseIdleConnections() }
