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
	// requestTime bounds one request to a host.
	requestTime = 15 * time.Second
	// maxAnswer is as much of an answer as is read.
	maxAnswer = 64 << 10 // 64 KiB
)

// refusedError says that trying again is pointless until somebody changes
// something.
type refusedError struct {
	text string
	once string // told for these credentials only once, and not again for each commit
}

func (e *refusedError) Error() string { return e.text }

func refuse(format string, args ...any) error {
	return &refusedError{text: fmt.Sprintf(format, args...)}
}

// send sets a status at the host, if that is switched on. It notes in the job what the
// host has now.
func (s *Statuses) send(ctx context.Context, j *job, want status) error {
	by, err := s.access(ctx, j.source)
	if err != nil {
		return err
	}
	attempt := string(want.state) + " " + by.version
	if attempt == j.refused {
		return nil // nothing has changed since
	}
	to, err := s.endpoint(j.source, by)
	if err == nil {
		err = s.post(ctx, j.source.Spec.Webhook.Provider, to, want)
	}
	var final *refusedError
	switch {
	case err == nil:
		j.sent, j.refused = want.state, ""
	case errors.Is(err, source.ErrUnsupported):
		// Many apps may read and no more, and maybe nobody wants statuses.
		j.refused = attempt
		return &refusedError{text: err.Error(), once: by.version}
	case errors.As(err, &final) || errors.Is(err, errOff):
		j.refused = attempt
	}
	return err
}

// errOff says that there is neither a token for the API nor an app that can get one, or
// no Secret, of which the listener tells: no status is wanted.
var errOff = errors.New("commit statuses are not switched on")

// access is by what a status is set: the webhook's Secret, and where it has no token
// for the API the source's GitHub App.
type access struct {
	secret  *corev1.Secret
	app     *source.GitHubApp // nil where the Secret has a token
	remote  source.Remote     // as far as it is needed
	version string            // of all of it
}

// access reads what there is now. The error is errOff where that sets no status.
func (s *Statuses) access(ctx context.Context, ps *api.ProfileSource) (access, error) {
	name := types.NamespacedName{Namespace: ps.Namespace, Name: ps.Spec.Webhook.SecretRef.Name}
	by := access{secret: &corev1.Secret{}}
	if err := s.Live.Get(ctx, name, by.secret); err != nil {
		if apierrors.IsNotFound(err) {
			return by, errOff
		}
		return by, fmt.Errorf("reading Secret %s: %w", name, err)
	}
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

// endpoint is where the source's statuses go. The API's address is a guess from the
// repository's, or stands in the Secret; a token of an app goes where it is from.
func (s *Statuses) endpoint(ps *api.ProfileSource, by access) (endpoint, error) {
	secret := by.secret
	repo, ok := githost.ParseRepository(ps.Spec.Git.URL)
	if !ok {
		return endpoint{}, refuse("spec.git.url: there is no repository's name in it")
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
			e.ca = by.remote.CA // with which the app's tokens for Git are asked for
		}
	} else if own := strings.TrimSpace(string(secret.Data[api.WebhookAPIURL])); own != "" {
		e.api = strings.TrimRight(own, "/")
	}
	u, err := url.Parse(e.api)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return endpoint{}, refuse("spec.webhook.secretRef: %s in Secret %s is no URL such as https://git.example.com/api/v1", api.WebhookAPIURL, secret.Name)
	case u.Scheme != "https" && !s.AllowInsecure && by.app != nil:
		return endpoint{}, refuse("spec.git.secretRef: githubAppBaseURL is no https URL, and the token would be sent in clear")
	case u.Scheme != "https" && (u.Scheme != "http" || !s.AllowInsecure):
		return endpoint{}, refuse("spec.webhook.secretRef: the API at %s is no https URL, and the token would be sent in clear: correct %s in Secret %s", u.Host, api.WebhookAPIURL, secret.Name)
	case strings.ContainsFunc(e.token, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return endpoint{}, refuse("spec.webhook.secretRef: %s in Secret %s has blanks or control characters", api.WebhookAPIToken, secret.Name)
	}
	return e, nil
}

// post makes the request. An error says what to do, and never what the host's
// answer was, beside its status.
func (s *Statuses) post(ctx context.Context, provider string, to endpoint, want status) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	transport, err := s.transport(to)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	if to.app != nil {
		if to.token, err = appToken(ctx, to, transport); err != nil {
			return err
		}
	}
	req, err := request(ctx, provider, to, want)
	if err != nil {
		return refuse("%v", err)
	}
	c := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token is for this host
	}}
	res, err := c.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL
		}
		if errors.Is(err, source.ErrAuthentication) || errors.Is(err, source.ErrInvalid) { // of the proxy
			return refuse("asking %s: %v", to.host(), err)
		}
		return fmt.Errorf("asking %s: %w", to.host(), err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		answer = nil // the status says enough
	}
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusBadRequest && provider == "gitlab" && strings.Contains(string(answer), "Cannot transition status"):
		return nil // it has this state already: https://gitlab.com/gitlab-org/gitlab-foss/-/issues/25807
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return fmt.Errorf("%s answers %d", to.host(), code)
	case code == http.StatusProxyAuthRequired && to.proxy != nil:
		return refuse("the proxy on the way to %s answers %d: check username and password in the Secret of spec.git.proxySecretRef", to.host(), code)
	case code >= 300 && code < 400:
		return refuse("%s answers %d, a redirect, which is not followed: correct %s in the Secret", to.host(), code, api.WebhookAPIURL)
	case to.app != nil && (code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusNotFound):
		return refuse("%s answers %d for repository %q: give the GitHub App the repository permission Commit statuses: write, and this repository to its installation", to.host(), code, to.repository)
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusNotFound:
		return refuse("%s answers %d for repository %q: give %s of the Secret the right to set commit statuses there", to.host(), code, to.repository, api.WebhookAPIToken)
	default:
		return refuse("%s answers %d for repository %q", to.host(), code, to.repository)
	}
}

// appToken asks for a token of the source's GitHub App for this one status.
func appToken(ctx context.Context, to endpoint, over *source.Transport) (string, error) {
	token, err := to.app.StatusToken(ctx, over, path.Base(to.repository))
	if errors.Is(err, source.ErrAuthentication) || errors.Is(err, source.ErrInvalid) {
		return "", refuse("%v", err)
	}
	return token, err
}

// transport connects to what Git may connect to (security.md 9), through the source's
// proxy, and without one of the environment, whose address would be judged in place of
// the host's.
func (s *Statuses) transport(to endpoint) (*source.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(to.ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(to.ca) {
			return nil, refuse("spec.webhook.secretRef: ca.crt holds no certificate in PEM")
		}
	}
	return source.Way{Timeout: requestTime, AllowedCIDRs: s.AllowedCIDRs, Proxy: to.proxy}.Transport(config), nil
}
