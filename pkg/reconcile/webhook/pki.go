package webhook

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Lifetimes of certificates. A new one is created when a third of the lifetime remains.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	servingLife   = 90 * 24 * time.Hour
	// settle is the time that a new CA is in every bundle before it signs a serving
	// certificate, and that the previous CA remains there afterwards.
	settle = 24 * time.Hour
	// backdate allows for an API server whose clock is behind.
	backdate = time.Hour
)

// Keys of the Secret, in addition to those of type kubernetes.io/tls. Both have one block
// of PEM for each CA, newest first.
const (
	keyAuthorities    = "ca.crt"
	keyAuthorityKeys  = "ca.key"
	maxAuthorityCerts = 8
)

// authority is a CA.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// credentials are the CAs and the serving certificate. The zero value has none.
type credentials struct {
	authorities []authority // newest first
	serving     *tls.Certificate
}

// parse parses the output of data. After an error everything must be created again.
func parse(data map[string][]byte) (credentials, error) {
	var out credentials
	certs := pemBlocks(data[keyAuthorities])
	keys := pemBlocks(data[keyAuthorityKeys])
	if len(certs) != len(keys) || len(certs) == 0 || len(certs) > maxAuthorityCerts {
		return credentials{}, fmt.Errorf("%s has %d certificates and %s %d keys", keyAuthorities, len(certs), keyAuthorityKeys, len(keys))
	}
	for i := range certs {
		cert, err := x509.ParseCertificate(certs[i])
		if err != nil {
			return credentials{}, fmt.Errorf("%s: certificate %d: %w", keyAuthorities, i+1, err)
		}
		key, err := x509.ParsePKCS8PrivateKey(keys[i])
		signer, ok := key.(*ecdsa.PrivateKey)
		if err != nil || !ok || !signer.PublicKey.Equal(cert.PublicKey) || !cert.IsCA {
			return credentials{}, fmt.Errorf("%s: block %d is not the key of certificate %d of %s", keyAuthorityKeys, i+1, i+1, keyAuthorities)
		}
		out.authorities = append(out.authorities, authority{cert, signer})
	}
	slices.SortStableFunc(out.authorities, func(a, b authority) int { return b.cert.NotBefore.Compare(a.cert.NotBefore) })
	serving, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return credentials{}, errors.New("tls.crt and tls.key are not a certificate and its key") // the cause may quote a key
	}
	out.serving = &serving
	return out, nil
}

func pemBlocks(data []byte) [][]byte {
	var out [][]byte
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return out
		}
		out = append(out, block.Bytes)
	}
}

// data returns the content of the Secret.
func (c credentials) data() (map[string][]byte, error) {
	var keys bytes.Buffer
	for _, a := range c.authorities {
		if err := writeKey(&keys, a.key); err != nil {
			return nil, err
		}
	}
	var key bytes.Buffer
	if err := writeKey(&key, c.serving.PrivateKey.(*ecdsa.PrivateKey)); err != nil {
		return nil, err
	}
	return map[string][]byte{
		keyAuthorities:          c.bundle(),
		keyAuthorityKeys:        keys.Bytes(),
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.serving.Certificate[0]}),
		corev1.TLSPrivateKeyKey: key.Bytes(),
	}, nil
}

func writeKey(to *bytes.Buffer, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding a key: %w", err)
	}
	return pem.Encode(to, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// bundle returns the CAs that clients must trust, in PEM.
func (c credentials) bundle() []byte {
	var out bytes.Buffer
	for _, a := range c.authorities {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
	}
	return out.Bytes()
}

// renewed creates what is due at a time, for a server with these names. It returns the
// new credentials, and why they differ, "" if they do not.
func (c credentials) renewed(names []string, now time.Time) (credentials, string, error) {
	var why []string
	next := credentials{serving: c.serving}
	for _, a := range c.authorities {
		switch {
		case !now.Before(a.cert.NotAfter):
			why = append(why, "a CA has expired")
		case now.Before(a.cert.NotBefore):
			why = append(why, "a CA was created with a wrong clock")
		default:
			next.authorities = append(next.authorities, a)
		}
	}
	if len(next.authorities) == 0 || !now.Before(renewal(next.authorities[0].cert)) {
		a, err := newAuthority(now)
		if err != nil {
			return credentials{}, "", err
		}
		next.authorities = slices.Insert(next.authorities, 0, a)
		why = append(why, "a CA was due for renewal")
	}
	if reason := next.unfit(names, now); reason != "" {
		serving, err := next.signer(now).sign(next.nextNames(names, now), now)
		if err != nil {
			return credentials{}, "", err
		}
		next.serving = serving
		why = append(why, reason)
	}
	if retire := next.retirement(); !retire.IsZero() && !now.Before(retire) {
		next.authorities = next.authorities[:1]
		why = append(why, "the previous CA is no longer needed")
	}
	return next, strings.Join(why, ", "), nil
}

// due returns when renewed will next have something to do; not later than now if it
// already has.
func (c credentials) due(now time.Time) time.Time {
	if len(c.authorities) == 0 || c.serving == nil || now.Before(c.authorities[0].cert.NotBefore) || now.Before(c.serving.Leaf.NotBefore) {
		return now
	}
	next := renewal(c.serving.Leaf)
	if at := renewal(c.authorities[0].cert); at.Before(next) {
		next = at
	}
	if at := c.retirement(); !at.IsZero() && at.Before(next) {
		next = at
	}
	return next
}

// unfit returns why a new serving certificate is needed, "" if the current one is valid.
func (c credentials) unfit(names []string, now time.Time) string {
	if c.serving == nil {
		return "no certificate existed"
	}
	leaf := c.serving.Leaf
	if had := sorted(namesOf(leaf)); slices.ContainsFunc(sorted(names), func(name string) bool { return !slices.Contains(had, name) }) {
		return "the server has another name"
	}
	if !now.Before(renewal(leaf)) {
		return "the certificate was due for renewal"
	}
	if now.Before(leaf.NotBefore) {
		return "the certificate was created with a wrong clock"
	}
	if c.issuer() < 0 {
		return "the certificate's CA was removed"
	}
	return ""
}

// nextNames returns the names of the next certificate: those of a server, and those of the current
// certificate until it is renewed. Two replicas can have different names, for example while a
// Deployment is rolled out; without this they would replace each other's certificate endlessly.
func (c credentials) nextNames(names []string, now time.Time) []string {
	if c.serving == nil || now.Before(c.serving.Leaf.NotBefore) || !now.Before(renewal(c.serving.Leaf)) {
		return names
	}
	return sorted(slices.Concat(names, namesOf(c.serving.Leaf)))
}

// issuer returns the index of the CA that signed the serving certificate, -1 if none of
// them did.
func (c credentials) issuer() int {
	return slices.IndexFunc(c.authorities, func(a authority) bool { return c.serving.Leaf.CheckSignatureFrom(a.cert) == nil })
}

// signer returns the newest CA that has been published for long enough, or the only one.
func (c credentials) signer(now time.Time) authority {
	for _, a := range c.authorities {
		if now.Sub(made(a.cert)) >= settle {
			return a
		}
	}
	// All of them are newer: the first was published the longest time ago.
	return c.authorities[len(c.authorities)-1]
}

// retirement returns when the CAs before the newest can be removed, the zero time if one
// of them is still needed or there are none.
func (c credentials) retirement() time.Time {
	if len(c.authorities) < 2 || c.issuer() != 0 {
		return time.Time{}
	}
	return made(c.serving.Leaf).Add(settle)
}

// made returns when a certificate was created.
func made(cert *x509.Certificate) time.Time { return cert.NotBefore.Add(backdate) }

// renewal returns when two thirds of a certificate's lifetime are over.
func renewal(cert *x509.Certificate) time.Time {
	return made(cert).Add(cert.NotAfter.Sub(made(cert)) / 3 * 2)
}

func newAuthority(now time.Time) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "osm-gitops webhooks " + now.UTC().Format(time.DateOnly)},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, fmt.Errorf("making a CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return authority{}, fmt.Errorf("making a CA: %w", err)
	}
	return authority{cert, key}, nil
}

// sign creates a serving certificate that ends with its CA at the latest.
func (a authority) sign(names []string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "osm-gitops webhooks"},
		NotBefore:   now.Add(-backdate),
		NotAfter:    now.Add(servingLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

func namesOf(cert *x509.Certificate) []string {
	out := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		out = append(out, ip.String())
	}
	return out
}

// sorted returns names in the order in which they are compared.
func sorted(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.ToLower(name)
		if ip := net.ParseIP(name); ip != nil {
			out[i] = ip.String()
		}
	}
	slices.SortFunc(out, cmp.Compare[string])
	return slices.Compact(out)
}
