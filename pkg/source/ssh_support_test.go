package source

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/osm-gitops/osm-gitops/test/gittest/gitssh"
)

// newIdentity returns a private key in the format of ssh-keygen, and its public key.
func newIdentity(t testing.TB, password string) (private []byte, public string) {
	t.Helper()
	text, public, err := gitssh.Identity("")
	if err != nil {
		t.Fatal(err)
	}
	private = []byte(text)
	if password != "" {
		private = sealed(t, private, password)
	}
	return private, public
}

// sealed encrypts a private key with a password. It uses one round instead of the usual 16,
// because each takes 100 ms with the race detector.
func sealed(t testing.TB, private []byte, password string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, private, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-p", "-a", "1", "-P", "", "-N", password, "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	private, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return private
}

func newRSA(t testing.TB) []byte {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

// sshServer speaks ssh and runs the real git-upload-pack.
type sshServer struct {
	t       testing.TB
	root    string
	address string // host and port
	client  []byte // the accepted private key

	mu       sync.Mutex
	commands []string
	logins   atomic.Int64 // number of keys offered

	// run handles a command; nil runs git.
	run func(command string, ch ssh.Channel) (status uint32)
}

func newSSHServer(t testing.TB, hostKeys ...ssh.Signer) *sshServer {
	t.Helper()
	s := &sshServer{t: t, root: t.TempDir()}
	private, public := newIdentity(t, "")
	s.client = private
	config := &ssh.ServerConfig{PublicKeyCallback: func(conn ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		s.logins.Add(1)
		if conn.User() == "git" && string(ssh.MarshalAuthorizedKey(key)) == public {
			return nil, nil
		}
		return nil, errors.New("no")
	}}
	for _, key := range hostKeys {
		config.AddHostKey(key)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s.address = l.Addr().String()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, config)
		}
	}()
	return s
}

func (s *sshServer) serve(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		ch, requests, err := c.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			if r.Type != "exec" {
				_ = r.Reply(false, nil)
				continue
			}
			command := string(r.Payload[4:])
			s.mu.Lock()
			s.commands = append(s.commands, command)
			s.mu.Unlock()
			_ = r.Reply(true, nil)
			go func() {
				run := s.run
				if run == nil {
					run = s.git
				}
				status := run(command, ch)
				_, _ = ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, status))
				ch.Close()
			}()
		}
	}
}

var quoted = regexp.MustCompile(`^git-upload-pack '/?([^']+)'$`)

func (s *sshServer) git(command string, ch ssh.Channel) uint32 {
	m := quoted.FindStringSubmatch(command)
	if m == nil {
		_, _ = io.WriteString(ch.Stderr(), "what is "+command)
		return 127
	}
	cmd := exec.Command("git", "upload-pack", m[1])
	cmd.Dir = s.root
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	go func() { _, _ = io.Copy(in, ch); in.Close() }()
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	if cmd.Run() != nil {
		return 128
	}
	return 0
}

// push copies the repository to the server, under a name.
func (s *sshServer) push(r *repo, name string) {
	s.t.Helper()
	bare := filepath.Join(s.root, name)
	if !pathExists(bare) {
		git(s.t, s.root, "init", "--quiet", "--bare", "--initial-branch=main", bare)
	}
	r.Push(bare, "refs/heads")
}

func (s *sshServer) url(name string) string { return "ssh://git@" + s.address + "/" + name }

func newHostKey(t testing.TB) ssh.Signer {
	t.Helper()
	private, _ := newIdentity(t, "")
	return signerOf(t, private)
}

func signerOf(t testing.TB, private []byte) ssh.Signer {
	t.Helper()
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// knownHost returns a line of known_hosts.
func knownHost(address string, key ssh.Signer) string {
	host, port, _ := net.SplitHostPort(address)
	return fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(key.PublicKey()))
}

func sshAuth(t testing.TB, identity []byte, knownHosts ...string) *SSHKey {
	t.Helper()
	key, err := ParseSSHKey(SSHSecret{Identity: identity, KnownHosts: []byte(strings.Join(knownHosts, ""))})
	if err != nil {
		t.Fatal(err)
	}
	return key
}
