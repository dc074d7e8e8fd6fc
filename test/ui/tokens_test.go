package ui

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// checkTokens looks at the page of a controller that serves it with TLS: with the rights
// of deploy/rbac.yaml and deploy/ui.yaml it finds out who looks, and lets in who has those of
// users in deploy/ui.yaml.
func (w *world) checkTokens(t *testing.T) {
	address, err := testenv.FreeAddress()
	w.must(err)
	pool := w.certificate()
	w.must(w.cluster.Apply(t.Context(), filepath.Join(w.root, "deploy", "ui.yaml")))
	w.controller("--ui-address", address, "--ui-tls-cert", w.path("tls.crt"), "--ui-tls-key", w.path("tls.key"))
	auditor, stranger := w.token("auditor"), w.token("stranger")
	for _, role := range []string{"osm-gitops-ui", "osm-gitops-ui-pools"} {
		w.must(w.client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "auditor-" + role}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "shop", Name: "auditor"}},
		}))
	}
	get := func(url, token string) (int, string, error) { return w.bearer(pool, url, token) }
	w.until("the page answers", func() error {
		_, _, err := get("https://"+address+"/", auditor)
		return err
	})
	for name, c := range map[string]struct {
		url, token string
		status     int
		says       string
	}{
		"nobody":                    {"https://" + address + "/", "", 401, "A token of the cluster for audience"},
		"somebody else's token":     {"https://" + address + "/", "abc", 401, "A token of the cluster for audience"},
		"a user without the right":  {"https://" + address + "/nodes/web-eu-7c9f4-b6c7d", stranger, 403, "has no permission to get"},
		"a user with the right":     {"https://" + address + "/", auditor, 200, "web-eu"},
		"over plain http":           {"http://" + address + "/", auditor, 400, ""},
		"the style without a token": {"https://" + address + "/assets/0/style.css", "", 401, ""},
	} {
		t.Run(name, func(t *testing.T) {
			status, text, err := get(c.url, c.token)
			if err != nil || status != c.status || !strings.Contains(text, c.says) || status != 200 && strings.Contains(text, "osp-ubuntu") {
				t.Errorf("got %d, %v\n%.1000s", status, err, text)
			}
		})
	}
	t.Run("in a browser, by password", func(t *testing.T) {
		r := plan{Looks: []look{{URL: "https://" + address + "/", Variant: "light", Password: auditor}}}.run(t)
		if s := r.Seen[0]; s.Status != 200 || s.Heading != "Fleet" || !strings.Contains(s.Text, "web-eu") {
			t.Errorf("got %d %s %v", s.Status, s.Heading, s.Problems)
		}
	})
	b, err := os.ReadFile(w.path("controller.log"))
	w.must(err)
	if strings.Contains(string(b), auditor) || strings.Contains(string(b), stranger) {
		t.Error("a token is in the log")
	}
}

// bearer gets a page with a token.
func (w *world) bearer(trusted *x509.CertPool, url, token string) (status int, text string, err error) {
	w.t.Helper()
	https := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, url, nil)
	w.must(err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := https.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body) // plain http is cut off after the answer
	return res.StatusCode, string(b), nil
}

// token makes a ServiceAccount and a token of it.
func (w *world) token(name string) string {
	w.t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	w.must(w.client.Create(w.t.Context(), sa))
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"osm-gitops-ui"}}}
	w.must(w.client.SubResource("token").Create(w.t.Context(), sa, token))
	return token.Status.Token
}

// certificate makes one for loopback, and returns who trusts it.
func (w *world) certificate() *x509.CertPool {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.must(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	w.must(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	w.must(err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	w.must(os.WriteFile(w.path("tls.crt"), cert, 0o600))
	w.must(os.WriteFile(w.path("tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return pool
}
