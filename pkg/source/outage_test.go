package source

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http/httptest"
	"testing"
	"time"
)

// The error of an outage is the same each time, without local ports and times. Otherwise every
// reconciliation would write a status and an event.
func TestOutageReadsTheSame(t *testing.T) {
	expired := expiredServer(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	resetting := listen(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		_ = c.(*net.TCPConn).SetLinger(0) // causes a reset, whose error names both addresses
	})
	for name, c := range map[string]struct{ url, says string }{
		"an expired certificate": {expired, "phase TLS: the server's certificate is not trusted: it is valid from 2001-01-01T00:00:00Z to 2002-01-01T00:00:00Z"},
		"nobody listens":         {closed.URL, "connection refused"},
		"a reset":                {"http://" + resetting, "phase refs: "},
	} {
		t.Run(name, func(t *testing.T) {
			said := map[string]bool{}
			for range 3 {
				_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: c.url + "/x.git", Auth: secret})
				wantError(t, err, ErrUnreachable, c.says)
				said[err.Error()] = true
				time.Sleep(400 * time.Millisecond) // so that the seconds differ
			}
			if len(said) != 1 {
				t.Errorf("it is told in %d ways: %v", len(said), said)
			}
		})
	}
}

// expiredServer is a TLS server whose certificate is not valid now.
func expiredServer(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2002, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.Config.ErrorLog = discard
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}
