package handback_test

import (
	"context"
	"crypto/rand"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/handback"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/poolfixture"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{SeparateAPIServer: true})) }

// fixture is a namespace of a controller on the real API server, with one pool.
type fixture struct {
	t      *testing.T
	client client.Client
	clock  *clocktesting.FakeClock
	r      *pools.Reconciler
	pool   *machines.MachineDeployment
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := cluster.Shared(t)
	f := &fixture{t: t, client: c.Client(t), clock: clocktesting.NewFakeClock(time.Now())}
	ns := c.Namespace(t)
	clusters := kubeclient.Cluster{Client: trimming{f.client}, Live: f.client}
	f.r = &pools.Reconciler{
		Management: clusters, Worker: clusters, ClusterInfo: f.client,
		Recorder: events.NewFakeRecorder(100), Engine: render.NewEngine(), Clock: f.clock, Random: rand.Reader,
		Namespace: ns, Settings: render.Settings{ClusterDNS: []string{"10.96.0.10"}, Namespace: ns}, CA: "ca",
	}
	poolfixture.Cluster(t, f.client)
	f.ensure(poolfixture.Profile(ns, "aws", "edge"))
	f.pool = f.machineDeployment("pool", "aws")
	return f
}

// trimming reads Secrets as the manager's cache stores them.
type trimming struct{ client.Client }

func (c trimming) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	if key.Namespace == api.NamespaceCloudInitSettings {
		_, err := pools.DigestSecretsAndTrim(obj)
		return err
	}
	return nil
}

// machineDeployment creates a pool of a cloud provider.
func (f *fixture) machineDeployment(name, provider string) *machines.MachineDeployment {
	f.t.Helper()
	md := poolfixture.Pool(f.r.Namespace, name, provider)
	f.ensure(md)
	return md
}

func (f *fixture) ensure(obj client.Object) { f.t.Helper(); poolfixture.Ensure(f.t, f.client, obj) }

func (f *fixture) patch(obj client.Object, body string) {
	f.t.Helper()
	if err := f.client.Patch(f.t.Context(), obj, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		f.t.Fatal(err)
	}
}

// reconcile reconciles a pool.
func (f *fixture) reconcile(md *machines.MachineDeployment) {
	f.t.Helper()
	if _, err := f.r.Reconcile(f.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(md)}); err != nil {
		f.t.Fatal(err)
	}
}

// handProfile reads the profile that no source created.
func (f *fixture) handProfile() *osm.OperatingSystemProfile {
	f.t.Helper()
	osp := &osm.OperatingSystemProfile{}
	if err := f.client.Get(f.t.Context(), types.NamespacedName{Namespace: f.r.Namespace, Name: "osp-hand"}, osp); err != nil {
		f.t.Fatal(err)
	}
	return osp
}

// handback plans for the fixture's namespace.
func (f *fixture) handback() *handback.Cluster {
	return &handback.Cluster{Management: f.client, Worker: f.client, Namespace: f.r.Namespace, LeaseName: "lease", Now: f.clock.Now()}
}

func (f *fixture) planned(h *handback.Cluster) (steps []string, p *handback.Plan) {
	f.t.Helper()
	p, err := h.Plan(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	for _, s := range p.Steps {
		if strings.Contains(s.What, f.r.Namespace) { // other tests share the cluster
			steps = append(steps, strings.ReplaceAll(s.What, f.r.Namespace, "NS"))
		}
	}
	return steps, p
}

// source offers versions of profiles.
func (f *fixture) source(entries ...api.ProfileEntry) {
	f.t.Helper()
	poolfixture.Source(f.t, f.client, f.r.Namespace, entries...)
}

// The current version gets the name that pools use; an object that another owner created
// under that name is preserved by default.
func TestHandbackProfiles(t *testing.T) {
	f := newFixture(t)
	profile := func(object, version, data string) {
		osp := f.handProfile()
		osp.ObjectMeta = metav1.ObjectMeta{Namespace: f.r.Namespace, Name: object}
		osp.Spec.Version, osp.Spec.ProvisioningConfig.Files[0].Content.Inline.Data = version, data
		f.ensure(osp)
	}
	profile("osp-new-v1.0.0", "v1.0.0", "new, of {{ .Provenance.Commit }}")
	profile("osp-hand-v2.0.0", "v2.0.0", "ours")
	entry := func(name, version string) api.ProfileEntry {
		return api.ProfileEntry{Name: name, Version: version, Object: name + "-" + version, Path: name + ".yaml", Digest: "v1:sha256:" + strings.Repeat("0", 64)}
	}
	f.source(entry("osp-new", "v1.0.0"), entry("osp-hand", "v2.0.0"))
	steps, p := f.planned(f.handback())
	want := []string{"create OperatingSystemProfile NS/osp-new of osp-new-v1.0.0", "remove the finalizer of ProfileSource NS/source"}
	if !slices.Equal(steps, want) {
		t.Errorf("planned is %q, want %q", steps, want)
	}
	if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "/osp-hand, version v1.0.0, has another owner") }) {
		t.Errorf("warnings are %q", p.Warnings)
	}
	if warned := slices.DeleteFunc(slices.Clone(p.Warnings), func(w string) bool { return !strings.Contains(w, "uses .Provenance") }); len(warned) != 1 || !strings.Contains(warned[0], `"osp-new"`) {
		t.Errorf("profiles that OSM cannot render are warned of by %q", warned)
	}
	h := f.handback()
	h.Overwrite = true
	steps, p = f.planned(h)
	if want = slices.Insert(want, 0, "replace OperatingSystemProfile NS/osp-hand by osp-hand-v2.0.0"); !slices.Equal(steps, want) {
		t.Errorf("planned is %q, want %q", steps, want)
	}
	for _, s := range p.Steps {
		if strings.Contains(s.What, f.r.Namespace) {
			if err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if osp := f.handProfile(); osp.Spec.Version != "v2.0.0" || osp.Labels[api.LabelManagedBy] != api.FieldManager {
		t.Errorf("osp-hand is of %s", osp.Spec.Version)
	}
	var ps api.ProfileSource
	if err := f.client.Get(t.Context(), types.NamespacedName{Namespace: f.r.Namespace, Name: "source"}, &ps); err != nil || !slices.Equal(ps.Finalizers, []string{"example.com/other"}) {
		t.Errorf("the source's finalizers are %q (err %v)", ps.Finalizers, err)
	}
	if steps, _ = f.planned(h); len(steps) != 0 {
		t.Errorf("afterwards planned is %q", steps)
	}
	f.patch(&ps, `{"metadata":{"finalizers":null}}`)
}

// OSM replaces a profile that has the name of one of its own, so that the version that its pools get is
// not known, also if an earlier handback has created it.
func TestHandbackOfBuiltinNames(t *testing.T) {
	f := newFixture(t)
	f.patch(f.pool, `{"metadata":{"annotations":{"`+api.AnnotationOSP+`":"osp-ubuntu"}}}`)
	profile := func(name string) *osm.OperatingSystemProfile {
		osp := f.handProfile()
		osp.ObjectMeta = metav1.ObjectMeta{Namespace: f.r.Namespace, Name: name}
		f.ensure(osp)
		return osp
	}
	plain := profile("osp-ubuntu")
	f.reconcile(f.pool)
	if err := f.client.Delete(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	profile("osp-ubuntu-v1.0.0")
	f.source(api.ProfileEntry{Name: "osp-ubuntu", Version: "v1.0.0", Object: "osp-ubuntu-v1.0.0", Path: "a.yaml", Digest: "v1:sha256:" + strings.Repeat("0", 64)})
	defer f.patch(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "source"}}, `{"metadata":{"finalizers":null}}`)
	for run, want := range []bool{true, false} {
		steps, p := f.planned(f.handback())
		if slices.Contains(steps, "create OperatingSystemProfile NS/osp-ubuntu of osp-ubuntu-v1.0.0") != want || slices.ContainsFunc(steps, func(s string) bool { return strings.HasPrefix(s, "replace") }) {
			t.Errorf("run %d: planned is %q", run, steps)
		}
		if !slices.ContainsFunc(p.Warnings, func(w string) bool {
			return strings.Contains(w, f.r.Namespace+"/pool again: the version of its profile \"osp-ubuntu\" is not known")
		}) {
			t.Errorf("run %d: warnings are %q", run, p.Warnings)
		}
		if err := f.apply(f.handback()); err != nil {
			t.Fatal(err)
		}
	}
}

// A held lease is an obstacle until it expires, as is a booting machine; settings that only
// osm-gitops reads cause warnings.
func TestHandbackObstacles(t *testing.T) {
	f := newFixture(t)
	f.patch(f.pool, `{"metadata":{"annotations":{"gitops.k8c.io/suspend":"true"}}}`)
	now := metav1.NewMicroTime(f.clock.Now())
	f.ensure(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "lease"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new("somebody"), RenewTime: &now, LeaseDurationSeconds: new(int32(15))}})
	held := func(after time.Duration) bool {
		h := f.handback()
		h.Now = h.Now.Add(after)
		_, p := f.planned(h)
		return slices.ContainsFunc(p.Obstacles, func(o string) bool { return strings.Contains(o, `is held by "somebody": stop it`) })
	}
	f.source(api.ProfileEntry{Name: "osp-gone", Version: "v1.0.0", Object: "osp-gone-v1.0.0", Path: "osp-gone.yaml", Digest: "v1:sha256:" + strings.Repeat("0", 64)})
	if _, p := f.planned(f.handback()); !slices.ContainsFunc(p.Obstacles, func(o string) bool {
		return strings.Contains(o, `/osp-gone-v1.0.0, from which profile "osp-gone" has to be created, is missing`)
	}) {
		t.Errorf("obstacles are %q", p.Obstacles)
	}
	f.patch(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "source"}}, `{"metadata":{"finalizers":null}}`)
	if !held(14*time.Second) || held(15*time.Second) {
		t.Error("a lease counts too short or too long")
	}
	_, p := f.planned(f.handback())
	if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, api.AnnotationSuspend) }) {
		t.Errorf("warnings are %q", p.Warnings)
	}
}

// Policies and webhooks are cluster-wide. If another controller shares the cluster, they
// remain for it.
func TestHandbackBesideOthers(t *testing.T) {
	f := newFixture(t)
	webhook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "osm-gitops-of-" + f.r.Namespace}}
	f.ensure(webhook)
	t.Cleanup(func() { _ = f.client.Delete(context.WithoutCancel(t.Context()), webhook) })
	other := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Shared(t).Namespace(t), Name: "source"}, Spec: api.ProfileSourceSpec{
		Directory: &api.DirectorySource{Path: "profiles"}, Interval: metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute},
	}}
	f.ensure(other)
	f.source()
	defer f.patch(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "source"}}, `{"metadata":{"finalizers":null}}`)
	steps, p := f.planned(f.handback())
	steps = slices.DeleteFunc(steps, func(s string) bool { return s == "remove the finalizer of ProfileSource NS/source" })
	if len(steps) != 0 || !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, other.Namespace) }) {
		t.Errorf("planned is %q, warnings are %q", steps, p.Warnings)
	}
}

// A namespace that no controller served is an error, and the objects of pools whose
// configuration is in another namespace are not changed: their nodes use them.
func TestHandbackOfAnotherNamespace(t *testing.T) {
	f := newFixture(t)
	f.r.Settings.NodeHTTPProxy = "http://user:canary@proxy.example.com"
	f.reconcile(f.pool)
	f.source()
	defer f.patch(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "source"}}, `{"metadata":{"finalizers":null}}`)
	mistyped := f.handback()
	mistyped.Namespace = cluster.Shared(t).Namespace(t)
	_, err := mistyped.Plan(t.Context())
	if err == nil || !strings.Contains(err.Error(), "has no ProfileSource") || !strings.Contains(err.Error(), f.r.Namespace) {
		t.Fatalf("got %v", err)
	}
	f.ensure(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: mistyped.Namespace, Name: "source"}, Spec: api.ProfileSourceSpec{
		Directory: &api.DirectorySource{Path: "profiles"}, Interval: metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute},
	}})
	of := func(h *handback.Cluster) (out []string) {
		p, err := h.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Steps {
			if strings.Contains(s.What, f.pool.Name+"-"+f.r.Namespace) || strings.Contains(s.What, "bootstrap-token-") {
				out = append(out, s.What)
			}
		}
		return out
	}
	key, ours := client.ObjectKeyFromObject(f.pool), f.config(f.pool)
	for _, c := range []struct {
		has    string
		ensure func()
	}{
		{"two bootstrap tokens", func() {
			f.ensure(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, GenerateName: "bootstrap-token-", Labels: map[string]string{api.LabelTokenPool: lineage.TokenLabel(key)}}})
		}},
		{"a record in that namespace", func() {
			rec, err := lineage.ParseUnverifiedRecord([]byte(ours.Annotations[api.AnnotationRecord]))
			if err != nil {
				t.Fatal(err)
			}
			a := archive.Archive{Management: f.client, Live: f.client, Clock: f.clock, Namespace: mistyped.Namespace, State: &archive.State{}}
			if err := a.Store(t.Context(), ours, rec); err != nil {
				t.Fatal(err)
			}
		}},
		{"a configuration of operating-system-manager in that namespace", func() {
			f.ensure(&osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: mistyped.Namespace, Name: ours.Name}, Spec: ours.Spec})
		}},
	} {
		c.ensure()
		if steps := of(mistyped); len(steps) != 0 {
			t.Errorf("of another namespace's pool, which has %s, planned is %q", c.has, steps)
		}
	}
	if steps := of(f.handback()); len(steps) == 0 {
		t.Error("of its own pools nothing is planned")
	}
}

// OSM can neither update the script of an edge pool that it rotates nor delete credentials.
func TestHandbackSecrets(t *testing.T) {
	f := newFixture(t)
	f.r.Settings.NodeHTTPProxy = "http://user:canary@proxy.example.com"
	edge := f.machineDeployment("edge", "edge")
	f.reconcile(edge)
	f.patch(f.secret(lineage.NamesOf(client.ObjectKeyFromObject(edge)).EdgeScript), `{"metadata":{"annotations":{"`+api.AnnotationCredentialsExpireAt+`":"2030-01-01T00:00:00Z"}}}`)
	steps, p := f.planned(f.handback())
	want := []string{"delete Secret cloud-init-settings/edge-NS-inputs", "delete Secret cloud-init-settings/edge-provider-script-edge-NS"}
	slices.Sort(steps)
	if !slices.Equal(steps, want) {
		t.Fatalf("planned is %q, want %q", steps, want)
	}
	for _, s := range p.Steps {
		if strings.Contains(s.What, f.r.Namespace) {
			if err := s.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	names := lineage.NamesOf(client.ObjectKeyFromObject(edge))
	for _, name := range []string{names.Inputs, names.EdgeScript} {
		if found, err := kubeclient.Find(t.Context(), f.client, client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: name}, &corev1.Secret{}); err != nil || found {
			t.Errorf("%s is there: %t (err %v)", name, found, err)
		}
	}
	bootstrap := types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: names.Bootstrap}
	if found, err := kubeclient.Find(t.Context(), f.client, bootstrap, &corev1.Secret{}); err != nil || !found {
		t.Errorf("the bootstrap Secret is there: %t (err %v)", found, err)
	}
}
