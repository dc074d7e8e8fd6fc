package main

import (
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/osm-gitops/osm-gitops/test/gittest/gitssh"
)

// serveSSH serves the bare repositories of a folder over SSH to all users. The keys of clients and
// server are created in a different folder.
func serveSSH(dir, files string) (at repositoryAccess, end func() error, err error) {
	log.SetOutput(io.Discard) // the server logs every request
	if err := os.Mkdir(files, 0o700); err != nil {
		return repositoryAccess{}, nil, err
	}
	private, _, err := gitssh.Identity("")
	if err != nil {
		return repositoryAccess{}, nil, err
	}
	server, err := gitssh.Serve(dir, filepath.Join(files, "keys"), nil)
	if err != nil {
		return repositoryAccess{}, nil, err
	}
	at = repositoryAccess{url: server.URL, identity: filepath.Join(files, "identity"), knownHosts: filepath.Join(files, "known_hosts")}
	if err := errors.Join(
		os.WriteFile(at.identity, []byte(private), 0o600),
		os.WriteFile(at.knownHosts, []byte(server.KnownHosts()), 0o600),
	); err != nil {
		return repositoryAccess{}, nil, errors.Join(err, server.Close())
	}
	return at, server.Close, nil
}
