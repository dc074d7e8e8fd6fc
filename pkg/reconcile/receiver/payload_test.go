package receiver

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

func gitSource(url string, ref *api.GitReference) *api.ProfileSource {
	return &api.ProfileSource{Spec: api.ProfileSourceSpec{Git: &api.GitSource{URL: url, Ref: ref}}}
}

// Real requests of a provider concern the reference and the repository that it documents,
// and no other.
func TestDocumentedPayloads(t *testing.T) {
	for name, f := range fixtures {
		t.Run(name, func(t *testing.T) {
			n := parsePush(f.provider, merged(f.header, sign(f.provider, "key", f.body(t))), f.body(t))
			if n.idle || !slices.Contains(n.refs, f.ref) {
				t.Fatalf("read %+v, want a push of %s", n, f.ref)
			}
			follows := &api.GitReference{Name: f.ref}
			if !n.concerns(gitSource(f.url, follows), false) {
				t.Errorf("%+v does not concern %s", n, f.url)
			}
			if n.concerns(gitSource(f.url, &api.GitReference{Branch: "other"}), false) {
				t.Error("it concerns a branch that was not pushed")
			}
			if n.concerns(gitSource(f.url+"x", follows), false) {
				t.Error("it concerns another repository")
			}
			if !n.concerns(gitSource(f.url+"x", follows), true) {
				t.Error("named in the path, a repository may have another address")
			}
			suspended := gitSource(f.url, follows)
			suspended.Spec.Suspend = true
			if n.concerns(suspended, true) {
				t.Error("it concerns a source that is suspended")
			}
		})
	}
}

func TestRead(t *testing.T) {
	push := `{"ref":"refs/heads/main"}`
	for name, c := range map[string]struct {
		provider, event, body string
		form                  bool
		idle                  bool
		refs                  string
	}{
		"a ping of GitHub":                  {provider: "github", event: "ping", body: `{"zen":"Design for failure."}`, idle: true},
		"an issue of GitLab":                {provider: "gitlab", event: "Issue Hook", body: `{}`, idle: true},
		"a new user, by GitLab's system":    {provider: "gitlab", event: "System Hook", body: `{"event_name":"user_create"}`, idle: true},
		"many branches, by GitLab's system": {provider: "gitlab", event: "System Hook", body: `{"event_name":"repository_update","refs":["refs/heads/a","refs/heads/b"]}`, refs: "refs/heads/a refs/heads/b"},
		"a comment of Gitea":                {provider: "gitea", event: "issue_comment", body: `{}`, idle: true},
		"a fork of Bitbucket":               {provider: "bitbucket", event: "repo:fork", body: `{}`, idle: true},
		"a form of GitHub":                  {provider: "github", event: "push", body: "payload=" + url.QueryEscape(push), form: true, refs: "refs/heads/main"},
		"no event is named":                 {provider: "github", body: push, refs: "refs/heads/main"},
		"no JSON":                           {provider: "generic", body: "pushed!"},
		"nothing":                           {provider: "generic"},
		"another type":                      {provider: "gitea", event: "push", body: `{"ref":["refs/heads/main"]}`},
		"no form":                           {provider: "github", event: "push", body: "%zz", form: true},
		"a deleted branch of Bitbucket":     {provider: "bitbucket", event: "repo:push", body: `{"push":{"changes":[{"new":null,"old":{"type":"branch","name":"a"}},{"new":{"type":"tag","name":"v1"}}]}}`, refs: "refs/heads/a refs/tags/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			if c.event != "" {
				h.Set(events[c.provider].header, c.event)
			}
			if c.form {
				h.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			n := parsePush(c.provider, h, []byte(c.body))
			if n.idle != c.idle || strings.Join(n.refs, " ") != c.refs {
				t.Errorf("read %+v", n)
			}
			// Unknown content counts: an unnecessary reconciliation costs little.
			if got := n.concerns(gitSource("https://example.com/a/b", nil), false); got != (!c.idle && (c.refs == "" || strings.Contains(c.refs, "refs/heads/main"))) {
				t.Errorf("it concerns a source: %v", got)
			}
		})
	}
}

func TestTracks(t *testing.T) {
	for _, c := range []struct {
		ref    *api.GitReference
		pushed string
		want   bool
	}{
		{nil, "refs/heads/main", true},
		{nil, "refs/heads/master", false},
		{&api.GitReference{}, "refs/heads/main", true},
		{&api.GitReference{Branch: "prod"}, "refs/heads/prod", true},
		{&api.GitReference{Branch: "prod"}, "refs/heads/prod2", false},
		{&api.GitReference{Branch: "prod"}, "refs/tags/prod", false},
		{&api.GitReference{Tag: "v1"}, "refs/tags/v1", true},
		{&api.GitReference{Tag: "v1"}, "refs/tags/v2", false},
		{&api.GitReference{SemVer: "~1"}, "refs/tags/v2", true}, // the reconciliation decides whether it matches
		{&api.GitReference{SemVer: "~1"}, "refs/heads/main", false},
		{&api.GitReference{Name: "refs/pull/1/head"}, "refs/pull/1/head", true},
		{&api.GitReference{Commit: strings.Repeat("a", 40)}, "refs/heads/any", true}, // it may bring the commit
	} {
		if got := canBeMovedByPush(c.ref, c.pushed); got != c.want {
			t.Errorf("%+v sees %s: %v", c.ref, c.pushed, got)
		}
	}
}
