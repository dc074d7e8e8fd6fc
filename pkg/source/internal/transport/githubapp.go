package transport

import (
	"bytes"
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

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
)

// GitHubAppSecret is what a GitHubApp is made from, each under the name that it has
// in the Secrets of Flux.
type GitHubAppSecret struct {
	ID             string // "githubAppID"
	InstallationID string // "githubAppInstallationID"
	PrivateKey     []byte // "githubAppPrivateKey", in PEM
	BaseURL        string // "githubAppBaseURL" of a GitHub Enterprise Server; "" is github.com
}

// GitHubApp is an installation of a GitHub App, in whose name short-lived tokens are
// asked for. It is made by ParseGitHubApp.
type GitHubApp struct {
	id, installation string
	key              *rsa.PrivateKey
	api              *url.URL
	digest           [sha256.Size]byte // of all of it
}

// String keeps the key out of logs.
func (GitHubApp) String() string { return "GitHub App" }

// GoString keeps the key out of logs.
func (GitHubApp) GoString() string { return "source.GitHubApp{...}" }

func (*GitHubApp) overSSH() bool { return false }

// githubTokenUser is the user of a token:
// https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/authenticating-as-a-github-app-installation
const githubTokenUser = "x-access-token"

const (
	githubAPI          = "https://api.github.com"
	githubEnterpriseV3 = "/api/v3" // where an Enterprise Server has the same
	// tokenReserve is what a token that is used again has left of its hour.
	tokenReserve = 5 * time.Minute
	// assertionLife is that of the proof which a token is asked for with; GitHub takes
	// ten minutes at most. It begins a little earlier, for clocks that differ:
	// https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
	assertionLife = 2 * time.Minute
	assertionSkew = time.Minute
	maxTokenBytes = 64 << 10 // 64 KiB: the answer lists the repositories of an installation's choice
)

var (
	githubID   = regexp.MustCompile(`^[1-9][0-9]{0,18}$`)
	printables = regexp.MustCompile(`^[!-~]+$`)
)

// ParseGitHubApp checks the identity of an app. Its errors are ErrInvalid, begin
// with the name of what is wrong, and say nothing of its content.
func ParseGitHubApp(s GitHubAppSecret) (*GitHubApp, error) {
	app := &GitHubApp{id: s.ID, installation: s.InstallationID}
	if !githubID.MatchString(s.ID) {
		return nil, fault.New(fault.ErrInvalid, "githubAppID is no number; it stands in the app's settings")
	}
	if !githubID.MatchString(s.InstallationID) {
		return nil, fault.New(fault.ErrInvalid, "githubAppInstallationID is no number; it is the end of the URL of the installation's settings")
	}
	var err error
	if app.key, err = jwt.ParseRSAPrivateKeyFromPEM(s.PrivateKey); err != nil {
		return nil, fault.New(fault.ErrInvalid, "githubAppPrivateKey is not an RSA private key in PEM, as GitHub gives it out")
	}
	if app.api, err = githubURL(s.BaseURL); err != nil {
		return nil, err
	}
	h := sha256.New()
	for _, part := range []string{s.ID, s.InstallationID, string(s.PrivateKey), s.BaseURL} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	h.Sum(app.digest[:0])
	return app, nil
}

// githubURL is the API's address. As Flux does it, that of an Enterprise Server may
// be given without the path of its API.
func githubURL(raw string) (*url.URL, error) {
	if raw == "" {
		raw = githubAPI
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fault.New(fault.ErrInvalid, "githubAppBaseURL is no URL of a server; write it as https://host")
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

// Tokens are those that are good for a while yet.
type Tokens struct {
	mu   sync.Mutex
	good map[[sha256.Size]byte]token
}

type token struct {
	text string
	ends time.Time
}

// get returns a token that lives for some minutes yet, the one at hand or a new one.
func (c *Tokens) get(ctx context.Context, app *GitHubApp, s *Session, g *guard) (string, error) {
	c.mu.Lock()
	known, ok := c.good[app.digest]
	c.mu.Unlock()
	if ok && time.Until(known.ends) > tokenReserve {
		return known.text, nil
	}
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

// Forget makes the next fetch ask for a new token: the server did not take this one.
func (c *Tokens) Forget(auth Auth) {
	if app, ok := auth.(*GitHubApp); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.good, app.digest)
	}
}

// newToken asks for one. It goes the way of the repository: same dialer, same proxy,
// same CA, no client certificate.
func (a *GitHubApp) newToken(ctx context.Context, s *Session, g *guard) (token, error) {
	if a.api.Scheme != "https" && !g.insecure {
		return token{}, fault.New(fault.ErrInvalid, "plain http is not allowed: githubAppBaseURL must be https")
	}
	ctx, end := beginPhase(ctx, phaseToken, s.endpoint.Timeout)
	defer end()
	// Of what the app may do, reading is all that we need.
	made, err := a.request(ctx, &Transport{dialer: g.dialer, http: g.elsewhere}, tokenScope{Permissions: map[string]string{"contents": "read"}})
	if status, ok := errors.AsType[*tokenStatusError](err); ok && status.status == http.StatusUnprocessableEntity {
		err = fault.New(fault.ErrAuthentication, "%s; give the app the repository permission Contents: read", status.text())
	}
	if err != nil {
		return token{}, s.explain(ctx, phaseToken, err)
	}
	return made, nil
}

// API is the address of the API of the app's host, without a slash at its end.
func (a *GitHubApp) API() string { return a.api.String() }

// StatusToken asks for a token that can set commit statuses of one repository, by its
// name alone, and nothing else. It is asked for at API, be that plain
// http: whether it may is for the caller to say. ErrUnsupported: the app may not do that, or not there.
func (a *GitHubApp) StatusToken(ctx context.Context, over *Transport, repository string) (string, error) {
	made, err := a.request(ctx, over, tokenScope{Repositories: []string{repository}, Permissions: map[string]string{"statuses": "write"}})
	if status, ok := errors.AsType[*tokenStatusError](err); ok && status.status == http.StatusUnprocessableEntity {
		err = fault.New(fault.ErrUnsupported, "%s; give the app the repository permission Commit statuses: write, and %q to its installation", status.text(), fault.Printable(fault.Shorten(repository)))
	}
	if err == nil {
		return made.text, nil
	}
	s := &Session{endpoint: Endpoint{Timeout: over.dialer.direct.Timeout}, answer: &answer{}, wanted: &atomic.Bool{}}
	return "", s.explain(ctx, phaseToken, err)
}

// tokenScope is how much less than the app a token may do.
type tokenScope struct {
	Repositories []string          `json:"repositories,omitempty"` // their names, without the owner; none is all
	Permissions  map[string]string `json:"permissions"`
}

func (a *GitHubApp) request(ctx context.Context, over *Transport, scope tokenScope) (token, error) {
	proof, err := a.assertion(time.Now())
	if err != nil {
		return token{}, err
	}
	body, err := json.Marshal(scope)
	if err != nil {
		return token{}, fmt.Errorf("encoding a question for GitHub: %w", err)
	}
	at := a.api.JoinPath("app", "installations", a.installation, "access_tokens")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), bytes.NewReader(body))
	if err != nil {
		return token{}, err
	}
	req.Header.Set("Authorization", "Bearer "+proof)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("Content-Type", "application/json")
	res, err := over.RoundTrip(req) // which follows no redirect
	if err != nil {
		return token{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		return token{}, &tokenStatusError{res.StatusCode}
	}
	return readToken(res.Body)
}

// assertion is a JSON Web Token that proves who asks.
func (a *GitHubApp) assertion(now time.Time) (string, error) {
	text, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.RegisteredClaims{
		Issuer:    a.id,
		IssuedAt:  jwt.NewNumericDate(now.Add(-assertionSkew)),
		ExpiresAt: jwt.NewNumericDate(now.Add(assertionLife)),
	}).SignedString(a.key)
	if err != nil {
		return "", fault.New(fault.ErrInvalid, "githubAppPrivateKey cannot sign")
	}
	return text, nil
}

// tokenStatusError is an answer other than a token.
type tokenStatusError struct{ status int }

func (e *tokenStatusError) Error() string { return e.explain().Error() }
func (e *tokenStatusError) Unwrap() error { return e.explain() }

func (e *tokenStatusError) text() string {
	return fmt.Sprintf("phase token: GitHub answers %d %s", e.status, http.StatusText(e.status))
}

// explain words the answers that the API's reference lists:
// https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app
func (e *tokenStatusError) explain() error {
	status, text := e.status, e.text()
	switch {
	case status == http.StatusProxyAuthRequired:
		return proxyStatus(status, "")
	case status == http.StatusUnauthorized:
		return fault.New(fault.ErrAuthentication, "%s; check that githubAppID and githubAppPrivateKey belong together, and that our clock is right", text)
	case status == http.StatusForbidden:
		return fault.New(fault.ErrAuthentication, "%s; is the installation suspended?", text)
	case status == http.StatusNotFound:
		return fault.New(fault.ErrAuthentication, "%s; check githubAppInstallationID, and githubAppBaseURL if it is not github.com", text)
	case status >= 500 || status == http.StatusTooManyRequests:
		return fault.New(fault.ErrUnreachable, "%s; it is tried again", text)
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
	if err != nil { // whose text may hold the token
		return token{}, fault.New(fault.ErrInvalid, "phase token: what answers there is not GitHub's API; check githubAppBaseURL")
	}
	return token{text: in.Token, ends: in.ExpiresAt}, nil
}
