package profiles

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/forge"
)

// Who sets up a webhook that nobody listens for sees that where he looks, and it is
// told with each revision; it goes when the controller listens.
func TestWebhookThatNobodyListensFor(t *testing.T) {
	const note = "pushes are not listened for, although spec.webhook is set: start the controller with --hooks-address"
	f := newFollowing(t, nil)
	says := func() string {
		t.Helper()
		f.condition(meta.ReadyCondition, metav1.ConditionTrue, meta.SucceededReason)
		return f.ps.Status.Conditions[0].Message
	}
	head := "main@sha1:" + f.commit("", "v1.0.0", "one")
	f.applied(head)
	if strings.Contains(says(), "pushes") {
		t.Errorf("without a webhook: %s", says())
	}
	f.ps.Spec.Webhook = &api.Webhook{Provider: "github", SecretRef: meta.LocalObjectReference{Name: "hook"}}
	f.do(f.client.Update(t.Context(), f.ps))
	f.applied(head)
	f.condition(meta.ReadyCondition, metav1.ConditionTrue, meta.SucceededReason, note)
	version := f.ps.ResourceVersion
	if f.look(); f.ps.ResourceVersion != version {
		t.Error("a second look wrote a status")
	}
	f.commit("", "v1.0.0", "other content")
	f.annotate(meta.ReconcileRequestAnnotation, "1")
	f.look()
	f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonProfilesInvalid, note)

	head = "main@sha1:" + f.commit("", "v1.1.0", "two")
	f.r.Hooks = true
	f.annotate(meta.ReconcileRequestAnnotation, "2")
	f.applied(head)
	if strings.Contains(says(), "pushes") {
		t.Errorf("while pushes are listened for: %s", says())
	}
}

// What is refused for its signature, or held, fails where its author looks; what is
// refused for want of keys says nothing about the commit.
func TestStatusOfRefusedCommits(t *testing.T) {
	f := newFollowing(t, verified("HEAD"))
	got := make(chan string, 100) // "commit state description"
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ State, Description string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		got <- path.Base(r.URL.Path) + " " + body.State + " " + body.Description
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(host.Close)
	f.do(f.client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: "hook"},
		Data:       map[string][]byte{api.WebhookAPIToken: []byte("t"), api.WebhookAPIURL: []byte(host.URL)},
	}))
	f.ps.Spec.Webhook = &api.Webhook{Provider: "gitlab", SecretRef: meta.LocalObjectReference{Name: "hook"}}
	f.ps.Spec.Git.OnRewrite = "Hold"
	f.do(f.client.Update(t.Context(), f.ps))
	statuses := &forge.Statuses{Client: f.client, Live: f.client, Recorder: f.recorder, AllowInsecure: true, AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	go func() { _ = statuses.Start(t.Context()) }() // ends with the test, without an error
	f.r.Statuses = statuses
	wait := func(want ...string) {
		t.Helper()
		select {
		case text := <-got:
			for _, part := range want {
				if !strings.Contains(text, part) {
					t.Errorf("the host got %q, and not %q", text, part)
				}
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("the host did not get %q", want)
		}
	}
	look := func() {
		t.Helper()
		f.annotate(meta.ReconcileRequestAnnotation, time.Now().String())
		f.look()
	}
	ada, line := f.key("ada@example.com")
	f.secret(line)
	first := f.commit(ada, "v1.0.0", "one")
	look()
	wait(first+" success", "1 profile applied")
	unsigned := f.commit("", "v1.1.0", "two")
	look()
	wait(unsigned+" failed", `refused: commit `+unsigned[:12]+` "v1.1.0" of "Ada <ada@example.com>": it is not signed`)
	f.git("reset", "--quiet", "--hard", "HEAD~1")
	f.git("commit", "--quiet", "--amend", "--message=other")
	held := f.commit(ada, "v1.2.0", "three")
	look()
	wait(held+" failed", "refused: history was rewritten by a force-push or a moved tag")
	f.secret("")
	look()
	look()
	f.secret(line)
	f.annotate(api.AnnotationAcceptRewrite, held)
	look()
	wait(held+" success", "1 profile applied")
}
