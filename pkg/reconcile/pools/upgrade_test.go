package pools

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/secretdigest"
	"github.com/osm-gitops/osm-gitops/test/poolfixture"
)

// Documents of another release remain unchanged: the release is not part of any comparison.
func TestAnotherReleaseRollsNothing(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	osc := f.config()
	rec := recordOf(osc)
	rec.Engine = "v0.0.1-another"
	text, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{api.AnnotationRecord: string(text)}}})
	if err != nil {
		t.Fatal(err)
	}
	f.patch(osc, string(body))
	before := f.versions()
	f.reconcile()
	if now := f.versions(); !slices.Equal(now, before) {
		t.Errorf("what another release made was written: %v, then %v", before, now)
	}
	if got := recordOf(f.config()).Engine; got != "v0.0.1-another" {
		t.Errorf("the record names the release %q", got)
	}
}

// If the key of digests is lost, each document is written once more, and the configuration
// remains.
func TestKeyLost(t *testing.T) {
	f := newFixture(t)
	f.reconcile()
	config, document := f.config(), f.secret(namesOf(f.pool).Bootstrap)
	f.delete(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: api.KeySecretName}})
	f.r.key = secretdigest.Key{} // a controller that is started again
	f.reconcile()
	again := f.secret(document.Name)
	if again.UID != document.UID || string(again.Data[api.UserDataKey]) != string(document.Data[api.UserDataKey]) || again.ResourceVersion == document.ResourceVersion {
		t.Error("the document is another, or was not written")
	}
	if now := f.config(); now.UID != config.UID {
		t.Error("the configuration was replaced")
	}
	before := f.versions()
	f.reconcile()
	if now := f.versions(); !slices.Equal(now, before) {
		t.Errorf("a second run wrote: %v, then %v", before, now)
	}
}

// A pool without objects of ours waits until each source is reconciled for the first time: its
// documents must not be made of another profile first. A pool that has some does not wait.
func TestWaitsForTheFirstLook(t *testing.T) {
	f := newFixture(t)
	f.source()
	looked := func(is bool) {
		t.Helper()
		var now api.ProfileSource
		if err := f.client.Get(t.Context(), types.NamespacedName{Namespace: f.r.Namespace, Name: "source"}, &now); err != nil {
			t.Fatal(err)
		}
		now.Status.Conditions = nil
		if is {
			apimeta.SetStatusCondition(&now.Status.Conditions, metav1.Condition{Type: meta.ReadyCondition, Status: metav1.ConditionFalse, Reason: api.ReasonUnreachable, Message: "away"})
		}
		if err := f.client.Status().Update(t.Context(), &now); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if res := f.reconcile(); res.RequeueAfter <= 0 || res.RequeueAfter > sourceRetry {
			t.Errorf("the next look is in %s", res.RequeueAfter)
		}
	}
	err := f.client.Get(t.Context(), types.NamespacedName{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}, &osm.OperatingSystemConfig{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a configuration was made before anybody looked (err %v)", err)
	}
	looked(true)
	f.reconcile()
	if got := recordOf(f.config()).Profile; got != "osp-hand" {
		t.Errorf("the configuration is of %q", got)
	}
	looked(false)
	before := f.versions()
	f.reconcile()
	if now := f.versions(); !slices.Equal(now, before) {
		t.Errorf("a pool that has its configuration was written: %v, then %v", before, now)
	}
}

// source offers versions of profiles.
func (f *fixture) source(entries ...api.ProfileEntry) {
	f.t.Helper()
	poolfixture.Source(f.t, f.client, f.r.Namespace, entries...)
}
