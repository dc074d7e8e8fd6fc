package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/dial"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/location"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/phase"
)

// Session is one connection to a server: it lists the references, then possibly fetches a
// pack.
type Session struct {
	endpoint     Endpoint
	git          uploadPack
	lastResponse *responseRecorder
	wanted       *atomic.Bool // the server requested a client certificate, and none is configured
	Close        func()
}

// uploadPack is git-upload-pack, over http by go-git, or over ssh.
type uploadPack interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
}

// Endpoint is a repository on a server, and how to connect to it.
type Endpoint struct {
	Location    location.Location
	Auth        Auth
	Certificate *Certificate // only for the repository's own host
	CA          []byte       // in PEM, replaces the system's; nil for the system's
	Proxy       *dial.Proxy
	Timeout     time.Duration // of each phase
	ByCommit    bool          // fetch a commit instead of a reference

	AllowedCIDRs  []netip.Prefix
	AllowInsecure bool
	MaxPackBytes  int64
	// Dir is a folder for a temporary file.
	Dir    string
	Tokens *Tokens
}

// NewSession prepares a session. Nothing is sent except the token request of a GitHub App.
// The caller must call close.
func (e Endpoint) NewSession(ctx context.Context) (*Session, error) {
	d := dial.NewDialer(e.Timeout, e.AllowedCIDRs, e.Proxy)
	if e.Location.SSH != nil {
		s, err := newSSHTransport(e, d)
		if err != nil {
			return nil, err
		}
		return &Session{endpoint: e, git: s, lastResponse: s.lastResponse, wanted: &atomic.Bool{}, Close: s.close}, nil
	}
	g, err := e.newHTTPTransport(d)
	if err != nil {
		return nil, err
	}
	s := &Session{endpoint: e, lastResponse: g.lastResponse, wanted: g.wanted, Close: g.close}
	auth, err := e.httpAuth(ctx, s, g)
	if err != nil {
		g.close()
		return nil, err
	}
	port, _ := strconv.Atoi(e.Location.HTTP.Port())
	endpoint := &transport.Endpoint{Protocol: e.Location.HTTP.Scheme, Host: bracketedHost(e.Location.HTTP), Port: port, Path: e.Location.HTTP.EscapedPath()}
	// go-git follows redirects of the first request only, never from https to http, and
	// removes the credentials if a redirect changes scheme, host or port.
	if s.git, err = githttp.NewClient(&http.Client{Transport: g}).NewUploadPackSession(endpoint, auth); err != nil {
		g.close()
		return nil, fault.New(fault.ErrInvalid, "the URL cannot be used with these credentials")
	}
	return s, nil
}

// newHTTPTransport prepares requests to a server over http.
func (e Endpoint) newHTTPTransport(d *dial.Dialer) (*httpTransport, error) {
	g := &httpTransport{home: originOf(e.Location.HTTP), dialer: d, insecure: e.AllowInsecure, maxPack: e.MaxPackBytes, lastResponse: &responseRecorder{}, wanted: &atomic.Bool{}}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.CA != nil {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(e.CA) {
			return nil, fault.New(fault.ErrInvalid, "the CA (ca.crt) has no certificate in PEM")
		}
	}
	g.otherHosts = &http.Transport{
		// No proxy of the environment: the address checks would then check the proxy.
		Proxy:                  e.Proxy.PlainHTTPProxyURL,
		DialContext:            d.DialContext,
		TLSClientConfig:        trust,
		DisableCompression:     true, // packs are compressed already, and compression bombs are not unpacked
		MaxResponseHeaderBytes: dial.MaxHeaderBytes,
	}
	g.transport = g.otherHosts.Clone()
	g.transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if e.Certificate == nil {
			g.wanted.Store(true)
			return &tls.Certificate{}, nil
		}
		return &e.Certificate.pair, nil
	}
	return g, nil
}

// httpAuth returns the credentials that go-git adds to every request to the repository's
// host.
func (e Endpoint) httpAuth(ctx context.Context, s *Session, g *httpTransport) (transport.AuthMethod, error) {
	switch auth := e.Auth.(type) {
	case *BasicAuth:
		return &githttp.BasicAuth{Username: auth.Username, Password: auth.Password}, nil
	case *BearerToken:
		return &githttp.TokenAuth{Token: auth.Token}, nil
	case *GitHubApp:
		token, err := e.Tokens.get(ctx, auth, s, g)
		if err != nil {
			return nil, err
		}
		return &githttp.BasicAuth{Username: githubTokenUser, Password: token}, nil
	}
	return nil, nil
}

// bracketedHost returns the host without its port, an IPv6 address in brackets.
func bracketedHost(u *url.URL) string {
	if host := u.Hostname(); bytes.IndexByte([]byte(host), ':') >= 0 {
		return "[" + host + "]"
	}
	return u.Hostname()
}

// References lists the references of the server: git ls-remote, one request.
func (s *Session) References(ctx context.Context) (*packp.AdvRefs, error) {
	ctx, end := phase.Begin(ctx, phase.Refs, s.endpoint.Timeout)
	defer end()
	refs, err := s.git.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, s.classifyError(ctx, phase.Refs, err)
	}
	if len(refs.Shallows) > 0 {
		return nil, fault.New(fault.ErrInvalid, "the repository on the server is a shallow clone, whose history is incomplete: unshallow it")
	}
	return refs, nil
}

// FetchPack fetches the objects that lead to wants from haves; read parses the pack while it
// arrives.
func (s *Session) FetchPack(ctx context.Context, refs *packp.AdvRefs, wants, haves []plumbing.Hash, read func(io.Reader) error) error {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	if refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return err
		}
	}
	req.Wants, req.Haves = wants, haves
	ctx, end := phase.Begin(ctx, fault.PhasePack, s.endpoint.Timeout)
	defer end()
	res, err := s.git.UploadPack(ctx, req)
	if err != nil {
		return s.classifyError(ctx, fault.PhasePack, err)
	}
	defer res.Close()
	if err := read(demultiplexPack(req, res)); err != nil {
		return s.classifyError(ctx, fault.PhasePack, err)
	}
	return nil
}

// demultiplexPack returns the pack without the server's progress messages.
func demultiplexPack(req *packp.UploadPackRequest, res io.Reader) io.Reader {
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, res)
	case req.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, res)
	}
	return res
}

// classifyError returns an error of a class with a text of our own: the texts of go-git and
// net/http can contain parts of the response.
func (s *Session) classifyError(ctx context.Context, request string, err error) error {
	if unexpected, ok := errors.AsType[*plumbing.UnexpectedError](err); ok { // it does not unwrap
		err = unexpected.Err
	}
	last := s.lastResponse.lastRecorded()
	err = errors.Join(last.broken, err)

	// A dialer compares the clock with the context's deadline itself, so its error can
	// arrive before the context ends.
	ended := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && ended == nil && !time.Now().Before(deadline) {
		ended = context.DeadlineExceeded
	}
	var slow *phase.SlowError
	if !errors.As(context.Cause(ctx), &slow) && ended == nil && dialTimedOut(err) {
		slow = &phase.SlowError{Phase: phase.Dial, Timeout: s.endpoint.Timeout}
	}
	var ours *fault.Error
	var disk *fs.PathError
	addressErr, isRejected := dial.AsAddressError(err)
	switch {
	case slow != nil:
		return fault.New(fault.ErrUnreachable, "%v; raise the timeout if the repository is large", slow)
	case ended != nil:
		return ended
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &disk):
		return fault.WrapWriteError(phase.Current(ctx, request), disk)
	case isRejected:
		return fault.New(fault.ErrInvalid, "%v; allow it with --git-allowed-cidrs if this is intended", addressErr)
	case last.status >= 300 && last.status < 400:
		return fault.New(fault.ErrInvalid, "the server redirects to %s, which is not followed: set the repository's final URL", last.redirect)
	case last.status >= 400:
		return statusError(last.status)
	}
	if denied := s.explainClientCertificate(err); denied != nil {
		return denied
	}
	if cause := dial.DescribeError(err); cause != "" {
		return fault.New(fault.ErrUnreachable, "phase %s: %s", phase.Current(ctx, request), cause)
	}
	return s.explainResponse(request, last.begin, err)
}

// explainClientCertificate returns the error for a server that requires a client certificate.
// In TLS 1.3 it reports that after the handshake, and often closes the connection before
// the report arrives.
func (s *Session) explainClientCertificate(err error) error {
	var op *net.OpError
	alert := errors.As(err, &op) && op.Op == "remote error" // an alert of TLS; the text is that of crypto/tls
	switch {
	case s.wanted.Load() && (alert || dial.DescribeError(err) != ""):
		return fault.New(fault.ErrAuthentication, "phase TLS: the server requires a client certificate: set tls.crt and tls.key")
	case alert && s.endpoint.Certificate != nil:
		return fault.New(fault.ErrAuthentication, "phase TLS: the server does not accept the client certificate (tls.crt): %v", op.Err)
	}
	return nil
}

// explainResponse returns the error for a response that arrived but is not as expected.
func (s *Session) explainResponse(request string, begin []byte, err error) error {
	switch {
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return fault.New(fault.ErrNotFound, "the repository is empty; push a first commit")
	case bytes.Contains(begin, []byte("object-format=sha256")):
		return fault.New(fault.ErrUnsupported, "the repository uses SHA-256 object ids; only SHA-1 is supported")
	case bytes.Contains(begin, []byte("not our ref")) && s.endpoint.ByCommit:
		return fault.New(fault.ErrNotFound, "the server does not have this commit, or does not serve it")
	case request == fault.PhasePack:
		return fault.New(fault.ErrUnreachable, "the server stopped in phase pack; the repository was possibly changing: the controller retries")
	case request == phase.Token:
		return fault.New(fault.ErrInvalid, "phase token: the response is not from GitHub's API; check githubAppBaseURL")
	case s.endpoint.Location.SSH != nil:
		return fault.New(fault.ErrInvalid, "the response of the server's git-upload-pack is not a list of references; check whether the login shell prints text")
	}
	return fault.New(fault.ErrInvalid, "the server does not speak Git smart HTTP: check that the URL is that of the repository, and check the credentials, because a login page has the same effect")
}

// dialTimedOut reports whether the dialer gave up, which happens at the same moment as
// the phase ends: it divides its time among the addresses of a host.
func dialTimedOut(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && op.Timeout()
}

func statusError(status int) error {
	text := fmt.Sprintf("the server answers %d %s", status, http.StatusText(status))
	switch {
	case status == http.StatusProxyAuthRequired:
		return dial.ProxyStatusError(status, "")
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fault.New(fault.ErrAuthentication, "%s; check user name and password or token, and that they have read access to the repository", text)
	case status == http.StatusNotFound || status == http.StatusGone:
		return fault.New(fault.ErrNotFound, "%s; check the URL, and the credentials: some servers report a missing repository if access is denied", text)
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return fault.New(fault.ErrUnreachable, "%s; the controller retries", text)
	}
	return fault.New(fault.ErrInvalid, "%s; check the URL", text)
}
