package profilesource

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/commitstatus"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// statusHost is the API of a Git host: it accepts statuses, and issues tokens of an app.
type statusHost struct {
	t   *testing.T
	url string

	mu      sync.Mutex
	got     []string // "commit state description, by authorization"
	scopes  []string // of the requested tokens
	refuses int      // response code for a request for a token that can set statuses; 0 issues the token
}

// The credentials of these tests, which must not appear in events (security.md 14).
const (
	gitToken, statusToken = "c4n4ry-git", "c4n4ry-status"
	apiToken              = "c4n4ry-api"
	proxyPassword         = "c4n4ry-proxy"
)

func newStatusHost(t *testing.T) *statusHost {
	t.Helper()
	h := &statusHost{t: t}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

func (h *statusHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.HasSuffix(r.URL.Path, "/access_tokens") {
		h.issue(w, r)
		return
	}
	var body struct{ State, Description string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		h.t.Error(err)
	}
	by := strings.TrimPrefix(r.Header.Get("Authorization")+r.Header.Get("Private-Token"), "Bearer ")
	h.got = append(h.got, path.Base(r.URL.Path)+" "+body.State+" "+body.Description+", by "+by)
	w.WriteHeader(http.StatusCreated)
}

// issue issues a token, see
// https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app
func (h *statusHost) issue(w http.ResponseWriter, r *http.Request) {
	var scope struct {
		Repositories []string
		Permissions  map[string]string
	}
	if err := json.NewDecoder(r.Body).Decode(&scope); err != nil || r.URL.Path != "/api/v3/app/installations/4711/access_tokens" {
		h.t.Errorf("%s: %v", r.URL, err)
	}
	text, token := strings.Join(scope.Repositories, ","), gitToken
	for name, right := range scope.Permissions {
		text += " " + name + ":" + right
	}
	h.scopes = append(h.scopes, text)
	if scope.Permissions["statuses"] != "" {
		if token = statusToken; h.refuses != 0 {
			w.WriteHeader(h.refuses)
			return
		}
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"token": token, "expires_at": time.Now().Add(time.Hour)})
}

// wait waits for the next status, and checks that it contains all parts.
func (h *statusHost) wait(parts ...string) {
	h.t.Helper()
	var got string
	testenv.Await(h.t, 30*time.Second, fmt.Sprintf("the host gets a status with %q", parts), func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.got) == 0 {
			return errors.New("it gets none")
		}
		got, h.got = h.got[0], h.got[1:]
		return nil
	})
	for _, part := range parts {
		if !strings.Contains(got, part) {
			h.t.Errorf("the host got %q, and not %q", got, part)
		}
	}
}

func (h *statusHost) refuse(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = status
}

func (h *statusHost) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.scopes)
}

// reports configures the source to set commit statuses at a host.
func (f *following) reports(provider string, hook map[string]string) {
	f.t.Helper()
	f.make("hook", hook)
	f.ps.Spec.Webhook = &api.Webhook{Provider: provider, SecretRef: meta.LocalObjectReference{Name: "hook"}}
	f.do(f.client.Update(f.t.Context(), f.ps))
	statuses := &commitstatus.Statuses{
		Pools:  func() client.Reader { return f.client },
		Client: f.client, Live: f.client, Recorder: f.recorder, Remote: f.r.Fetcher.NewRemote,
		AllowInsecure: true, AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
	go func() { _ = statuses.Start(f.t.Context()) }() // returns without an error when the test ends
	f.r.Statuses = statuses
}

// make creates a Secret.
func (f *following) make(name string, data map[string]string) {
	f.t.Helper()
	f.do(f.client.Create(f.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: name}, StringData: data}))
}

// asks reconciles by annotation, which also fetches from the server.
func (f *following) asks() {
	f.t.Helper()
	f.annotate(meta.ReconcileRequestAnnotation, time.Now().String())
	f.look()
}

// ownedBy moves the repository into a folder, because hosts have one for each owner.
func (f *following) ownedBy(owner string) {
	f.t.Helper()
	to := filepath.Join(filepath.Dir(f.bare), owner, "osps.git")
	f.git("clone", "--quiet", "--bare", f.bare, to)
	f.bare = to
	f.spec(func(git *api.GitSource) { git.URL = strings.Replace(git.URL, "/osps.git", "/"+owner+"/osps.git", 1) })
}

// forward starts an HTTP proxy that counts the forwarded requests by host.
func forward(t *testing.T) (address string, passed func(host string) int) {
	t.Helper()
	var mu sync.Mutex
	count := map[string]int{}
	on := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL = r.In.URL }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := basicAuth(r.Header.Get("Proxy-Authorization")); !ok || user != "robot" || password != proxyPassword {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		mu.Lock()
		count[r.URL.Host]++
		mu.Unlock()
		on.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func(host string) int {
		mu.Lock()
		defer mu.Unlock()
		return count[strings.TrimPrefix(host, "http://")]
	}
}

func basicAuth(header string) (user, password string, ok bool) {
	return (&http.Request{Header: http.Header{"Authorization": {header}}}).BasicAuth()
}

// quiet checks that the events contain no credential.
func (f *following) quiet() {
	f.t.Helper()
	if said := f.told(); strings.Contains(said, "c4n4ry") || strings.Contains(said, "CommitStatusRefused") {
		f.t.Errorf("told is %q", said)
	}
}

// A commit that is rejected for its signature, or held back, gets a failed status that its
// author sees. A rejection because keys are missing sets no status.
func TestStatusOfRefusedCommits(t *testing.T) {
	f, h := newFollowing(t, verified("HEAD")), newStatusHost(t)
	f.ps.Spec.Git.OnRewrite = "Hold"
	f.reports("gitlab", map[string]string{api.WebhookAPIToken: apiToken, api.WebhookAPIURL: h.url})
	ada, line := f.key("ada@example.com")
	f.secret(line)
	first := f.commit(ada, "v1.0.0", "one")
	f.asks()
	h.wait(first+" success", "1 profile applied")
	unsigned := f.commit("", "v1.1.0", "two")
	f.asks()
	h.wait(unsigned+" failed", `refused: commit `+unsigned[:12]+` "v1.1.0" of "Ada <ada@example.com>": it is not signed`)
	f.git("reset", "--quiet", "--hard", "HEAD~1")
	f.git("commit", "--quiet", "--amend", "--message=other")
	held := f.commit(ada, "v1.2.0", "three")
	f.asks()
	h.wait(held+" failed", "refused: history was rewritten by a force-push, a moved tag, or a merge")
	f.secret("")
	f.asks()
	f.asks()
	f.secret(line)
	f.annotate(api.AnnotationAcceptRewrite, held)
	f.asks()
	h.wait(held+" success", "1 profile applied")
}

// refusal waits until the host's refusal of a status is told, and returns the events until then.
func (f *following) refusal() (said string) {
	f.t.Helper()
	testenv.Await(f.t, 30*time.Second, "a refused status is told", func() error {
		if said += f.told(); !strings.Contains(said, "CommitStatusRefused") {
			return fmt.Errorf("told is %q", said)
		}
		return nil
	})
	return said
}

// Statuses use the proxy of the repository.
func TestStatusesThroughTheProxy(t *testing.T) {
	f, h := newFollowing(t, nil), newStatusHost(t)
	proxy, passed := forward(t)
	f.make("proxy", map[string]string{"address": proxy, "username": "robot", "password": proxyPassword})
	f.ps.Spec.Git.ProxySecretRef = &meta.LocalObjectReference{Name: "proxy"}
	f.reports("gitlab", map[string]string{api.WebhookAPIToken: apiToken, api.WebhookAPIURL: h.url})
	head := f.commit("", "v1.0.0", "one")
	f.asks()
	h.wait(head+" success 1 profile applied", "by "+apiToken)
	if passed(h.url) != 1 {
		t.Errorf("the proxy passed %d requests on to the host", passed(h.url))
	}
	f.quiet()

	f.do(f.client.Update(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: "proxy"},
		StringData: map[string]string{"address": proxy, "username": "robot", "password": proxyPassword + "-old"},
	}))
	f.r.Statuses.EnqueueReconciliation(commitstatus.Reconciliation{Source: f.ps, Revision: "main@sha1:" + strings.Repeat("b", 40)})
	said := f.refusal()
	if !strings.Contains(said, "answers 407: check username and password in the Secret of spec.git.proxySecretRef") || strings.Contains(said, "c4n4ry") {
		t.Errorf("told is %q", said)
	}
}

// A source with a GitHub App needs no separate token for statuses: the app issues one that
// permits only that, if the app has the permission.
func TestStatusesByGitHubApp(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	follow := func(t *testing.T) (*following, *statusHost, func(string) int) {
		t.Helper()
		f, h := newFollowing(t, nil), newStatusHost(t)
		f.ownedBy("octo")
		proxy, passed := forward(t)
		f.make("proxy", map[string]string{"address": proxy, "username": "robot", "password": proxyPassword})
		f.make("app", map[string]string{"githubAppID": "42", "githubAppInstallationID": "4711", "githubAppPrivateKey": private, "githubAppBaseURL": h.url})
		f.ps.Spec.Git.ProxySecretRef = &meta.LocalObjectReference{Name: "proxy"}
		f.ps.Spec.Git.SecretRef = &meta.LocalObjectReference{Name: "app"}
		// The token of an app goes only to the host that issued it; apiURL has no effect.
		f.reports("github", map[string]string{api.WebhookAPIURL: "http://127.0.0.1:9/elsewhere"})
		return f, h, passed
	}
	read, write := " contents:read", "osps statuses:write"
	t.Run("that may", func(t *testing.T) {
		f, h, passed := follow(t)
		head := f.commit("", "v1.0.0", "one")
		f.asks()
		h.wait(head+" success 1 profile applied", "by "+statusToken)
		if diff := cmp.Diff([]string{read, write}, h.asked()); diff != "" || passed(h.url) != 3 {
			t.Errorf("%d requests through the proxy, and tokens: %s", passed(h.url), diff)
		}
		f.quiet()
	})
	t.Run("that may not", func(t *testing.T) {
		f, h, _ := follow(t)
		h.refuse(http.StatusUnprocessableEntity)
		f.commit("", "v1.0.0", "one")
		for range 3 {
			f.asks()
			time.Sleep(200 * time.Millisecond) // an event for each would have come by now
		}
		if said := f.refusal(); !strings.Contains(said, `GitHub answers 422 Unprocessable Entity; grant the app the repository permission Commit statuses: write, and its installation access to "osps"`) ||
			strings.Contains(said, "c4n4ry") || strings.Count(said, "CommitStatusRefused") != 1 {
			t.Errorf("told is %q", said)
		}
		f.commit("", "v1.0.1", "another") // the missing permission is reported once
		f.asks()
		time.Sleep(200 * time.Millisecond) // a status would have been sent by now
		if diff := cmp.Diff([]string{read, write, write}, h.asked()); diff != "" {
			t.Error(diff)
		}
		f.quiet()
		h.refuse(http.StatusForbidden)
		f.commit("", "v1.1.0", "two")
		f.asks()
		if said := f.refusal(); !strings.Contains(said, "phase token: GitHub answers 403 Forbidden; check whether the installation is suspended") || strings.Contains(said, "c4n4ry") {
			t.Errorf("told is %q", said)
		}
	})
}
