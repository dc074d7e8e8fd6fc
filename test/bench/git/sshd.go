package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/fluxcd/pkg/gittestserver"
	"golang.org/x/crypto/ssh"
)

// serveSSH serves the bare repositories of a folder over SSH to all users. The keys of clients and
// server are created in a different folder.
func serveSSH(dir, files string) (at repositoryAccess, end func() error, err error) {
	log.SetOutput(io.Discard) // the server logs every request
	if err := os.Mkdir(files, 0o700); err != nil {
		return repositoryAccess{}, nil, err
	}
	server := gittestserver.NewGitServer(dir)
	server.Auth("", "").KeyDir(filepath.Join(files, "keys"))
	if err := server.ListenSSH(); err != nil {
		return repositoryAccess{}, nil, err
	}
	done := make(chan error, 1)
	go func() { done <- server.StartSSH() }()
	end = func() error {
		err := server.StopSSH()
		if stopped := <-done; stopped == nil {
			err = errors.Join(err, errors.New("the ssh server ended by itself"))
		}
		return err
	}
	at, err = newRepositoryAccess(server, files)
	if err != nil {
		err = errors.Join(err, end())
	}
	return at, end, err
}

func newRepositoryAccess(server *gittestserver.GitServer, files string) (repositoryAccess, error) {
	at := repositoryAccess{url: server.SSHAddress(), identity: filepath.Join(files, "identity"), knownHosts: filepath.Join(files, "known_hosts")}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return at, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return at, err
	}
	keys, err := filepath.Glob(filepath.Join(files, "keys", "*.pub"))
	if err != nil {
		return at, err
	}
	if len(keys) != 1 {
		return at, fmt.Errorf("the ssh server has the keys %v", keys)
	}
	public, err := os.ReadFile(keys[0])
	if err != nil {
		return at, err
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(at.url, "ssh://git@"))
	if err != nil {
		return at, err
	}
	return at, errors.Join(
		os.WriteFile(at.identity, pem.EncodeToMemory(block), 0o600),
		os.WriteFile(at.knownHosts, fmt.Appendf(nil, "[%s]:%s %s", host, port, public), 0o600),
	)
}
