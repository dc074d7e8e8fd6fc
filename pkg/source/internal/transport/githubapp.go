package transport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/dial"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/phase"
)

// GitHubAppSecret has the input of a GitHubApp. The comments are the keys in the Secrets
// of Flux.
type GitHubAppSecret struct {
	ID             string // "githubAppID"
	InstallationID string // "githubAppInstallationID"
	PrivateKey     []byte // "githubAppPrivateKey", in PEM
	BaseURL        string // "githubAppBaseURL" of a GitHub Enterprise Server; "" is github.com
}

// GitHubApp is an installation of a GitHub App that requests short-lived tokens. It is
// created by ParseGitHubApp.
type GitHubApp struct {
	id, installation string
	key              *rsa.PrivateKey
	api              *url.URL
	digest           [sha256.Size]byte // of all fields
}

// String omits the key, so that it is not logged.
func (GitHubApp) String() string { return "GitHub App" }

// GoString omits the key, so that it is not logged.
func (GitHubApp) GoString() string { return "source.GitHubApp{...}" }

// OverSSH reports that it is for https.
func (*GitHubApp) OverSSH() bool { return false }

// githubTokenUser is the user of a token:
// https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/authenticating-as-a-github-app-installation
const githubTokenUser = "x-access-token"

const (
	githubAPI          = "https://api.github.com"
	githubEnterpriseV3 = "/api/v3" // the path of the API on an Enterprise Server
	// tokenReserve is the minimum remaining lifetime of a token that is used again.
	tokenReserve = 5 * time.Minute
	// assertionLife is the lifetime of the assertion for a token request; GitHub allows
	// at most ten minutes. It begins a little earlier, in case clocks differ:
	// https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
	assertionLife = 2 * time.Minute
	assertionSkew = time.Minute
	maxTokenBytes = 64 << 10 // 64 KiB: the answer lists the repositories that the installation selects
)

var (
	githubID   = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)
	printables = regexp.MustCompile(`^[!-~]+$`)
)

// ParseGitHubApp validates the identity of an app. Its errors are ErrInvalid, begin with
// the name of the invalid input, and never contain its content.
func ParseGitHubApp(s GitHubAppSecret) (*GitHubApp, error) {
	app := &GitHubApp{id: s.ID, installation: s.InstallationID}
	if !githubID.MatchString(s.ID) {
		return nil, fault.New(fault.ErrInvalid, "githubAppID is not a number; copy it from the app's settings")
	}
	if !githubID.MatchString(s.InstallationID) {
		return nil, fault.New(fault.ErrInvalid, "githubAppInstallationID is not a number; copy it from the end of the URL of the installation's settings")
	}
	var err error
	if app.key, err = jwt.ParseRSAPrivateKeyFromPEM(s.PrivateKey); err != nil {
		return nil, fault.New(fault.ErrInvalid, "githubAppPrivateKey is not an RSA private key in PEM, as GitHub issues it")
	}
	if app.api, err = githubURL(s.BaseURL); err != nil {
		return nil, err
	}
	h := sha256.New()
	for _, part := range []string{s.ID, s.InstallationID, string(s.PrivateKey), s.BaseURL} {
		// With the lengths, other parts cannot result in the same digest.
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	h.Sum(app.digest[:0])
	return app, nil
}

// githubURL returns the API's address. As in Flux, the address of an Enterprise Server
// can omit the path of its API.
func githubURL(raw string) (*url.URL, error) {
	raw = cmp.Or(raw, githubAPI)
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fault.New(fault.ErrInvalid, "githubAppBaseURL is not the URL of a server; write it as https://host")
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(raw, "#") {
		return nil, fault.New(fault.ErrInvalid, "githubAppBaseURL has a user, a query or a fragment in it; write it as https://host")
	}
	path := strings.TrimRight(u.Path, "/")
	if !strings.HasPrefix(u.Host, "api.") && !strings.Contains(u.Host, ".api.") && !strings.HasSuffix(path, githubEnterpriseV3) {
		path += githubEnterpriseV3
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}, nil
}

// Tokens caches tokens that remain valid for some time.
type Tokens struct {
	mu   sync.Mutex
	good map[[sha256.Size]byte]token
}

type token struct {
	text string
	ends time.Time
}

// get returns a token that remains valid for some minutes, cached or new.
func (c *Tokens) get(ctx context.Context, app *GitHubApp, s *Session, g *httpTransport) (string, error) {
	c.mu.Lock()
	known, ok := c.good[app.digest]
	c.mu.Unlock()
	if ok && time.Until(known.ends) > tokenReserve {
		return known.text, nil
	}
	// Requests must not wait for each other. Two of them can get a token each.
	made, err := app.newToken(ctx, s, g)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.good == nil {
		c.good = map[[sha256.Size]byte]token{}
	}
	for digest, t := range c.good {
		if time.Until(t.ends) <= 0 {
			delete(c.good, digest)
		}
	}
	c.good[app.digest] = made
	return made.text, nil
}

// Forget makes the next fetch request a new token: the server rejected this one.
func (c *Tokens) Forget(auth Auth) {
	if app, ok := auth.(*GitHubApp); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.good, app.digest)
	}
}

// newToken requests a token with the same dialer, proxy and CA as for the repository, but
// without the client certificate.
func (a *GitHubApp) newToken(ctx context.Context, s *Session, g *httpTransport) (token, error) {
	if a.api.Scheme != "https" && !g.insecure {
		return token{}, fault.New(fault.ErrInvalid, "plain http is not allowed: githubAppBaseURL must be https")
	}
	ctx, end := phase.Begin(ctx, phase.Token, s.endpoint.Timeout)
	defer end()
	// Request only the app's permission to read.
	made, err := a.requestToken(ctx, dial.NewTransport(g.dialer, g.otherHosts), tokenScope{Permissions: map[string]string{"contents": "read"}})
	if status, ok := errors.AsType[*tokenStatusError](err); ok && status.status == http.StatusUnprocessableEntity {
		err = fault.New(fault.ErrAuthentication, "%s; grant the app the repository permission Contents: read", status.text())
	}
	if err != nil {
		return token{}, s.classifyError(ctx, phase.Token, err)
	}
	return made, nil
}

// API returns the address of the API of the app's host, without a trailing slash.
func (a *GitHubApp) API() string { return a.api.String() }

// RequestStatusToken requests a token that can only set commit statuses of one repository, given
// by its name alone. It sends the request to API even if that is plain http: the caller
// decides whether that is allowed. ErrUnsupported means that the app does not have this
// permission for the repository.
func (a *GitHubApp) RequestStatusToken(ctx context.Context, over *dial.Transport, repository string) (string, error) {
	made, err := a.requestToken(ctx, over, tokenScope{Repositories: []string{repository}, Permissions: map[string]string{"statuses": "write"}})
	if status, ok := errors.AsType[*tokenStatusError](err); ok && status.status == http.StatusUnprocessableEntity {
		err = fault.New(fault.ErrUnsupported, "%s; grant the app the repository permission Commit statuses: write, and its installation access to %q", status.text(), fault.EscapeUnprintable(fault.Shorten(repository)))
	}
	if err == nil {
		return made.text, nil
	}
	s := &Session{endpoint: Endpoint{Timeout: over.DialTimeout()}, lastResponse: &responseRecorder{}, wanted: &atomic.Bool{}}
	return "", s.classifyError(ctx, phase.Token, err)
}

// tokenScope restricts the permissions of a token.
type tokenScope struct {
	Repositories []string          `json:"repositories,omitempty"` // names without the owner; none means all
	Permissions  map[string]string `json:"permissions"`
}

// requestToken requests an installation token with some permissions.
func (a *GitHubApp) requestToken(ctx context.Context, over *dial.Transport, scope tokenScope) (token, error) {
	proof, err := a.signJWT(time.Now())
	if err != nil {
		return token{}, err
	}
	body, err := json.Marshal(scope)
	if err != nil {
		return token{}, fmt.Errorf("encoding a request to GitHub: %w", err)
	}
	at := a.api.JoinPath("app", "installations", a.installation, "access_tokens")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return token{}, err
	}
	req.Header.Set("Authorization", "Bearer "+proof)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("Content-Type", "application/json")
	res, err := over.RoundTrip(req) // does not follow redirects
	if err != nil {
		return token{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		return token{}, &tokenStatusError{res.StatusCode}
	}
	return readToken(res.Body)
}

// signJWT returns a JSON Web Token that identifies the app.
func (a *GitHubApp) signJWT(now time.Time) (string, error) {
	text, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		Issuer: a.id,
		// GitHub's clock can be behind.
		IssuedAt:  jwt.NewNumericDate(now.Add(-assertionSkew)),
		ExpiresAt: jwt.NewNumericDate(now.Add(assertionLife)),
	}).SignedString(a.key)
	if err != nil {
		return "", fault.New(fault.ErrInvalid, "githubAppPrivateKey cannot sign")
	}
	return text, nil
}

// tokenStatusError is a response without a token.
type tokenStatusError struct{ status int }

func (e *tokenStatusError) Error() string { return e.classifyStatus().Error() }
func (e *tokenStatusError) Unwrap() error { return e.classifyStatus() }

func (e *tokenStatusError) text() string {
	return fmt.Sprintf("phase token: GitHub answers %d %s", e.status, http.StatusText(e.status))
}

// classifyStatus returns errors for the statuses that the API's reference lists:
// https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app
func (e *tokenStatusError) classifyStatus() error {
	status, text := e.status, e.text()
	switch {
	case status == http.StatusProxyAuthRequired:
		return dial.ProxyStatusError(status, "")
	case status == http.StatusUnauthorized:
		return fault.New(fault.ErrAuthentication, "%s; check that githubAppID and githubAppPrivateKey belong together, and that this machine's clock is correct", text)
	case status == http.StatusForbidden:
		return fault.New(fault.ErrAuthentication, "%s; check whether the installation is suspended", text)
	case status == http.StatusNotFound:
		return fault.New(fault.ErrAuthentication, "%s; check githubAppInstallationID, and githubAppBaseURL if it is not github.com", text)
	case status >= 500 || status == http.StatusTooManyRequests:
		return fault.New(fault.ErrUnreachable, "%s; the controller retries", text)
	case status >= 300 && status < 400:
		return fault.New(fault.ErrInvalid, "%s, which is not followed: correct githubAppBaseURL", text)
	}
	return fault.New(fault.ErrInvalid, "%s; check githubAppBaseURL", text)
}

func readToken(r io.Reader) (token, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxTokenBytes+1))
	if err != nil {
		return token{}, err
	}
	if len(data) > maxTokenBytes {
		return token{}, fault.New(fault.ErrInvalid, "phase token: the answer has more than %d bytes", maxTokenBytes)
	}
	var in struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	err = json.NewDecoder(bytes.NewReader(data)).Decode(&in)
	if err == nil && (!printables.MatchString(in.Token) || in.ExpiresAt.IsZero()) {
		err = errors.New("no token")
	}
	if err != nil { // the error can contain the token
		return token{}, fault.New(fault.ErrInvalid, "phase token: the response is not from GitHub's API; check githubAppBaseURL")
	}
	return token{text: in.Token, ends: in.ExpiresAt}, nil
}
