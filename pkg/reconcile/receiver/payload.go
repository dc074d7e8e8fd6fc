package receiver

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/githost"
)

// pushEvent is what an authenticated request is about. Missing information is empty, and then
// matches everything: an unnecessary reconciliation costs little, a missing one ignores a
// push.
type pushEvent struct {
	idle         bool     // not a push: a ping, a comment
	refs         []string // full names
	repositories []string // addresses
}

// events are the headers with the event type, and the values that mean a push.
var events = map[string]struct {
	header string
	pushes []string
}{
	"github":    {"X-GitHub-Event", []string{"push"}},
	"gitlab":    {"X-Gitlab-Event", []string{"Push Hook", "Tag Push Hook", "System Hook"}},
	"gitea":     {"X-Gitea-Event", []string{"push"}},
	"bitbucket": {"X-Event-Key", []string{"repo:push", "repo:refs_changed"}},
}

// gitlabPushes are the push events among the events of a system hook:
// https://docs.gitlab.com/administration/system_hooks/
var gitlabPushes = []string{"push", "tag_push", "repository_update"}

// payload has the used fields of all providers' payloads.
type payload struct {
	EventName  string     `json:"event_name"` // GitLab
	Ref        string     `json:"ref"`        // GitHub, GitLab, Gitea
	Refs       []string   `json:"refs"`       // GitLab's system hooks
	Repository repository `json:"repository"`
	Project    repository `json:"project"` // GitLab
	Push       struct {   // Bitbucket Cloud
		Changes []struct {
			New *named `json:"new"`
			Old *named `json:"old"`
		} `json:"changes"`
	} `json:"push"`
	Changes []struct { // Bitbucket Data Center
		Ref struct {
			ID string `json:"id"`
		} `json:"ref"`
	} `json:"changes"`
}

// named is a branch or a tag of Bitbucket Cloud.
type named struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

type repository struct {
	CloneURL   string `json:"clone_url"`    // GitHub, Gitea
	SSHURL     string `json:"ssh_url"`      // GitHub, Gitea, GitLab
	GitHTTPURL string `json:"git_http_url"` // GitLab
	GitSSHURL  string `json:"git_ssh_url"`  // GitLab
	Links      struct {
		Clone []link `json:"clone"` // Bitbucket Data Center
		HTML  link   `json:"html"`  // Bitbucket Cloud
	} `json:"links"`
}

type link struct {
	Href string `json:"href"`
}

// parsePush parses an authenticated request of a provider.
func parsePush(provider string, header http.Header, body []byte) pushEvent {
	event := ""
	if e, ok := events[provider]; ok {
		event = header.Get(e.header)
		if event != "" && !slices.Contains(e.pushes, event) {
			return pushEvent{idle: true}
		}
	}
	// GitHub and Gitea can be configured to send a form with the payload in a field.
	if strings.HasPrefix(header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return pushEvent{}
		}
		body = []byte(form.Get("payload"))
	}
	var p payload
	// A payload that cannot be parsed concerns all sources with this key: a superfluous
	// reconciliation does no harm.
	if err := json.Unmarshal(body, &p); err != nil {
		return pushEvent{}
	}
	if event == "System Hook" && !slices.Contains(gitlabPushes, p.EventName) {
		return pushEvent{idle: true}
	}
	return pushEvent{refs: p.refs(), repositories: p.repositories()}
}

func (p payload) refs() []string {
	refs := append([]string{p.Ref}, p.Refs...)
	for _, c := range p.Push.Changes {
		for _, n := range []*named{c.New, c.Old} {
			switch {
			case n == nil || n.Name == "":
			case n.Type == "tag" || n.Type == "annotated_tag":
				refs = append(refs, "refs/tags/"+n.Name)
			default:
				refs = append(refs, "refs/heads/"+n.Name)
			}
		}
	}
	for _, c := range p.Changes {
		refs = append(refs, c.Ref.ID)
	}
	return slices.DeleteFunc(refs, func(s string) bool { return s == "" })
}

func (p payload) repositories() []string {
	var out []string
	for _, r := range []repository{p.Repository, p.Project} {
		out = append(out, r.CloneURL, r.SSHURL, r.GitHTTPURL, r.GitSSHURL, r.Links.HTML.Href)
		for _, l := range r.Links.Clone {
			out = append(out, l.Href)
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "" })
}

// concerns reports whether a source should be reconciled because of the request. With
// anyRepository the request's path named the source, and addresses are not compared: the
// host can have several names.
func (e pushEvent) concerns(ps *api.ProfileSource, anyRepository bool) bool {
	if e.idle || ps.Spec.Suspend {
		return false
	}
	git := ps.Spec.Git
	if git == nil {
		return true
	}
	if len(e.refs) > 0 && !slices.ContainsFunc(e.refs, func(ref string) bool { return canBeMovedByPush(git.Ref, ref) }) {
		return false
	}
	return anyRepository || len(e.repositories) == 0 ||
		slices.ContainsFunc(e.repositories, func(r string) bool { return githost.IsSameRepository(r, git.URL) })
}

// canBeMovedByPush reports whether a source that follows ref can get another commit by a push of a
// reference. A push of any reference can bring a fixed commit.
func canBeMovedByPush(ref *api.GitReference, pushed string) bool {
	switch {
	case ref == nil:
		return pushed == "refs/heads/main"
	case ref.Commit != "":
		return true
	case ref.Name != "":
		return pushed == ref.Name
	case ref.Tag != "":
		return pushed == "refs/tags/"+ref.Tag
	case ref.SemVer != "":
		return strings.HasPrefix(pushed, "refs/tags/")
	case ref.Branch != "":
		return pushed == "refs/heads/"+ref.Branch
	}
	return pushed == "refs/heads/main"
}
