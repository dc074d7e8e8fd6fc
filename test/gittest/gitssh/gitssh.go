// Package gitssh serves Git repositories over SSH to tests and benchmarks. It is apart from gittest
// because most users of the real git need no server.
package gitssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/gitkit"
	"github.com/fluxcd/pkg/gittestserver"
	"golang.org/x/crypto/ssh"
)

// Server is the SSH server that Flux uses in its tests.
type Server struct {
	// Root is the folder with its repositories, URL the address of that.
	Root, URL string
	// Address is host and port as known_hosts has them, HostKey the public key that follows them.
	Address, HostKey string

	server *gittestserver.GitServer
	done   chan error
}

// New serves a temporary folder until the test ends.
func New(t testing.TB, accept func(public string) error) *Server {
	t.Helper()
	s, err := Serve(t.TempDir(), filepath.Join(t.TempDir(), "keys"), accept)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Serve serves the repositories of a folder to clients whose public key has no error, nil: to all.
// The keys of the server are created in another folder.
func Serve(root, keys string, accept func(public string) error) (*Server, error) {
	s := &Server{Root: root, server: gittestserver.NewGitServer(root), done: make(chan error, 1)}
	if accept != nil {
		s.server.PublicKeyLookupFunc(func(public string) (*gitkit.PublicKey, error) {
			if err := accept(public); err != nil {
				return nil, err
			}
			return &gitkit.PublicKey{Id: "ada"}, nil
		})
	}
	s.server.Auth("", "").KeyDir(keys)
	if err := s.server.ListenSSH(); err != nil {
		return nil, err
	}
	go func() { s.done <- s.server.StartSSH() }()
	s.URL = s.server.SSHAddress()
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "ssh://git@"))
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Address = fmt.Sprintf("[%s]:%s", host, port)
	if s.HostKey, err = hostKey(keys); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func hostKey(dir string) (string, error) {
	keys, err := filepath.Glob(filepath.Join(dir, "*.pub"))
	if err != nil {
		return "", err
	}
	if len(keys) != 1 {
		return "", fmt.Errorf("the ssh server has the keys %v", keys)
	}
	public, err := os.ReadFile(keys[0])
	return string(public), err
}

// KnownHosts is the server's line of known_hosts.
func (s *Server) KnownHosts() string { return s.Address + " " + s.HostKey }

// Close ends it.
func (s *Server) Close() error {
	err := s.server.StopSSH()
	if stopped := <-s.done; stopped == nil {
		err = errors.Join(err, errors.New("the ssh server ended by itself"))
	}
	return err
}

// Identity returns a new private key, encrypted if there is a password, and its public key.
func Identity(password string) (private, public string, err error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if password != "" {
		block, err = ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(password))
	}
	if err != nil {
		return "", "", err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(block)), string(ssh.MarshalAuthorizedKey(signer.PublicKey())), nil
}
