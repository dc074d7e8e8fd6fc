package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	eventv1 "github.com/fluxcd/pkg/apis/event/v1beta1"
	"github.com/fluxcd/pkg/apis/meta"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// hookKey is what the repository's host signs with, and apiToken what it knows us by.
const (
	hookKey  = "k3y-of-the-hook"
	apiToken = "t0k3n-of-the-api"
)

// outside stands in for the services that the controller contacts apart from Git: a
// notification-controller and the API of a Git host.
type outside struct {
	url      string
	mu       sync.Mutex
	events   []eventv1.Event
	statuses []string
	refuse   int // answer of the API, 0 for 201
}

func newOutside(t *testing.T) *outside {
	o := &outside{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if r.URL.Path == "/events" {
			var e eventv1.Event
			if err := json.Unmarshal(b, &e); err != nil {
				t.Error(err)
			}
			o.events = append(o.events, e)
			return
		}
		var s struct{ State, Context, Description string }
		if err := json.Unmarshal(b, &s); err != nil || r.Header.Get("Private-Token") != apiToken {
			t.Errorf("%s: %v %q (%v)", r.URL, r.Header, b, err)
		}
		if o.refuse != 0 {
			http.Error(w, "no: "+apiToken, o.refuse)
			return
		}
		o.statuses = append(o.statuses, fmt.Sprintf("%s %s: %s: %s", r.URL.Path, s.Context, s.State, s.Description))
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(server.Close)
	o.url = server.URL
	return o
}

// says waits for a status.
func (s *system) says(o *outside, want string) {
	s.T.Helper()
	s.Eventually("the status "+want, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		if !slices.Contains(o.statuses, want) {
			return fmt.Errorf("there are %q", o.statuses)
		}
		return nil
	})
}

// told waits until the notification-controller has an event for a revision, or for none if the
// revision is "".
func (s *system) told(o *outside, reason, severity, commit string, says ...string) {
	s.T.Helper()
	s.Eventually("event "+reason, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, e := range o.events {
			revision, about := e.Metadata["gitops.k8c.io/revision"]
			if e.Reason == reason && e.Severity == severity && strings.HasSuffix(revision, commit) && about == (commit != "") && e2e.ContainsAll(e.Message, says) {
				if e.InvolvedObject.Kind != "ProfileSource" || e.InvolvedObject.Name != "osps" || e.ReportingController != "osm-gitops" {
					return fmt.Errorf("it is about %+v, by %s", e.InvolvedObject, e.ReportingController)
				}
				return nil
			}
		}
		return fmt.Errorf("there are %+v", o.events)
	})
}

// hook sends what GitLab sends after a push to main.
func (s *system) hook(address, key string) int {
	s.T.Helper()
	body := fmt.Appendf(nil, `{"object_kind":"push","ref":"refs/heads/main","project":{"git_http_url":%q}}`, s.Git.URL)
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodPost, "http://"+address+"/hooks/git", bytes.NewReader(body))
	if err != nil {
		s.T.Fatal(err)
	}
	req.Header.Set("X-Gitlab-Event", "Push Hook")
	req.Header.Set("X-Gitlab-Token", key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.T.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// A push reaches the cluster within a second although the interval is an hour, Flux and the Git
// host receive the result, and no text that leaves the cluster contains a credential
// (security.md 14, 22, 28, 29).
func TestPush(t *testing.T) {
	s := newSystem(t)
	o := newOutside(t)
	s.Apply(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "hook", "namespace": e2e.Namespace},
		"stringData": map[string]any{"token": hookKey, "apiToken": apiToken, "apiURL": o.url + "/api/v4/"},
	})
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source(func(spec map[string]any) {
		spec["interval"], spec["retryInterval"] = "1h", "1h"
		spec["webhook"] = map[string]any{"provider": "gitlab", "secretRef": map[string]any{"name": "hook"}}
	})
	address := e2e.FreeAddress(t)
	s.Start("--hooks-address", address, "--events-addr", o.url+"/events", "--cluster-name", "eu-1")
	s.Ready(first)
	s.Pool("pool-a", "osp-a")
	s.Served("pool-a", "v1.0.0")
	s.told(o, api.EventRevisionApplied, "info", first, "1 profile")
	s.Listening(address)

	if code := s.hook(address, "wrong"); code != http.StatusUnauthorized {
		t.Errorf("a wrong key is answered with %d", code)
	}
	second := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	begin := time.Now()
	if code := s.hook(address, hookKey); code != http.StatusAccepted {
		t.Fatalf("the hook is answered with %d", code)
	}
	s.Ready(second)
	if took := time.Since(begin); took > time.Second {
		t.Errorf("it took %s from the hook to the profile", took)
	} else {
		t.Logf("%s from the hook to the profile", took)
	}
	s.Served("pool-a", "v1.1.0")
	s.told(o, api.EventRevisionApplied, "info", second)
	s.says(o, status(second, "success: 1 profile applied, 1 pool rotated"))

	third := s.Git.Push(map[string]string{"b.yaml": "spec: [\n"})
	s.hook(address, hookKey)
	s.WaitRejected(api.ReasonProfilesInvalid, "profiles/b.yaml:1")
	s.told(o, api.EventProfileRefused, "error", third, "profiles/b.yaml:1")
	s.Eventually("the failure at "+third, func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, got := range o.statuses {
			if strings.HasPrefix(got, status(third, "failed: 1 problem: profiles/b.yaml:1: ")) {
				return nil
			}
		}
		return fmt.Errorf("there are %q", o.statuses)
	})

	// No commit gets a failure status for a server that does not answer.
	s.Git.Mode.Store("500")
	s.hook(address, hookKey)
	s.WaitRejected(api.ReasonUnreachable)
	s.told(o, api.EventSourceFailed, "error", "")
	s.Git.Mode.Store("")

	// A host that refuses statuses is said to, and its words are not repeated.
	o.mu.Lock()
	o.refuse = http.StatusForbidden
	o.mu.Unlock()
	fourth := s.Git.Push(map[string]string{"b.yaml": ""})
	s.hook(address, hookKey)
	s.Ready(fourth)
	s.told(o, api.EventRevisionApplied, "info", fourth)
	s.Eventually("the event about the status", func() error {
		if notes := s.EventsIn(e2e.Namespace, "osps", api.EventCommitStatusRefused); len(notes) != 1 || !strings.Contains(notes[0], "answers 403") {
			return fmt.Errorf("events are %q", notes)
		}
		return nil
	})
	s.nowhere(o, hookKey, apiToken)

	s.Stop()
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
		t.Error("somebody still listens")
	}
}

// The end of an outage is reported as well, and without the flag no port is open.
func TestRecovery(t *testing.T) {
	s := newSystem(t)
	o := newOutside(t)
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source()
	s.Start("--events-addr", o.url+"/events")
	s.Ready(first)
	s.Git.Mode.Store("500")
	s.told(o, api.EventSourceFailed, "error", "")
	s.Git.Mode.Store("")
	s.told(o, api.EventSourceRecovered, "info", first)
	s.Listening() // no address, no port
}

// A replica that does not lead hears a push as well: what it writes, the leader acts
// upon. A provider that any program can speak for asks by bearer token.
func TestPushToAFollower(t *testing.T) {
	s := newSystem(t)
	s.Apply(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "hook", "namespace": e2e.Namespace},
		"stringData": map[string]any{"token": hookKey},
	})
	s.Apply(map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": map[string]any{"name": "operating-system-manager", "namespace": e2e.Namespace},
		"spec": map[string]any{"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": e2e.MicroTime(), "renewTime": e2e.MicroTime()},
	})
	s.Source(func(spec map[string]any) {
		spec["webhook"] = map[string]any{"provider": "generic", "secretRef": map[string]any{"name": "hook"}}
	})
	address := e2e.FreeAddress(t)
	s.Start("--hooks-address", address, "--leader-elect=true")
	s.Listening(address)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/hooks/git/"+e2e.Namespace+"/osps", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+hookKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	ps := s.ProfileSource()
	if _, asked := meta.ReconcileAnnotationValue(ps.Annotations); res.StatusCode != http.StatusAccepted || !asked {
		t.Errorf("answered with %d; annotations are %v", res.StatusCode, ps.Annotations)
	}
	if len(ps.Status.Conditions) > 0 {
		t.Errorf("a replica that does not lead looked: %+v", ps.Status)
	}
}

// status returns a commit status in the format in which outside stores it.
func status(commit, rest string) string {
	return "/api/v4/projects/osps/statuses/" + commit + " osm-gitops/eu-1: " + rest
}

// nowhere looks for credentials in everything that the controller wrote.
func (s *system) nowhere(o *outside, credentials ...string) {
	s.T.Helper()
	o.mu.Lock()
	texts := append([]string{fmt.Sprintf("%+v", o.events)}, o.statuses...)
	o.mu.Unlock()
	s.LogMu.Lock()
	texts = append(texts, s.Log.String())
	s.LogMu.Unlock()
	texts = append(texts, fmt.Sprintf("%+v", s.ProfileSource()))
	for _, reason := range []string{api.EventCommitStatusRefused, api.EventSourceFailed, api.EventProfileRefused, api.EventWebhookUnusable} {
		texts = append(texts, s.EventsIn(e2e.Namespace, "osps", reason)...)
	}
	for _, text := range texts {
		for _, c := range credentials {
			if strings.Contains(text, c) {
				s.T.Errorf("a credential stands in %s", e2e.Tail(text, 2000))
			}
		}
	}
}
