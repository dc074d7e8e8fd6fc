package source

import (
	"bufio"
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
	"net/url"
	"os"
	"strconv"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
)

// session is one conversation with a server: its references, then perhaps a pack.
type session struct {
	target target
	git    transport.UploadPackSession
	guard  *guard
}

// connect prepares a session; nothing is sent yet. close must be called.
func (m *Mirrors) connect(t target) (*session, error) {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != nil {
		tlsConfig.RootCAs = x509.NewCertPool()
		if !tlsConfig.RootCAs.AppendCertsFromPEM(t.CA) {
			return nil, fail(ErrInvalid, "the CA holds no certificate in PEM")
		}
	}
	g := &guard{insecure: m.AllowInsecure, maxPackBytes: m.maxPackBytes()}
	g.transport = &http.Transport{
		// No proxy of the environment: the address checks below would then judge the proxy.
		DialContext:            m.dialer(t.Timeout).DialContext,
		TLSClientConfig:        tlsConfig,
		DisableCompression:     true, // packs are compressed, and bombs are not unpacked
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	port, _ := strconv.Atoi(t.url.Port())
	endpoint := &transport.Endpoint{Protocol: t.url.Scheme, Host: hostOf(t.url), Port: port, Path: t.url.EscapedPath()}
	var auth transport.AuthMethod
	if t.Auth != nil {
		auth = &githttp.BasicAuth{Username: t.Auth.Username, Password: t.Auth.Password}
	}
	// go-git follows redirects of the first request only, never from https to http,
	// and drops the credentials where a redirect leaves scheme, host or port.
	git, err := githttp.NewClient(&http.Client{Transport: g}).NewUploadPackSession(endpoint, auth)
	if err != nil {
		return nil, fail(ErrInvalid, "the URL cannot be used with these credentials")
	}
	return &session{target: t, git: git, guard: g}, nil
}

// hostOf is the host without its port, an IPv6 address in brackets.
func hostOf(u *url.URL) string {
	if host := u.Hostname(); bytes.IndexByte([]byte(host), ':') >= 0 {
		return "[" + host + "]"
	}
	return u.Hostname()
}

func (s *session) close() { s.guard.transport.CloseIdleConnections() }

// references asks what the server has: git ls-remote, one request.
func (s *session) references(ctx context.Context) (*packp.AdvRefs, error) {
	ctx, end := beginPhase(ctx, phaseRefs, s.target.Timeout)
	defer end()
	refs, err := s.git.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, s.explain(ctx, phaseRefs, err)
	}
	if len(refs.Shallows) > 0 {
		return nil, fail(ErrInvalid, "the repository on the server is a shallow clone, whose history has an end that is none")
	}
	for name := range refs.References {
		if name != "HEAD" && !validRef(name) {
			return nil, fail(ErrInvalid, "the server has a reference of the name %q, which Git does not allow", shorten(name))
		}
	}
	return refs, nil
}

// pack fetches what leads to wants from haves into a file.
func (s *session) pack(ctx context.Context, refs *packp.AdvRefs, wants, haves []plumbing.Hash, to *os.File) (*packEntries, error) {
	req := packp.NewUploadPackRequestFromCapabilities(refs.Capabilities)
	if refs.Capabilities.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, err
		}
	}
	req.Wants, req.Haves = wants, haves
	ctx, end := beginPhase(ctx, phasePack, s.target.Timeout)
	defer end()
	res, err := s.git.UploadPack(ctx, req)
	if err != nil {
		return nil, s.explain(ctx, phasePack, err)
	}
	defer res.Close()
	body := io.TeeReader(demultiplexed(req, res), to)
	entries, err := scanPack(bufio.NewReaderSize(body, 64<<10))
	if err != nil {
		return nil, s.explain(ctx, phasePack, err)
	}
	return entries, nil
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
func (s *session) explain(ctx context.Context, phase string, err error) error {
	var unexpected *plumbing.UnexpectedError // which does not unwrap
	if errors.As(err, &unexpected) {
		err = unexpected.Err
	}
	last := s.guard.seen()
	err = errors.Join(last.broken, err)

	var slow *slowError
	if !errors.As(context.Cause(ctx), &slow) && dialTimedOut(err) {
		slow = &slowError{phase: phaseDial, timeout: s.target.Timeout}
	}
	var ours *failure
	var disk *fs.PathError
	refused, isRefused := refusedAddress(err)
	switch {
	case slow != nil:
		return fail(ErrUnreachable, "%v; raise the timeout if the repository is large", slow)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &disk):
		return fmt.Errorf("writing the mirror: %w", disk)
	case isRefused:
		return fail(ErrInvalid, "%v; allow it with --git-allowed-cidrs if it is meant", refused)
	case last.status >= 300 && last.status < 400:
		return fail(ErrInvalid, "the server redirects to %s, which is not followed: use the repository's final URL", last.redirect)
	case last.status >= 400:
		return statusError(last.status)
	}
	if cause := networkError(err); cause != "" {
		return fail(ErrUnreachable, "phase %s: %s", phase, cause)
	}
	return s.explainAnswer(phase, last.begin, err)
}

// explainAnswer is about a response that arrived and is not what it should be.
func (s *session) explainAnswer(phase string, begin []byte, err error) error {
	switch {
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return fail(ErrNotFound, "the repository is empty; push a first commit")
	case bytes.Contains(begin, []byte("object-format=sha256")):
		return fail(ErrUnsupported, "the repository uses SHA-256 object ids; only SHA-1 is supported")
	case bytes.Contains(begin, []byte("not our ref")) && s.target.Commit != "":
		return fail(ErrNotFound, "the server does not have this commit, or does not give it out")
	case phase == phasePack:
		return fail(ErrUnreachable, "the server broke off in phase pack; it may have been changing at that moment")
	}
	return fail(ErrInvalid, "what answers there is no Git server of the smart http protocol; is the URL that of the repository? A login page answers so, too: check the credentials")
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
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fail(ErrAuthentication, "%s; check user name and password or token, and that they may read the repository", text)
	case status == http.StatusNotFound || status == http.StatusGone:
		return fail(ErrNotFound, "%s; check the URL, and the credentials: some servers hide what they must not show", text)
	case status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return fail(ErrUnreachable, "%s; it is tried again", text)
	}
	return fail(ErrInvalid, "%s; check the URL", text)
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
		return fmt.Sprintf("the server's certificate is not trusted: %v", cert.Err)
	case errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not speak TLS there"
	case errors.As(err, &alert):
		return fmt.Sprintf("TLS: %v", alert)
	case errors.As(err, &dns):
		return fmt.Sprintf("resolving %q: %s", dns.Name, dns.Err)
	case errors.As(err, &op):
		return op.Error()
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return "the server closed the connection early"
	}
	return ""
}
