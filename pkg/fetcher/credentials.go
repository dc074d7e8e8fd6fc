package fetcher

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/secrets"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Fields that name Secrets, for errors.
const (
	fieldSecret = "spec.git.secretRef"
	fieldProxy  = "spec.git.proxySecretRef"
)

// Keys of the Secrets, for an error about a missing one.
const (
	keysHTTPS = "username and password, or bearerToken, or those of a GitHub App; with ca.crt for a private CA, tls.crt and tls.key for a client certificate"
	keysSSH   = "identity and known_hosts; with password for an encrypted identity"
	keysProxy = "address; with username and password if required, ca.crt for an https proxy with its own CA"
)

// Keys of each kind of Secret. Names and contents are those of Flux:
// https://fluxcd.io/flux/components/source/gitrepositories/#secret-reference
var (
	httpsKeys  = []string{secrets.KeyUsername, secrets.KeyPassword, secrets.KeyBearerToken, secrets.KeyCACert, secrets.KeyTLSCert, secrets.KeyTLSPrivateKey, secrets.KeyGitHubAppID, secrets.KeyGitHubAppInstallationID, secrets.KeyGitHubAppPrivateKey, secrets.KeyGitHubAppBaseURL}
	sshKeys    = []string{secrets.KeySSHPrivateKey, secrets.KeySSHPublicKey, secrets.KeySSHKnownHosts, secrets.KeyPassword}
	proxyKeys  = []string{secrets.KeyAddress, secrets.KeyUsername, secrets.KeyPassword, secrets.KeyCACert}
	legacyKeys = map[string]string{secrets.LegacyKeyCACert: secrets.KeyCACert, secrets.LegacyKeyTLSCert: secrets.KeyTLSCert, secrets.LegacyKeyTLSPrivateKey: secrets.KeyTLSPrivateKey}
)

// withCredentials adds the current content of the Secrets of a source. They are read for
// each fetch, so a changed Secret takes effect at the next one.
func (f *Fetcher) withCredentials(ctx context.Context, ps *api.ProfileSource, remote source.Remote) (source.Remote, error) {
	git, keys := ps.Spec.Git, keysHTTPS
	if source.IsSSH(git.URL) {
		keys = keysSSH
	}
	secret, err := f.readSecret(ctx, ps, git.SecretRef, secretUsage{fieldSecret, keys})
	if err != nil {
		return remote, err
	}
	proxy, err := f.readSecret(ctx, ps, git.ProxySecretRef, secretUsage{fieldProxy, keysProxy})
	if err != nil {
		return remote, err
	}
	return f.withCachedAuth(client.ObjectKeyFromObject(ps), remote, secret, proxy)
}

// cachedAuth is the authentication from the Secrets that a mirror's key covers.
type cachedAuth struct {
	key  string
	auth source.Auth
}

// withCachedAuth is withSecrets, but caches a decrypted private key: decryption is deliberately
// slow, a tenth of a second or more. No other credential is cached.
func (f *Fetcher) withCachedAuth(name types.NamespacedName, remote source.Remote, secret, proxy *corev1.Secret) (source.Remote, error) {
	key, err := mirrorKey(name.Namespace, secret, proxy)
	if err != nil {
		return remote, err
	}
	f.mu.Lock()
	known, ok := f.keys[name]
	f.mu.Unlock()
	if ok && known.key == key && source.IsSSH(remote.URL) {
		remote.Key, remote.Auth = key, known.auth
		if proxy != nil {
			remote.Proxy, err = proxyOf(proxy)
		}
		return remote, err // the proxy was checked when the key was cached
	}
	// Decryption is slow: other sources must not wait for the lock.
	if remote, err = withSecrets(remote, name.Namespace, secret, proxy); err != nil {
		return remote, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// The old key must not outlive a change of the Secret.
	delete(f.keys, name)
	if private, ok := remote.Auth.(*source.SSHKey); ok && len(secret.Data[secrets.KeyPassword]) > 0 {
		if f.keys == nil {
			f.keys = map[types.NamespacedName]cachedAuth{}
		}
		f.keys[name] = cachedAuth{key: key, auth: private}
	}
	return remote, nil
}

// withSecrets adds the content of two Secrets, which can be nil. The mirror's key covers
// all of it, so that a source without access to a repository cannot read a mirror of it
// either.
func withSecrets(remote source.Remote, namespace string, secret, proxy *corev1.Secret) (source.Remote, error) {
	ssh := source.IsSSH(remote.URL)
	if ssh && secret == nil {
		return remote, &SpecError{Reason: api.ReasonSourceInvalid, Err: fmt.Errorf("%s: a repository over ssh needs a Secret with the keys %s", fieldSecret, keysSSH)}
	}
	if secret != nil {
		parsed, err := credentialsOf(secret, ssh)
		if err != nil {
			return remote, newSecretWaitError(fieldSecret, secret, err)
		}
		remote.Auth = parsed.auth
		remote.CA = parsed.ca
		remote.Certificate = parsed.certificate
	}
	var err error
	if proxy != nil {
		if remote.Proxy, err = proxyOf(proxy); err != nil {
			return remote, newSecretWaitError(fieldProxy, proxy, err)
		}
	}
	remote.Key, err = mirrorKey(namespace, secret, proxy)
	return remote, err
}

// secretUsage names the field with the reference to a Secret, and its keys, in errors.
type secretUsage struct{ field, keys string }

// readSecret reads a Secret, and does not check its keys; it returns nil without a reference.
func (f *Fetcher) readSecret(ctx context.Context, ps *api.ProfileSource, ref *meta.LocalObjectReference, usage secretUsage) (*corev1.Secret, error) {
	if ref == nil {
		return nil, nil
	}
	name := types.NamespacedName{Namespace: ps.Namespace, Name: ref.Name}
	var secret corev1.Secret
	if err := f.Live.Get(ctx, name, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, &WaitError{fmt.Errorf("%s: Secret %s does not exist: create it with the keys %s", usage.field, name, usage.keys)}
		}
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	return &secret, nil
}

// newSecretWaitError is an error in the content of a Secret. It is a WaitError and not a
// SpecError: a changed spec causes an event, but a changed Secret is only noticed by a
// retry.
func newSecretWaitError(field string, secret *corev1.Secret, err error) error {
	return &WaitError{fmt.Errorf("%s: Secret %s/%s: %w", field, secret.Namespace, secret.Name, err)}
}

// credentials are the content of a Secret for a repository.
type credentials struct {
	auth        source.Auth
	ca          []byte
	certificate *source.Certificate
}

// credentialsOf reads the Secret of spec.git.secretRef.
func credentialsOf(secret *corev1.Secret, ssh bool) (credentials, error) {
	data := secret.Data
	if ssh {
		if err := rejectUnknownOrEmptyKeys(data, sshKeys, "a repository over ssh"); err != nil {
			return credentials{}, err
		}
		if err := requireSecretKeys(data, "the key", secrets.KeySSHPrivateKey, secrets.KeySSHKnownHosts); err != nil {
			return credentials{}, err
		}
		key, err := source.ParseSSHKey(source.SSHSecret{
			Identity: data[secrets.KeySSHPrivateKey], Public: data[secrets.KeySSHPublicKey],
			KnownHosts: data[secrets.KeySSHKnownHosts], Password: data[secrets.KeyPassword],
		})
		if err != nil {
			return credentials{}, err
		}
		return credentials{auth: key}, nil
	}
	if err := rejectUnknownOrEmptyKeys(data, httpsKeys, "a repository over https"); err != nil {
		return credentials{}, err
	}
	if len(data) == 0 {
		return credentials{}, fmt.Errorf("it is empty: give it the keys %s", keysHTTPS)
	}
	auth, err := httpAuthOf(data)
	if err != nil {
		return credentials{}, err
	}
	out := credentials{auth: auth, ca: data[secrets.KeyCACert]}
	if out.ca != nil && !x509.NewCertPool().AppendCertsFromPEM(out.ca) {
		return credentials{}, errors.New("ca.crt holds no certificate in PEM")
	}
	if hasAny(data, secrets.KeyTLSCert, secrets.KeyTLSPrivateKey) {
		if err := requireSecretKeys(data, "a client certificate", secrets.KeyTLSCert, secrets.KeyTLSPrivateKey); err != nil {
			return credentials{}, err
		}
		if out.certificate, err = source.ParseCertificate(data[secrets.KeyTLSCert], data[secrets.KeyTLSPrivateKey]); err != nil {
			return credentials{}, err
		}
	}
	return out, nil
}

// httpAuthOf reads the one authentication method of a Secret; nil if it contains only
// certificates.
func httpAuthOf(data map[string][]byte) (source.Auth, error) {
	basic := hasAny(data, secrets.KeyUsername, secrets.KeyPassword)
	bearer := hasAny(data, secrets.KeyBearerToken)
	app := hasAny(data, secrets.KeyGitHubAppID, secrets.KeyGitHubAppInstallationID, secrets.KeyGitHubAppPrivateKey, secrets.KeyGitHubAppBaseURL)
	switch {
	case basic && bearer:
		return nil, errors.New("it has both username or password and bearerToken: choose one")
	case app && (basic || bearer):
		return nil, errors.New("it has the keys of a GitHub App, and username, password or bearerToken too: choose one")
	case basic:
		if err := requireSecretKeys(data, "a user", secrets.KeyUsername, secrets.KeyPassword); err != nil {
			return nil, err
		}
		return &source.BasicAuth{Username: string(data[secrets.KeyUsername]), Password: string(data[secrets.KeyPassword])}, nil
	case bearer:
		token := string(data[secrets.KeyBearerToken])
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return nil, errors.New("bearerToken contains a space, a line break or another invalid character: the usual mistake is a line break at its end")
		}
		return &source.BearerToken{Token: token}, nil
	case app:
		if err := requireSecretKeys(data, "a GitHub App", secrets.KeyGitHubAppID, secrets.KeyGitHubAppInstallationID, secrets.KeyGitHubAppPrivateKey); err != nil {
			return nil, err
		}
		return source.ParseGitHubApp(source.GitHubAppSecret{
			ID: string(data[secrets.KeyGitHubAppID]), InstallationID: string(data[secrets.KeyGitHubAppInstallationID]),
			PrivateKey: data[secrets.KeyGitHubAppPrivateKey], BaseURL: string(data[secrets.KeyGitHubAppBaseURL]),
		})
	}
	return nil, nil
}

// proxyOf reads the Secret of spec.git.proxySecretRef.
func proxyOf(secret *corev1.Secret) (*source.Proxy, error) {
	data := secret.Data
	if err := rejectUnknownOrEmptyKeys(data, proxyKeys, "a proxy"); err != nil {
		return nil, err
	}
	if err := requireSecretKeys(data, "a proxy", secrets.KeyAddress); err != nil {
		return nil, err
	}
	return source.ParseProxy(source.ProxySecret{
		Address: string(data[secrets.KeyAddress]), Username: string(data[secrets.KeyUsername]),
		Password: string(data[secrets.KeyPassword]), CA: data[secrets.KeyCACert],
	})
}

// rejectUnknownOrEmptyKeys rejects keys without an effect and empty ones: nothing would reveal either
// mistake.
func rejectUnknownOrEmptyKeys(data map[string][]byte, known []string, use string) error {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		switch {
		case legacyKeys[key] != "":
			return fmt.Errorf("the key %q is Flux's old name: rename it to %s", key, legacyKeys[key])
		case key == secrets.KeyGitHubAppInstallationOwner:
			return fmt.Errorf("the key %q is not supported: give %s instead", key, secrets.KeyGitHubAppInstallationID)
		case !slices.Contains(known, key):
			return fmt.Errorf("the key %q has no effect for %s, which uses %s: remove it", key, use, strings.Join(known, ", "))
		case len(data[key]) == 0:
			return fmt.Errorf("the key %q is empty: give it a value, or remove it", key)
		}
	}
	return nil
}

// requireSecretKeys reports every missing key.
func requireSecretKeys(data map[string][]byte, what string, keys ...string) error {
	var missing []string
	for _, key := range keys {
		if len(data[key]) == 0 {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s is missing: %s needs %s", strings.Join(missing, " and "), what, strings.Join(keys, " and "))
}

func hasAny(data map[string][]byte, keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { _, ok := data[key]; return ok })
}

// mirrorKey separates the mirrors of sources with different credentials, CAs, proxies or
// namespaces.
func mirrorKey(namespace string, secret, proxy *corev1.Secret) (string, error) {
	key := namespace
	for _, s := range []*corev1.Secret{secret, proxy} {
		if s == nil {
			key += "/-"
			continue
		}
		data, err := json.Marshal(s.Data) // sorted by key
		if err != nil {
			return "", fmt.Errorf("encoding Secret %s/%s: %w", s.Namespace, s.Name, err)
		}
		// The mirror's key contains a digest only, so that it reveals no credentials.
		sum := sha256.Sum256(data)
		key += "/" + string(s.UID) + ":" + hex.EncodeToString(sum[:])
	}
	return key, nil
}
