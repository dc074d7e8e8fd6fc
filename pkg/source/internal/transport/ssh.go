package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/dial"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/location"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/phase"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/sshkey"
)

// sshTransport runs git-upload-pack on a server over ssh. go-git's implementation is not used
// because it reads ~/.ssh/config, ssh-agent and the known hosts of the current user. It
// dials as http does, and its responses have the same limits.
type sshTransport struct {
	address      *location.SSHAddress
	key          *sshkey.Key
	hosts        *sshkey.HostKeys
	dialer       *dial.Dialer
	lastResponse *responseRecorder
	maxPack      int64

	conn   net.Conn
	client *ssh.Client
	remote *ssh.Session
	stdin  io.WriteCloser
	stdout io.Reader
	stderr firstBytes
	packed bool // a pack was requested
}

// newSSHTransport prepares git-upload-pack; nothing is sent yet.
func newSSHTransport(e Endpoint, d *dial.Dialer) (*sshTransport, error) {
	key, ok := e.Auth.(*sshkey.Key)
	if !ok {
		return nil, fault.New(fault.ErrInvalid, "a private key is required: set identity")
	}
	hosts, err := key.HostKeys(e.Dir, e.Location.SSH.Host)
	if err != nil {
		return nil, err
	}
	return &sshTransport{address: e.Location.SSH, key: key, hosts: hosts, dialer: d, lastResponse: &responseRecorder{}, maxPack: e.MaxPackBytes}, nil
}

// AdvertisedReferencesContext connects, starts the program and reads its references.
func (s *sshTransport) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	stop := s.closeWith(ctx)
	defer stop()
	if err := s.startUploadPack(); err != nil {
		return nil, err
	}
	phase.Enter(ctx, phase.Refs)
	refs := packp.NewAdvRefs()
	err := refs.Decode(&boundedBody{ReadCloser: io.NopCloser(s.stdout), lastResponse: s.lastResponse, left: MaxRefsBytes, limit: MaxRefsBytes, what: "list of references"})
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs) || err == nil && refs.IsEmpty():
		return nil, transport.ErrEmptyRemoteRepository
	case err != nil:
		return nil, s.classifyRefsError(err)
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	return refs, nil
}

// connect opens the TCP connection and does the handshake of SSH, in which the server proves its
// identity before it gets our user name and key.
func (s *sshTransport) connect(ctx context.Context) error {
	conn, err := s.dialer.DialContext(ctx, "tcp", s.address.Host)
	if err != nil {
		return err
	}
	s.conn = conn
	stop := s.closeWith(ctx)
	defer stop()
	phase.Enter(ctx, phase.Handshake)
	c, channels, requests, err := ssh.NewClientConn(conn, s.address.Host, &ssh.ClientConfig{
		User:              s.address.User,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(s.key.Signer())},
		HostKeyCallback:   s.hosts.Check,
		HostKeyAlgorithms: s.hosts.Algorithms(),
	})
	if err != nil {
		return s.explainHandshake(err)
	}
	s.client = ssh.NewClient(c, channels, requests)
	return nil
}

func (s *sshTransport) explainHandshake(err error) error {
	var common *ssh.AlgorithmNegotiationError
	switch {
	case s.hosts.Err != nil:
		return s.hosts.Err
	case errors.As(err, &common) && !s.hosts.Seen && common.What == "host key":
		return s.hosts.NoCommonKeyError(common.RequestedAlgorithms)
	case errors.As(err, &common):
		return fault.New(fault.ErrUnsupported, "phase handshake: the server supports no secure %s; it supports %s", common.What, fault.EscapeUnprintable(fault.Shorten(strings.Join(common.RequestedAlgorithms, ", "))))
	case dial.DescribeError(err) != "":
		return err
	case s.hosts.Seen:
		return fault.New(fault.ErrAuthentication, "phase handshake: the server does not accept the key %s %s (identity) for the user %q; add its public key on the server, with read access to the repository",
			s.key.Signer().PublicKey().Type(), ssh.FingerprintSHA256(s.key.Signer().PublicKey()), s.address.User)
	}
	return fault.New(fault.ErrInvalid, "phase handshake: the server does not speak ssh; check the port")
}

// startUploadPack runs git-upload-pack on the server.
func (s *sshTransport) startUploadPack() error {
	remote, err := s.client.NewSession()
	if err != nil {
		return s.commandError(err)
	}
	s.remote = remote
	if s.stdin, err = remote.StdinPipe(); err != nil {
		return err
	}
	if s.stdout, err = remote.StdoutPipe(); err != nil {
		return err
	}
	remote.Stderr = &s.stderr
	// The path has no single quote: parseSSH rejects it.
	if err := remote.Start("git-upload-pack '" + s.address.Path + "'"); err != nil {
		return s.commandError(err)
	}
	return nil
}

func (s *sshTransport) commandError(err error) error {
	if dial.DescribeError(err) != "" {
		return err
	}
	return fault.New(fault.ErrAuthentication, "phase handshake: the server accepts the key, but does not run git-upload-pack; check that the key has read access to the repository")
}

// classifyRefsError returns the error for a response that is not a list of references.
func (s *sshTransport) classifyRefsError(err error) error {
	var line *pktline.ErrorLine
	var output []byte
	switch {
	case errors.As(err, &line): // a line that begins with ERR
		output = []byte(line.Text)
	case errors.Is(err, packp.ErrEmptyInput) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		_ = s.remote.Wait() // reads the rest of the output; a deadline closes the connection
		output = s.stderr.bytes()
	default:
		return err
	}
	// The output is not shown, but it identifies the kind of error for git, GitHub and
	// GitLab, in this order.
	output = bytes.ToLower(output)
	for _, gone := range []string{"does not appear to be a git repository", "not found", "could not be found", "no such file"} {
		if bytes.Contains(output, []byte(gone)) {
			return fault.New(fault.ErrNotFound, "the server reports that the repository does not exist; check the path, and that the key has read access: some servers report a missing repository if access is denied")
		}
	}
	for _, denied := range []string{"denied", "not allowed", "unauthorized", "forbidden"} {
		if bytes.Contains(output, []byte(denied)) {
			return fault.New(fault.ErrAuthentication, "the server reports that this key has no read access to the repository")
		}
	}
	if line != nil {
		return fault.New(fault.ErrInvalid, "the server rejects reading the repository; see the server's log")
	}
	return fault.New(fault.ErrUnreachable, "phase refs: the server ended git-upload-pack before it listed its references; see the server's log")
}

// UploadPack requests a pack. One line precedes it in the response: only plain
// acknowledgements were negotiated, and the exchange has one round.
func (s *sshTransport) UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	phase.Enter(ctx, fault.PhasePack)
	stop := s.closeWith(ctx)
	// close must not end the session of a server that sends a pack.
	s.packed = true
	s.lastResponse.reset()
	err := s.request(req)
	if err != nil {
		stop()
		return nil, err
	}
	body := &boundedBody{ReadCloser: closer{s.stdout, stop}, lastResponse: s.lastResponse, left: s.maxPack, limit: s.maxPack, what: "pack"}
	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(body); err != nil {
		stop()
		return nil, err
	}
	return res, nil
}

func (s *sshTransport) request(req *packp.UploadPackRequest) error {
	if err := req.Validate(); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := req.UploadRequest.Encode(&b); err != nil {
		return err
	}
	if err := req.UploadHaves.Encode(&b, false); err != nil {
		return err
	}
	if err := pktline.NewEncoder(&b).EncodeString("done\n"); err != nil {
		return err
	}
	_, err := s.stdin.Write(b.Bytes())
	return err
}

// closeWith closes the connection when a context ends: nothing else interrupts a read
// from the server.
func (s *sshTransport) closeWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { s.conn.Close() })
}

// close ends the session with a server that waits for a pack request, and closes the
// connection.
func (s *sshTransport) close() {
	if s.conn == nil {
		return
	}
	if s.stdin != nil && !s.packed {
		// Close the connection even if the server does not accept the farewell.
		_ = s.conn.SetDeadline(time.Now().Add(byeTimeout))
		_ = pktline.NewEncoder(s.stdin).Flush()
	}
	s.conn.Close()
	if s.client != nil {
		_ = s.client.Close()
	}
}

const byeTimeout = time.Second

// closer is a reader with an action for its end.
type closer struct {
	io.Reader
	stop func() bool
}

func (c closer) Close() error { c.stop(); return nil }

// firstBytes stores the beginning of what is written to it, and discards the rest.
type firstBytes struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (f *firstBytes) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if free := beginBytes - len(f.text); free > 0 {
		f.text = append(f.text, p[:min(len(p), free)]...)
	}
	return len(p), nil
}

func (f *firstBytes) bytes() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(f.text)
}
