package pools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// use gives a fixture a pool of its own, of a provider and with a kubelet, whose
// profile puts the cloud configuration into the provisioning document.
func (f *fixture) use(name, provider, spec, kubelet string) {
	f.t.Helper()
	ns := f.r.Namespace
	f.ensure(&osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "osp-cloud"},
		Spec: osm.OperatingSystemProfileSpec{
			OSName: "ubuntu", OSVersion: "24.04", Version: "v1.0.0",
			SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "openstack"}, {Name: "edge"}, {Name: "hetzner"}},
			ProvisioningConfig: osm.OSPConfig{Files: []osm.File{{Path: "/cloud-config", Permissions: 600,
				Content: osm.FileContent{Inline: &osm.FileContentInline{Data: "{{ .CloudConfig }}"}}}}},
		},
	})
	f.pool = &machines.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: map[string]string{api.AnnotationOSP: "osp-cloud"}},
		Spec: machines.MachineDeploymentSpec{Template: machines.MachineTemplateSpec{Spec: machines.MachineSpec{
			Versions:     machines.MachineVersion{Kubelet: kubelet},
			ProviderSpec: machines.ProviderSpec{Value: providerSpec(provider, spec)},
		}}},
	}
	f.ensure(f.pool)
}

func providerSpec(provider, spec string) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: []byte(`{"cloudProvider":"` + provider + `","cloudProviderSpec":` + spec + `,"operatingSystem":"ubuntu"}`)}
}

func (f *fixture) config() *osm.OperatingSystemConfig {
	f.t.Helper()
	var osc osm.OperatingSystemConfig
	if err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}, &osc); err != nil {
		f.t.Fatal(err)
	}
	return &osc
}

func (f *fixture) document() string {
	f.t.Helper()
	return string(f.secret(namesOf(f.pool).Provisioning).Data[api.UserDataKey])
}

// remembered collects events, so that a test sees them immediately.
type remembered struct {
	events.EventRecorder
	told []string
}

func (r *remembered) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.told = append(r.told, reason+": "+args[0].(string))
	r.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

// openstackSpec refers to a Secret and a ConfigMap of the pool's namespace.
func openstackSpec(ns string) string {
	return `{"identityEndpoint":"https://keystone.example.com","username":{"secretKeyRef":{"namespace":"` + ns + `","name":"openstack","key":"user"}},` +
		`"password":{"secretKeyRef":{"namespace":"` + ns + `","name":"openstack","key":"password"}},` +
		`"region":{"configMapKeyRef":{"namespace":"` + ns + `","name":"openstack","key":"region"}}}`
}

// A pool with an old kubelet gets the configuration of its provider from the objects that its
// spec refers to. A change of these objects changes the documents, and nothing more.
func TestCloudConfigFollowsItsSecret(t *testing.T) {
	f := newFixture(t)
	ns := f.r.Namespace
	f.use("old", "openstack", openstackSpec(ns), "1.28.9")
	f.r.Environment = map[string]string{"OS_DOMAIN_NAME": "of-the-controller"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "openstack"}, StringData: map[string]string{"user": "canary-one", "password": "canary-pw"}}
	f.ensure(secret)
	f.ensure(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "openstack"}, Data: map[string]string{"region": "RegionOne"}})

	res := f.reconcile()
	if res.RequeueAfter < desired.ValuesPoll || res.RequeueAfter > desired.ValuesPoll+time.Minute {
		t.Errorf("the next look is in %s", res.RequeueAfter)
	}
	for _, want := range []string{`username    = "canary-one"`, `password    = "canary-pw"`, `region      = "RegionOne"`, `domain-name = "of-the-controller"`} {
		if !strings.Contains(f.document(), want) {
			t.Errorf("the document lacks %s:\n%s", want, f.document())
		}
	}
	before, bootstrap := f.config(), f.secret(namesOf(f.pool).Bootstrap)
	if text := string(must(json.Marshal(before))); strings.Contains(text, "canary") || !strings.Contains(text, "# placeholder") {
		t.Errorf("the configuration holds a credential, or no placeholder: %s", text)
	}
	if f.reconcile(); f.config().ResourceVersion != before.ResourceVersion || f.secret(bootstrap.Name).ResourceVersion != bootstrap.ResourceVersion {
		t.Error("a second look wrote something")
	}

	secret.StringData = map[string]string{"user": "canary-two"}
	if err := f.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	f.clock.Step(desired.ValuesPoll)
	f.reconcile()
	if text := f.document(); !strings.Contains(text, `username    = "canary-two"`) || strings.Contains(text, "canary-one") {
		t.Errorf("the document does not follow the Secret:\n%s", text)
	}
	if after := f.config(); after.UID != before.UID || after.ResourceVersion != before.ResourceVersion {
		t.Error("the configuration was written")
	}

	// The last good generation is maintained with the credentials it was made with.
	in, err := f.r.records().RestoreInput(t.Context(), f.pool, recordOf(f.config()), render.Cluster{APIServerToken: "getter", BootstrapToken: "a.b", BootstrapKubeconfig: "x"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.r.Engine.Render(in)
	if err != nil || !strings.Contains(string(out.Provisioning), `username    = "canary-two"`) {
		t.Errorf("the generation is not what it was (err %v):\n%s", err, out.Provisioning)
	}
}

// reading counts the reads of objects called openstack.
type reading struct {
	client.Client
	reads *int
}

func (c reading) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if key.Name == "openstack" {
		*c.reads++
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

// An object is read once in ten minutes, however many pools refer to it, and none of them
// has a value for longer than that after it has changed.
func TestCloudConfigsOfOneSecret(t *testing.T) {
	f := newFixture(t)
	ns, reads := f.r.Namespace, 0
	f.r.Worker.Live = reading{f.client, &reads}
	f.r.Environment = map[string]string{"OS_DOMAIN_NAME": "of-the-controller"}
	f.ensure(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "openstack"}, Data: map[string]string{"region": "RegionOne"}})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "openstack"}, StringData: map[string]string{"user": "one", "password": "p"}}
	f.ensure(secret)
	var pools []*machines.MachineDeployment
	for _, name := range []string{"a", "b", "c"} {
		f.use(name, "openstack", openstackSpec(ns), "1.28.9")
		pools = append(pools, f.pool)
	}
	look := func(want int, user string) {
		t.Helper()
		reads = 0
		for i := range pools {
			f.pool = pools[i]
			res := f.reconcile()
			if user != "" && !strings.Contains(f.document(), `username    = "`+user+`"`) {
				t.Errorf("pool %s has not the user %q", f.pool.Name, user)
			}
			if left := desired.ValuesPoll - 4*time.Minute*time.Duration(i); res.RequeueAfter > left+time.Minute {
				t.Errorf("pool %s looks again in %s, the object is due in %s", f.pool.Name, res.RequeueAfter, left)
			}
			f.clock.Step(4 * time.Minute)
		}
		if reads != want {
			t.Errorf("%d reads, want %d", reads, want)
		}
	}
	look(2, "one")
	secret.StringData = map[string]string{"user": "two"}
	must(nil, f.client.Update(t.Context(), secret))
	look(2, "two")
	look(2, "two")
}

// A missing referenced object is reported by name, polled soon, and found. Until then the pool
// retains its documents, and its token.
func TestCloudConfigThatIsMissing(t *testing.T) {
	f := newFixture(t)
	ns := f.r.Namespace
	told := &remembered{EventRecorder: f.r.Recorder}
	f.r.Recorder = told
	const ref = `"secretKeyRef":{"namespace":"NS","name":"openstack","key":"tdp"}`
	f.use("old", "openstack", `{"trustDevicePath":{`+strings.ReplaceAll(ref, "NS", ns)+`}}`, "1.28.9")
	expect := func(event string) {
		t.Helper()
		res := f.reconcile()
		if len(told.told) == 0 || !strings.Contains(told.told[len(told.told)-1], event) {
			t.Fatalf("events %q, want %s", told.told, event)
		}
		if res.RequeueAfter < desired.ValuesRetry || res.RequeueAfter > 2*desired.ValuesRetry {
			t.Errorf("the next look is in %s", res.RequeueAfter)
		}
		f.clock.Step(desired.ValuesRetry)
	}
	expect("OperatingSystemProfileError: reading MachineDeployment \"" + ns + "/old\": spec.template.spec.providerSpec.value.cloudProviderSpec.trustDevicePath: Secret " + ns + "/openstack does not exist")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "openstack"}, StringData: map[string]string{"other": "x"}}
	f.ensure(secret)
	expect(`has no key "tdp"`)
	secret.StringData = map[string]string{"tdp": "canary"}
	if err := f.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	expect(`the value of key "tdp" is not a boolean`)
	secret.StringData = map[string]string{"tdp": "true"}
	if err := f.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if res := f.reconcile(); res.RequeueAfter < desired.ValuesPoll || !strings.Contains(f.document(), "trust-device-path = true") {
		t.Errorf("next look in %s, document\n%s", res.RequeueAfter, f.document())
	}
	if all := strings.Join(told.told, "\n"); strings.Contains(all, "canary") {
		t.Errorf("an event quotes a value: %s", all)
	}

	before := f.secret(namesOf(f.pool).Provisioning)
	f.delete(secret)
	f.clock.Step(desired.ValuesPoll)
	expect("does not exist")
	if after := f.secret(before.Name); after.ResourceVersion != before.ResourceVersion {
		t.Error("the document of the last good generation was written")
	}
}

// forbidding reads Secrets called openstack as a user with fewer permissions.
type forbidding struct {
	client.Client
	limited client.Client
}

func (f forbidding) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*corev1.Secret); ok && key.Name == "openstack" {
		return f.limited.Get(ctx, key, obj, opts...)
	}
	return f.Client.Get(ctx, key, obj, opts...)
}

// A permission that the controller lacks is reported with the Role to add, also if the
// environment has a value.
func TestCloudConfigThatMayNotBeRead(t *testing.T) {
	f := newFixture(t)
	ns := f.r.Namespace
	told := &remembered{EventRecorder: f.r.Recorder}
	f.r.Recorder = told
	f.r.Environment = map[string]string{"OS_USER_NAME": "of-the-controller"}
	config := rest.CopyConfig(cluster.Shared(t).Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:osm-gitops", Groups: []string{"system:authenticated"}}
	limited, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.r.Worker.Live = forbidding{f.client, limited}
	f.use("old", "openstack", openstackSpec(ns), "1.28.9")
	if res := f.reconcile(); res.RequeueAfter > 2*desired.ValuesRetry {
		t.Errorf("the next look is in %s", res.RequeueAfter)
	}
	want := "the controller is not allowed to read Secret " + ns + "/openstack, which spec.template.spec.providerSpec.value.cloudProviderSpec names: give it a Role in namespace \"" + ns + `"`
	if len(told.told) != 1 || !strings.Contains(told.told[0], want) {
		t.Errorf("events %q, want %s", told.told, want)
	}

	// The Role that the event asks for is all that is missing.
	f.ensure(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "openstack"}, StringData: map[string]string{"user": "u", "password": "p"}})
	manifests, err := os.ReadFile("../../../deploy/cloud-provider-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, manifest := range bytes.Split(manifests, []byte("\n---\n")) {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(manifest, obj); err != nil {
			t.Fatal(err)
		}
		obj.SetNamespace(ns)
		f.ensure(obj)
	}
	// The API server's authorizer follows within moments.
	testenv.Await(t, 10*time.Second, "the Role suffices", func() error {
		f.clock.Step(desired.ValuesRetry)
		if f.reconcile().RequeueAfter < desired.ValuesPoll {
			return fmt.Errorf("events %q", told.told)
		}
		return nil
	})
	if !strings.Contains(f.document(), `username    = "u"`) {
		t.Errorf("document\n%s", f.document())
	}
}

// failing is an API server that does not answer for Secrets called openstack.
type failing struct{ client.Client }

func (f failing) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if key.Name == "openstack" {
		return errors.New("the API server is away")
	}
	return f.Client.Get(ctx, key, obj, opts...)
}

// A timeout does not mean that the Secret is missing: the environment is not used instead.
func TestCloudConfigOfAServerThatIsAway(t *testing.T) {
	f := newFixture(t)
	f.r.Worker.Live = failing{f.client}
	f.r.Environment = map[string]string{"OS_USER_NAME": "of-the-controller", "OS_PASSWORD": "x", "OS_REGION_NAME": "y"}
	f.use("old", "openstack", openstackSpec(f.r.Namespace), "1.28.9")
	_, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)})
	if err == nil || !strings.Contains(err.Error(), "the API server is away") {
		t.Errorf("error %v", err)
	}
}

// A pool cannot expose Secrets that are reserved for Kubernetes and this controller to a machine
// (security.md 24).
func TestCloudConfigOfReservedSecrets(t *testing.T) {
	f := newFixture(t)
	ns := f.r.Namespace
	f.r.RegistrySecret = client.ObjectKey{Namespace: ns, Name: "registry"}
	f.ensure(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ours", Labels: map[string]string{api.LabelManagedBy: api.FieldManager}}})
	f.ensure(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x"}})
	f.ensure(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "account", Annotations: map[string]string{corev1.ServiceAccountNameKey: "x"}}, Type: corev1.SecretTypeServiceAccountToken})
	f.ensure(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "free"}})
	f.ensure(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "team"}, Spec: api.ProfileSourceSpec{
		Interval: metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute},
		Git:     &api.GitSource{URL: "https://git.example.com/team", Timeout: metav1.Duration{Duration: time.Minute}, SecretRef: &meta.LocalObjectReference{Name: "git"}, ProxySecretRef: &meta.LocalObjectReference{Name: "proxy"}},
		Webhook: &api.Webhook{Provider: "generic", SecretRef: meta.LocalObjectReference{Name: "hook"}},
	}})
	for name, reserved := range map[string]bool{
		ns + "/ours": true, ns + "/account": true, ns + "/registry": true, ns + "/free": false,
		ns + "/git": true, ns + "/proxy": true, ns + "/hook": true, "elsewhere/git": false,
		api.NamespaceCloudInitSettings + "/" + api.SecretGetterToken: true,
	} {
		key, _ := lineage.ParsePool(name)
		_, _, err := f.r.cloudConfigs().ClusterValues(t.Context(), []render.ConfigVarRef{{Kind: render.KindSecret, Namespace: key.Namespace, Name: key.Name, Key: "x"}}, desired.ValuesPoll)
		if _, final := fault.PermanentReason(err); final != reserved || reserved && !strings.Contains(err.Error(), "--cloud-provider-references lists") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A pool whose kubelet has no built-in provider reads nothing and is not polled.
func TestCloudConfigOfANewKubelet(t *testing.T) {
	f := newFixture(t)
	f.r.Worker.Live = failing{f.client}
	f.use("new", "openstack", openstackSpec(f.r.Namespace), "1.35.0")
	if res := f.reconcile(); res.RequeueAfter < 2*desired.ValuesPoll {
		t.Errorf("the next look is in %s", res.RequeueAfter)
	}
	if names := f.config().Spec.ProvisioningConfig.Files; !slices.ContainsFunc(names, func(file osm.File) bool {
		return file.Path == "/cloud-config" && strings.TrimSpace(file.Content.Inline.Data) == ""
	}) {
		t.Errorf("files %+v", names)
	}
}

// A read that fails for a moment is not tried again at once.
func TestCloudConfigWhileTheAPIServerIsAway(t *testing.T) {
	f := newFixture(t)
	reads := 0
	f.use("old", "openstack", openstackSpec(f.r.Namespace), "1.28.9")
	in, err := f.r.inputOf(t.Context(), f.pool, render.Record{}, f.r.Settings, render.Cluster{})
	must(nil, err)
	f.r.Worker.Live = reading{unreadable{f.client}, &reads}
	if _, _, err := f.r.cloudConfigs().AddCloudConfig(t.Context(), f.pool, in); err == nil || reads != 1 {
		t.Errorf("%d reads, want 1 (err %v)", reads, err)
	}
}
