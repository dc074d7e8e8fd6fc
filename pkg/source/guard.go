package source

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// guard stands between go-git and the network: it refuses plain http wherever a
// redirect leads, bounds every body, and keeps bodies of errors from being read
// at all, so that they show up nowhere.
type guard struct {
	transport    *http.Transport
	insecure     bool
	maxPackBytes int64

	mu       sync.Mutex
	status   int    // of the last response
	redirect string // where it leads, fit to be shown
	begin    []byte // of the last body, to recognise what go-git cannot read
	broken   error  // how reading the last body ended, where go-git keeps the text alone
}

const beginBytes = 8 << 10 // 8 KiB: the capabilities stand in the first line

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !g.insecure {
		return nil, fail(ErrInvalid, "the server redirects to plain http, which is not followed")
	}
	g.mu.Lock()
	g.status, g.redirect, g.begin, g.broken = 0, "", nil, nil
	g.mu.Unlock()
	res, err := g.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.status, g.redirect = res.StatusCode, redirectOf(res)
	g.mu.Unlock()
	if res.StatusCode < 200 || res.StatusCode >= 300 {
		res.Body.Close()
		res.Body = http.NoBody
		return res, nil
	}
	body := &boundedBody{ReadCloser: res.Body, guard: g, left: maxRefsBytes, what: "list of references"}
	if !strings.HasSuffix(req.URL.Path, "/info/refs") {
		body.left, body.what = g.maxPackBytes, "pack"
	}
	body.limit = body.left
	res.Body = body
	return res, nil
}

// response is what is known of the last one.
type response struct {
	status   int
	redirect string
	begin    []byte
	broken   error
}

func (g *guard) seen() response {
	g.mu.Lock()
	defer g.mu.Unlock()
	return response{g.status, g.redirect, g.begin, g.broken}
}

// redirectOf is scheme and host of a redirect. The rest may hold a token.
func redirectOf(res *http.Response) string {
	to, err := res.Location()
	if err != nil || to.Host == "" {
		return "nowhere"
	}
	return shorten((&url.URL{Scheme: to.Scheme, Host: to.Host}).String())
}

// boundedBody is a response of limited size.
type boundedBody struct {
	io.ReadCloser
	guard *guard
	what  string
	limit int64
	left  int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		err := fail(ErrInvalid, "the server's %s has more than %d bytes", b.what, b.limit)
		b.guard.note(nil, err)
		return 0, err
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.guard.note(p[:n], err)
	return n, err
}

func (g *guard) note(data []byte, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !errors.Is(err, io.EOF) {
		g.broken = err
	}
	if room := beginBytes - len(g.begin); room > 0 {
		g.begin = append(g.begin, data[:min(len(data), room)]...)
	}
}
