package sshkey

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"

	"golang.org/x/crypto/ssh"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// Secret has the input of a Key. The comments are the keys in the Secrets of Flux.
type Secret struct {
	Identity   []byte // "identity": the private key, in PEM
	Public     []byte // "identity.pub": its public key, as a check; can be empty
	KnownHosts []byte // "known_hosts", as OpenSSH writes it
	Password   []byte // "password" of an encrypted identity, otherwise empty
}

// Key is a private key, and the servers that it can be used with. It is created by
// Parse.
type Key struct {
	signer     ssh.Signer
	knownHosts []byte
}

// String omits the key, so that it is not logged.
func (Key) String() string { return "SSH key" }

// GoString omits the key, so that it is not logged.
func (Key) GoString() string { return "source.SSHKey{...}" }

// OverSSH reports that it is for ssh.
func (*Key) OverSSH() bool { return true }

// Signer proves to a server that the user has the private key.
func (k *Key) Signer() ssh.Signer { return k.signer }

// maxKnownHostsBytes and maxKnownHostsLine limit the list: the library that compares keys
// reads a line into a buffer of 64 KiB.
const (
	maxKnownHostsBytes = 1 << 20   // 1 MiB, the maximum size of a Secret
	maxKnownHostsLine  = 60 * 1024 // 60 KiB
)

// Parse reads a private key and the required list of known hosts. Its errors are
// ErrInvalid, begin with the name of the invalid input, and never contain its content.
func Parse(s Secret) (*Key, error) {
	signer, err := parsePrivateKey(s.Identity, s.Password)
	if err != nil {
		return nil, err
	}
	if len(s.Public) > 0 {
		public, _, _, _, err := ssh.ParseAuthorizedKey(s.Public)
		if err != nil {
			return nil, fault.New(fault.ErrInvalid, "identity.pub is not a public key in one line, as ssh-keygen writes it; remove or correct it")
		}
		// A server would only report that access is denied.
		if !bytes.Equal(public.Marshal(), signer.PublicKey().Marshal()) {
			return nil, fault.New(fault.ErrInvalid, "identity.pub is not the public key of identity; remove or correct it")
		}
	}
	if err := checkKnownHosts(s.KnownHosts); err != nil {
		return nil, err
	}
	return &Key{signer: signer, knownHosts: bytes.Clone(s.KnownHosts)}, nil
}

func parsePrivateKey(identity, password []byte) (ssh.Signer, error) {
	if len(password) == 0 {
		signer, err := ssh.ParsePrivateKey(identity)
		if _, ok := errors.AsType[*ssh.PassphraseMissingError](err); ok {
			return nil, fault.New(fault.ErrInvalid, "password is missing: identity is encrypted")
		}
		if err != nil {
			return nil, fault.New(fault.ErrInvalid, "identity is not a private key in PEM that can be read")
		}
		return signer, nil
	}
	// The rounds are chosen by the author of the Secret: decryption must not take hours.
	if rounds := kdfRounds(identity); rounds > maxKDFRounds {
		return nil, fault.New(fault.ErrInvalid, "identity is encrypted with %d rounds, and at most %d are allowed: run ssh-keygen -p -a 16 -f identity", rounds, maxKDFRounds)
	}
	signer, err := ssh.ParsePrivateKeyWithPassphrase(identity, password)
	if err == nil {
		return signer, nil
	}
	if errors.Is(err, x509.IncorrectPasswordError) {
		return nil, fault.New(fault.ErrInvalid, "password does not decrypt identity")
	}
	if _, plain := ssh.ParsePrivateKey(identity); plain == nil {
		return nil, fault.New(fault.ErrInvalid, "password is set, but identity is not encrypted: remove the password")
	}
	return nil, fault.New(fault.ErrInvalid, "identity is not a private key in PEM that can be read")
}

// maxKDFRounds limits the work of decrypting a key, which cannot be interrupted. A round
// takes about 7 ms; ssh-keygen uses 16 or 24 rounds, and some users 100.
const maxKDFRounds = 256

// kdfRounds returns the number of rounds for a key in OpenSSH's format; 0 for other
// formats, whose work is fixed:
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
		return 0 // not encrypted, or not readable: the parser decides
	}
	return options.Rounds
}

// checkKnownHosts checks that the whole list can be parsed and names at least one server.
func checkKnownHosts(list []byte) error {
	if len(list) > maxKnownHostsBytes {
		return fault.New(fault.ErrInvalid, "known_hosts has %d bytes, at most %d are read", len(list), maxKnownHostsBytes)
	}
	number := 0
	for line := range bytes.Lines(list) {
		if number++; len(line) > maxKnownHostsLine {
			return fault.New(fault.ErrInvalid, "known_hosts, line %d: has more than %d bytes", number, maxKnownHostsLine)
		}
		text := bytes.TrimSpace(line)
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		if _, _, _, _, _, err := ssh.ParseKnownHosts(text); err != nil {
			return fault.New(fault.ErrInvalid, "known_hosts, line %d: expected host, key type and key, as ssh-keyscan writes them", number)
		}
	}
	if _, _, _, _, _, err := ssh.ParseKnownHosts(list); err != nil {
		return fault.New(fault.ErrInvalid, "known_hosts names no server: add the line that ssh-keyscan prints for the server, and compare its fingerprint with what the server's owner publishes")
	}
	return nil
}
