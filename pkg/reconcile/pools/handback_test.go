package pools

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// handback plans for the fixture's namespace.
func (f *fixture) handback() *Handback {
	return &Handback{Management: f.client, Worker: f.client, Namespace: f.r.Namespace, LeaseName: "lease", Now: f.clock.Now()}
}

func (f *fixture) planned(h *Handback) (steps []string, p *HandbackPlan) {
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
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "source", Finalizers: []string{"gitops.k8c.io/profiles", "example.com/other"}},
		Spec: api.ProfileSourceSpec{Directory: &api.DirectorySource{Path: "profiles"}, Interval: metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute}}}
	f.ensure(ps)
	ps.Status.Profiles = entries
	if err := f.client.Status().Update(f.t.Context(), ps); err != nil {
		f.t.Fatal(err)
	}
}

// The name that pools use is given to the current version; an object that somebody else
// made under that name is theirs, unless told otherwise.
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
	if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "/osp-hand, version v1.0.0, is not ours") }) {
		t.Errorf("warnings are %q", p.Warnings)
	}
	if warned := slices.DeleteFunc(slices.Clone(p.Warnings), func(w string) bool { return !strings.Contains(w, "uses .Provenance") }); len(warned) != 1 || !strings.Contains(warned[0], `"osp-new"`) {
		t.Errorf("profiles that the reference cannot render are warned of by %q", warned)
	}
	h := f.handback()
	h.Overwrite = true
	steps, p = f.planned(h)
	if want = slices.Insert(want, 0, "replace OperatingSystemProfile NS/osp-hand by osp-hand-v2.0.0"); !slices.Equal(steps, want) {
		t.Errorf("planned is %q, want %q", steps, want)
	}
	for _, s := range p.Steps {
		if strings.Contains(s.What, f.r.Namespace) {
			if err := s.Do(t.Context()); err != nil {
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

// A lease that somebody holds is an obstacle until it has run out, and so is a machine
// that boots; what only osm-gitops reads is warned of.
func TestHandbackObstacles(t *testing.T) {
	f := newFixture(t)
	f.patch(f.pool, `{"metadata":{"annotations":{"gitops.k8c.io/suspend":"true"}}}`)
	now := metav1.NewMicroTime(f.clock.Now())
	f.ensure(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "lease"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr("somebody"), RenewTime: &now, LeaseDurationSeconds: ptr(int32(15))}})
	held := func(after time.Duration) bool {
		h := f.handback()
		h.Now = h.Now.Add(after)
		_, p := f.planned(h)
		return slices.ContainsFunc(p.Obstacles, func(o string) bool { return strings.Contains(o, `is held by "somebody": stop it`) })
	}
	f.source(api.ProfileEntry{Name: "osp-gone", Version: "v1.0.0", Object: "osp-gone-v1.0.0", Path: "osp-gone.yaml", Digest: "v1:sha256:" + strings.Repeat("0", 64)})
	if _, p := f.planned(f.handback()); !slices.ContainsFunc(p.Obstacles, func(o string) bool { return strings.Contains(o, "/osp-gone-v1.0.0 is missing") }) {
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

// Policies and webhooks have names of the whole cluster. Where another controller shares
// it, they are left to that one.
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
// configuration is in another namespace are not touched: their nodes use them.
func TestHandbackOfAnotherNamespace(t *testing.T) {
	f := newFixture(t)
	f.r.Settings.NodeHTTPProxy = "http://user:canary@proxy.example.com"
	f.reconcile()
	f.source()
	defer f.patch(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "source"}}, `{"metadata":{"finalizers":null}}`)
	mistyped := f.handback()
	mistyped.Namespace = cluster.Shared(t).Namespace(t)
	_, err := mistyped.Plan(t.Context())
	var wrong *WrongNamespaceError
	if !errors.As(err, &wrong) || !slices.Contains(wrong.Others, f.r.Namespace) || !strings.Contains(err.Error(), f.r.Namespace) {
		t.Fatalf("got %v", err)
	}
	f.ensure(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: mistyped.Namespace, Name: "source"}, Spec: api.ProfileSourceSpec{
		Directory: &api.DirectorySource{Path: "profiles"}, Interval: metav1.Duration{Duration: time.Minute}, RetryInterval: metav1.Duration{Duration: time.Minute},
	}})
	of := func(h *Handback) (out []string) {
		p, err := h.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Steps {
			if strings.Contains(s.What, f.pool.Name+"-") {
				out = append(out, s.What)
			}
		}
		return out
	}
	if steps := of(mistyped); len(steps) != 0 {
		t.Errorf("of another namespace's pools planned is %q", steps)
	}
	if steps := of(f.handback()); len(steps) == 0 {
		t.Error("of its own pools nothing is planned")
	}
}

// The reference can neither change the script of an edge pool nor delete credentials.
func TestHandbackSecrets(t *testing.T) {
	f := newFixture(t)
	f.r.Settings.NodeHTTPProxy = "http://user:canary@proxy.example.com"
	f.use("edge", "edge", "{}", "1.35.0")
	f.reconcile()
	steps, p := f.planned(f.handback())
	want := []string{"delete Secret cloud-init-settings/edge-NS-inputs", "delete Secret cloud-init-settings/edge-provider-script-edge-NS"}
	slices.Sort(steps)
	if !slices.Equal(steps, want) {
		t.Fatalf("planned is %q, want %q", steps, want)
	}
	for _, s := range p.Steps {
		if strings.Contains(s.What, f.r.Namespace) {
			if err := s.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{namesOf(f.pool).Inputs, edgeName(f.pool)} {
		if found, err := get(t.Context(), f.client, client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: name}, &corev1.Secret{}); err != nil || found {
			t.Errorf("%s is there: %t (err %v)", name, found, err)
		}
	}
	f.secret(namesOf(f.pool).Bootstrap)
}
