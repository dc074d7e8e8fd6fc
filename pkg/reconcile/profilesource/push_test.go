package profilesource

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// If a webhook is configured but the controller does not listen for pushes, the Ready
// condition says so with every revision, until the controller listens.
func TestWebhookThatNobodyListensFor(t *testing.T) {
	const note = "spec.webhook is set, but the controller does not listen for pushes"
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
