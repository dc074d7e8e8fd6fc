// Package transport connects to the servers of repositories and speaks Git's protocol
// with them. It checks every address after its name was resolved, limits the size of
// every answer and the duration of every phase, and writes the text of every error
// itself, so that no text of a server is shown. The environment has no influence: no
// proxy variables, no ~/.ssh, no agent.
//
// Start reading at Endpoint.Connect, which returns a Session over HTTP (session.go,
// guard.go) or SSH (ssh.go, hostkeys.go). dial.go decides which addresses are allowed,
// proxy.go connects through a proxy, auth.go and githubapp.go have the credentials.
//
// The SSH client and the dialer are our own because go-git's transports accept no dialer
// that checks addresses, and its SSH client reads the configuration of the current user.
package transport
