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

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// shell is git-upload-pack on a server, over ssh. It is our own rather than that of
// go-git, which asks ~/.ssh/config, ssh-agent and the known hosts of whoever runs
// it. It dials as http does, and its answers are bounded in the same way.
type shell struct {
	address *sshAddress
	key     *SSHKey
	hosts   *hostKeys
	dialer  *dialer
	answer  *answer
	maxPack int64

	conn   net.Conn
	client *ssh.Client
	remote *ssh.Session
	stdin  io.WriteCloser
	stdout io.Reader
	stderr firstBytes
	packed bool // a pack was asked for
}

// newShell prepares git-upload-pack; nothing is sent yet.
func newShell(e Endpoint, d *dialer) (*shell, error) {
	key, ok := e.Auth.(*SSHKey)
	if !ok {
		return nil, fault.New(fault.ErrInvalid, "there is no private key")
	}
	hosts, err := readHostKeys(e.Dir, key.knownHosts, e.Location.ssh.host)
	if err != nil {
		return nil, err
	}
	return &shell{address: e.Location.ssh, key: key, hosts: hosts, dialer: d, answer: &answer{}, maxPack: e.MaxPackBytes}, nil
}

// AdvertisedReferencesContext connects, starts the program and reads what it has.
func (s *shell) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	stop := s.closeWith(ctx)
	defer stop()
	if err := s.start(); err != nil {
		return nil, err
	}
	enterPhase(ctx, phaseRefs)
	refs := packp.NewAdvRefs()
	err := refs.Decode(&boundedBody{ReadCloser: io.NopCloser(s.stdout), answer: s.answer, left: MaxRefsBytes, limit: MaxRefsBytes, what: "list of references"})
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs) || err == nil && refs.IsEmpty():
		return nil, transport.ErrEmptyRemoteRepository
	case err != nil:
		return nil, s.explain(err)
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	return refs, nil
}

// connect is TCP and the handshake, in which the server proves who it is before it
// learns anything but our address.
func (s *shell) connect(ctx context.Context) error {
	conn, err := s.dialer.DialContext(ctx, "tcp", s.address.host)
	if err != nil {
		return err
	}
	s.conn = conn
	stop := s.closeWith(ctx)
	defer stop()
	enterPhase(ctx, phaseHandshake)
	c, channels, requests, err := ssh.NewClientConn(conn, s.address.host, &ssh.ClientConfig{
		User:              s.address.user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(s.key.signer)},
		HostKeyCallback:   s.hosts.check,
		HostKeyAlgorithms: s.hosts.algorithms(),
	})
	if err != nil {
		return s.explainHandshake(err)
	}
	s.client = ssh.NewClient(c, channels, requests)
	return nil
}

func (s *shell) explainHandshake(err error) error {
	var common *ssh.AlgorithmNegotiationError
	switch {
	case s.hosts.err != nil:
		return s.hosts.err
	case errors.As(err, &common) && !s.hosts.seen && common.What == "host key":
		return s.hosts.noCommon(common.RequestedAlgorithms)
	case errors.As(err, &common):
		return fault.New(fault.ErrUnsupported, "phase handshake: the server has no %s that is safe to use; it has %s", common.What, fault.Printable(fault.Shorten(strings.Join(common.RequestedAlgorithms, ", "))))
	case networkError(err) != "":
		return err
	case s.hosts.seen:
		return fault.New(fault.ErrAuthentication, "phase handshake: the server does not accept the key %s %s (identity) for the user %q; add its public key there, with the right to read the repository",
			s.key.signer.PublicKey().Type(), ssh.FingerprintSHA256(s.key.signer.PublicKey()), s.address.user)
	}
	return fault.New(fault.ErrInvalid, "phase handshake: what answers there does not speak ssh; is the port right?")
}

// start runs the program.
func (s *shell) start() error {
	remote, err := s.client.NewSession()
	if err != nil {
		return s.refusedCommand(err)
	}
	s.remote = remote
	if s.stdin, err = remote.StdinPipe(); err != nil {
		return err
	}
	if s.stdout, err = remote.StdoutPipe(); err != nil {
		return err
	}
	remote.Stderr = &s.stderr
	// The path has no single quote in it: parseSSH refuses one.
	if err := remote.Start("git-upload-pack '" + s.address.path + "'"); err != nil {
		return s.refusedCommand(err)
	}
	return nil
}

func (s *shell) refusedCommand(err error) error {
	if networkError(err) != "" {
		return err
	}
	return fault.New(fault.ErrAuthentication, "phase handshake: the server accepts the key, but runs no git-upload-pack for it; does it let this key read the repository?")
}

// explain is about an answer that is no list of references.
func (s *shell) explain(err error) error {
	var line *pktline.ErrorLine
	var said []byte
	switch {
	case errors.As(err, &line): // a line that begins with ERR
		said = []byte(line.Text)
	case errors.Is(err, packp.ErrEmptyInput) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		_ = s.remote.Wait() // for the rest of what it says; a deadline closes the connection
		said = s.stderr.bytes()
	default:
		return err
	}
	// What it says is shown to nobody, but its kind can be told from it: git, GitHub
	// and GitLab, in this order.
	said = bytes.ToLower(said)
	for _, gone := range []string{"does not appear to be a git repository", "not found", "could not be found", "no such file"} {
		if bytes.Contains(said, []byte(gone)) {
			return fault.New(fault.ErrNotFound, "the server says that there is no such repository; check the path, and that the key may read it: some servers hide what they must not show")
		}
	}
	for _, denied := range []string{"denied", "not allowed", "unauthorized", "forbidden"} {
		if bytes.Contains(said, []byte(denied)) {
			return fault.New(fault.ErrAuthentication, "the server says that this key may not read the repository")
		}
	}
	if line != nil {
		return fault.New(fault.ErrInvalid, "the server refuses to give out the repository; its own log says why")
	}
	return fault.New(fault.ErrUnreachable, "phase refs: the server ended git-upload-pack before it said what it has; its own log says why")
}

// UploadPack asks for a pack. The answer has one line before it: no acknowledgement
// was negotiated but the plain one, and everything is said in one round.
func (s *shell) UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	enterPhase(ctx, fault.PhasePack)
	stop := s.closeWith(ctx)
	s.packed = true
	s.answer.reset()
	err := s.ask(req)
	if err != nil {
		stop()
		return nil, err
	}
	body := &boundedBody{ReadCloser: closer{s.stdout, stop}, answer: s.answer, left: s.maxPack, limit: s.maxPack, what: "pack"}
	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(body); err != nil {
		stop()
		return nil, err
	}
	return res, nil
}

func (s *shell) ask(req *packp.UploadPackRequest) error {
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

// closeWith cuts the connection when a context ends: nothing else wakes up who
// waits for the other side.
func (s *shell) closeWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { s.conn.Close() })
}

// close says goodbye to a server that waits to be asked for a pack, and hangs up.
func (s *shell) close() {
	if s.conn == nil {
		return
	}
	if s.stdin != nil && !s.packed {
		// One that does not let us say it is hung up on all the same.
		_ = s.conn.SetDeadline(time.Now().Add(byeTimeout))
		_ = pktline.NewEncoder(s.stdin).Flush()
	}
	s.conn.Close()
	if s.client != nil {
		_ = s.client.Close()
	}
}

const byeTimeout = time.Second

// closer is a reader that something is to be done after.
type closer struct {
	io.Reader
	stop func() bool
}

func (c closer) Close() error { c.stop(); return nil }

// firstBytes keeps the beginning of what is written to it, and takes the rest.
type firstBytes struct {
	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (f *firstBytes) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if room := beginBytes - len(f.kept); room > 0 {
		f.kept = append(f.kept, p[:min(len(p), room)]...)
	}
	return len(p), nil
}

func (f *firstBytes) bytes() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.Clone(f.kept)
}
