package forge

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
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
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

func refuse(format string, args ...any) error {
	return &refusedError{fmt.Sprintf(format, args...)}
}

// send sets a status at the host, if the Secret switches that on. It notes in the
// job what the host has now.
func (s *Statuses) send(ctx context.Context, j *job, want status) error {
	secret, err := s.secret(ctx, j.source)
	if err != nil {
		return err
	}
	attempt := string(want.state) + " " + string(secret.UID) + " " + secret.ResourceVersion
	if attempt == j.refused {
		return nil // nothing has changed since
	}
	to, err := s.endpoint(j.source, secret)
	if err == nil {
		err = s.post(ctx, j.source.Spec.Webhook.Provider, to, want)
	}
	var final *refusedError
	switch {
	case err == nil:
		j.sent, j.refused = want.state, ""
	case errors.As(err, &final):
		j.refused = attempt
	}
	return err
}

// errOff says that the Secret has no token for the API, or is missing, of which the
// listener tells: no status is wanted.
var errOff = errors.New("commit statuses are not switched on")

// secret is the webhook's. Without a token for the API the error is errOff.
func (s *Statuses) secret(ctx context.Context, ps *api.ProfileSource) (*corev1.Secret, error) {
	name := types.NamespacedName{Namespace: ps.Namespace, Name: ps.Spec.Webhook.SecretRef.Name}
	var secret corev1.Secret
	if err := s.Live.Get(ctx, name, &secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, errOff
		}
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	if len(secret.Data[api.WebhookAPIToken]) == 0 {
		return nil, errOff
	}
	return &secret, nil
}

// endpoint is where the source's statuses go. The API's address is a guess from the
// repository's, or stands in the Secret.
func (s *Statuses) endpoint(ps *api.ProfileSource, secret *corev1.Secret) (endpoint, error) {
	repo, ok := parseRepository(ps.Spec.Git.URL)
	if !ok {
		return endpoint{}, refuse("spec.git.url: there is no repository's name in it")
	}
	e := endpoint{
		api:        apiOf(ps.Spec.Webhook.Provider, repo),
		repository: repo.path,
		token:      strings.TrimRight(string(secret.Data[api.WebhookAPIToken]), "\r\n"),
		ca:         secret.Data["ca.crt"],
	}
	if own := strings.TrimSpace(string(secret.Data[api.WebhookAPIURL])); own != "" {
		e.api = strings.TrimRight(own, "/")
	}
	u, err := url.Parse(e.api)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return endpoint{}, refuse("spec.webhook.secretRef: %s in Secret %s is no URL such as https://git.example.com/api/v1", api.WebhookAPIURL, secret.Name)
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
	req, err := request(ctx, provider, to, want)
	if err != nil {
		return refuse("%v", err)
	}
	transport, err := s.transport(to.ca)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the token is for this host
	}}
	res, err := c.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL
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
	case code >= 300 && code < 400:
		return refuse("%s answers %d, a redirect, which is not followed: correct %s in the Secret", to.host(), code, api.WebhookAPIURL)
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusNotFound:
		return refuse("%s answers %d for repository %q: give %s of the Secret the right to set commit statuses there", to.host(), code, to.repository, api.WebhookAPIToken)
	default:
		return refuse("%s answers %d for repository %q", to.host(), code, to.repository)
	}
}

// transport connects to what Git may connect to (security.md 9), without a proxy of
// the environment, whose address would be judged in place of the host's.
func (s *Statuses) transport(ca []byte) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, refuse("spec.webhook.secretRef: ca.crt holds no certificate in PEM")
		}
	}
	return &http.Transport{
		DialContext:            source.Dialer(requestTime, s.AllowedCIDRs).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    requestTime,
		MaxResponseHeaderBytes: maxAnswer,
		DisableKeepAlives:      true,
	}, nil
}
