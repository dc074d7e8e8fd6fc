package pools

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// twoReferences refers to a Secret of one namespace and a ConfigMap of another.
func twoReferences(secrets, configMaps string) string {
	return `{"identityEndpoint":"https://keystone.example.com","username":"u","domainName":"d","password":{"secretKeyRef":{"namespace":"` + secrets + `","name":"etcd-backup","key":"key"}},` +
		`"region":{"configMapKeyRef":{"namespace":"` + configMaps + `","name":"inventory","key":"region"}}}`
}

// A pool gets nothing of an object in another namespace, be it the controller's, that
// --cloud-provider-references does not list (security.md 35).
func TestReferencesToOtherNamespaces(t *testing.T) {
	f := newFixture(t)
	told := &remembered{EventRecorder: f.r.Recorder}
	f.r.Recorder = told
	controllers, another := f.r.Namespace, cluster.Shared(t).Namespace(t)
	f.ensure(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: controllers, Name: "etcd-backup"}, StringData: map[string]string{"key": "canary-secret"}})
	f.ensure(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: another, Name: "inventory"}, Data: map[string]string{"region": "canary-region"}})
	f.use("old", "openstack", `{}`, "1.28.9")
	tenant := f.pool.DeepCopy()
	tenant.ObjectMeta = metav1.ObjectMeta{Namespace: cluster.Shared(t).Namespace(t), Name: "old", Annotations: f.pool.Annotations}
	tenant.Spec.Template.Spec.ProviderSpec.Value = providerSpec("openstack", twoReferences(controllers, another))
	f.ensure(tenant)
	f.pool = tenant
	secret, configMap := controllers+"/etcd-backup", another+"/inventory"
	documents := func() bool {
		err := f.client.Get(t.Context(), client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: namesOf(f.pool).Bootstrap}, &corev1.Secret{})
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil
	}
	allowed := func(names ...string) {
		f.r.CloudProviderReferences = nil
		for _, name := range names {
			key, _ := lineage.ParsePool(name)
			f.r.CloudProviderReferences = append(f.r.CloudProviderReferences, key)
		}
	}
	for _, c := range []struct{ allowed, missing []string }{
		{nil, []string{secret, configMap}},
		{[]string{secret}, []string{configMap}},
		{[]string{configMap}, []string{secret}},
		{[]string{another + "/etcd-backup", controllers + "/inventory"}, []string{secret, configMap}},
	} {
		allowed(c.allowed...)
		told.told = nil
		f.r.cache.forget(f.pool)
		f.reconcile()
		slices.Sort(c.missing)
		want := "--cloud-provider-references=" + strings.Join(c.missing, ",")
		if len(told.told) != 1 || !strings.Contains(told.told[0], want) || strings.Contains(told.told[0], "canary") {
			t.Errorf("allowed %v: events %q, want one with %s", c.allowed, told.told, want)
		}
		if documents() {
			t.Errorf("allowed %v: the pool has documents", c.allowed)
		}
	}

	// The flag lists both, and the pool is served.
	allowed(secret, configMap)
	f.reconcile()
	before := f.secret(namesOf(f.pool).Provisioning)
	for _, want := range []string{"canary-secret", "canary-region"} {
		if !strings.Contains(string(before.Data[api.UserDataKey]), want) {
			t.Errorf("the document lacks %s:\n%s", want, before.Data[api.UserDataKey])
		}
	}

	// A controller without the flag preserves the documents, and renews the token.
	allowed()
	told.told = nil
	f.clock.Step(desired.ValuesPoll)
	f.r.cache.forget(f.pool)
	res := f.reconcile()
	if len(told.told) != 1 || !strings.Contains(told.told[0], "--cloud-provider-references=") {
		t.Errorf("events %q", told.told)
	}
	if refused := f.config().Annotations[api.AnnotationRefused]; !strings.Contains(refused, "--cloud-provider-references=") {
		t.Errorf("refused is %q", refused)
	}
	if after := f.secret(before.Name); after.ResourceVersion != before.ResourceVersion {
		t.Error("the document of the last good generation was written")
	}
	if res.RequeueAfter == 0 || res.RequeueAfter > token.Life-token.RenewBefore {
		t.Errorf("the next run is in %s", res.RequeueAfter)
	}
	f.clock.Step(token.Life - token.RenewBefore)
	f.reconcile()
	if tokens := f.tokens(t.Context()); len(tokens) != 1 || string(tokens[0].Data["expiration"]) != string(token.Expiration(f.clock.Now().Add(token.Life))) {
		t.Errorf("tokens %+v at %s", tokens, f.clock.Now().UTC().Format(time.RFC3339))
	}
}

// Some types of Secrets a pool cannot refer to in its own namespace, and no flag allows it
// (security.md 35).
func TestReferencesToReservedTypes(t *testing.T) {
	f := newFixture(t)
	told := &remembered{EventRecorder: f.r.Recorder}
	f.r.Recorder = told
	ns := f.r.Namespace
	f.r.CloudProviderReferences = []types.NamespacedName{{Namespace: ns, Name: "etcd-backup"}}
	f.ensure(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}})
	f.ensure(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "inventory"}, Data: map[string]string{"region": "r"}})
	f.use("old", "openstack", twoReferences(ns, ns), "1.28.9")
	for kind, c := range map[corev1.SecretType]struct {
		data     map[string]string
		reserved bool
	}{
		"helm.sh/release.v1":                 {map[string]string{"release": "x"}, true},
		corev1.SecretTypeTLS:                 {map[string]string{corev1.TLSCertKey: "x", corev1.TLSPrivateKeyKey: "x"}, true},
		corev1.SecretTypeServiceAccountToken: {nil, true},
		corev1.SecretTypeBootstrapToken:      {map[string]string{"token-id": "abcdef"}, true},
		corev1.SecretTypeDockercfg:           {map[string]string{corev1.DockerConfigKey: "{}"}, true},
		corev1.SecretTypeDockerConfigJson:    {map[string]string{corev1.DockerConfigJsonKey: "{}"}, true},
		corev1.SecretTypeOpaque:              {nil, false},
		corev1.SecretTypeBasicAuth:           {map[string]string{corev1.BasicAuthUsernameKey: "x"}, false},
	} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "etcd-backup", Annotations: map[string]string{corev1.ServiceAccountNameKey: "x"}},
			Type:       kind, StringData: map[string]string{"key": "canary"},
		}
		for k, v := range c.data {
			secret.StringData[k] = v
		}
		f.ensure(secret)
		told.told = nil
		f.r.cache.forget(f.pool)
		f.clock.Step(desired.ValuesPoll)
		f.reconcile()
		if c.reserved && (len(told.told) != 1 || !strings.Contains(told.told[0], string(kind)) || !strings.Contains(told.told[0], "--cloud-provider-references")) {
			t.Errorf("%s: events %q", kind, told.told)
		}
		if !c.reserved && !strings.Contains(f.document(), "canary") {
			t.Errorf("%s: the document lacks the value, events %q", kind, told.told)
		}
		f.delete(secret)
		if !c.reserved {
			f.deletePool()
			f.use("old", "openstack", twoReferences(ns, ns), "1.28.9")
		}
	}
}
