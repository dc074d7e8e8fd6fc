package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/ssh"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// Auth is how to prove to a repository's server who asks: a *BasicAuth, a
// *BearerToken or a *GitHubApp over https, an *SSHKey over ssh. None of them prints
// its secret.
type Auth interface {
	// overSSH tells for which of the two it is.
	overSSH() bool
}

// BasicAuth is a user and a password, which is often a token.
type BasicAuth struct {
	Username string
	Password string
}

// String keeps the password out of logs.
func (BasicAuth) String() string { return "basic auth" }

// GoString keeps the password out of logs.
func (BasicAuth) GoString() string { return "source.BasicAuth{...}" }

func (*BasicAuth) overSSH() bool { return false }

// BearerToken is sent as it is, in the header Authorization.
type BearerToken struct {
	Token string
}

// String keeps the token out of logs.
func (BearerToken) String() string { return "bearer token" }

// GoString keeps the token out of logs.
func (BearerToken) GoString() string { return "source.BearerToken{...}" }

func (*BearerToken) overSSH() bool { return false }

// Certificate is a client certificate with its private key, made by ParseCertificate.
type Certificate struct {
	pair tls.Certificate
}

// ParseCertificate reads a client certificate and its key in PEM. Its errors are
// ErrInvalid and say nothing of the content.
func ParseCertificate(certificate, key []byte) (*Certificate, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fault.New(fault.ErrInvalid, "tls.crt and tls.key are not a certificate in PEM and the private key that belongs to it")
	}
	return &Certificate{pair: pair}, nil
}

// String keeps the key out of logs.
func (Certificate) String() string { return "client certificate" }

// GoString keeps the key out of logs.
func (Certificate) GoString() string { return "source.Certificate{...}" }

// SSHSecret is what an SSHKey is made from, each under the name that it has in
// the Secrets of Flux.
type SSHSecret struct {
	Identity   []byte // "identity": the private key, in PEM
	Public     []byte // "identity.pub": its public key, to be sure; may be empty
	KnownHosts []byte // "known_hosts", as OpenSSH writes it
	Password   []byte // "password" of an encrypted identity, else empty
}

// SSHKey is a private key, and the servers that it may be shown to. It is made by
// ParseSSHKey.
type SSHKey struct {
	signer     ssh.Signer
	knownHosts []byte
}

// String keeps the key out of logs.
func (SSHKey) String() string { return "SSH key" }

// GoString keeps the key out of logs.
func (SSHKey) GoString() string { return "source.SSHKey{...}" }

func (*SSHKey) overSSH() bool { return true }

// maxKnownHostsBytes and maxKnownHostsLine bound the list: a line is read into a
// buffer of 64 KiB by the library that compares.
const (
	maxKnownHostsBytes = 1 << 20   // 1 MiB, as much as a Secret holds
	maxKnownHostsLine  = 60 * 1024 // 60 KiB
)

// ParseSSHKey reads a private key and the list of known hosts, which there must
// be. Its errors are ErrInvalid, begin with the name of what is wrong, and say
// nothing of its content.
func ParseSSHKey(s SSHSecret) (*SSHKey, error) {
	signer, err := parsePrivateKey(s.Identity, s.Password)
	if err != nil {
		return nil, err
	}
	if len(s.Public) > 0 {
		public, _, _, _, err := ssh.ParseAuthorizedKey(s.Public)
		if err != nil {
			return nil, fault.New(fault.ErrInvalid, "identity.pub is not a public key in one line, as ssh-keygen writes it; leave it out, or correct it")
		}
		if !bytes.Equal(public.Marshal(), signer.PublicKey().Marshal()) {
			return nil, fault.New(fault.ErrInvalid, "identity.pub is not the public key of identity; leave it out, or correct it")
		}
	}
	if err := checkKnownHosts(s.KnownHosts); err != nil {
		return nil, err
	}
	return &SSHKey{signer: signer, knownHosts: bytes.Clone(s.KnownHosts)}, nil
}

func parsePrivateKey(identity, password []byte) (ssh.Signer, error) {
	if len(password) == 0 {
		signer, err := ssh.ParsePrivateKey(identity)
		var missing *ssh.PassphraseMissingError
		if errors.As(err, &missing) {
			return nil, fault.New(fault.ErrInvalid, "password is missing: identity is encrypted")
		}
		if err != nil {
			return nil, fault.New(fault.ErrInvalid, "identity is not a private key in PEM that can be read")
		}
		return signer, nil
	}
	if rounds := kdfRounds(identity); rounds > maxKDFRounds {
		return nil, fault.New(fault.ErrInvalid, "identity is encrypted with %d rounds, at most %d are worked off: run ssh-keygen -p -a 16 -f identity", rounds, maxKDFRounds)
	}
	signer, err := ssh.ParsePrivateKeyWithPassphrase(identity, password)
	if err == nil {
		return signer, nil
	}
	if errors.Is(err, x509.IncorrectPasswordError) {
		return nil, fault.New(fault.ErrInvalid, "password does not decrypt identity")
	}
	if _, plain := ssh.ParsePrivateKey(identity); plain == nil {
		return nil, fault.New(fault.ErrInvalid, "password is given, and identity is not encrypted: remove it")
	}
	return nil, fault.New(fault.ErrInvalid, "identity is not a private key in PEM that can be read")
}

// maxKDFRounds bounds the work of decrypting a key, which nothing can interrupt. A
// round takes about 7 ms; ssh-keygen makes 16 or 24 of them, and some people 100.
const maxKDFRounds = 256

// kdfRounds reads how much work it is to decrypt a key in OpenSSH's format; 0 for
// others, whose work is fixed:
// https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.key
func kdfRounds(identity []byte) uint32 {
	block, _ := pem.Decode(identity)
	if block == nil || block.Type != "OPENSSH PRIVATE KEY" {
		return 0
	}
	rest, ok := bytes.CutPrefix(block.Bytes, []byte("openssh-key-v1\x00"))
	var head struct {
		Cipher, KDF, Options string
		Rest                 []byte `ssh:"rest"`
	}
	var options struct {
		Salt   string
		Rounds uint32
	}
	if !ok || ssh.Unmarshal(rest, &head) != nil || ssh.Unmarshal([]byte(head.Options), &options) != nil {
		return 0 // not encrypted, or not readable: which of the two is found out next
	}
	return options.Rounds
}

// checkKnownHosts makes sure that the list can be read to its end and names at
// least one server.
func checkKnownHosts(list []byte) error {
	if len(list) > maxKnownHostsBytes {
		return fault.New(fault.ErrInvalid, "known_hosts has %d bytes, at most %d are read", len(list), maxKnownHostsBytes)
	}
	number := 0
	for line := range bytes.Lines(list) {
		if number++; len(line) > maxKnownHostsLine {
			return fault.New(fault.ErrInvalid, "known_hosts, line %d: it has more than %d bytes", number, maxKnownHostsLine)
		}
		text := bytes.TrimSpace(line)
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		if _, _, _, _, _, err := ssh.ParseKnownHosts(text); err != nil {
			return fault.New(fault.ErrInvalid, "known_hosts, line %d: it is not host, kind of key and key, as ssh-keyscan writes them", number)
		}
	}
	if _, _, _, _, _, err := ssh.ParseKnownHosts(list); err != nil {
		return fault.New(fault.ErrInvalid, "known_hosts names no server: put the server's line there, as ssh-keyscan writes it, and compare its fingerprint with what the server's owner publishes")
	}
	return nil
}
