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

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// guard stands between go-git and the network: it refuses plain http wherever a
// redirect leads, bounds every body, and keeps bodies of errors from being read
// at all, so that they show up nowhere.
type guard struct {
	home      string          // scheme, host and port of the repository
	transport *http.Transport // to the repository's own host
	elsewhere *http.Transport // where a redirect leads: it shows no client certificate
	dialer    *dialer
	insecure  bool
	maxPack   int64
	answer    *answer
	wanted    *atomic.Bool // a server asked for a client certificate, and there is none
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !g.insecure {
		return nil, fault.New(fault.ErrInvalid, "the server redirects to plain http, which is not followed")
	}
	if g.dialer.proxy != nil {
		if err := g.dialer.checkBehindProxy(net.JoinHostPort(req.URL.Hostname(), req.URL.Port())); err != nil {
			return nil, err
		}
	}
	g.answer.reset()
	transport := g.transport
	if originOf(req.URL) != g.home {
		transport = g.elsewhere
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	g.answer.head(res)
	if res.StatusCode < 200 || res.StatusCode >= 300 {
		res.Body.Close()
		res.Body = http.NoBody
		return res, nil
	}
	body := &boundedBody{ReadCloser: res.Body, answer: g.answer, left: MaxRefsBytes, what: "list of references"}
	if !strings.HasSuffix(req.URL.Path, "/info/refs") {
		body.left, body.what = g.maxPack, "pack"
	}
	body.limit = body.left
	res.Body = body
	return res, nil
}

// close gives up the connections that are kept for another request.
func (g *guard) close() {
	g.transport.CloseIdleConnections()
	g.elsewhere.CloseIdleConnections()
}

// originOf is what credentials belong to: RFC 6454, section 4.
func originOf(u *url.URL) string {
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), PortOf(u))
}

func PortOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return SchemePort(u.Scheme)
}

// SchemePort is the port of a URL that has none, "" of a scheme other than http and https.
func SchemePort(scheme string) string {
	return map[string]string{"http": "80", "https": "443"}[scheme]
}

// answer is what is known of a server's last answer.
type answer struct {
	mu   sync.Mutex
	last response
}

// response is an answer. Over ssh it has no status.
type response struct {
	status   int
	redirect string // where it leads, fit to be shown
	begin    []byte // of its body, to recognise what go-git cannot read
	broken   error  // how reading the body ended, where go-git keeps the text alone
}

const beginBytes = 8 << 10 // 8 KiB: the capabilities stand in the first line

func (a *answer) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = response{}
}

func (a *answer) head(res *http.Response) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last.status, a.last.redirect = res.StatusCode, redirectOf(res)
}

func (a *answer) note(data []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !errors.Is(err, io.EOF) {
		a.last.broken = err
	}
	if room := beginBytes - len(a.last.begin); room > 0 {
		a.last.begin = append(a.last.begin, data[:min(len(data), room)]...)
	}
}

func (a *answer) seen() response {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// redirectOf is scheme and host of a redirect. The rest may hold a token.
func redirectOf(res *http.Response) string {
	to, err := res.Location()
	if err != nil || to.Host == "" {
		return "nowhere"
	}
	return fault.Shorten((&url.URL{Scheme: to.Scheme, Host: to.Host}).String())
}

// boundedBody is a response of limited size.
type boundedBody struct {
	io.ReadCloser
	answer *answer
	what   string
	limit  int64
	left   int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		err := fault.New(fault.ErrInvalid, "the server's %s has more than %d bytes", b.what, b.limit)
		b.answer.note(nil, err)
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.answer.note(p[:n], err)
	return n, err
}
