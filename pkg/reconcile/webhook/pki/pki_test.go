package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const day = 24 * time.Hour

var (
	epoch     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	testNames = []string{"osm-gitops-webhook.kube-system.svc", "127.0.0.1"}
)

// renew runs renewed, and puts the outcome through the Secret and back.
func renew(t *testing.T, c Credentials, now time.Time) (Credentials, string) {
	t.Helper()
	next, why, err := c.RenewIfDue(testNames, now)
	if err != nil {
		t.Fatal(err)
	}
	data, err := next.EncodeSecretData()
	if err != nil {
		t.Fatal(err)
	}
	read, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	trusts(t, read.Bundle(), read, now)
	return read, why
}

// trusts checks that a caller with a bundle takes what is served.
func trusts(t *testing.T, bundle []byte, c Credentials, now time.Time) {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(bundle) {
		t.Fatal("no bundle")
	}
	for _, name := range testNames {
		if _, err := c.Serving.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: now, DNSName: name}); err != nil {
			t.Errorf("%s, at %s: %v", name, now, err)
		}
	}
}

func TestCertificatesAreMade(t *testing.T) {
	c, why := renew(t, Credentials{}, epoch)
	if !strings.Contains(why, "no certificate existed") || len(c.Authorities) != 1 {
		t.Fatalf("%d CAs, because %q", len(c.Authorities), why)
	}
	for _, cert := range []*x509.Certificate{c.Authorities[0].Cert, c.Serving.Leaf} {
		key, ok := cert.PublicKey.(*ecdsa.PublicKey)
		if !ok || key.Curve != elliptic.P256() {
			t.Errorf("the key of %s is %T", cert.Subject, cert.PublicKey)
		}
	}
	if got := c.Authorities[0].Cert.NotAfter.Sub(epoch); got != 10*365*day {
		t.Errorf("the CA lives %s", got)
	}
	if got := c.Serving.Leaf.NotAfter.Sub(epoch); got != 90*day {
		t.Errorf("the certificate lives %s", got)
	}
	if got := c.NextRenewal(epoch).Sub(epoch); got != 60*day {
		t.Errorf("something is due after %s", got)
	}
	trusts(t, c.Bundle(), c, epoch.Add(-30*time.Minute)) // a clock that is behind
	if _, why := renew(t, c, epoch.Add(60*day-time.Second)); why != "" {
		t.Errorf("written again before it is due: %s", why)
	}
	if _, why, _ := c.RenewIfDue([]string{testNames[1], testNames[0]}, epoch); why != "" {
		t.Errorf("written again for the order of names: %s", why)
	}
}

// Two replicas with different names, as while a Deployment is rolled out, both accept
// each other's certificate, and names that are no longer used are removed when the
// certificate is due.
func TestReplicasOfDifferentNames(t *testing.T) {
	before, after := []string{"a.svc", "old.example.com", "10.0.0.7"}, []string{"A.svc", "new.example.com"}
	c, _, err := Credentials{}.RenewIfDue(before, epoch)
	if err != nil {
		t.Fatal(err)
	}
	c, why, err := c.RenewIfDue(after, epoch)
	if err != nil || why != "the server has another name" {
		t.Errorf("for other names it was made because %q, %v", why, err)
	}
	for _, names := range [][]string{before, after} {
		if _, why, err := c.RenewIfDue(names, epoch.Add(time.Hour)); err != nil || why != "" {
			t.Errorf("for %q it was made once more: %q, %v", names, why, err)
		}
	}
	c, _, err = c.RenewIfDue(after, epoch.Add(60*day))
	if got := NormalizeNames(namesOf(c.Serving.Leaf)); err != nil || !slices.Equal(got, NormalizeNames(after)) {
		t.Errorf("the names that are left are %q, %v", got, err)
	}
}

// TestYears lives through 25 years in steps of 12 hours. A caller learns the bundle
// 12 hours late and takes what is served all the same; both of two servers do that
// have what was written at most one step ago.
func TestYears(t *testing.T) {
	c, _ := renew(t, Credentials{}, epoch)
	told := c.Bundle()
	reasons := map[string]int{}
	most := 0
	for now := epoch; now.Before(epoch.Add(25 * 365 * day)); now = now.Add(12 * time.Hour) {
		late := told
		told = c.Bundle()
		if !now.Before(c.NextRenewal(now)) {
			next, why := renew(t, c, now)
			if why == "" {
				t.Fatalf("at %s something was due and nothing happened", now)
			}
			trusts(t, next.Bundle(), c, now) // a server that has not read it yet
			c = next
			for reason := range strings.SplitSeq(why, ", ") {
				reasons[reason]++
			}
		}
		trusts(t, late, c, now)
		most = max(most, len(c.Authorities))
	}
	// 25 years are 152 sixty days, and three times two thirds of ten years.
	want := map[string]int{"the certificate was due for renewal": 152, "a CA was due for renewal": 3, "the previous CA is no longer needed": 3}
	if !maps.Equal(reasons, want) || most != 2 {
		t.Errorf("renewed for %v with up to %d CAs, want %v with two", reasons, most, want)
	}
}

// A controller that did not run for years starts again.
func TestEverythingHasExpired(t *testing.T) {
	c, _ := renew(t, Credentials{}, epoch)
	next, why := renew(t, c, epoch.Add(11*365*day))
	if len(next.Authorities) != 1 || next.Authorities[0].Cert.Equal(c.Authorities[0].Cert) {
		t.Errorf("%d CAs, because %q", len(next.Authorities), why)
	}
	later, _ := renew(t, c, epoch.Add(8*365*day)) // the CA is due, the certificate has expired
	trusts(t, c.Bundle(), later, epoch.Add(8*365*day))
}

// A clock that was ahead for a while leaves nothing behind.
func TestClockWasWrong(t *testing.T) {
	good, _ := renew(t, Credentials{}, epoch)
	for name, ahead := range map[string]time.Duration{"by 70 days": 70 * day, "by seven years": 7 * 365 * day, "by eleven years": 11 * 365 * day} {
		wrong, why := renew(t, good, epoch.Add(ahead))
		now := epoch.Add(time.Minute)
		if why == "" || wrong.NextRenewal(now).After(now) {
			t.Fatalf("%s: renewed because %q, due at %s", name, why, wrong.NextRenewal(now))
		}
		right, why := renew(t, wrong, now)
		if !strings.Contains(why, "with a wrong clock") || len(right.Authorities) != 1 || !right.NextRenewal(now).After(now) {
			t.Errorf("%s: %d CAs, because %q", name, len(right.Authorities), why)
		}
	}
}

func TestBrokenSecret(t *testing.T) {
	c, _ := renew(t, Credentials{}, epoch)
	other, _ := renew(t, Credentials{}, epoch)
	good, err := c.EncodeSecretData()
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.EncodeSecretData()
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(data map[string][]byte){
		"empty":                func(data map[string][]byte) { clear(data) },
		"no CA":                func(data map[string][]byte) { delete(data, keyAuthorities) },
		"no key of the CA":     func(data map[string][]byte) { delete(data, keyAuthorityKeys) },
		"another CA's key":     func(data map[string][]byte) { data[keyAuthorityKeys] = foreign[keyAuthorityKeys] },
		"another server's key": func(data map[string][]byte) { data["tls.key"] = foreign["tls.key"] },
		"garbage":              func(data map[string][]byte) { data["tls.crt"] = []byte("-----BEGIN") },
		"a server for a CA":    func(data map[string][]byte) { data["ca.crt"], data["ca.key"] = data["tls.crt"], data["tls.key"] },
		"many CAs": func(data map[string][]byte) {
			data["ca.crt"] = []byte(strings.Repeat(string(data["ca.crt"]), 9))
			data["ca.key"] = []byte(strings.Repeat(string(data["ca.key"]), 9))
		},
	} {
		data := maps.Clone(good)
		edit(data)
		_, err := Parse(data)
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "PRIVATE KEY") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A certificate of a CA that is not there is replaced.
	mixed := maps.Clone(good)
	mixed["tls.crt"], mixed["tls.key"] = foreign["tls.crt"], foreign["tls.key"]
	read, err := Parse(mixed)
	if err != nil {
		t.Fatal(err)
	}
	if _, why := renew(t, read, epoch); why != "the certificate's CA was removed" {
		t.Errorf("renewed because %q", why)
	}
}
