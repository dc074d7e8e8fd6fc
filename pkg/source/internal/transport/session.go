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
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// Session is one conversation with a server: its references, then perhaps a pack.
type Session struct {
	endpoint Endpoint
	git      uploadPack
	answer   *answer
	wanted   *atomic.Bool // the server asked for a client certificate, and there is none
	Close    func()
}

// uploadPack is git-upload-pack, over http as go-git has it, or over ssh.
type uploadPack interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
}

// Endpoint is a repository on a server, and how to reach it.
type Endpoint struct {
	Location    Location
	Auth        Auth
	Certificate *Certificate // shown to the repository's own host alone
	CA          []byte       // in PEM, instead of the system's; nil for the system's
	Proxy       *Proxy
	Timeout     time.Duration // of each phase
	ByCommit    bool          // a commit is fetched, not what a reference names

	AllowedCIDRs  []netip.Prefix
	AllowInsecure bool
	MaxPackBytes  int64
	// Dir is where a file may be for a moment.
	Dir    string
	Tokens *Tokens
}

// Connect prepares a session; nothing is sent yet but what a GitHub App asks a token
// with. close must be called.
func (e Endpoint) Connect(ctx context.Context) (*Session, error) {
	d := newDialer(e.Timeout, e.AllowedCIDRs, e.Proxy)
	if e.Location.ssh != nil {
		s, err := newShell(e, d)
		if err != nil {
			return nil, err
		}
		return &Session{endpoint: e, git: s, answer: s.answer, wanted: &atomic.Bool{}, Close: s.close}, nil
	}
	g, err := e.newGuard(d)
	if err != nil {
		return nil, err
	}
	s := &Session{endpoint: e, answer: g.answer, wanted: g.wanted, Close: g.close}
	auth, err := e.httpAuth(ctx, s, g)
	if err != nil {
		g.close()
		return nil, err
	}
	port, _ := strconv.Atoi(e.Location.url.Port())
	endpoint := &transport.Endpoint{Protocol: e.Location.url.Scheme, Host: hostOf(e.Location.url), Port: port, Path: e.Location.url.EscapedPath()}
	// go-git follows redirects of the first request only, never from https to http,
	// and drops the credentials where a redirect leaves scheme, host or port.
	if s.git, err = githttp.NewClient(&http.Client{Transport: g}).NewUploadPackSession(endpoint, auth); err != nil {
		g.close()
		return nil, fault.New(fault.ErrInvalid, "the URL cannot be used with these credentials")
	}
	return s, nil
}

// newGuard prepares the way to a server over http.
func (e Endpoint) newGuard(d *dialer) (*guard, error) {
	g := &guard{home: originOf(e.Location.url), dialer: d, insecure: e.AllowInsecure, maxPack: e.MaxPackBytes, answer: &answer{}, wanted: &atomic.Bool{}}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if e.CA != nil {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(e.CA) {
			return nil, fault.New(fault.ErrInvalid, "the CA (ca.crt) holds no certificate in PEM")
		}
	}
	g.elsewhere = &http.Transport{
		// No proxy of the environment: the address checks would then judge the proxy.
		Proxy:                  e.Proxy.plainHTTP,
		DialContext:            d.DialContext,
		TLSClientConfig:        trust,
		DisableCompression:     true, // packs are compressed, and bombs are not unpacked
		MaxResponseHeaderBytes: MaxHeaderBytes,
	}
	g.transport = g.elsewhere.Clone()
	g.transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if e.Certificate == nil {
			g.wanted.Store(true)
			return &tls.Certificate{}, nil
		}
		return &e.Certificate.pair, nil
	}
	return g, nil
}

// httpAuth is what go-git is to put into every request to the repository's host.
func (e Endpoint) httpAuth(ctx context.Context, s *Session, g *guard) (transport.AuthMethod, error) {
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

// hostOf is the host without its port, an IPv6 address in brackets.
func hostOf(u *url.URL) string {
	if host := u.Hostname(); bytes.IndexByte([]byte(host), ':') >= 0 {
		return "[" + host + "]"
	}
	return u.Hostname()
}

// References asks what the server has: git ls-remote, one request.
func (s *Session) References(ctx context.Context) (*packp.AdvRefs, error) {
	ctx, end := beginPhase(ctx, phaseRefs, s.endpoint.Timeout)
	defer end()
	refs, err := s.git.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, s.explain(ctx, phaseRefs, err)
	}
	if len(refs.Shallows) > 0 {
		return nil, fault.New(fault.ErrInvalid, "the repository on the server is a shallow clone, whose history has an end that is none")
	}
	return refs, nil
}

// Pack fetches what leads to wants from haves, and has the pack read as it arrives.
func (s *Session) Pack(ctx context.Context, refs *packp.AdvRefs, wants, haves []plumbing.Hash, read func(io.Reader) error) error {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	if refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return err
		}
	}
	req.Wants, req.Haves = wants, haves
	ctx, end := beginPhase(ctx, fault.PhasePack, s.endpoint.Timeout)
	defer end()
	res, err := s.git.UploadPack(ctx, req)
	if err != nil {
		return s.explain(ctx, fault.PhasePack, err)
	}
	defer res.Close()
	if err := read(demultiplexed(req, res)); err != nil {
		return s.explain(ctx, fault.PhasePack, err)
	}
	return nil
}

// demultiplexed is the pack alone, without the server's progress messages.
func demultiplexed(req *packp.UploadPackRequest, res io.Reader) io.Reader {
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, res)
	case req.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, res)
	}
	return res
}

// explain gives an error of a request its kind, and a text made here: what go-git
// and net/http say may hold parts of the response.
func (s *Session) explain(ctx context.Context, phase string, err error) error {
	var unexpected *plumbing.UnexpectedError // which does not unwrap
	if errors.As(err, &unexpected) {
		err = unexpected.Err
	}
	last := s.answer.seen()
	err = errors.Join(last.broken, err)

	// A dialer compares the clock with the context's deadline itself, so that its error can
	// come before the context ends.
	ended := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && ended == nil && !time.Now().Before(deadline) {
		ended = context.DeadlineExceeded
	}
	var slow *SlowError
	if !errors.As(context.Cause(ctx), &slow) && ended == nil && dialTimedOut(err) {
		slow = &SlowError{Phase: phaseDial, Timeout: s.endpoint.Timeout}
	}
	var ours *fault.Error
	var disk *fs.PathError
	refused, isRefused := RefusedAddress(err)
	switch {
	case slow != nil:
		return fault.New(fault.ErrUnreachable, "%v; raise the timeout if the repository is large", slow)
	case ended != nil:
		return ended
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &disk):
		return fault.Writing(currentPhase(ctx, phase), disk)
	case isRefused:
		return fault.New(fault.ErrInvalid, "%v; allow it with --git-allowed-cidrs if it is meant", refused)
	case last.status >= 300 && last.status < 400:
		return fault.New(fault.ErrInvalid, "the server redirects to %s, which is not followed: use the repository's final URL", last.redirect)
	case last.status >= 400:
		return statusError(last.status)
	}
	if denied := s.explainCertificate(err); denied != nil {
		return denied
	}
	if cause := networkError(err); cause != "" {
		return fault.New(fault.ErrUnreachable, "phase %s: %s", currentPhase(ctx, phase), cause)
	}
	return s.explainAnswer(phase, last.begin, err)
}

// explainCertificate is about a server that wants to know who we are. In TLS 1.3 it
// says so after the handshake, and often hangs up before it is heard.
func (s *Session) explainCertificate(err error) error {
	var op *net.OpError
	alert := errors.As(err, &op) && op.Op == "remote error" // an alert of TLS; its words are those of crypto/tls
	switch {
	case s.wanted.Load() && (alert || networkError(err) != ""):
		return fault.New(fault.ErrAuthentication, "phase TLS: the server wants a client certificate: give tls.crt and tls.key")
	case alert && s.endpoint.Certificate != nil:
		return fault.New(fault.ErrAuthentication, "phase TLS: the server does not accept the client certificate (tls.crt): %v", op.Err)
	}
	return nil
}

// explainAnswer is about a response that arrived and is not what it should be.
func (s *Session) explainAnswer(phase string, begin []byte, err error) error {
	switch {
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return fault.New(fault.ErrNotFound, "the repository is empty; push a first commit")
	case bytes.Contains(begin, []byte("object-format=sha256")):
		return fault.New(fault.ErrUnsupported, "the repository uses SHA-256 object ids; only SHA-1 is supported")
	case bytes.Contains(begin, []byte("not our ref")) && s.endpoint.ByCommit:
		return fault.New(fault.ErrNotFound, "the server does not have this commit, or does not give it out")
	case phase == fault.PhasePack:
		return fault.New(fault.ErrUnreachable, "the server broke off in phase pack; it may have been changing at that moment")
	case phase == phaseToken:
		return fault.New(fault.ErrInvalid, "phase token: what answers there is not GitHub's API; check githubAppBaseURL")
	case s.endpoint.Location.ssh != nil:
		return fault.New(fault.ErrInvalid, "what the server's git-upload-pack answers is no list of references; a login shell that prints something does that, too")
	}
	return fault.New(fault.ErrInvalid, "what answers there is no Git server of the smart http protocol; is the URL that of the repository? A login page answers so, too: check the credentials")
}

// dialTimedOut tells that the dialer gave up, which it does at the same moment as
// the phase ends: it divides its time among the addresses of a host.
func dialTimedOut(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" && op.Timeout()
}

func statusError(status int) error {
	text := fmt.Sprintf("the server answers %d %s", status, http.StatusText(status))
	switch {
	case status == http.StatusProxyAuthRequired:
		return proxyStatus(status, "")
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fault.New(fault.ErrAuthentication, "%s; check user name and password or token, and that they may read the repository", text)
	case status == http.StatusNotFound || status == http.StatusGone:
		return fault.New(fault.ErrNotFound, "%s; check the URL, and the credentials: some servers hide what they must not show", text)
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return fault.New(fault.ErrUnreachable, "%s; it is tried again", text)
	}
	return fault.New(fault.ErrInvalid, "%s; check the URL", text)
}

// networkError words what the network or TLS did, or returns "". Only types whose
// text is made on this side are quoted.
func networkError(err error) string {
	var (
		dns    *net.DNSError
		op     *net.OpError
		cert   *tls.CertificateVerificationError
		record tls.RecordHeaderError
		alert  tls.AlertError
	)
	switch {
	case errors.As(err, &cert):
		return "the server's certificate is not trusted: " + distrust(cert)
	case errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not speak TLS there"
	case errors.As(err, &alert):
		return fmt.Sprintf("TLS: %v", alert)
	case errors.As(err, &dns):
		return fmt.Sprintf("resolving %q: %s", dns.Name, unresolved(dns))
	case errors.As(err, &op):
		again := *op
		again.Source = nil // our port is another each time, and the same cause should read the same
		return again.Error()
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed the connection early"
	}
	return ""
}

// distrust says why a certificate is not trusted. crypto/x509 names the time of an
// expired one by the second of the look, and the same cause should read the same.
func distrust(err *tls.CertificateVerificationError) string {
	var invalid x509.CertificateInvalidError
	if !errors.As(err.Err, &invalid) || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return err.Err.Error()
	}
	return fmt.Sprintf("it is valid from %s to %s", invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
}

// unresolved says why a name has no address. What the resolver's connection met holds
// our port, which is another each time.
func unresolved(err *net.DNSError) string {
	switch {
	case err.IsNotFound:
		return err.Err
	case err.IsTimeout:
		return "the name server does not answer"
	case strings.Contains(err.Err, "->"): // as *net.OpError writes both ends of a connection
		return "the name server cannot be reached"
	}
	return err.Err
}
