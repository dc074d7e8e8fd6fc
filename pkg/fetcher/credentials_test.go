package fetcher

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// canary is part of every credential in these tests. It must not appear in an error.
const canary = "c4n4ry"

type data map[string]string

func secretOf(name string, d data) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name + "-uid")}, Data: map[string][]byte{}}
	for k, v := range d {
		s.Data[k] = []byte(v)
	}
	return s
}

func remoteOf(t *testing.T, url string, secrets ...*corev1.Secret) (source.Remote, error) {
	t.Helper()
	given := map[string]*corev1.Secret{}
	for _, s := range secrets {
		given[s.Name] = s
	}
	return withSecrets(source.Remote{URL: url}, "ns", given["git"], given["proxy"])
}

// material has one of each kind of credential.
type material struct{ identity, encrypted, public, knownHosts, cert, key, app string }

func newMaterial(t *testing.T) material {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	plain, err := ssh.MarshalPrivateKey(private, "")
	must(err)
	sealed, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(canary))
	must(err)
	signer, err := ssh.NewSignerFromKey(private)
	must(err)
	public := string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	ecDER, err := x509.MarshalECPrivateKey(ec)
	must(err)
	certDER, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}, &x509.Certificate{}, &ec.PublicKey, ec)
	must(err)
	app, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return material{
		identity: string(pem.EncodeToMemory(plain)), encrypted: string(pem.EncodeToMemory(sealed)), public: public, knownHosts: "git.example.com " + public,
		cert: block("CERTIFICATE", certDER), key: block("EC PRIVATE KEY", ecDER), app: block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(app)),
	}
}

const (
	overHTTPS = "https://git.example.com/osps.git"
	overShell = "git@git.example.com:platform/osps.git"
)

func TestCredentials(t *testing.T) {
	m := newMaterial(t)
	for name, c := range map[string]struct {
		url   string
		data  data
		check func(source.Remote) bool
	}{
		"basic": {overHTTPS, data{"username": "u", "password": canary}, func(r source.Remote) bool {
			return *r.Auth.(*source.BasicAuth) == source.BasicAuth{Username: "u", Password: canary}
		}},
		"bearer":      {overHTTPS, data{"bearerToken": canary}, func(r source.Remote) bool { return r.Auth.(*source.BearerToken).Token == canary }},
		"a CA alone":  {overHTTPS, data{"ca.crt": m.cert}, func(r source.Remote) bool { return r.Auth == nil && string(r.CA) == m.cert }},
		"basic, mTLS": {overHTTPS, data{"username": "u", "password": canary, "ca.crt": m.cert, "tls.crt": m.cert, "tls.key": m.key}, func(r source.Remote) bool { return r.Auth != nil && r.CA != nil && r.Certificate != nil }},
		"an app": {overHTTPS, data{"githubAppID": "1", "githubAppInstallationID": "2", "githubAppPrivateKey": m.app, "githubAppBaseURL": "https://github.example.com"}, func(r source.Remote) bool {
			_, ok := r.Auth.(*source.GitHubApp)
			return ok
		}},
		"ssh":            {overShell, data{"identity": m.identity, "identity.pub": m.public, "known_hosts": m.knownHosts}, isSSH},
		"ssh, encrypted": {"ssh://git@git.example.com/osps.git", data{"identity": m.encrypted, "known_hosts": m.knownHosts, "password": canary}, isSSH},
	} {
		t.Run(name, func(t *testing.T) {
			remote, err := remoteOf(t, c.url, secretOf("git", c.data))
			if err != nil || !c.check(remote) || remote.URL != c.url || remote.Proxy != nil {
				t.Errorf("got %+v, %v", remote, err)
			}
		})
	}
	remote, err := remoteOf(t, overHTTPS, secretOf("proxy", data{"address": "http://proxy.example.com:3128", "username": "u", "password": canary}))
	if err != nil || remote.Proxy == nil || remote.Auth != nil {
		t.Errorf("with a proxy: %+v, %v", remote, err)
	}
}

func isSSH(r source.Remote) bool { _, ok := r.Auth.(*source.SSHKey); return ok }

// The error about an unusable Secret names it, the key, and the remedy; the controller
// waits for another Secret, and (security.md 14) its content is not repeated.
func TestWrongSecrets(t *testing.T) {
	m := newMaterial(t)
	for name, c := range map[string]struct {
		url    string
		secret *corev1.Secret
		says   string
	}{
		"nothing":                       {overHTTPS, secretOf("git", nil), "it is empty"},
		"a user alone":                  {overHTTPS, secretOf("git", data{"username": canary}), "password is missing"},
		"a password alone":              {overHTTPS, secretOf("git", data{"password": canary}), "username is missing"},
		"an empty password":             {overHTTPS, secretOf("git", data{"username": canary, "password": ""}), `"password" is empty`},
		"basic and bearer":              {overHTTPS, secretOf("git", data{"username": canary, "password": canary, "bearerToken": canary}), "choose one"},
		"basic and app":                 {overHTTPS, secretOf("git", data{"username": canary, "password": canary, "githubAppID": "1"}), "choose one"},
		"a token with a line break":     {overHTTPS, secretOf("git", data{"bearerToken": canary + "\n"}), "bearerToken contains a space"},
		"an app without a key":          {overHTTPS, secretOf("git", data{"githubAppID": "1", "githubAppInstallationID": "2"}), "githubAppPrivateKey is missing"},
		"an app's URL alone":            {overHTTPS, secretOf("git", data{"githubAppBaseURL": canary}), "githubAppID and githubAppInstallationID and githubAppPrivateKey is missing"},
		"an app of words":               {overHTTPS, secretOf("git", data{"githubAppID": canary, "githubAppInstallationID": "2", "githubAppPrivateKey": m.app}), "githubAppID is not a number"},
		"an app by owner":               {overHTTPS, secretOf("git", data{"githubAppInstallationOwner": canary}), "give githubAppInstallationID instead"},
		"a certificate without a key":   {overHTTPS, secretOf("git", data{"tls.crt": m.cert}), "tls.key is missing"},
		"a key without a certificate":   {overHTTPS, secretOf("git", data{"tls.key": m.key}), "tls.crt is missing"},
		"another one's key":             {overHTTPS, secretOf("git", data{"tls.crt": m.cert, "tls.key": m.app}), "tls.crt and tls.key"},
		"junk for a CA":                 {overHTTPS, secretOf("git", data{"ca.crt": canary}), "ca.crt holds no certificate"},
		"an old name":                   {overHTTPS, secretOf("git", data{"caFile": m.cert}), "rename it to ca.crt"},
		"an SSH key for https":          {overHTTPS, secretOf("git", data{"identity": m.identity, "known_hosts": m.knownHosts}), `"identity" has no effect for a repository over https`},
		"a key of no meaning":           {overHTTPS, secretOf("git", data{"username": "u", "password": canary, "passwd": canary}), `"passwd" has no effect`},
		"a password for ssh":            {overShell, secretOf("git", data{"username": "u", "password": canary}), `"username" has no effect for a repository over ssh`},
		"ssh without known_hosts":       {overShell, secretOf("git", data{"identity": m.identity}), "known_hosts is missing"},
		"ssh without identity":          {overShell, secretOf("git", data{"known_hosts": m.knownHosts}), "identity is missing"},
		"junk for known_hosts":          {overShell, secretOf("git", data{"identity": m.identity, "known_hosts": canary}), "known_hosts, line 1"},
		"junk for identity":             {overShell, secretOf("git", data{"identity": canary, "known_hosts": m.knownHosts}), "identity is not a private key"},
		"a wrong password":              {overShell, secretOf("git", data{"identity": m.encrypted, "known_hosts": m.knownHosts, "password": canary + "x"}), "password does not decrypt identity"},
		"a CA for ssh":                  {overShell, secretOf("git", data{"identity": m.identity, "known_hosts": m.knownHosts, "ca.crt": m.cert}), `"ca.crt" has no effect`},
		"a proxy without address":       {overHTTPS, secretOf("proxy", data{"username": canary, "password": canary}), "address is missing"},
		"a proxy with a password in it": {overHTTPS, secretOf("proxy", data{"address": "http://u:" + canary + "@proxy:1"}), "address contains a user"},
		"a proxy of another kind":       {overHTTPS, secretOf("proxy", data{"address": "quic://" + canary}), "address must be"},
		"a proxy's token":               {overHTTPS, secretOf("proxy", data{"address": "http://proxy:1", "bearerToken": canary}), `"bearerToken" has no effect for a proxy`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := remoteOf(t, c.url, c.secret)
			var wait *WaitError
			if !errors.As(err, &wait) {
				t.Fatalf("got %v: a Secret is waited for", err)
			}
			field := map[string]string{"git": "spec.git.secretRef", "proxy": "spec.git.proxySecretRef"}[c.secret.Name]
			for _, says := range []string{field + ": Secret ns/" + c.secret.Name + ": ", c.says} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%q does not say %q", err, says)
				}
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("%q repeats what the Secret holds", err)
			}
		})
	}
}

func TestSSHWithoutASecret(t *testing.T) {
	for _, url := range []string{overShell, "ssh://git@git.example.com/osps.git"} {
		_, err := remoteOf(t, url)
		var spec *SpecError
		if !errors.As(err, &spec) || spec.Reason != api.ReasonSourceInvalid || !strings.HasPrefix(err.Error(), "spec.git.secretRef: a repository over ssh needs a Secret with the keys identity and known_hosts") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A private key is decrypted once, and again after any change.
func TestEncryptedKeysAreKept(t *testing.T) {
	m := newMaterial(t)
	secret := func(more ...string) *corev1.Secret {
		d := data{"identity": m.encrypted, "known_hosts": m.knownHosts, "password": canary}
		for _, key := range more {
			d[key] = m.public
		}
		return secretOf("git", d)
	}
	proxy := secretOf("proxy", data{"address": "http://proxy:1"})
	f, name := &Fetcher{}, types.NamespacedName{Namespace: "ns", Name: "source"}
	look := func(url string, secret, proxy *corev1.Secret) source.Remote {
		t.Helper()
		remote, err := f.withCachedAuth(name, source.Remote{URL: url}, secret, proxy)
		if err != nil {
			t.Fatal(err)
		}
		want, err := withSecrets(source.Remote{URL: url}, "ns", secret, proxy)
		if err != nil || remote.Key != want.Key || (remote.Proxy == nil) != (want.Proxy == nil) || (remote.Auth == nil) != (want.Auth == nil) {
			t.Errorf("got %+v, want %+v, %v", remote, want, err)
		}
		return remote
	}
	first := look(overShell, secret(), proxy)
	if look(overShell, secret(), proxy).Auth != first.Auth {
		t.Error("the key was decrypted twice")
	}
	if look(overShell, secret(), nil).Auth == first.Auth || look(overShell, secret("identity.pub"), proxy).Auth == first.Auth {
		t.Error("other Secrets have the same key")
	}
	look(overHTTPS, nil, nil)
	if len(f.keys) > 0 {
		t.Error("the key is kept for a repository that does not use it")
	}
	look(overShell, secret(), nil)
	if _, err := f.withCachedAuth(name, source.Remote{URL: overHTTPS}, secret(), nil); err == nil {
		t.Error("a key for ssh is taken for https")
	}
	f.Forget(name)
	if len(f.keys) > 0 {
		t.Error("the key of a deleted source is kept")
	}
}

// Sources share a mirror only if they have the same repository, credentials, CA and proxy.
func TestMirrorKey(t *testing.T) {
	m := newMaterial(t)
	basic := func() *corev1.Secret { return secretOf("git", data{"username": "u", "password": canary}) }
	proxy := func() *corev1.Secret { return secretOf("proxy", data{"address": "http://proxy:1"}) }
	key := func(secrets ...*corev1.Secret) string {
		t.Helper()
		remote, err := remoteOf(t, overHTTPS, secrets...)
		if err != nil {
			t.Fatal(err)
		}
		return remote.Key
	}
	remade := basic()
	remade.UID = "another"
	seen := map[string]string{}
	for name, k := range map[string]string{
		"nothing":            key(),
		"basic":              key(basic()),
		"another password":   key(secretOf("git", data{"username": "u", "password": canary + "x"})),
		"basic with a CA":    key(secretOf("git", data{"username": "u", "password": canary, "ca.crt": m.cert})),
		"a Secret made anew": key(remade),
		"a proxy":            key(proxy()),
		"basic and a proxy":  key(basic(), proxy()),
		"another proxy":      key(basic(), secretOf("proxy", data{"address": "http://proxy:2"})),
	} {
		if other, ok := seen[k]; ok {
			t.Errorf("%s and %s share a mirror", name, other)
		}
		seen[k] = name
		if strings.Contains(k, canary) || !strings.HasPrefix(k, "ns/") {
			t.Errorf("%s: key %q", name, k)
		}
	}
	if first := key(basic(), proxy()); first != key(basic(), proxy()) {
		t.Error("the same Secrets make another mirror each time")
	}
}
