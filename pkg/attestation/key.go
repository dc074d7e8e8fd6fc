package attestation

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
)

// Key signs statements.
type Key struct{ signer dsse.SignerVerifier }

// ParseKey reads a private key in PEM, PKCS#8 or SEC 1: Ed25519 or ECDSA. It rejects keys
// with a password.
func ParseKey(text []byte) (*Key, error) {
	key, err := privateKey(text)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	// The library reads one format of each kind.
	loaded, err := signerverifier.LoadKey(pem.EncodeToMemory(&pem.Block{Type: signerverifier.PrivateKeyPEM, Bytes: der}))
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	var signer dsse.SignerVerifier
	if loaded.KeyType == signerverifier.ED25519KeyType {
		signer, err = signerverifier.NewED25519SignerVerifierFromSSLibKey(loaded)
	} else {
		signer, err = signerverifier.NewECDSASignerVerifierFromSSLibKey(loaded)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	return &Key{signer}, nil
}

// privateKey finds the private key among PEM blocks.
func privateKey(text []byte) (any, error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errors.New("it contains no private key in PEM: create one with openssl genpkey -algorithm ed25519")
		}
		switch {
		case strings.Contains(block.Type, "ENCRYPTED") || block.Headers["DEK-Info"] != "":
			return nil, errors.New("the key has a password: give a key without one, such as the output of openssl pkey, in a file that only you can read")
		case block.Type == "OPENSSH PRIVATE KEY":
			return nil, errors.New("it is a key for ssh: give one in PKCS#8, such as the output of openssl genpkey -algorithm ed25519")
		case block.Type == "EC PRIVATE KEY":
			key, err := x509.ParseECPrivateKey(block.Bytes)
			if err != nil {
				return nil, fmt.Errorf("reading the key: %w", err)
			}
			return key, nil
		case block.Type == signerverifier.PrivateKeyPEM:
			return parsePKCS8Key(block.Bytes)
		case strings.HasSuffix(block.Type, signerverifier.PrivateKeyPEM):
			return nil, fmt.Errorf("it is a %s: give a key of Ed25519 or ECDSA", strings.ToLower(block.Type))
		}
	}
}

func parsePKCS8Key(der []byte) (any, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}
	switch key.(type) {
	case ed25519.PrivateKey, *ecdsa.PrivateKey:
		return key, nil
	}
	return nil, fmt.Errorf("the key is a %T: give one of Ed25519 or ECDSA", key)
}
