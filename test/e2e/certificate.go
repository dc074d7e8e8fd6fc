package e2e

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/test/gittest/gitssh"
)

// Canary is in every credential of this test, and in what servers answer.
const Canary = "c4nary"

func Around(text, what string) string {
	i := strings.Index(text, what)
	return text[max(0, i-200):min(len(text), i+200)]
}

// CertificateUntil is a CA that ends at a time, in PEM.
func CertificateUntil(t *testing.T, end time.Time) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// NewIdentity is a private key, and its public key in one line.
func NewIdentity(t *testing.T, password string) (private, public string) {
	t.Helper()
	private, public, err := gitssh.Identity(password)
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}
