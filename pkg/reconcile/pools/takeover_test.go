package pools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/takeover"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
)

// The documents that the reference makes of osp-legacy, in its own form.
const (
	legacyBootstrap = `#cloud-config
hostname: <MACHINE_NAME>
ssh_pwauth: false
ssh_authorized_keys:
write_files:
- path: '/opt/bin/bootstrap'
  permissions: '0755'
  content: |-
    fetch with getter

- path: '/etc/machine-name'
  permissions: '0600'
  content: |-
    <MACHINE_NAME>
`
	legacyProvisioning = `#cloud-config
ssh_pwauth: false
ssh_authorized_keys:
write_files:
- path: '/etc/kubelet'
  permissions: '0644'
  content: |-
    v1.35.0
- path: '/etc/containerd/certs.d/docker.io/hosts.toml'
  permissions: '0600'
  content: |-
    server = "https://registry-1.docker.io"

    [host]
      [host."https://registry-1.docker.io"]
        capabilities = ["pull", "resolve"]

runcmd:
- systemctl daemon-reload
`
)

// newLegacyFixture has a pool that the reference served until now.
func newLegacyFixture(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.r.NodeTokenTTL = 24 * time.Hour
	file := func(path string, permissions int32, data string) osm.File {
		return osm.File{Path: path, Permissions: permissions, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: data}}}
	}
	f.ensure(&osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-legacy"},
		Spec: osm.OperatingSystemProfileSpec{
			OSName: "ubuntu", OSVersion: "24.04", Version: "v1.0.0", SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "hetzner"}},
			BootstrapConfig: osm.OSPConfig{Files: []osm.File{file("/opt/bin/bootstrap", 755, "fetch with {{ .Token }}\n")}},
			ProvisioningConfig: osm.OSPConfig{
				Files: []osm.File{file("/etc/kubelet", 644, "{{ .KubeVersion }}\n")}, CloudInitModules: &osm.CloudInitModule{RunCMD: []string{"systemctl daemon-reload"}},
			},
		},
	})
	f.pool = f.legacyPool(f.r.Namespace, "legacy")
	f.legacyObjects(f.pool, legacyBootstrap, legacyProvisioning)
	return f
}

func (f *fixture) legacyPool(namespace, name string) *machines.MachineDeployment {
	f.t.Helper()
	md := &machines.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{api.FinalizerPool},
			Annotations: map[string]string{api.AnnotationOSP: "osp-legacy", api.AnnotationMDRevision: "1"}},
		Spec: machines.MachineDeploymentSpec{Template: machines.MachineTemplateSpec{Spec: machines.MachineSpec{
			Versions:     machines.MachineVersion{Kubelet: "1.35.0"},
			ProviderSpec: machines.ProviderSpec{Value: providerSpec("hetzner", `{"token":"canary"}`)},
		}}},
	}
	f.ensure(md)
	return md
}

// legacyObjects are those that the reference makes for a pool.
func (f *fixture) legacyObjects(md *machines.MachineDeployment, bootstrap, provisioning string) {
	f.t.Helper()
	f.legacySecrets(md, bootstrap, provisioning)
	f.ensure(&osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: namesOf(md).Config, Annotations: legacyAnnotations(md)},
		Spec: osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{
			Name: "hetzner", Spec: &runtime.RawExtension{Raw: []byte(`{"token":"canary"}`)},
		}},
	})
}

func legacyAnnotations(md *machines.MachineDeployment) map[string]string {
	return map[string]string{
		api.AnnotationRevisionFor: md.Annotations[api.AnnotationMDRevision], api.AnnotationMDAnnotationsHash: takeover.AnnotationsHash(md.Annotations), api.AnnotationOSPVersion: "v1.0.0",
	}
}

func (f *fixture) legacySecrets(md *machines.MachineDeployment, bootstrap, provisioning string) {
	f.t.Helper()
	for stage, document := range map[string]string{stageBootstrap: bootstrap, stageProvision: provisioning} {
		f.ensure(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: userDataName(md, stage), Annotations: legacyAnnotations(md)},
			Type:       corev1.SecretTypeOpaque, Immutable: new(true), Data: map[string][]byte{api.UserDataKey: []byte(document)},
		})
	}
	made, err := token.New(f.r.Random, md, f.clock.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	id, _, _ := strings.Cut(made.Value, ".")
	f.ensure(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstrapapi.BootstrapTokenSecretPrefix + id, Labels: map[string]string{api.LabelTokenPool: lineage.TokenLabel(keyOf(md))}},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": "0123456789abcdef", "expiration": string(token.Expiration(f.clock.Now().Add(50 * time.Minute))),
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true", "auth-extra-groups": token.Groups,
		},
	})
	f.ensure(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: namesOf(md).Kubeconfig},
		StringData: map[string]string{api.KubeconfigKey: "apiVersion: v1\nkind: Config\n"},
	})
}

// Documents that are equivalent for a machine are preserved byte by byte; the configuration, which
// contains credentials, is replaced, and no object of OSM outlives the pool.
func TestTakeOverUnchanged(t *testing.T) {
	f := newLegacyFixture(t)
	before := map[string]*corev1.Secret{stageBootstrap: f.secret(namesOf(f.pool).Bootstrap), stageProvision: f.secret(namesOf(f.pool).Provisioning)}
	said := &remembered{EventRecorder: f.r.Recorder}
	f.r.Recorder = said
	f.reconcile()
	for stage, was := range before {
		now := f.secret(was.Name)
		if now.UID != was.UID || !bytes.Equal(now.Data[api.UserDataKey], was.Data[api.UserDataKey]) || !takeover.Immutable(now) {
			t.Errorf("the %s Secret was replaced", stage)
		}
		if lineage.PoolOf(now) != poolKey(f.pool) || now.Labels[api.LabelManagedBy] != api.FieldManager || now.Annotations[api.AnnotationDataDigest] != lineage.DataDigest(was.Data[api.UserDataKey]) {
			t.Errorf("the %s Secret has labels %v and annotations %v", stage, now.Labels, now.Annotations)
		}
	}
	osc := f.config()
	if osc.Spec.CloudProvider.Spec != nil || recordOf(osc).Profile != "osp-legacy" || !strings.HasPrefix(osc.Annotations[api.AnnotationOSPVersion], api.OSPVersionPrefix) {
		t.Errorf("the configuration is %+v", osc)
	}
	if tokens := f.tokens(t.Context()); len(tokens) != 1 || !strings.Contains(string(f.secret(namesOf(f.pool).Kubeconfig).Data[api.KubeconfigKey]), string(tokens[0].Data["token-id"])) {
		t.Errorf("there are %d tokens, or the kubeconfig carries another", len(tokens))
	}
	if told := strings.Join(said.told, "\n"); !strings.Contains(told, "are equivalent and are retained") {
		t.Errorf("told was %q", told)
	}

	versions := f.versions()
	f.reconcile()
	if now := f.versions(); !slices.Equal(now, versions) {
		t.Errorf("a second run wrote: %v, then %v", versions, now)
	}
	f.patch(f.pool, `{"metadata":{"annotations":{"machinedeployment.clusters.k8s.io/revision":"2"}}}`)
	f.clock.Step(40 * time.Minute) // and the token is renewed
	f.reconcile()
	for stage, was := range before {
		if now := f.secret(was.Name); now.UID != was.UID || now.Annotations[api.AnnotationRevisionFor] != "2" {
			t.Errorf("the %s Secret was replaced, or is for revision %s", stage, now.Annotations[api.AnnotationRevisionFor])
		}
	}
	f.delete(f.pool)
	f.reconcile()
	if left, err := f.r.reader().listOwned(t.Context(), f.r.reader().live(), f.pool); err != nil || len(left)+len(f.tokens(t.Context())) != 0 {
		t.Errorf("left are %v and %d tokens (err %v)", left, len(f.tokens(t.Context())), err)
	}
}

// versions of everything that a pool has.
func (f *fixture) versions() (out []string) {
	f.t.Helper()
	all, err := f.r.reader().listOwned(f.t.Context(), f.r.reader().live(), f.pool)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, obj := range all {
		out = append(out, obj.GetName()+"@"+obj.GetResourceVersion())
	}
	return out
}

// What differs is deleted and created, once; the other document stays until it differs
// too, and from then on the pool has a token of its own.
func TestTakeOverChanged(t *testing.T) {
	f := newLegacyFixture(t)
	f.osp("osp-legacy", "v1.1.0", func(spec *osm.OperatingSystemProfileSpec) {
		spec.ProvisioningConfig.Files[0].Content.Inline.Data = "changed"
	})
	said := &remembered{EventRecorder: f.r.Recorder}
	f.r.Recorder = said
	bootstrap, provisioning := f.secret(namesOf(f.pool).Bootstrap), f.secret(namesOf(f.pool).Provisioning)
	f.reconcile()
	replaced := f.secret(provisioning.Name)
	if replaced.UID == provisioning.UID || takeover.Immutable(replaced) || !strings.Contains(string(replaced.Data[api.UserDataKey]), "changed") {
		t.Error("the provisioning Secret was not replaced")
	}
	if now := f.secret(bootstrap.Name); now.UID != bootstrap.UID || !takeover.Immutable(now) {
		t.Error("the bootstrap Secret was replaced")
	}
	if told := strings.Join(said.told, "\n"); !strings.Contains(told, `differs from that of the previous controller in `+provisioning.Name+`: file "/etc/kubelet"`) {
		t.Errorf("told was %q", told)
	}

	f.osp("osp-legacy", "v1.2.0", func(spec *osm.OperatingSystemProfileSpec) {
		spec.BootstrapConfig.Files[0].Content.Inline.Data = "fetch anew with {{ .Token }}"
	})
	f.reconcile()
	if now := f.secret(bootstrap.Name); now.UID == bootstrap.UID || takeover.Immutable(now) {
		t.Error("the bootstrap Secret was not replaced")
	}
	if now := f.secret(provisioning.Name); now.UID != replaced.UID {
		t.Error("the provisioning Secret was replaced a second time")
	}
	before := f.secret(bootstrap.Name)
	f.reconcile()
	if now := f.secret(bootstrap.Name); now.UID != before.UID || strings.Contains(string(now.Data[api.UserDataKey]), "with getter") {
		t.Error("the document still carries the token that all pools share, or its Secret was replaced again")
	}
}

// osp gives a profile another version.
func (f *fixture) osp(name, version string, change func(*osm.OperatingSystemProfileSpec)) {
	f.t.Helper()
	osp := &osm.OperatingSystemProfile{}
	if err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: name}, osp); err != nil {
		f.t.Fatal(err)
	}
	osp.Spec.Version = version
	change(&osp.Spec)
	if err := f.client.Update(f.t.Context(), osp); err != nil {
		f.t.Fatal(err)
	}
}

// machineSet makes a MachineSet of the pool, for a revision of it.
func (f *fixture) machineSet(name, revision string) *machines.MachineSet {
	f.t.Helper()
	ms := &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.pool.Namespace, Name: name, Annotations: map[string]string{api.AnnotationMDRevision: revision},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: machines.GroupVersion.String(), Kind: "MachineDeployment", Name: f.pool.Name, UID: f.pool.UID}}}}
	f.ensure(ms)
	return ms
}

// machine makes a Machine without a node.
func (f *fixture) machine(name string, of *machines.MachineSet) *machines.Machine {
	f.t.Helper()
	m := &machines.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: f.pool.Namespace, Name: name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: machines.GroupVersion.String(), Kind: "MachineSet", Name: of.Name, UID: of.UID}}}}
	f.ensure(m)
	return m
}

// An interruption between the two requests of a replacement during a takeover left a machine
// without its provisioning Secret. That one is restored at once, and no machine loses its
// bootstrap Secret.
func TestTakeOverCutOffWhileAMachineBoots(t *testing.T) {
	f := newLegacyFixture(t)
	booting := f.machine("booting", f.machineSet("legacy-1", "1"))
	f.osp("osp-legacy", "v1.1.0", func(spec *osm.OperatingSystemProfileSpec) {
		spec.BootstrapConfig.Files[0].Content.Inline.Data = "changed"
		spec.ProvisioningConfig.Files[0].Content.Inline.Data = "changed"
	})
	bootstrap, provisioning := f.secret(namesOf(f.pool).Bootstrap), f.secret(namesOf(f.pool).Provisioning)
	f.delete(provisioning)
	for range 2 {
		f.reconcile()
		if now := f.secret(provisioning.Name); lineage.PoolOf(now) != poolKey(f.pool) || !strings.Contains(string(now.Data[api.UserDataKey]), "changed") {
			t.Error("the provisioning Secret did not come back")
		}
		if f.secret(bootstrap.Name).UID != bootstrap.UID {
			t.Fatal("the bootstrap Secret was replaced while a machine boots")
		}
	}
	// Also a plan that was made before the machine came stops at it.
	seen := &observed{md: f.pool, objects: objects{bootstrap: bootstrap}}
	if err := f.r.newWriter().replaceSecret(t.Context(), seen, bootstrap, asNewSecret(bootstrap)); !errors.Is(err, fault.ErrRaced) || f.secret(bootstrap.Name).UID != bootstrap.UID {
		t.Errorf("the bootstrap Secret was replaced while a machine boots (err %v)", err)
	}
	booting.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: "node"}
	must(nil, f.client.Status().Update(t.Context(), booting))
	f.reconcile()
	if now := f.secret(bootstrap.Name); now.UID == bootstrap.UID || lineage.PoolOf(now) != poolKey(f.pool) {
		t.Error("the bootstrap Secret was not replaced")
	}
}

// Nothing is replaced while a machine boots from it, and tokens are renewed meanwhile.
func TestTakeOverWaitsForMachines(t *testing.T) {
	f := newLegacyFixture(t)
	other := &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.pool.Namespace, Name: "of-another-pool"}}
	f.ensure(other)
	f.machine("of-another-pool", other)
	f.machine("of-another-revision", f.machineSet("legacy-0", "0")) // machine-controller gave it no document
	booting := f.machine("booting", f.machineSet("legacy-1", "1"))
	f.osp("osp-legacy", "v1.1.0", func(spec *osm.OperatingSystemProfileSpec) {
		spec.BootstrapConfig.Files[0].Content.Inline.Data = "changed"
		spec.ProvisioningConfig.Files[0].Content.Inline.Data = "changed"
	})
	said := &remembered{EventRecorder: f.r.Recorder}
	f.r.Recorder = said
	documents := []*corev1.Secret{f.secret(namesOf(f.pool).Bootstrap), f.secret(namesOf(f.pool).Provisioning)}
	reference := f.config()
	kept := func(why string, want bool) {
		t.Helper()
		for _, d := range documents {
			if now := f.secret(d.Name); (now.UID == d.UID) != want {
				t.Errorf("%s: %s is kept: %t", why, d.Name, !want)
			}
		}
	}
	res := f.reconcile()
	if kept("a machine boots", true); res.RequeueAfter <= 0 || res.RequeueAfter > 2*bootPoll {
		t.Errorf("the next look is in %s", res.RequeueAfter)
	}
	if now := f.config(); now.UID != reference.UID || now.ResourceVersion != reference.ResourceVersion {
		t.Errorf("the configuration was replaced before the Secrets, or has other annotations: %v", now.Annotations)
	}
	if told := strings.Join(said.told, "\n"); !strings.Contains(told, "machine booting is booting") {
		t.Errorf("told was %q", told)
	}
	f.clock.Step(25 * time.Minute)
	f.reconcile()
	kept("25 minutes later", true)
	if got, want := string(f.tokens(t.Context())[0].Data["expiration"]), string(token.Expiration(f.clock.Now().Add(token.Life))); got != want {
		t.Errorf("the token ends at %s, want %s", got, want)
	}
	booting.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: "node"}
	if err := f.client.Status().Update(t.Context(), booting); err != nil {
		t.Fatal(err)
	}
	f.reconcile()
	kept("it has joined", false)
}

// A machine that does not come up holds nothing up for ever.
func TestTakeOverGivesUpWaiting(t *testing.T) {
	f := newLegacyFixture(t)
	f.machine("stuck", f.machineSet("legacy-1", "1"))
	waiting := &observed{md: f.pool, objects: objects{bootstrap: f.secret(namesOf(f.pool).Bootstrap)}}
	name, until, err := f.r.reader().findBootingMachine(t.Context(), waiting)
	if err != nil || name != "stuck" {
		t.Fatalf("booting is %q (err %v)", name, err)
	}
	// Also a plan that was made before it came stops at it.
	seen := &observed{md: f.pool, objects: objects{provisioning: f.secret(namesOf(f.pool).Provisioning), bootstrap: f.secret(namesOf(f.pool).Bootstrap)}}
	have := seen.objects.provisioning
	if err := f.r.newWriter().replaceSecret(t.Context(), seen, have, asNewSecret(have)); !errors.Is(err, fault.ErrRaced) || f.secret(have.Name).UID != have.UID {
		t.Errorf("a Secret was replaced while a machine boots (err %v)", err)
	}
	f.clock.SetTime(until.Add(time.Minute)) // the API server's clock, not this one, says when the machine was made
	if name, _, err = f.r.reader().findBootingMachine(t.Context(), waiting); err != nil || name != "" {
		t.Errorf("after half an hour booting is %q (err %v)", name, err)
	}
}

// reversed lists in the opposite order; that of a cache is random.
type reversed struct{ client.Client }

func (r reversed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := r.Client.List(ctx, list, opts...)
	if found, ok := list.(*machines.MachineList); ok {
		slices.Reverse(found.Items)
	}
	return err
}

// If several machines were created in one second, the same one is named for any order of the list:
// the rejection is written to the configuration, and a changed one would start another run.
func TestTakeOverNamesOneMachine(t *testing.T) {
	f := newLegacyFixture(t)
	set := f.machineSet("legacy-1", "1")
	for i := range 4 {
		f.machine(fmt.Sprintf("stuck-%d", i), set)
	}
	waiting := &observed{md: f.pool, objects: objects{bootstrap: f.secret(namesOf(f.pool).Bootstrap)}}
	first, _, err := f.r.reader().findBootingMachine(t.Context(), waiting)
	if err != nil {
		t.Fatal(err)
	}
	f.r.Worker.Client = reversed{f.r.Worker.Client}
	if again, _, err := f.r.reader().findBootingMachine(t.Context(), waiting); err != nil || again != first {
		t.Errorf("booting is %q, and in the opposite order %q (err %v)", first, again, err)
	}
}

// Machines that never join and are created again and again delay a pool for half an hour in total,
// also if the controller restarts meanwhile, and the event says until when.
func TestTakeOverBoundsTheWaitByThePool(t *testing.T) {
	f := newLegacyFixture(t)
	set := f.machineSet("legacy-1", "1")
	first := f.machine("first", set)
	f.osp("osp-legacy", "v1.1.0", func(spec *osm.OperatingSystemProfileSpec) {
		spec.BootstrapConfig.Files[0].Content.Inline.Data = "changed"
		spec.ProvisioningConfig.Files[0].Content.Inline.Data = "changed"
	})
	said := &remembered{EventRecorder: f.r.Recorder}
	f.r.Recorder = said
	documents := []*corev1.Secret{f.secret(namesOf(f.pool).Bootstrap), f.secret(namesOf(f.pool).Provisioning)}
	replaced := func(why string, want bool) {
		t.Helper()
		for _, d := range documents {
			if now := f.secret(d.Name); (now.UID != d.UID) != want {
				t.Errorf("%s: %s is replaced: %t", why, d.Name, !want)
			}
		}
	}
	// The API server's clock dates machines: at each of these times they are new.
	began := first.CreationTimestamp.Add(-40 * time.Minute).Truncate(time.Second)
	f.clock.SetTime(began)
	f.reconcile()
	replaced("the wait began", false)
	until := lineage.FormatTime(began.Add(takeover.BootTime))
	if told := strings.Join(said.told, "\n"); !strings.Contains(told, "machine first is booting") || !strings.Contains(told, until) {
		t.Errorf("told was %q, want an end at %s", told, until)
	}
	versions := f.versions()
	f.reconcile()
	if now := f.versions(); !slices.Equal(now, versions) {
		t.Errorf("a second look wrote: %v, then %v", versions, now)
	}

	f.delete(first)
	f.machine("second", set)
	f.clock.SetTime(began.Add(takeover.BootTime - time.Second))
	f.r.cache = poolCache{} // a restart
	said.told = nil
	f.reconcile()
	replaced("a second before the end", false)
	if told := strings.Join(said.told, "\n"); !strings.Contains(told, "machine second is booting") || !strings.Contains(told, until) {
		t.Errorf("told was %q, want an end at %s", told, until)
	}
	f.clock.SetTime(began.Add(takeover.BootTime))
	f.reconcile()
	replaced("at the end", true)
	for _, d := range documents {
		if now := f.secret(d.Name); takeover.Immutable(now) || now.Annotations[api.AnnotationWaitingSince] != "" {
			t.Errorf("%s is immutable, or says that it still waits: %v", d.Name, now.Annotations)
		}
	}
}

// The time that a pool has waited is reset when the pool requests again what it has: the next change
// waits for up to half an hour again.
func TestTakeOverForgetsAWaitThatIsOver(t *testing.T) {
	f := newLegacyFixture(t)
	f.reconcile() // an equivalent document is preserved
	booting := f.machine("booting", f.machineSet("legacy-1", "1"))
	provisioning := f.secret(namesOf(f.pool).Provisioning)
	change := func(version, to string) {
		f.osp("osp-legacy", version, func(spec *osm.OperatingSystemProfileSpec) {
			spec.ProvisioningConfig.Files[0].Content.Inline.Data = to
		})
	}
	f.clock.SetTime(booting.CreationTimestamp.Add(-40 * time.Minute))
	change("v1.1.0", "changed")
	f.reconcile()
	if since := f.secret(provisioning.Name).Annotations[api.AnnotationWaitingSince]; since != lineage.FormatTime(f.clock.Now()) {
		t.Fatalf("it waits since %q", since)
	}
	change("v1.0.0", "{{ .KubeVersion }}\n")
	f.reconcile()
	if now := f.secret(provisioning.Name); now.UID != provisioning.UID || now.Annotations[api.AnnotationWaitingSince] != "" {
		t.Errorf("the Secret was replaced, or still waits since %q", now.Annotations[api.AnnotationWaitingSince])
	}
	f.clock.Step(takeover.BootTime)
	change("v1.2.0", "changed")
	f.reconcile()
	if now := f.secret(provisioning.Name); now.UID != provisioning.UID || now.Annotations[api.AnnotationWaitingSince] != lineage.FormatTime(f.clock.Now()) {
		t.Errorf("the Secret was replaced at once, or waits since %q", now.Annotations[api.AnnotationWaitingSince])
	}
}

// The next run completes a takeover that was interrupted: each pool ends with the documents that a
// fresh rendering gives.
func TestTakeOverCutOff(t *testing.T) {
	for writes := int64(0); ; writes++ {
		f := newLegacyFixture(t)
		f.osp("osp-legacy", "v1.1.0", func(spec *osm.OperatingSystemProfileSpec) {
			spec.BootstrapConfig.Files[0].Content.Inline.Data = "changed"
			spec.ProvisioningConfig.Files[0].Content.Inline.Data = "changed"
		})
		cut := &cutOff{digesting: digesting{f.client}, left: writes}
		f.r.Management.Client, f.r.Worker.Client = cut, cut
		_, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f.pool)})
		f.r.Management.Client, f.r.Worker.Client = digesting{f.client}, digesting{f.client}
		for range 3 {
			f.reconcile()
		}
		for _, stage := range []string{stageBootstrap, stageProvision} {
			s := f.secret(userDataName(f.pool, stage))
			if takeover.Immutable(s) || !strings.Contains(string(s.Data[api.UserDataKey]), "changed") || lineage.PoolOf(s) != poolKey(f.pool) || s.Annotations[api.AnnotationOSPVersion] != "v1.1.0" {
				t.Errorf("cut off after %d writes, the %s Secret is %+v", writes, stage, s.ObjectMeta)
			}
		}
		if got := f.tokens(t.Context()); len(got) != 1 {
			t.Errorf("cut off after %d writes, there are %d tokens", writes, len(got))
		}
		if got := recordOf(f.config()); got.Version != "v1.1.0" {
			t.Errorf("cut off after %d writes, the configuration is of %q", writes, got.Version)
		}
		if err == nil {
			return
		}
	}
}

// If the API server rejects the new Secret, the old one is restored.
func TestTakeOverPutsBack(t *testing.T) {
	f := newLegacyFixture(t)
	have := f.secret(namesOf(f.pool).Bootstrap)
	next := asNewSecret(have)
	next.Name, next.Data = have.Name, map[string][]byte{"not a key": nil}
	if err := f.r.newWriter().replaceSecret(t.Context(), &observed{md: f.pool}, have, next); !apierrors.IsInvalid(err) {
		t.Errorf("got %v", err)
	}
	if now := f.secret(have.Name); now.UID == have.UID || !takeover.Immutable(now) || !bytes.Equal(now.Data[api.UserDataKey], have.Data[api.UserDataKey]) || !takeover.IsCreatedByOSM(now) {
		t.Error("the old Secret is not back")
	}
	stale := have.DeepCopy()
	stale.UID = types.UID("another")
	if err := f.r.newWriter().replaceSecret(t.Context(), &observed{md: f.pool}, stale, asNewSecret(have)); err == nil {
		t.Error("a Secret was deleted that was not read")
	}
}

// What another controller made for one of two pools of the same names is that one's
// (security.md 25).
func TestTakeOverCollision(t *testing.T) {
	f := newLegacyFixture(t)
	prefix, suffix, ok := strings.Cut(f.pool.Namespace, "-")
	if !ok {
		t.Fatalf("namespace %q has no dash", f.pool.Namespace)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: suffix}}
	f.ensure(ns)
	t.Cleanup(func() { _ = f.client.Delete(context.WithoutCancel(t.Context()), ns) })
	first := f.pool
	second := f.legacyPool(suffix, "legacy-"+prefix)
	t.Cleanup(func() {
		_ = f.client.Patch(context.WithoutCancel(t.Context()), second, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	f.patch(second, `{"metadata":{"annotations":{"other":"annotations"}}}`)
	before := f.secret(namesOf(first).Bootstrap)
	said := &remembered{EventRecorder: f.r.Recorder}
	f.r.Recorder = said
	f.pool = second
	f.reconcile()
	if now := f.secret(before.Name); now.ResourceVersion != before.ResourceVersion {
		t.Error("the other pool's Secret was touched")
	}
	if told := strings.Join(said.told, "\n"); !strings.Contains(told, api.EventNameCollision) || !strings.Contains(told, poolKey(first)) {
		t.Errorf("told was %q", told)
	}
	f.pool = first
	f.reconcile()
	if now := f.secret(before.Name); lineage.PoolOf(now) != poolKey(first) {
		t.Errorf("the Secret is of %q", lineage.PoolOf(now))
	}
}
