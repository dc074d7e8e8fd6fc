// Package transport speaks Git's protocol with the servers of repositories. It limits the
// size of every answer and the duration of every phase, and writes the text of every error
// itself, so that no text of a server is shown. The environment has no influence: no
// ~/.ssh, no agent. Connections and proxies are those of package dial.
//
// Start reading at Endpoint.NewSession, which returns a Session over HTTP (session.go,
// guard.go) or SSH (ssh.go). auth.go, githubapp.go and package sshkey have the credentials.
//
// The SSH client is our own because go-git's accepts no dialer that checks addresses, and
// reads the configuration of the current user.
package transport
