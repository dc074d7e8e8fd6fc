package receiver

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientevents "k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/slow"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

// served is a listener at work on the real API server.
type served struct {
	t         *testing.T
	client    client.Client
	namespace string
	url       string
	recorder  *clientevents.FakeRecorder
	stop      func() error
}

func serve(t *testing.T, more ...func(l *Listener)) *served {
	t.Helper()
	c := cluster.Shared(t)
	s := &served{t: t, client: c.Client(t, api.AddToScheme), namespace: c.Namespace(t), recorder: clientevents.NewFakeRecorder(100)}
	l := &Listener{Client: s.client, Live: s.client, Recorder: s.recorder, Namespace: s.namespace, Address: freeAddress(t)}
	for _, f := range more {
		f(l)
	}
	s.url = "http://" + l.Address
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Start(ctx) }()
	ended := false
	s.stop = func() error {
		if ended {
			return nil
		}
		ended = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	testenv.Await(t, 30*time.Second, "the receiver listens", func() error {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Address)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// source makes a ProfileSource with a webhook.
func (s *served) source(name string, f fixture, secret string) {
	s.t.Helper()
	s.do(s.client.Create(s.t.Context(), &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: api.ProfileSourceSpec{
			Git:      &api.GitSource{URL: f.url, Timeout: metav1.Duration{Duration: time.Minute}, Ref: &api.GitReference{Name: f.ref}},
			Interval: metav1.Duration{Duration: time.Hour}, RetryInterval: metav1.Duration{Duration: time.Minute},
			Webhook: &api.Webhook{Provider: f.provider, SecretRef: meta.LocalObjectReference{Name: secret}},
		},
	}))
}

func (s *served) secret(name, key string) {
	s.t.Helper()
	s.do(s.client.Create(s.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Data:       map[string][]byte{api.WebhookToken: []byte(key)},
	}))
}

func (s *served) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// post sends a request and returns the answer's status. No answer says anything.
func (s *served) post(path string, header http.Header, body io.Reader) int {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, body)
	s.do(err)
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	s.do(err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	s.do(err)
	if len(answer) > 0 {
		s.t.Errorf("the answer to %s is %q", path, answer)
	}
	return res.StatusCode
}

func (s *served) want(want int, path string, header http.Header, body []byte) {
	s.t.Helper()
	if got := s.post(path, header, bytes.NewReader(body)); got != want {
		s.t.Errorf("%s answers %d, want %d", path, got, want)
	}
}

// asked returns the reconcile request annotation of a source.
func (s *served) asked(name string) string {
	s.t.Helper()
	var ps api.ProfileSource
	s.do(s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &ps))
	return ps.Annotations[meta.ReconcileRequestAnnotation]
}

// security.md 22: who has the key gets one look at the source it is for, by the
// documented payload of every provider.
func TestEveryProvider(t *testing.T) {
	s := serve(t)
	s.secret("key", "s3cret\n") // as kubectl create secret --from-file makes it
	names := map[string]string{}
	for name, f := range fixtures {
		id := strings.ReplaceAll(strings.TrimSuffix(f.file, ".json"), "_", "-") + "-" + f.provider
		if strings.Contains(name, "system") {
			continue // the same source as that of the push
		}
		names[name] = id
		s.source(id, f, "key")
	}
	for name, id := range names {
		f := fixtures[name]
		body := f.body(t)
		path := Path + "/" + s.namespace + "/" + id
		if s.asked(id) != "" {
			t.Errorf("%s: it was asked for before", name)
		}
		s.want(http.StatusUnauthorized, path, merged(f.header, sign(f.provider, "wrong", body)), body)
		if s.asked(id) != "" {
			t.Errorf("%s: who has no key is listened to", name)
		}
		s.want(http.StatusAccepted, path, merged(f.header, sign(f.provider, "s3cret", body)), body)
		if s.asked(id) == "" {
			t.Errorf("%s: no reconciliation is requested", name)
		}
	}
}

// A request to the path of all is for those whose key and repository it has.
func TestOnePathForAll(t *testing.T) {
	s := serve(t)
	f := fixtures["GitHub, a branch"]
	other := f
	other.url = "https://github.com/Codertocat/Other"
	tag := f
	tag.ref = "refs/tags/v1"
	s.secret("key", "one")
	s.secret("other-key", "two")
	s.source("mine", f, "key")
	s.source("mine-too", f, "key")
	s.source("other-repository", other, "key")
	s.source("other-ref", tag, "key")
	s.source("other-key", f, "other-key")
	s.source("other-provider", fixtures["Gitea, a branch"], "key")
	body := f.body(t)
	s.want(http.StatusUnauthorized, Path, merged(f.header, sign("github", "three", body)), body)
	s.want(http.StatusAccepted, Path, merged(f.header, sign("github", "one", body)), body)
	for name, want := range map[string]bool{"mine": true, "mine-too": true, "other-repository": false, "other-ref": false, "other-key": false, "other-provider": false} {
		if got := s.asked(name) != ""; got != want {
			t.Errorf("reconciliation of %s is requested: %v", name, got)
		}
	}
	s.want(http.StatusAccepted, Path, merged(f.header, sign("github", "two", body)), body)
	if s.asked("other-key") == "" {
		t.Error("the second key is not tried")
	}
}

// security.md 22: refused before anything is parsed, and without a reason.
func TestRefusals(t *testing.T) {
	s := serve(t)
	f := fixtures["GitHub, a branch"]
	s.secret("key", "one")
	s.secret("empty", "")
	s.source("mine", f, "key")
	s.source("no-secret", f, "missing")
	s.source("no-key", f, "empty")
	s.source("no-webhook", f, "key")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"webhook":null}}`))
	s.do(s.client.Patch(t.Context(), &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "no-webhook"}}, patch))

	of := func(name string) string { return Path + "/" + s.namespace + "/" + name }
	body := f.body(t)
	good := func(b []byte) http.Header { return merged(f.header, sign("github", "one", b)) }
	for path, want := range map[string]int{
		"/":                             404,
		Path + "/":                      404,
		Path + "/" + s.namespace:        404,
		of("mine") + "/x":               404,
		"/hooks":                        404,
		of("nobody"):                    401,
		of("no-secret"):                 401,
		of("no-key"):                    401,
		of("no-webhook"):                401,
		Path + "/kube-system/" + "mine": 401,
		of("mine"):                      202,
	} {
		s.want(want, path, good(body), body)
	}
	s.want(401, of("mine"), f.header, body)
	s.want(401, of("mine"), merged(f.header, sign("github", "", body)), body)
	s.want(401, of("no-key"), merged(f.header, sign("github", "", body)), body)
	s.want(401, of("mine"), merged(f.header, sign("gitlab", "one", body)), body) // of another provider
	s.want(202, of("mine"), good([]byte("{")), []byte("{"))

	large := bytes.Repeat([]byte("x"), maxBody)
	s.want(202, of("mine"), good(large), large)
	large = append(large, 'x')
	s.want(413, of("mine"), good(large), large)
	endless, feed := io.Pipe()
	defer feed.Close()
	if got := s.post(of("mine"), f.header, endless); got != 401 {
		t.Errorf("without a signature the body is waited for: %d", got)
	}
	res, err := http.Get(s.url + of("mine"))
	s.do(err)
	res.Body.Close()
	if res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
		t.Errorf("GET is answered with %d", res.StatusCode)
	}
	var told []string
	for len(s.recorder.Events) > 0 {
		told = append(told, <-s.recorder.Events)
	}
	all := strings.Join(told, "\n")
	if len(told) != 2 || !strings.Contains(all, "/missing does not exist") || !strings.Contains(all, "/empty needs a non-empty key token") {
		t.Errorf("events are %q", told)
	}
	if strings.Contains(all, "one") {
		t.Errorf("a key is told: %q", all)
	}
}

// A key that was replaced no longer counts a little later, and the new one does.
func TestKeyIsReplaced(t *testing.T) {
	s := serve(t)
	f := fixtures["GitLab, a branch"]
	s.secret("key", "old")
	s.source("mine", f, "key")
	body, path := f.body(t), Path+"/"+s.namespace+"/mine"
	s.want(202, path, sign("gitlab", "old", body), body)
	s.do(s.client.Patch(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "key"}},
		client.RawPatch("application/merge-patch+json", []byte(`{"data":{"token":"bmV3"}}`))))
	time.Sleep(keyLife + 100*time.Millisecond) // the cache of keys has no clock that a test can set
	s.want(401, path, sign("gitlab", "old", body), body)
	s.want(202, path, sign("gitlab", "new", body), body)
}

// security.md 22: a thousand replays cause at most one request each two seconds, and the
// last one is not lost when the controller ends.
func TestReplays(t *testing.T) {
	s := serve(t)
	f := fixtures["Gitea, a branch"]
	s.secret("key", "k")
	s.source("mine", f, "key")
	body, path := f.body(t), Path+"/"+s.namespace+"/mine"
	var first, before api.ProfileSource
	key := client.ObjectKey{Namespace: s.namespace, Name: "mine"}
	begin := time.Now()
	for range 200 {
		s.want(202, path, merged(f.header, sign("gitea", "k", body)), body)
		if first.Name == "" {
			s.do(s.client.Get(t.Context(), key, &first))
		}
	}
	if time.Since(begin) > spacing {
		t.Skip("this machine is too slow to tell")
	}
	s.do(s.client.Get(t.Context(), key, &before))
	if before.ResourceVersion != first.ResourceVersion {
		t.Error("a replay caused another write at once")
	}
	s.do(s.stop())
	if now := s.asked("mine"); now == first.Annotations[meta.ReconcileRequestAnnotation] {
		t.Error("the delayed request is lost")
	}
}

// security.md 7, 22: who sends its header byte by byte is cut off.
func TestSlowStranger(t *testing.T) {
	s := serve(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	s.do(err)
	defer conn.Close()
	begin := time.Now()
	go func() {
		for _, b := range []byte("POST " + Path + " HTTP/1.1\r\nHost: x\r\nX-Slow: " + strings.Repeat("a", 1000)) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond) // as a slow client does
		}
	}()
	_, err = io.Copy(io.Discard, conn)
	if took := time.Since(begin); took > headerTime+3*time.Second || took < headerTime/2 {
		t.Errorf("the connection lasted %s (%v)", took, err)
	}
}

// Clients that send no body do not block others (security.md 41).
func TestSlowPeers(t *testing.T) {
	s := serve(t)
	slow.Post(t, 200, strings.TrimPrefix(s.url, "http://"), nil, Path, "X-Gitlab-Token: x")
	slow.OpenSlowConnections(t, 600, strings.TrimPrefix(s.url, "http://"), nil, Path)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+Path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Gitlab-Token", "x")
	res, err := slow.Client(nil).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusUnauthorized { // no source has this token
		t.Errorf("answered %d", res.StatusCode)
	}
}
