package transport

import (
	"crypto/tls"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/location"
)

// Auth has the credentials for the server of a repository: a *BasicAuth, a *BearerToken
// or a *GitHubApp over https, an *sshkey.Key over ssh. None of them prints its secret.
type Auth interface {
	// OverSSH reports whether it is for ssh.
	OverSSH() bool
}

// CheckAuth rejects credentials that cannot be used with the address of a repository.
func CheckAuth(at location.Location, auth Auth, ca []byte, certificate *Certificate) error {
	ssh := at.SSH != nil
	switch {
	case ssh && (auth == nil || !auth.OverSSH()):
		return fault.New(fault.ErrInvalid, "a repository over ssh needs a private key (identity) and a list of known hosts (known_hosts): remove other credentials")
	case ssh && (ca != nil || certificate != nil):
		return fault.New(fault.ErrInvalid, "ssh uses no certificates: remove ca.crt, tls.crt and tls.key")
	case !ssh && auth != nil && auth.OverSSH():
		return fault.New(fault.ErrInvalid, "an SSH key cannot be used over %s: write the URL as ssh://git@host/path, or set username and password", at.HTTP.Scheme)
	case !ssh && at.HTTP.Scheme != "https" && (ca != nil || certificate != nil):
		return fault.New(fault.ErrInvalid, "plain http uses no certificates: remove ca.crt, tls.crt and tls.key, or use https")
	}
	return nil
}

// BasicAuth is a user name and a password, which is often a token.
type BasicAuth struct {
	Username string
	Password string
}

// String omits the password, so that it is not logged.
func (BasicAuth) String() string { return "basic auth" }

// GoString omits the password, so that it is not logged.
func (BasicAuth) GoString() string { return "source.BasicAuth{...}" }

// OverSSH reports that it is for https.
func (*BasicAuth) OverSSH() bool { return false }

// BearerToken is sent unchanged in the Authorization header.
type BearerToken struct {
	Token string
}

// String omits the token, so that it is not logged.
func (BearerToken) String() string { return "bearer token" }

// GoString omits the token, so that it is not logged.
func (BearerToken) GoString() string { return "source.BearerToken{...}" }

// OverSSH reports that it is for https.
func (*BearerToken) OverSSH() bool { return false }

// Certificate is a client certificate with its private key, created by ParseCertificate.
type Certificate struct {
	pair tls.Certificate
}

// ParseCertificate reads a client certificate and its key in PEM. Its errors are
// ErrInvalid and never contain the content.
func ParseCertificate(certificate, key []byte) (*Certificate, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fault.New(fault.ErrInvalid, "tls.crt and tls.key are not a certificate in PEM and the private key that belongs to it")
	}
	return &Certificate{pair: pair}, nil
}

// String omits the key, so that it is not logged.
func (Certificate) String() string { return "client certificate" }

// GoString omits the key, so that it is not logged.
func (Certificate) GoString() string { return "source.Certificate{...}" }
