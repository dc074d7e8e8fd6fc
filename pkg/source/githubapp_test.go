package source

import (
	"cmp"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// github is a server with GitHub's API for apps: it verifies a JSON Web Token with the app's
// public key, issues an access token, and serves repositories to requests with a valid one.
type github struct {
	*secured
	t      testing.TB
	public *rsa.PublicKey
	life   time.Duration
	tokens atomic.Int64
	good   atomic.Value // the valid token
}

func newGitHub(t *testing.T, ca *authority, private []byte) *github {
	t.Helper()
	block, _ := pem.Decode(private)
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	s, r := newServer(t), newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	s.push(r, "repo.git")
	g := &github{t: t, public: &key.PublicKey, life: time.Hour}
	g.good.Store("")
	git := proxyTo(t, s.proxy.URL)
	g.secured = ca.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v3/") {
			g.issue(w, r)
			return
		}
		user, password, _ := r.BasicAuth()
		if user != "x-access-token" || password == "" || password != g.good.Load() {
			http.Error(w, canary, http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, r)
	}))
	return g
}

func (g *github) issue(w http.ResponseWriter, r *http.Request) {
	if err := g.check(r); err != nil {
		g.t.Log(err)
		http.Error(w, canary+err.Error(), http.StatusUnauthorized)
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/api/v3/app/installations/4711/access_tokens" {
		http.Error(w, canary, http.StatusNotFound)
		return
	}
	var body struct{ Permissions map[string]string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Permissions) != 1 || body.Permissions["contents"] != "read" {
		http.Error(w, canary, http.StatusUnprocessableEntity)
		return
	}
	token := fmt.Sprintf("%s-%d", canary, g.tokens.Add(1))
	g.good.Store(token)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]string{"token": token, "expires_at": time.Now().Add(g.life).UTC().Format(time.RFC3339)})
}

// check verifies a JSON Web Token as RFC 7515 and GitHub's documentation require.
func (g *github) check(r *http.Request) error {
	parts := strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
	if len(parts) != 3 {
		return fmt.Errorf("%d parts", len(parts))
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return err
		}
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(g.public, crypto.SHA256, sum[:], decoded[2]); err != nil {
		return err
	}
	var header struct{ Alg, Typ string }
	var claims struct {
		Iss      string
		Iat, Exp int64
	}
	if err := json.Unmarshal(decoded[0], &header); err != nil || header.Alg != "RS256" {
		return fmt.Errorf("header %s: %w", decoded[0], cmp.Or(err, errors.New("wrong algorithm")))
	}
	now := time.Now().Unix()
	if err := json.Unmarshal(decoded[1], &claims); err != nil || claims.Iss != "42" || claims.Iat > now || claims.Exp <= now || claims.Exp-claims.Iat > 600 {
		return fmt.Errorf("claims %s: %w", decoded[1], cmp.Or(err, errors.New("wrong")))
	}
	return nil
}

func (g *github) app(private []byte, id, installation string) *GitHubApp {
	g.t.Helper()
	app, err := ParseGitHubApp(GitHubAppSecret{ID: id, InstallationID: installation, PrivateKey: private, BaseURL: g.URL})
	if err != nil {
		g.t.Fatal(err)
	}
	return app
}

func TestGitHubApp(t *testing.T) {
	ca, private := newAuthority(t), newRSA(t)
	g, m := newGitHub(t, ca, private), newMirrors(t)
	m.AllowInsecure = false
	remote := Remote{URL: g.URL + "/repo.git", CA: ca.pem, Auth: g.app(private, "42", "4711")}
	mustFetch(t, m, remote)
	remote.Auth = g.app(private, "42", "4711") // a new value with the same content, as in the next reconciliation
	mustFetch(t, m, remote)
	if n := g.tokens.Load(); n != 1 {
		t.Errorf("two looks took %d tokens", n)
	}
	g.good.Store("revoked")
	_, err := m.Fetch(t.Context(), remote)
	wantError(t, err, ErrAuthentication, "401")
	mustFetch(t, m, remote) // with a new token
	if n := g.tokens.Load(); n != 2 {
		t.Errorf("after a revocation there are %d tokens", n)
	}
	g.life = 4 * time.Minute // too short to be used again
	g.good.Store("revoked")
	_, err = m.Fetch(t.Context(), remote)
	wantError(t, err, ErrAuthentication, "401")
	mustFetch(t, m, remote)
	mustFetch(t, m, remote)
	if n := g.tokens.Load(); n != 4 {
		t.Errorf("with tokens near their end there were %d", n)
	}

	for name, c := range map[string]struct {
		auth Auth
		says []string
	}{
		"another app's key":    {g.app(newRSA(t), "42", "4711"), []string{"phase token", "401", "githubAppPrivateKey"}},
		"another app":          {g.app(private, "43", "4711"), []string{"phase token", "401", "githubAppID"}},
		"another installation": {g.app(private, "42", "4712"), []string{"phase token", "404", "githubAppInstallationID"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := g.requests.Load()
			_, err := m.Fetch(t.Context(), Remote{URL: g.URL + "/repo.git", CA: ca.pem, Auth: c.auth})
			wantError(t, err, ErrAuthentication, c.says...)
			if n := g.requests.Load() - before; n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// The token is requested through the proxy, like the repository.
func TestGitHubAppBehindAProxy(t *testing.T) {
	ca, private := newAuthority(t), newRSA(t)
	g, p := newGitHub(t, ca, private), newHTTPProxy(t, "robot")
	proxy := mustProxy(t, ProxySecret{Address: p.address, Username: "robot", Password: canary})
	mustFetch(t, newMirrors(t), Remote{URL: g.URL + "/repo.git", CA: ca.pem, Auth: g.app(private, "42", "4711"), Proxy: proxy})
	if len(p.connected()) != 2 || p.refusals() > 0 {
		t.Errorf("the proxy connected to %q", p.connected())
	}
}

// security.md 7, 9, 14: GitHub's API is not trusted more than any other server.
func TestBadGitHub(t *testing.T) {
	private := newRSA(t)
	respond := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/"+canary)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	silent := "http://" + listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	for name, c := range map[string]struct {
		url  string
		kind error
		says []string
	}{
		"suspended":            {respond(403, canary), ErrAuthentication, []string{"403", "suspended"}},
		"without the right":    {respond(422, canary), ErrAuthentication, []string{"422", "Contents"}},
		"out of order":         {respond(503, canary), ErrUnreachable, []string{"503"}},
		"redirecting":          {respond(307, canary), ErrInvalid, []string{"307", "githubAppBaseURL"}},
		"something else":       {respond(201, "<html>"+canary), ErrInvalid, []string{"githubAppBaseURL"}},
		"a token of no time":   {respond(201, `{"token":"`+canary+`"}`), ErrInvalid, []string{"githubAppBaseURL"}},
		"a token of two lines": {respond(201, `{"token":"`+canary+`\nX: y","expires_at":"2100-01-01T00:00:00Z"}`), ErrInvalid, []string{"githubAppBaseURL"}},
		"an endless answer":    {respond(201, `{"token":"`+strings.Repeat(canary, 10_000)), ErrInvalid, []string{"more than"}},
		"silent":               {silent, ErrUnreachable, []string{"1s"}},
		"metadata":             {"http://169.254.169.254", ErrInvalid, []string{"refusing to connect"}},
		"no git host":          {strings.Replace(silent, "http://", "https://", 1), ErrUnreachable, []string{"phase TLS"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app, err := ParseGitHubApp(GitHubAppSecret{ID: "1", InstallationID: "2", PrivateKey: private, BaseURL: c.url})
			if err != nil {
				t.Fatal(err)
			}
			_, err = newMirrors(t).Fetch(t.Context(), Remote{URL: "https://127.0.0.1:1/repo.git", Auth: app, Timeout: time.Second})
			wantError(t, err, c.kind, c.says...)
			if c.url != "http://169.254.169.254" && name != "no git host" && !strings.Contains(err.Error(), "phase token") {
				t.Errorf("error %q does not name the phase", err)
			}
		})
	}
	t.Run("plain http", func(t *testing.T) {
		app, err := ParseGitHubApp(GitHubAppSecret{ID: "1", InstallationID: "2", PrivateKey: private, BaseURL: silent})
		if err != nil {
			t.Fatal(err)
		}
		_, err = (&Mirrors{Dir: t.TempDir(), AllowedCIDRs: loopback}).Fetch(t.Context(), Remote{URL: "https://127.0.0.1:1/repo.git", Auth: app})
		wantError(t, err, ErrInvalid, "githubAppBaseURL must be https")
	})
}
