package pools

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

func (f *fixture) script() string {
	f.t.Helper()
	return string(f.secret(edgeName(f.pool)).Data[edgeScriptKey])
}

func (f *fixture) hasScript() bool {
	f.t.Helper()
	err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: edgeName(f.pool)}, &corev1.Secret{})
	if client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

func (f *fixture) patch(obj client.Object, body string) {
	f.t.Helper()
	if err := f.client.Patch(f.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		f.t.Fatal(err)
	}
}

// The script of an edge pool follows token, server and CA, whatever stood in its
// place, and goes with the pool (contract 15.1, 10 and 11).
func TestEdgeScript(t *testing.T) {
	f := newFixture(t)
	f.use("edge", "edge", "{}", "1.35.0")
	if got, want := edgeName(f.pool), "edge-provider-script-edge-"+f.r.Namespace; got != want {
		t.Errorf("its name is %s, want %s", got, want)
	}
	// The reference's, without a trace of its owner.
	f.ensure(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: edgeName(f.pool)}, StringData: map[string]string{edgeScriptKey: "old"}})
	f.reconcile()
	first := f.secret(edgeName(f.pool))
	for _, want := range []string{"Authorization: Bearer getter\n", "https://[fd00::1]:6443/api/v1/namespaces/cloud-init-settings/secrets/" + userDataName(f.pool, stageBootstrap), "\nca\n"} {
		if !strings.Contains(f.script(), want) {
			t.Errorf("the script lacks %q:\n%s", want, f.script())
		}
	}
	if first.Annotations[api.AnnotationPool] != poolKey(f.pool) || first.Annotations[api.AnnotationPoolUID] != string(f.pool.UID) {
		t.Errorf("annotations %v", first.Annotations)
	}
	if strings.Contains(string(must(json.Marshal(f.config()))), "Bearer") {
		t.Error("the script is in the configuration")
	}
	if f.reconcile(); f.secret(first.Name).ResourceVersion != first.ResourceVersion {
		t.Error("a second look wrote the script")
	}

	f.r.OverrideServer = "https://elsewhere.example.com"
	if f.reconcile(); !strings.Contains(f.script(), "https://elsewhere.example.com/api") {
		t.Error("the script does not follow the server")
	}
	f.r.CA = "another-ca"
	if f.reconcile(); !strings.Contains(f.script(), "\nanother-ca\n") {
		t.Error("the script does not follow the CA")
	}
	f.patch(f.secret(first.Name), `{"stringData":{"`+edgeScriptKey+`":"edited"}}`)
	if f.reconcile(); !strings.Contains(f.script(), "Bearer getter") {
		t.Error("an edited script was left")
	}
	if f.secret(first.Name).UID != first.UID {
		t.Error("the Secret was absent in between")
	}

	f.delete(f.pool)
	f.reconcile()
	if f.hasScript() {
		t.Error("the script outlives its pool")
	}
}

// A token that changed is in the script, also of a pool that cannot have what it
// asks for now.
func TestEdgeScriptFollowsTheToken(t *testing.T) {
	f := newFixture(t)
	f.use("edge", "edge", "{}", "1.35.0")
	f.reconcile()
	getter := f.secret(api.SecretGetterToken)
	f.patch(getter, `{"stringData":{"token":"newer"}}`)
	t.Cleanup(func() { // other tests share it
		body := client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"token":"getter"}}`))
		if err := f.client.Patch(context.WithoutCancel(t.Context()), getter, body); err != nil {
			t.Error(err)
		}
	})
	if f.reconcile(); !strings.Contains(f.script(), "Bearer newer\n") {
		t.Error("the script does not follow the token")
	}
	f.delete(&osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-cloud"}})
	f.r.OverrideServer = "https://elsewhere.example.com"
	if f.reconcile(); !strings.Contains(f.script(), "https://elsewhere.example.com/api") {
		t.Error("the script of the last good generation does not follow the server")
	}
}

// The script goes when the provider is another one, and not before that one's
// configuration stands.
func TestEdgeScriptGoesWithItsProvider(t *testing.T) {
	f := newFixture(t)
	f.use("edge", "edge", "{}", "1.35.0")
	f.reconcile()
	change := func(provider string) {
		t.Helper()
		var md machines.MachineDeployment
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(f.pool), &md); err != nil {
			t.Fatal(err)
		}
		md.Spec.Template.Spec.ProviderSpec.Value = providerSpec(provider, "{}")
		if err := f.client.Update(t.Context(), &md); err != nil {
			t.Fatal(err)
		}
		f.reconcile()
	}
	if change("aws"); !f.hasScript() {
		t.Error("the profile refuses the new provider, but the script is gone")
	}
	if change("hetzner"); f.hasScript() {
		t.Error("the script stays although nothing uses it")
	}
	if res := f.reconcile(); res.RequeueAfter < 10*time.Minute {
		t.Errorf("the next look is in %s", res.RequeueAfter)
	}
}
