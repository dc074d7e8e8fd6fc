package pki

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
	AuthorityLife = 10 * 365 * 24 * time.Hour
	ServingLife   = 90 * 24 * time.Hour
	// PropagationTime is how long a new CA is published in the bundle before it signs a serving
	// certificate, because API servers reject a certificate of a CA that their copy of the bundle
	// lacks. The previous CA remains in the bundle for as long afterwards.
	PropagationTime = 24 * time.Hour
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
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
}

// Credentials are the CAs and the serving certificate. The zero value has none.
type Credentials struct {
	Authorities []authority // newest first
	Serving     *tls.Certificate
}

// Parse parses the output of EncodeSecretData. After an error everything must be created again.
func Parse(data map[string][]byte) (Credentials, error) {
	var out Credentials
	certs := pemBlocks(data[keyAuthorities])
	keys := pemBlocks(data[keyAuthorityKeys])
	if len(certs) != len(keys) || len(certs) == 0 || len(certs) > maxAuthorityCerts {
		return Credentials{}, fmt.Errorf("%s has %d certificates and %s %d keys", keyAuthorities, len(certs), keyAuthorityKeys, len(keys))
	}
	for i := range certs {
		cert, err := x509.ParseCertificate(certs[i])
		if err != nil {
			return Credentials{}, fmt.Errorf("%s: certificate %d: %w", keyAuthorities, i+1, err)
		}
		key, err := x509.ParsePKCS8PrivateKey(keys[i])
		signer, ok := key.(*ecdsa.PrivateKey)
		if err != nil || !ok || !signer.PublicKey.Equal(cert.PublicKey) || !cert.IsCA {
			return Credentials{}, fmt.Errorf("%s: block %d is not the key of certificate %d of %s", keyAuthorityKeys, i+1, i+1, keyAuthorities)
		}
		out.Authorities = append(out.Authorities, authority{cert, signer})
	}
	slices.SortStableFunc(out.Authorities, func(a, b authority) int { return b.Cert.NotBefore.Compare(a.Cert.NotBefore) })
	serving, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return Credentials{}, errors.New("tls.crt and tls.key are not a certificate and its key") // the cause may quote a key
	}
	out.Serving = &serving
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

// EncodeSecretData returns the content of the Secret.
func (c Credentials) EncodeSecretData() (map[string][]byte, error) {
	var keys bytes.Buffer
	for _, a := range c.Authorities {
		if err := writeKey(&keys, a.Key); err != nil {
			return nil, err
		}
	}
	var key bytes.Buffer
	if err := writeKey(&key, c.Serving.PrivateKey.(*ecdsa.PrivateKey)); err != nil {
		return nil, err
	}
	return map[string][]byte{
		keyAuthorities:          c.Bundle(),
		keyAuthorityKeys:        keys.Bytes(),
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Serving.Certificate[0]}),
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

// Bundle returns the CAs that clients must trust, in PEM.
func (c Credentials) Bundle() []byte {
	var out bytes.Buffer
	for _, a := range c.Authorities {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Cert.Raw}))
	}
	return out.Bytes()
}

// RenewIfDue creates what is due at a time, for a server with these names. It returns the
// new credentials, and why they differ, "" if they do not.
func (c Credentials) RenewIfDue(names []string, now time.Time) (Credentials, string, error) {
	var why []string
	next := Credentials{Serving: c.Serving}
	for _, a := range c.Authorities {
		switch {
		case !now.Before(a.Cert.NotAfter):
			why = append(why, "a CA has expired")
		case now.Before(a.Cert.NotBefore):
			why = append(why, "a CA was created with a wrong clock")
		default:
			next.Authorities = append(next.Authorities, a)
		}
	}
	if len(next.Authorities) == 0 || !now.Before(renewal(next.Authorities[0].Cert)) {
		a, err := newAuthority(now)
		if err != nil {
			return Credentials{}, "", err
		}
		next.Authorities = slices.Insert(next.Authorities, 0, a)
		why = append(why, "a CA was due for renewal")
	}
	if reason := next.replacementReason(names, now); reason != "" {
		serving, err := next.signingCA(now).Sign(next.nextNames(names, now), now)
		if err != nil {
			return Credentials{}, "", err
		}
		next.Serving = serving
		why = append(why, reason)
	}
	if retire := next.oldCARemovalTime(); !retire.IsZero() && !now.Before(retire) {
		next.Authorities = next.Authorities[:1]
		why = append(why, "the previous CA is no longer needed")
	}
	return next, strings.Join(why, ", "), nil
}

// NextRenewal returns when RenewIfDue will next have something to do; not later than now if it
// already has.
func (c Credentials) NextRenewal(now time.Time) time.Time {
	if len(c.Authorities) == 0 || c.Serving == nil || now.Before(c.Authorities[0].Cert.NotBefore) || now.Before(c.Serving.Leaf.NotBefore) {
		return now
	}
	next := renewal(c.Serving.Leaf)
	if at := renewal(c.Authorities[0].Cert); at.Before(next) {
		next = at
	}
	if at := c.oldCARemovalTime(); !at.IsZero() && at.Before(next) {
		next = at
	}
	return next
}

// replacementReason returns why a new serving certificate is needed, "" if the current one is
// valid.
func (c Credentials) replacementReason(names []string, now time.Time) string {
	if c.Serving == nil {
		return "no certificate existed"
	}
	leaf := c.Serving.Leaf
	if had := NormalizeNames(namesOf(leaf)); slices.ContainsFunc(NormalizeNames(names), func(name string) bool { return !slices.Contains(had, name) }) {
		return "the server has another name"
	}
	if !now.Before(renewal(leaf)) {
		return "the certificate was due for renewal"
	}
	if now.Before(leaf.NotBefore) {
		return "the certificate was created with a wrong clock"
	}
	if c.IssuerIndex() < 0 {
		return "the certificate's CA was removed"
	}
	return ""
}

// nextNames returns the names of the next certificate: those of a server, and those of the current
// certificate until it is renewed. Two replicas can have different names, for example while a
// Deployment is rolled out; without this they would replace each other's certificate endlessly.
func (c Credentials) nextNames(names []string, now time.Time) []string {
	if c.Serving == nil || now.Before(c.Serving.Leaf.NotBefore) || !now.Before(renewal(c.Serving.Leaf)) {
		return names
	}
	return NormalizeNames(slices.Concat(names, namesOf(c.Serving.Leaf)))
}

// IssuerIndex returns the index of the CA that signed the serving certificate, -1 if none of
// them did.
func (c Credentials) IssuerIndex() int {
	return slices.IndexFunc(c.Authorities, func(a authority) bool { return c.Serving.Leaf.CheckSignatureFrom(a.Cert) == nil })
}

// signingCA returns the newest CA that has been published for PropagationTime. If none has, it returns
// the oldest.
func (c Credentials) signingCA(now time.Time) authority {
	for _, a := range c.Authorities {
		if now.Sub(creationTime(a.Cert)) >= PropagationTime {
			return a
		}
	}
	return c.Authorities[len(c.Authorities)-1] // newest first: the last one is the oldest
}

// oldCARemovalTime returns when the CAs before the newest can be removed, the zero time if one
// of them is still needed or there are none.
func (c Credentials) oldCARemovalTime() time.Time {
	if len(c.Authorities) < 2 || c.IssuerIndex() != 0 {
		return time.Time{}
	}
	return creationTime(c.Serving.Leaf).Add(PropagationTime)
}

// creationTime returns when a certificate was created.
func creationTime(cert *x509.Certificate) time.Time { return cert.NotBefore.Add(backdate) }

// renewal returns when two thirds of a certificate's lifetime are over.
func renewal(cert *x509.Certificate) time.Time {
	return creationTime(cert).Add(cert.NotAfter.Sub(creationTime(cert)) / 3 * 2)
}

func newAuthority(now time.Time) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "osm-gitops webhooks " + now.UTC().Format(time.DateOnly)},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(AuthorityLife),
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

// Sign creates a serving certificate that ends with its CA at the latest.
func (a authority) Sign(names []string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "osm-gitops webhooks"},
		NotBefore:   now.Add(-backdate),
		NotAfter:    now.Add(ServingLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if template.NotAfter.After(a.Cert.NotAfter) {
		template.NotAfter = a.Cert.NotAfter
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Cert, key.Public(), a.Key)
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

// NormalizeNames returns names in the form in which they are compared: lower case, canonical IP
// addresses, sorted, without duplicates.
func NormalizeNames(names []string) []string {
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
