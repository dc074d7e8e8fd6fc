package source

import (
	"net/netip"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/dial"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/sshkey"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/transport"
)

// Credentials and connection settings. None of these types prints its secret.
type (
	// Auth is a *BasicAuth, a *BearerToken or a *GitHubApp over https, an *SSHKey over ssh.
	Auth = transport.Auth
	// BasicAuth is a user name and a password, which is often a token.
	BasicAuth = transport.BasicAuth
	// BearerToken is sent unchanged in the header Authorization.
	BearerToken = transport.BearerToken
	// GitHubApp is an installation of a GitHub App, made by ParseGitHubApp.
	GitHubApp = transport.GitHubApp
	// GitHubAppSecret is the input of ParseGitHubApp.
	GitHubAppSecret = transport.GitHubAppSecret
	// SSHKey is a private key and the host keys of the servers that it is for, made by
	// ParseSSHKey.
	SSHKey = sshkey.Key
	// SSHSecret is the input of ParseSSHKey.
	SSHSecret = sshkey.Secret
	// Certificate is a client certificate with its private key, made by ParseCertificate.
	Certificate = transport.Certificate
	// Proxy is a proxy in front of a repository's server, made by ParseProxy.
	Proxy = dial.Proxy
	// ProxySecret is the input of ParseProxy.
	ProxySecret = dial.ProxySecret
	// HTTPOptions has the settings of requests to hosts that objects of the cluster name.
	HTTPOptions = dial.HTTPOptions
	// Transport is an http.RoundTripper that checks the addresses it connects to.
	Transport = dial.Transport
)

// ParseGitHubApp checks the identity of an app. Its errors are of the kind ErrInvalid. They
// start with the name of the invalid key, and never contain its value.
func ParseGitHubApp(s GitHubAppSecret) (*GitHubApp, error) { return transport.ParseGitHubApp(s) }

// ParseSSHKey reads a private key and the list of known hosts, which is required.
// Its errors are those of ParseGitHubApp.
func ParseSSHKey(s SSHSecret) (*SSHKey, error) { return sshkey.Parse(s) }

// ParseCertificate reads a client certificate and its key in PEM. Its errors are of the kind
// ErrInvalid and never contain the content.
func ParseCertificate(certificate, key []byte) (*Certificate, error) {
	return transport.ParseCertificate(certificate, key)
}

// ParseProxy checks the settings of a proxy. Its errors are those of ParseGitHubApp.
func ParseProxy(s ProxySecret) (*Proxy, error) { return dial.ParseProxy(s) }

// MetadataServices returns the addresses of the metadata services of clouds, which serve
// credentials to any process on a machine. Nothing is ever fetched from them.
func MetadataServices() []netip.Addr { return dial.MetadataServices() }
