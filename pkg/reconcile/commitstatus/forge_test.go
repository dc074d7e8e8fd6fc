package commitstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/githost"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

// canary must be in no text (security.md 14).
const canary = "c4n4ry-t0ken"

const commit = "0123456789abcdef0123456789abcdef01234567"

// host is a server that takes statuses.
type host struct {
	t       *testing.T
	url     string
	mu      sync.Mutex
	got     []string // "state: description (context)"
	paths   []string
	headers []http.Header
	tries   int
	answers []int // then 201
	says    string
}

func newHost(t *testing.T) *host {
	h := &host{t: t}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		var body map[string]string
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || json.Unmarshal(b, &body) != nil {
			t.Errorf("%s %s %q (%v)", r.Method, r.URL, b, err)
		}
		if keys := slices.Sorted(maps.Keys(body)); !slices.Equal(keys, []string{"context", "description", "state"}) {
			t.Errorf("the body has %v", keys)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.tries++
		if len(h.answers) > 0 {
			w.Header().Set("Location", "http://"+r.Host+"/elsewhere")
			w.WriteHeader(h.answers[0])
			fmt.Fprint(w, h.says)
			h.answers = h.answers[1:]
			return
		}
		h.got = append(h.got, fmt.Sprintf("%s: %s (%s)", body["state"], body["description"], body["context"]))
		h.paths, h.headers = append(h.paths, r.URL.EscapedPath()), append(h.headers, r.Header)
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

func (h *host) answer(says string, codes ...int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answers, h.says = codes, says
}

func (h *host) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tries
}

// wait waits for the statuses that were taken, and that no more come.
func (h *host) wait(want ...string) {
	h.t.Helper()
	testenv.Await(h.t, 30*time.Second, fmt.Sprintf("there are %d statuses", len(want)), func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.got) < len(want) {
			return errors.New(cmp.Diff(want, h.got))
		}
		return nil
	})
	time.Sleep(2 * recount) // one more would have come by now
	h.mu.Lock()
	defer h.mu.Unlock()
	if diff := cmp.Diff(want, h.got); diff != "" {
		h.t.Fatalf("(-want +got)\n%s", diff)
	}
}

// reporter is Statuses at work on the real API server.
type reporter struct {
	*Statuses
	t         *testing.T
	client    client.Client
	namespace string
	recorder  *events.FakeRecorder
}

func newReporter(t *testing.T) *reporter {
	t.Helper()
	c := cluster.Shared(t)
	r := &reporter{t: t, client: c.Client(t, api.AddToScheme, osm.AddToScheme), namespace: c.Namespace(t), recorder: events.NewFakeRecorder(100)}
	r.Statuses = &Statuses{
		Client: r.client, Namespace: r.namespace, Pools: func() client.Reader { return r.client }, Live: r.client, Recorder: r.recorder, Cluster: "eu-1",
		AllowInsecure: true, AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *reporter) do(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// source makes a ProfileSource whose host is at an address.
func (r *reporter) source(name, provider, repo, apiURL string) *api.ProfileSource {
	r.t.Helper()
	r.do(r.client.Create(r.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Data:       map[string][]byte{api.WebhookToken: []byte("t"), api.WebhookAPIToken: []byte(canary + "\n"), api.WebhookAPIURL: []byte(apiURL)},
	}))
	ps := &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: api.ProfileSourceSpec{
			Git:      &api.GitSource{URL: repo, Timeout: metav1.Duration{Duration: time.Minute}},
			Interval: metav1.Duration{Duration: time.Hour}, RetryInterval: metav1.Duration{Duration: time.Minute},
			Webhook: &api.Webhook{Provider: provider, SecretRef: meta.LocalObjectReference{Name: name}},
		},
	}
	r.do(r.client.Create(r.t.Context(), ps))
	return ps
}

func (r *reporter) looked(ps *api.ProfileSource, changed []string, problems ...error) {
	ps.Status.Profiles = []api.ProfileEntry{{Name: "a", Version: "v2", Commit: commit}, {Name: "b", Version: "v1", Commit: "old"}, {Name: "gone", Removed: true}}
	l := Reconciliation{Source: ps, Revision: "main@sha1:" + commit, Problems: problems}
	for _, e := range ps.Status.Profiles {
		if slices.Contains(changed, e.Name) {
			l.Changed = append(l.Changed, e)
		}
	}
	r.EnqueueReconciliation(l)
}

// pool makes what a pool's configuration says about itself.
func (r *reporter) pool(name, profile, version, from string) *osm.OperatingSystemConfig {
	r.t.Helper()
	osc := &osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name, Annotations: map[string]string{
			api.AnnotationProfile: profile, api.AnnotationVersion: version, api.AnnotationCommit: from,
			api.AnnotationPool: r.namespace + "/" + name, api.AnnotationInputDigest: version,
		}},
		Spec: osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{Name: "aws"}},
	}
	r.do(r.client.Create(r.t.Context(), osc))
	r.do(client.IgnoreAlreadyExists(r.client.Create(r.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.NamespaceCloudInitSettings}})))
	r.do(r.client.Create(r.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: api.NamespaceCloudInitSettings, Name: name + "-" + r.namespace + "-bootstrap-config", Annotations: map[string]string{api.AnnotationInputDigest: version},
	}}))
	return osc
}

// rotate gives a pool a configuration, write its document as well.

func (r *reporter) rotate(osc *osm.OperatingSystemConfig, version, from string) {
	r.t.Helper()
	osc.Annotations[api.AnnotationVersion], osc.Annotations[api.AnnotationCommit], osc.Annotations[api.AnnotationInputDigest] = version, from, version
	r.do(r.client.Update(r.t.Context(), osc))
}

func (r *reporter) write(osc *osm.OperatingSystemConfig) {
	r.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: osc.Name + "-" + r.namespace + "-bootstrap-config"}}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, api.AnnotationInputDigest, osc.Annotations[api.AnnotationInputDigest])
	r.do(r.client.Patch(r.t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(patch))))
}

// Each host is asked as it documents: path, headers and states.
func TestHosts(t *testing.T) {
	for provider, c := range map[string]struct {
		repo, path, failure string
		header              http.Header
	}{
		"github": {"https://github.com/octo/hello.git", "/repos/octo/hello/statuses/" + commit, "failure",
			http.Header{"Authorization": {"Bearer " + canary}, "Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"}}},
		"gitlab": {"git@gitlab.example.com:group/sub/osps.git", "/projects/group%2Fsub%2Fosps/statuses/" + commit, "failed",
			http.Header{"Private-Token": {canary}}},
		"gitea": {"ssh://git@gitea.example.com:2222/team/osps", "/repos/team/osps/statuses/" + commit, "failure",
			http.Header{"Authorization": {"token " + canary}}},
	} {
		t.Run(provider, func(t *testing.T) {
			h, r := newHost(t), newReporter(t)
			ps := r.source("osps", provider, c.repo, h.url+"/")
			r.looked(ps, nil, errors.New("profiles/a.yaml:3: \x1b[31mbad\nline"), errors.New(strings.Repeat("long ", 100)))
			h.wait(c.failure + ": 2 problems: profiles/a.yaml:3: [31mbadline (osm-gitops/eu-1)") // security.md 28
			r.looked(ps, nil)
			r.looked(ps, nil)
			h.wait(c.failure+": 2 problems: profiles/a.yaml:3: [31mbadline (osm-gitops/eu-1)",
				"success: 2 profiles applied, 0 pools rotated (osm-gitops/eu-1)")
			for i, path := range h.paths {
				if path != c.path {
					t.Errorf("request to %s, want %s", path, c.path)
				}
				for k, v := range c.header {
					if !slices.Equal(h.headers[i][k], v) {
						t.Errorf("header %s is %q, want %q", k, h.headers[i][k], v)
					}
				}
			}
		})
	}
}

func TestPoolsFollow(t *testing.T) {
	h, r := newHost(t), newReporter(t)
	ps := r.source("osps", "github", "https://github.com/octo/hello", h.url)
	one, two := r.pool("one", "a", "v1", "older"), r.pool("two", "a", "v1", "older")
	r.pool("other", "b", "v1", "old")
	r.looked(ps, []string{"a"})
	h.wait("pending: 2 profiles applied, 0 of 2 pools rotated (osm-gitops/eu-1)")
	r.rotate(one, "v2", commit)
	h.wait("pending: 2 profiles applied, 0 of 2 pools rotated (osm-gitops/eu-1)")
	r.looked(ps, nil) // another look at the same commit forgets nothing
	r.write(one)
	two.Annotations[api.AnnotationRefused], two.Annotations[api.AnnotationRefusedVersion] = "of another version", "v1.5"
	r.rotate(two, "v1", "older")
	counts := func(want rolloutProgress) {
		t.Helper()
		got, err := readRolloutProgress(t.Context(), r.client, r.client, r.namespace, map[string]api.ProfileEntry{"a": {Version: "v2", Commit: commit}})
		if err != nil || got != want {
			t.Errorf("counted %+v (err %v), want %+v", got, err, want)
		}
	}
	counts(rolloutProgress{pools: 2, rotated: 1})
	delete(two.Annotations, api.AnnotationRefused)
	delete(two.Annotations, api.AnnotationRefusedVersion)
	r.rotate(two, "v2", commit)
	counts(rolloutProgress{pools: 2, rotated: 1}) // its document is not written yet
	r.write(two)
	h.wait("pending: 2 profiles applied, 0 of 2 pools rotated (osm-gitops/eu-1)",
		"success: 2 profiles applied, 2 pools rotated (osm-gitops/eu-1)")
	two.Annotations[api.AnnotationRefused] = "m"
	r.do(r.client.Update(t.Context(), two))
	f, err := readRolloutProgress(t.Context(), r.client, r.client, r.namespace, map[string]api.ProfileEntry{"a": {Version: "v2", Commit: commit}})
	if want := (rolloutProgress{pools: 2, rotated: 1, rejected: 1}); err != nil || f != want || !f.settled() {
		t.Errorf("%+v (err %v), want %+v", f, err, want)
	}
	if got := f.describe(1); got != "1 profile applied, 1 of 2 pools rotated, 1 refused" {
		t.Errorf("described as %q", got)
	}
}

// Without pools, as in a seed of KKP, a commit succeeds when its profiles are written. Other
// configurations in the namespace do not count.
func TestNoPools(t *testing.T) {
	h, r := newHost(t), newReporter(t)
	r.Pools = nil
	ps := r.source("osps", "github", "https://github.com/octo/hello", h.url)
	r.pool("one", "a", "v1", "older")
	r.looked(ps, []string{"a"})
	h.wait("success: 2 profiles applied (osm-gitops/eu-1)")
}

// A commit that is refused as a whole fails, also one that was applied before; and is
// good again when what it was refused for is.
func TestRefusedCommit(t *testing.T) {
	h, r := newHost(t), newReporter(t)
	ps := r.source("osps", "github", "https://github.com/octo/hello", h.url)
	good := "success: 2 profiles applied, 0 pools rotated (osm-gitops/eu-1)"
	r.looked(ps, nil)
	h.wait(good)
	refused := Reconciliation{Source: ps, Revision: "main@sha1:" + commit, Rejected: fmt.Errorf("commit %s %q: it is not signed: %s", commit, "\x1b[31mx", strings.Repeat("long ", 100))}
	r.EnqueueReconciliation(refused)
	r.EnqueueReconciliation(refused)
	bad := `failure: refused: commit 0123456789ab "\x1b[31mx": it is not signed: `
	bad += strings.Repeat("long ", 100)[:140-len(strings.TrimPrefix(bad, "failure: "))-1] + "… (osm-gitops/eu-1)"
	h.wait(good, bad)
	r.looked(ps, nil)
	h.wait(good, bad, good)
}

// Two sources of one repository do not hide each other's failure.
func TestContexts(t *testing.T) {
	h, r := newHost(t), newReporter(t)
	prod := r.source("prod", "github", "https://github.com/octo/hello.git", h.url)
	edge := r.source("edge", "github", "git@github.com:Octo/Hello.git", h.url)
	r.source("other", "github", "https://github.com/octo/other", h.url)
	r.looked(prod, nil)
	h.wait("success: 2 profiles applied, 0 pools rotated (osm-gitops/eu-1/prod)")
	r.looked(edge, nil, errors.New("bad"))
	h.wait("success: 2 profiles applied, 0 pools rotated (osm-gitops/eu-1/prod)", "failure: 1 problem: bad (osm-gitops/eu-1/edge)")
}

// Requests to an unavailable host are retried; after a rejection there is no retry until
// the Secret changes. No text contains the token (security.md 14), nor the host's
// response.
func TestFaults(t *testing.T) {
	h, r := newHost(t), newReporter(t)
	ps := r.source("osps", "gitlab", "https://gitlab.example.com/a/b", h.url)
	success := "success: 2 profiles applied, 0 pools rotated (osm-gitops/eu-1)"
	h.answer("", 500, 429)
	r.looked(ps, nil)
	h.wait(success)

	other := strings.Repeat("b", 40)
	revision := func(hex string) Reconciliation {
		ps.Status.Profiles = nil
		return Reconciliation{Source: ps, Revision: "main@sha1:" + hex}
	}
	h.answer("the token is "+canary, 401)
	r.EnqueueReconciliation(revision(other))
	refused := r.event()
	if !strings.Contains(refused, "CommitStatusRefused") || !strings.Contains(refused, "answers 401 for repository \"a/b\": grant apiToken") || strings.Contains(refused, canary) {
		t.Errorf("told is %q", refused)
	}
	tries := h.count()
	for range 3 {
		r.EnqueueReconciliation(revision(other))
	}
	time.Sleep(300 * time.Millisecond) // another request would have come by now
	if h.count() != tries {
		t.Error("a refusal is not taken for an answer")
	}
	r.do(r.client.Patch(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "osps"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"data":{"apiToken":"bmV3"}}`))))
	r.EnqueueReconciliation(revision(other))
	again := "success: 0 profiles applied, 0 pools rotated (osm-gitops/eu-1)"
	h.wait(success, again)

	// https://gitlab.com/gitlab-org/gitlab-foss/-/issues/25807
	h.answer(`{"message":"Cannot transition status via :enqueue from :pending"}`, 400)
	r.EnqueueReconciliation(revision(strings.Repeat("c", 40)))
	h.wait(success, again)
	h.answer("", 307)
	r.EnqueueReconciliation(revision(strings.Repeat("d", 40)))
	if told := r.event(); !strings.Contains(told, "a redirect") {
		t.Errorf("told is %q", told)
	}
	h.wait(success, again)
	if len(r.recorder.Events) > 0 {
		t.Errorf("told is also %q", <-r.recorder.Events)
	}
}

func (r *reporter) event() string {
	r.t.Helper()
	select {
	case e := <-r.recorder.Events:
		return e
	case <-time.After(30 * time.Second):
		r.t.Fatal("nothing is told")
		return ""
	}
}

// Commits without a status to report get none.
func TestSilence(t *testing.T) {
	h, r := newHost(t), newReporter(t)
	off := r.source("off", "github", "https://github.com/octo/off", h.url)
	r.do(r.client.Patch(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "off"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"data":{"apiToken":null}}`))))
	r.looked(off, nil)
	r.looked(r.source("generic", "generic", "https://example.com/octo/x", h.url), nil)
	dirty := r.source("dirty", "github", "https://github.com/octo/dirty", h.url)
	r.EnqueueReconciliation(Reconciliation{Source: dirty, Revision: "sha256:" + strings.Repeat("a", 64)})
	none := dirty.DeepCopy()
	none.Spec.Webhook = nil
	r.looked(none, nil)
	time.Sleep(2 * recount) // a request would have come by now
	if h.count() != 0 || len(r.recorder.Events) > 0 {
		t.Errorf("%d requests", h.count())
	}
}

// security.md 9, 14: the permitted destinations of the token.
func TestWhereTokensGo(t *testing.T) {
	h := newHost(t)
	s := &Statuses{}
	ps := &api.ProfileSource{Spec: api.ProfileSourceSpec{Git: &api.GitSource{URL: "https://git.example.com/a/b"}, Webhook: &api.Webhook{Provider: "gitea"}}}
	secret := func(address string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{api.WebhookAPIToken: []byte(canary), api.WebhookAPIURL: []byte(address)}}
	}
	for _, address := range []string{h.url, "ftp://git.example.com", "//x", "https://user:" + canary + "@git.example.com", "https://git.example.com?" + canary, "https://git.example.com/%zz" + canary, "https://"} {
		var final *rejectedError
		if _, err := s.resolveEndpoint(ps, access{secret: secret(address)}); !errors.As(err, &final) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", address, err)
		}
	}
	s.AllowInsecure = true
	to, err := s.resolveEndpoint(ps, access{secret: secret(h.url)})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", to, to, to, to); strings.Contains(text, canary) {
		t.Errorf("printed as %s", text)
	}
	if err := s.postStatus(t.Context(), "gitea", to, status{commit: commit}); err == nil || !strings.Contains(err.Error(), "loopback") || strings.Contains(err.Error(), canary) {
		t.Errorf("loopback: %v", err)
	}
	if h.count() != 0 {
		t.Error("the token went out")
	}
	bad := secret("")
	bad.Data[api.WebhookAPIToken] = []byte(canary + "\r\nX-Other: 1")
	if _, err := s.resolveEndpoint(ps, access{secret: bad}); err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("a header in the token: %v", err)
	}
}

func TestAPIOf(t *testing.T) {
	for provider, want := range map[string]string{"github": "https://git.example.com/api/v3", "gitlab": "https://git.example.com/api/v4", "gitea": "https://git.example.com/api/v1"} {
		if got := apiOf(provider, githost.Repository{Scheme: "https", Host: "git.example.com", Path: "a/b"}); got != want {
			t.Errorf("the API of %s is %s", provider, got)
		}
	}
	if got := apiOf("github", githost.Repository{Scheme: "https", Host: "github.com", Path: "a/b"}); got != "https://api.github.com" {
		t.Errorf("GitHub's API is %s", got)
	}
}
