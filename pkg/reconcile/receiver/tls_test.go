package receiver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// A certificate that is replaced on disk is served without a restart.
func TestCertificateIsReplaced(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	pool := x509.NewCertPool()
	pool.AddCert(writeCertificate(t, cert, key, 1))
	s := serve(t, func(l *Listener) { l.CertFile, l.KeyFile = cert, key })

	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	served := func() int64 {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https"+s.url[len("http"):]+Path, nil)
		s.do(err)
		res, err := client.Do(req)
		s.do(err)
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("the answer is %d", res.StatusCode)
		}
		return res.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	if got := served(); got != 1 {
		t.Errorf("certificate %d is served", got)
	}
	pool.AddCert(writeCertificate(t, cert, key, 2))
	testenv.Await(t, 30*time.Second, "the new certificate is served", func() error {
		if got := served(); got != 2 {
			return fmt.Errorf("it is certificate %d", got)
		}
		return nil
	})
}

func writeCertificate(t *testing.T, certFile, keyFile string, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
