package dial

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"golang.org/x/net/proxy"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/phase"
)

// ProxySecret has the input of a Proxy. The comments are the keys in the Secrets of Flux.
type ProxySecret struct {
	Address  string // "address": http://host:port, https://host:port or socks5://host:port
	Username string // "username"; can be empty
	Password string // "password"
	CA       []byte // "ca.crt": certificates in PEM that an https proxy is checked with, instead of the system's; can be empty
}

// Proxy is a proxy for connections to a repository's server. It is created by ParseProxy.
type Proxy struct {
	scheme             string         // http, https or socks5
	host               string         // with the port
	username, password string         // empty for none
	roots              *x509.CertPool // nil for the system's
}

// String omits the password, so that it is not logged.
func (p Proxy) String() string { return p.scheme + " proxy at " + p.host }

// GoString omits the password, so that it is not logged.
func (p Proxy) GoString() string { return "source.Proxy{...}" }

// maxSOCKS5Credential is the maximum length of a field in SOCKS5 (RFC 1929, section 2).
const maxSOCKS5Credential = 255 // bytes

// ParseProxy validates the settings of a proxy. Its errors are ErrInvalid, begin with the
// name of the invalid input, and never contain its content.
func ParseProxy(s ProxySecret) (*Proxy, error) {
	u, err := url.Parse(s.Address)
	if err != nil {
		return nil, fault.New(fault.ErrInvalid, "address is not a URL; write it as http://host:port, https://host:port or socks5://host:port")
	}
	p := &Proxy{scheme: u.Scheme, username: s.Username, password: s.Password}
	port := map[string]string{"http": "80", "https": "443", "socks5": "1080"}[u.Scheme]
	if u.Port() != "" {
		port = u.Port()
	}
	p.host = net.JoinHostPort(u.Hostname(), port)
	switch {
	case u.User != nil:
		return nil, fault.New(fault.ErrInvalid, "address contains a user or a password: move them to username and password")
	case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "socks5":
		return nil, fault.New(fault.ErrInvalid, "address must be http://host:port, https://host:port or socks5://host:port")
	case !IsHost(u.Hostname()):
		return nil, fault.New(fault.ErrInvalid, "address names no host")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(s.Address, "#"):
		return nil, fault.New(fault.ErrInvalid, "address has a path, a query or a fragment: write only host and port")
	case s.Username == "" && s.Password != "":
		return nil, fault.New(fault.ErrInvalid, "username is missing, but password is set")
	case u.Scheme == "socks5" && s.Username != "" && s.Password == "":
		return nil, fault.New(fault.ErrInvalid, "password is missing, which socks5 requires with a username")
	case u.Scheme == "socks5" && max(len(s.Username), len(s.Password)) > maxSOCKS5Credential:
		return nil, fault.New(fault.ErrInvalid, "username or password has more than %d bytes, the limit of socks5", maxSOCKS5Credential)
	case u.Scheme != "https" && len(s.CA) > 0:
		return nil, fault.New(fault.ErrInvalid, "ca.crt is set, but only an https proxy has a certificate: remove it")
	}
	if len(s.CA) > 0 {
		p.roots = x509.NewCertPool()
		if !p.roots.AppendCertsFromPEM(s.CA) {
			return nil, fault.New(fault.ErrInvalid, "ca.crt has no certificate in PEM")
		}
	}
	return p, nil
}

// PlainHTTPProxyURL returns the proxy's address for a request in plain http, which an http proxy
// forwards; nil if a connection is needed.
func (p *Proxy) PlainHTTPProxyURL(req *http.Request) (*url.URL, error) {
	if p == nil || p.scheme == "socks5" || req.URL.Scheme != "http" {
		return nil, nil
	}
	// connect decides whether the connection to the proxy is encrypted.
	to := &url.URL{Scheme: "http", Host: p.host}
	if p.username != "" {
		to.User = url.UserPassword(p.username, p.password)
	}
	return to, nil
}

// connect connects to the proxy itself.
func (p *Proxy) connect(ctx context.Context, direct *net.Dialer) (net.Conn, error) {
	phase.Enter(ctx, phase.Dial)
	conn, err := direct.DialContext(ctx, "tcp", p.host)
	if err != nil || p.scheme != "https" {
		return conn, err
	}
	phase.Enter(ctx, phase.Proxy)
	name, _, _ := net.SplitHostPort(p.host)
	secure := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name, RootCAs: p.roots})
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			return nil, fault.New(fault.ErrUnreachable, "phase proxy: the proxy's certificate is not trusted: %v; add the CA that signed it to ca.crt in the proxy's Secret", untrusted.Err)
		}
		return nil, fault.New(fault.ErrUnreachable, "phase proxy: the TLS handshake with the proxy failed: %s", DescribeError(err))
	}
	return secure, nil
}

// dial makes the proxy connect to a host, which the proxy resolves.
func (p *Proxy) dial(ctx context.Context, direct *net.Dialer, address string) (net.Conn, error) {
	if p.scheme == "socks5" {
		return p.dialSOCKS(ctx, direct, address)
	}
	conn, err := p.connect(ctx, direct)
	if err != nil {
		return nil, err
	}
	phase.Enter(ctx, phase.Proxy)
	// The exchange with the proxy has no context: closing the connection ends it.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = p.tunnel(conn, address)
	// The context ended after the exchange, so the connection is closed.
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return conn, nil
}

// tunnel requests a connection: RFC 9110, section 9.3.6.
func (p *Proxy) tunnel(conn net.Conn, address string) error {
	request := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if p.username != "" {
		request += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(p.username+":"+p.password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, request+"\r\n"); err != nil {
		return proxyBroke(err)
	}
	// Read byte by byte: what follows the header comes from the target host.
	var header []byte
	for one := make([]byte, 1); !bytes.HasSuffix(header, []byte("\r\n\r\n")); {
		if len(header) >= MaxHeaderBytes {
			return fault.New(fault.ErrInvalid, "phase proxy: the proxy's answer has more than %d bytes", MaxHeaderBytes)
		}
		if _, err := io.ReadFull(conn, one); err != nil {
			return proxyBroke(err)
		}
		header = append(header, one[0])
	}
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(header)), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fault.New(fault.ErrInvalid, "phase proxy: the response is not from an http proxy; check the address of the proxy")
	}
	res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return nil
	}
	return ProxyStatusError(res.StatusCode, address)
}

// proxyBroke returns the error for an incomplete response of a proxy.
func proxyBroke(err error) error {
	return fault.New(fault.ErrUnreachable, "phase proxy: requesting a connection from the proxy: %s", DescribeError(err))
}

// ProxyStatusError returns the error for a response of a proxy other than success.
func ProxyStatusError(status int, address string) error {
	text := fmt.Sprintf("phase proxy: the proxy answers %d %s", status, http.StatusText(status))
	switch {
	case status == http.StatusProxyAuthRequired:
		return fault.New(fault.ErrAuthentication, "%s; check username and password in the proxy's Secret", text)
	case status >= 500:
		return fault.New(fault.ErrUnreachable, "%s; the proxy cannot connect to %s, or cannot resolve its name", text, address)
	}
	return fault.New(fault.ErrInvalid, "%s; ask the owner of the proxy to allow CONNECT to %s", text, address)
}

func (p *Proxy) dialSOCKS(ctx context.Context, direct *net.Dialer, address string) (net.Conn, error) {
	var auth *proxy.Auth
	if p.username != "" {
		auth = &proxy.Auth{User: p.username, Password: p.password}
	}
	socks, err := proxy.SOCKS5("tcp", p.host, auth, socksServerDialer{p, direct})
	if err != nil {
		return nil, fault.New(fault.ErrInvalid, "the proxy's address cannot be used")
	}
	conn, err := socks.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
	if err == nil {
		return conn, nil
	}
	var op *net.OpError
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if _, isRejected := AsAddressError(err); isRejected || !errors.As(err, &op) || !strings.HasPrefix(op.Op, "socks") {
		return nil, err
	}
	if dial, ok := errors.AsType[*net.OpError](op.Err); ok && dial.Op == "dial" {
		return nil, dial // the proxy itself does not answer
	}
	// The texts are those of x/net v0.57.0, internal/socks. They contain only numbers
	// from the proxy.
	cause := op.Err.Error()
	if known := DescribeError(op.Err); known != "" {
		cause = known
	}
	if strings.Contains(cause, "authentication") {
		return nil, fault.New(fault.ErrAuthentication, "phase proxy: the proxy reports: %s; check username and password in the proxy's Secret", cause)
	}
	return nil, fault.New(fault.ErrUnreachable, "phase proxy: the proxy reports: %s; the proxy cannot connect to %s, or cannot resolve its name", cause, address)
}

// socksServerDialer connects x/net's SOCKS client to its proxy.
type socksServerDialer struct {
	proxy  *Proxy
	direct *net.Dialer
}

// Dial implements proxy.Dialer; the client uses DialContext.
func (s socksServerDialer) Dial(network, address string) (net.Conn, error) {
	return nil, fault.New(fault.ErrUnsupported, "dialing %s %s without a context", network, address)
}

// DialContext implements proxy.ContextDialer.
func (s socksServerDialer) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := s.proxy.connect(ctx, s.direct)
	if err == nil {
		phase.Enter(ctx, phase.Proxy)
	}
	return conn, err
}

// hostName is a host's name, without characters that have a meaning for a shell or git.
var hostName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// IsHost reports whether host is a name or an IP address without a zone, which names an
// interface.
func IsHost(host string) bool {
	addr, err := netip.ParseAddr(host)
	return hostName.MatchString(host) || err == nil && addr.Zone() == ""
}
