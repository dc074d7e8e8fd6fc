// Package transport connects to the servers of repositories and speaks Git's protocol
// with them. It checks every address after its name was resolved, bounds every answer
// and every phase, and words every error itself, so that nothing a server sends is shown.
// Nothing of the environment has a say: no proxy variables, no ~/.ssh, no agent.
//
// Start reading at Endpoint.Connect, which returns a Session over HTTP (session.go,
// guard.go) or SSH (ssh.go, hostkeys.go). dial.go decides which addresses are connected
// to, proxy.go reaches them through a proxy, auth.go and githubapp.go hold credentials.
//
// The SSH client and the dialer are our own because go-git's transports take no dialer
// that checks addresses, and its SSH reads the configuration of whoever runs it.
package transport
