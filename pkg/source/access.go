package source

import (
	"net/netip"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/transport"
)

// How to reach a server and to prove who asks. None of these prints its secret.
type (
	// Auth is a *BasicAuth, a *BearerToken or a *GitHubApp over https, an *SSHKey over ssh.
	Auth = transport.Auth
	// BasicAuth is a user and a password, which is often a token.
	BasicAuth = transport.BasicAuth
	// BearerToken is sent unchanged in the header Authorization.
	BearerToken = transport.BearerToken
	// GitHubApp is an installation of a GitHub App, made by ParseGitHubApp.
	GitHubApp = transport.GitHubApp
	// GitHubAppSecret is what a GitHubApp is made from.
	GitHubAppSecret = transport.GitHubAppSecret
	// SSHKey is a private key and the servers that it may be shown to, made by ParseSSHKey.
	SSHKey = transport.SSHKey
	// SSHSecret is what an SSHKey is made from.
	SSHSecret = transport.SSHSecret
	// Certificate is a client certificate with its private key, made by ParseCertificate.
	Certificate = transport.Certificate
	// Proxy is between us and a repository's server. It is made by ParseProxy.
	Proxy = transport.Proxy
	// ProxySecret is what a Proxy is made from.
	ProxySecret = transport.ProxySecret
	// Way is how to ask a host that an object of the cluster names.
	Way = transport.Way
	// Transport is an http.RoundTripper that checks the addresses it connects to.
	Transport = transport.Transport
)

// ParseGitHubApp checks the identity of an app. Its errors are ErrInvalid, begin
// with the name of what is wrong, and contain nothing of its content.
func ParseGitHubApp(s GitHubAppSecret) (*GitHubApp, error) { return transport.ParseGitHubApp(s) }

// ParseSSHKey reads a private key and the list of known hosts, which is required.
// Its errors are those of ParseGitHubApp.
func ParseSSHKey(s SSHSecret) (*SSHKey, error) { return transport.ParseSSHKey(s) }

// ParseCertificate reads a client certificate and its key in PEM. Its errors are
// ErrInvalid and contain nothing of the content.
func ParseCertificate(certificate, key []byte) (*Certificate, error) {
	return transport.ParseCertificate(certificate, key)
}

// ParseProxy checks how to reach a proxy. Its errors are those of ParseGitHubApp.
func ParseProxy(s ProxySecret) (*Proxy, error) { return transport.ParseProxy(s) }

// MetadataServices are the addresses at which clouds tell a machine about itself, with
// credentials among it. Nothing is fetched from them.
func MetadataServices() []netip.Addr { return transport.MetadataServices() }
