package transport

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/dial"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// httpTransport is the http.RoundTripper of go-git: it rejects redirects to plain http, limits
// the size of every body, and does not return the bodies of errors, so that they appear
// nowhere.
type httpTransport struct {
	home         string          // scheme, host and port of the repository
	transport    *http.Transport // to the repository's own host
	otherHosts   *http.Transport // for redirects to other hosts: it shows no client certificate
	dialer       *dial.Dialer
	insecure     bool
	maxPack      int64
	lastResponse *responseRecorder
	wanted       *atomic.Bool // the server requested a client certificate, and none is configured
}

// RoundTrip implements http.RoundTripper.
func (g *httpTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !g.insecure {
		return nil, fault.New(fault.ErrInvalid, "the server redirects to plain http, which is not followed")
	}
	if err := g.dialer.CheckRequest(req); err != nil {
		return nil, err
	}
	g.lastResponse.reset()
	transport := g.transport
	if originOf(req.URL) != g.home {
		// The client certificate is for the repository's host only.
		transport = g.otherHosts
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	g.lastResponse.recordStatusAndRedirect(res)
	if res.StatusCode < 200 || res.StatusCode >= 300 {
		// The body of an error can have any size, and is not shown.
		res.Body.Close()
		res.Body = http.NoBody
		return res, nil
	}
	body := &boundedBody{ReadCloser: res.Body, lastResponse: g.lastResponse, left: MaxRefsBytes, what: "list of references"}
	if !strings.HasSuffix(req.URL.Path, "/info/refs") {
		body.left, body.what = g.maxPack, "pack"
	}
	body.limit = body.left
	res.Body = body
	return res, nil
}

// close closes the idle connections.
func (g *httpTransport) close() {
	g.transport.CloseIdleConnections()
	g.otherHosts.CloseIdleConnections()
}

// originOf returns the origin that credentials belong to: RFC 6454, section 4.
func originOf(u *url.URL) string {
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), PortOf(u))
}

func PortOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return SchemePort(u.Scheme)
}

// SchemePort returns the default port of a scheme, "" for schemes other than http and
// https.
func SchemePort(scheme string) string {
	return map[string]string{"http": "80", "https": "443"}[scheme]
}

// responseRecorder describes the last response of a server.
type responseRecorder struct {
	mu   sync.Mutex
	last response
}

// response is one response. Over ssh it has no status.
type response struct {
	status   int
	redirect string // where it leads, safe to display
	begin    []byte // of its body, to recognize what go-git cannot parse
	broken   error  // the error of reading the body, because go-git returns only its text
}

const beginBytes = 8 << 10 // 8 KiB: the capabilities are in the first line

func (a *responseRecorder) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = response{}
}

// recordStatusAndRedirect records the status and the redirect of a response.
func (a *responseRecorder) recordStatusAndRedirect(res *http.Response) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last.status, a.last.redirect = res.StatusCode, redirectOrigin(res)
}

func (a *responseRecorder) record(data []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !errors.Is(err, io.EOF) {
		a.last.broken = err
	}
	if free := beginBytes - len(a.last.begin); free > 0 {
		a.last.begin = append(a.last.begin, data[:min(len(data), free)]...)
	}
}

// lastRecorded returns what was recorded of the last response.
func (a *responseRecorder) lastRecorded() response {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// redirectOrigin returns scheme and host of a redirect. The rest can contain a token.
func redirectOrigin(res *http.Response) string {
	to, err := res.Location()
	if err != nil || to.Host == "" {
		return "nowhere"
	}
	return fault.Shorten((&url.URL{Scheme: to.Scheme, Host: to.Host}).String())
}

// boundedBody is a body of limited size.
type boundedBody struct {
	io.ReadCloser
	lastResponse *responseRecorder
	what         string
	limit        int64
	left         int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		err := fault.New(fault.ErrInvalid, "the server's %s has more than %d bytes", b.what, b.limit)
		b.lastResponse.record(nil, err)
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.lastResponse.record(p[:n], err)
	return n, err
}
