package commitstatus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// State of a commit, completing "the commit is ...". Some hosts have other names for it.
type State string

// The states that are sent.
const (
	// Pending: profiles are applied, and pools are still being updated.
	Pending State = "pending"
	// Success: everything is applied.
	Success State = "success"
	// Failure: files or pools reject the commit.
	Failure State = "failure"
)

// maxDescription is GitHub's limit, in characters; GitLab allows 255:
// https://docs.gitlab.com/api/commits/#set-commit-pipeline-status
const maxDescription = 140

// status is the status of a commit.
type status struct {
	commit      string // 40 hex digits
	state       State
	context     string // by which hosts distinguish reporters
	description string
}

// isSupportedProvider reports whether a provider has a supported API for commit statuses.
func isSupportedProvider(provider string) bool {
	switch provider {
	case "github", "gitlab", "gitea":
		return true
	}
	return false
}

// apiOf returns the address of a host's API if the Secret names none.
func apiOf(provider string, repo githost.Repository) string {
	host := repo.Scheme + "://" + repo.Host
	switch {
	case provider == "github" && repo.Hostname() == "github.com":
		return "https://api.github.com"
	case provider == "github": // GitHub Enterprise Server
		return host + "/api/v3"
	case provider == "gitlab":
		return host + "/api/v4"
	}
	return host + "/api/v1"
}

// newStatusRequest builds the request that sets a status.
//
// GitHub: https://docs.github.com/rest/commits/statuses#create-a-commit-status
// GitLab: https://docs.gitlab.com/api/commits/#set-commit-pipeline-status
// Gitea: https://docs.gitea.com/api/#tag/repository/operation/repoCreateStatus
func newStatusRequest(ctx context.Context, provider string, to endpoint, s status) (*http.Request, error) {
	path := ""
	body := map[string]string{"state": string(s.state), "context": s.context, "description": s.description}
	switch provider {
	case "gitlab":
		path = "/projects/" + url.PathEscape(to.repository) + "/statuses/" + s.commit
		if s.state == Failure {
			body["state"] = "failed"
		}
	default:
		owner, name, ok := strings.Cut(to.repository, "/")
		if !ok || strings.Contains(name, "/") {
			return nil, fmt.Errorf("a repository of %s must have the form owner/name: found %q", provider, to.repository)
		}
		path = "/repos/" + url.PathEscape(owner) + "/" + url.PathEscape(name) + "/statuses/" + s.commit
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a commit status: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.api+path, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("apiURL: %q cannot be used as a URL", to.host()) // the cause would quote all of it
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "osm-gitops")
	switch provider {
	case "github":
		req.Header.Set("Accept", "application/vnd.github+json")
		req.Header.Set("X-Github-Api-Version", "2022-11-28")
		req.Header.Set("Authorization", "Bearer "+to.token)
	case "gitlab":
		req.Header.Set("Private-Token", to.token)
	default:
		req.Header.Set("Accept", "application/json")
		req.Header.Set("Authorization", "token "+to.token)
	}
	return req, nil
}

// endpoint is the destination of a status.
type endpoint struct {
	api        string // without a trailing slash
	repository string // "group/name"
	token      string
	ca         []byte            // nil for the system's
	app        *source.GitHubApp // which issues the token; nil if there is a token
	proxy      *source.Proxy     // nil for none
}

// host returns the only part of the address that errors contain.
func (e endpoint) host() string {
	if u, err := url.Parse(e.api); err == nil && u.Host != "" {
		return u.Host
	}
	return "apiURL"
}

// String omits the token, so that it is not logged.
func (e endpoint) String() string { return e.host() }

// GoString omits the token, so that it is not logged.
func (e endpoint) GoString() string { return "commitstatus.endpoint{" + e.host() + "}" }
