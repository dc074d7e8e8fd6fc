package source

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// authority is the CA of one test.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key, a.pem = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "test CA"}})
	return a
}

// issue returns a certificate and its key in PEM.
func (a *authority) issue(usage x509.ExtKeyUsage) (cert, key []byte) {
	a.t.Helper()
	_, private, cert := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "robot"}, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		DNSNames: []string{"localhost", "git.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := template, key
	if a.cert != nil {
		parent, signer = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// secured is an https server with a certificate from the authority.
type secured struct {
	*httptest.Server
	requests atomic.Int64
	clients  atomic.Int64 // connections with a client certificate
}

// serve starts an https server. With adjust it can request client certificates.
func (a *authority) serve(handler http.Handler, adjust ...func(*tls.Config)) *secured {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.issue(x509.ExtKeyUsageServerAuth))
	if err != nil {
		a.t.Fatal(err)
	}
	s := &secured{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		if len(r.TLS.PeerCertificates) > 0 {
			s.clients.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	for _, f := range adjust {
		f(s.TLS)
	}
	s.Config.ErrorLog = discard
	s.StartTLS()
	a.t.Cleanup(s.Close)
	return s
}

func wantClients(from *authority) func(*tls.Config) {
	return func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, from.pool() }
}

// certificate returns a client certificate from the authority.
func (a *authority) certificate() *Certificate {
	a.t.Helper()
	c, err := ParseCertificate(a.issue(x509.ExtKeyUsageClientAuth))
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}
