package commitstatus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

const (
	// requestTime is the timeout of one request to a host.
	requestTime = 15 * time.Second
	// maxResponse is the number of bytes of a response that are read.
	maxResponse = 64 << 10 // 64 KiB
)

// rejectedError reports that a retry cannot succeed until a user changes the
// configuration.
type rejectedError struct {
	text string
	once string // emit only once for these credentials, and not for each commit
}

func (e *rejectedError) Error() string { return e.text }

func reject(format string, args ...any) error {
	return &rejectedError{text: fmt.Sprintf(format, args...)}
}

// sendStatus sets a status at the host, if statuses are enabled. It records in the job what the
// host has.
func (s *Statuses) sendStatus(ctx context.Context, j *job, want status) error {
	by, err := s.readCredentials(ctx, j.source)
	if err != nil {
		return err
	}
	attempt := string(want.state) + " " + by.version
	if attempt == j.failedAttempt {
		return nil // nothing has changed since
	}
	to, err := s.resolveEndpoint(j.source, by)
	if err == nil {
		err = s.postStatus(ctx, j.source.Spec.Webhook.Provider, to, want)
	}
	var final *rejectedError
	switch {
	case err == nil:
		j.sent, j.failedAttempt = want.state, ""
	case errors.Is(err, source.ErrUnsupported):
		// Many apps have only read permission, and possibly the user wants no statuses.
		j.failedAttempt = attempt
		return &rejectedError{text: err.Error(), once: by.version}
	case errors.As(err, &final) || errors.Is(err, errOff):
		j.failedAttempt = attempt
	}
	return err
}

// errOff reports that there is neither a token for the API nor an app that can get one,
// or no Secret, which the listener reports: statuses are disabled.
var errOff = errors.New("commit statuses are not switched on")

// access has the credentials for statuses: the webhook's Secret, or the source's GitHub
// App if the Secret has no token for the API.
type access struct {
	secret  *corev1.Secret
	app     *source.GitHubApp // nil if the Secret has a token
	remote  source.Remote     // only the required fields
	version string            // of all fields
}

// readCredentials reads the current credentials for statuses: the webhook's Secret, or the source's
// GitHub App. The error is errOff if there are none.
func (s *Statuses) readCredentials(ctx context.Context, ps *api.ProfileSource) (access, error) {
	name := types.NamespacedName{Namespace: ps.Namespace, Name: ps.Spec.Webhook.SecretRef.Name}
	by := access{secret: &corev1.Secret{}}
	if err := s.Live.Get(ctx, name, by.secret); err != nil {
		if apierrors.IsNotFound(err) {
			return by, errOff
		}
		return by, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	// A changed credential is a reason for another attempt.
	by.version = string(by.secret.UID) + " " + by.secret.ResourceVersion
	needsApp := len(by.secret.Data[api.WebhookAPIToken]) == 0
	if needsApp && (s.Remote == nil || ps.Spec.Webhook.Provider != "github" || ps.Spec.Git.SecretRef == nil) {
		return by, errOff
	}
	if s.Remote == nil || !needsApp && ps.Spec.Git.ProxySecretRef == nil {
		return by, nil
	}
	var err error
	if by.remote, err = s.Remote(ctx, ps); err != nil {
		return by, fmt.Errorf("reading the credentials of the source: %w", err)
	}
	by.version += " " + by.remote.Key
	if needsApp {
		var ok bool
		if by.app, ok = by.remote.Auth.(*source.GitHubApp); !ok {
			return by, errOff
		}
	}
	return by, nil
}

// resolveEndpoint returns the destination of the source's statuses. The API's address is derived
// from the repository's, or set in the Secret; a token of an app is sent to its issuer.
func (s *Statuses) resolveEndpoint(ps *api.ProfileSource, by access) (endpoint, error) {
	secret := by.secret
	repo, ok := githost.ParseRepository(ps.Spec.Git.URL)
	if !ok {
		return endpoint{}, reject("spec.git.url: it does not contain the name of a repository")
	}
	e := endpoint{
		api:        apiOf(ps.Spec.Webhook.Provider, repo),
		repository: repo.Path,
		token:      strings.TrimRight(string(secret.Data[api.WebhookAPIToken]), "\r\n"),
		ca:         secret.Data["ca.crt"],
		app:        by.app,
		proxy:      by.remote.Proxy,
	}
	if by.app != nil {
		e.api = by.app.API()
		if len(e.ca) == 0 {
			e.ca = by.remote.CA // as for the app's Git tokens
		}
	} else if apiURL := strings.TrimSpace(string(secret.Data[api.WebhookAPIURL])); apiURL != "" {
		e.api = strings.TrimRight(apiURL, "/")
	}
	u, err := url.Parse(e.api)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return endpoint{}, reject("spec.webhook.secretRef: %s in Secret %s is not a URL: write it as https://git.example.com/api/v1", api.WebhookAPIURL, secret.Name)
	case u.Scheme != "https" && !s.AllowInsecure && by.app != nil:
		return endpoint{}, reject("spec.git.secretRef: githubAppBaseURL is not an https URL, and the token would be sent unencrypted: use https")
	case u.Scheme != "https" && (u.Scheme != "http" || !s.AllowInsecure):
		return endpoint{}, reject("spec.webhook.secretRef: the API at %s does not use https, and the token would be sent unencrypted: correct %s in Secret %s", u.Host, api.WebhookAPIURL, secret.Name)
	case strings.ContainsFunc(e.token, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return endpoint{}, reject("spec.webhook.secretRef: %s in Secret %s has blanks or control characters", api.WebhookAPIToken, secret.Name)
	}
	return e, nil
}

// postStatus sends the request. An error says what to do, and of the host's response contains
// only the status.
func (s *Statuses) postStatus(ctx context.Context, provider string, to endpoint, want status) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	transport, err := s.newTransport(to)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	if to.app != nil {
		if to.token, err = appToken(ctx, to, transport); err != nil {
			return err
		}
	}
	req, err := newStatusRequest(ctx, provider, to, want)
	if err != nil {
		return reject("%v", err)
	}
	c := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token is only for this host
	}}
	res, err := c.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the URL
		}
		if errors.Is(err, source.ErrAuthentication) || errors.Is(err, source.ErrInvalid) { // of the proxy
			return reject("asking %s: %v", to.host(), err)
		}
		return fmt.Errorf("asking %s: %w", to.host(), err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxResponse))
	if err != nil {
		answer = nil // the status is sufficient
	}
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusBadRequest && provider == "gitlab" && strings.Contains(string(answer), "Cannot transition status"):
		return nil // already in this state: https://gitlab.com/gitlab-org/gitlab-foss/-/issues/25807
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return fmt.Errorf("%s answers %d", to.host(), code)
	case code == http.StatusProxyAuthRequired && to.proxy != nil:
		return reject("the proxy for %s answers %d: check username and password in the Secret of spec.git.proxySecretRef", to.host(), code)
	case code >= 300 && code < 400:
		return reject("%s answers %d, a redirect, which is not followed: correct %s in the Secret", to.host(), code, api.WebhookAPIURL)
	case to.app != nil && (code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusNotFound):
		return reject("%s answers %d for repository %q: grant the GitHub App the repository permission Commit statuses: write, and its installation access to this repository", to.host(), code, to.repository)
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusNotFound:
		return reject("%s answers %d for repository %q: grant %s of the Secret the permission to set commit statuses", to.host(), code, to.repository, api.WebhookAPIToken)
	default:
		return reject("%s answers %d for repository %q", to.host(), code, to.repository)
	}
}

// appToken requests a token of the source's GitHub App for this one status.
func appToken(ctx context.Context, to endpoint, over *source.Transport) (string, error) {
	token, err := to.app.RequestStatusToken(ctx, over, path.Base(to.repository))
	if errors.Is(err, source.ErrAuthentication) || errors.Is(err, source.ErrInvalid) {
		return "", reject("%v", err)
	}
	return token, err
}

// newTransport returns a transport that connects only to the hosts that Git may connect to
// (security.md 9), through the source's proxy. A proxy of the environment is not used, because its
// address would be checked instead of the host's.
func (s *Statuses) newTransport(to endpoint) (*source.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(to.ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(to.ca) {
			return nil, reject("spec.webhook.secretRef: ca.crt has no certificate in PEM")
		}
	}
	return source.HTTPOptions{Timeout: requestTime, AllowedCIDRs: s.AllowedCIDRs, Proxy: to.proxy}.Transport(config), nil
}
