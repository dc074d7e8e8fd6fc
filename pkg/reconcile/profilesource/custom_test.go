package profilesource

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/platforms"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// newCustom is newFollowing in a seed of KKP.
func newCustom(t *testing.T) *following {
	t.Helper()
	crd, err := platforms.SeedCRD()
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Shared(t).ApplyObjects(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	f := newFollowing(t, nil)
	f.r.Custom = true
	return f
}

// custom returns the object of profile osp-a.
func (f *following) custom() *osm.CustomOperatingSystemProfile {
	f.t.Helper()
	var o osm.CustomOperatingSystemProfile
	f.do(f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.ps.Namespace, Name: "osp-a"}, &o))
	return &o
}

// has checks the version, content and commit of that object.
func (f *following) has(version, content, commit string) *osm.CustomOperatingSystemProfile {
	f.t.Helper()
	o := f.custom()
	got := []string{o.Spec.Version, o.Spec.BootstrapConfig.Files[0].Content.Inline.Data, o.Annotations[api.AnnotationVersion], o.Annotations[api.AnnotationCommit], o.Annotations[api.AnnotationDigest]}
	if diff := cmp.Diff([]string{version, content, version, commit, profile.Digest(o.Spec)}, got); diff != "" {
		f.t.Errorf("version, content and annotations (-want +got):\n%s", diff)
	}
	return o
}

// notApplied reconciles and checks that the condition names a problem with the current commit.
func (f *following) notApplied(says ...string) {
	f.t.Helper()
	f.look()
	f.condition(meta.ReadyCondition, metav1.ConditionFalse, api.ReasonProfilesInvalid, says...)
}

// A profile becomes one object of its own name, with the annotations of an OperatingSystemProfile,
// and follows Git. No other object is written.
func TestCustomProfile(t *testing.T) {
	f := newCustom(t)
	first := f.commit("", "v1.0.0", "one")
	f.applied("main@sha1:" + first)
	made := f.has("v1.0.0", "one", first)
	f.toldOf("Normal ProfileCreated", `profile "osp-a" v1.0.0 is in the cluster, from osp-a.yaml at commit `+first)
	if f.look(); f.custom().ResourceVersion != made.ResourceVersion || len(f.ps.Finalizers) != 0 || f.ps.Status.Profiles[0].Object != "osp-a" {
		t.Errorf("a second look wrote, or the ProfileSource waits for something: %+v", f.ps)
	}
	f.do(f.client.Patch(t.Context(), made, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"infra"},"annotations":{"note":"theirs"}}}`))))

	second := f.commit("", "v1.1.0", "two")
	f.applied("main@sha1:" + second)
	now := f.has("v1.1.0", "two", second)
	if now.UID != made.UID || now.Labels["team"] != "infra" || now.Annotations["note"] != "theirs" || now.Labels[api.LabelVersion] != "v1.1.0" {
		t.Errorf("it was replaced, or lost what others wrote: %+v", now.ObjectMeta)
	}
	f.toldOf(`profile "osp-a" v1.1.0 is in the cluster`)

	var profiles osm.OperatingSystemProfileList
	f.do(f.client.List(t.Context(), &profiles, client.InNamespace(f.ps.Namespace)))
	if len(profiles.Items) != 0 {
		t.Errorf("%d OperatingSystemProfiles were written", len(profiles.Items))
	}

	f.r.Custom = false // the same commit as an OperatingSystemProfile
	f.look()
	osp := f.object("osp-a-v1.1.0")
	delete(now.Annotations, "note")
	delete(now.Labels, "team")
	if diff := cmp.Diff([]any{osp.Annotations, osp.Labels}, []any{now.Annotations, now.Labels}); diff != "" {
		t.Errorf("provenance differs from that of an OperatingSystemProfile (-osp +cosp):\n%s", diff)
	}
}

// A version of Git that is lower than the one that was written is refused until it is raised.
func TestCustomProfileIsNeverLowered(t *testing.T) {
	f := newCustom(t)
	f.applied("main@sha1:" + f.commit("", "v1.1.0", "one"))
	made := f.custom()
	f.commit("", "v1.0.0", "earlier")
	f.notApplied("osp-a.yaml: CustomOperatingSystemProfile " + f.ps.Namespace + "/osp-a has version v1.1.0, which is higher than v1.0.0, and is never lowered: give the profile a version above v1.1.0")
	f.toldOf("Warning ProfileRefused")
	if f.custom().ResourceVersion != made.ResourceVersion || f.ps.Status.Profiles[0].Version != "v1.1.0" {
		t.Error("it was changed")
	}
	last := f.commit("", "v1.2.0", "earlier")
	f.applied("main@sha1:" + last)
	f.has("v1.2.0", "earlier", last)
}

// What somebody changes is restored and reported.
func TestCustomProfileChangedByHand(t *testing.T) {
	f := newCustom(t)
	commit := f.commit("", "v1.0.0", "one")
	f.applied("main@sha1:" + commit)
	for name, patch := range map[string]string{
		"content":                      `{"spec":{"osVersion":"26.04"}}`,
		"content and a higher version": `{"spec":{"osVersion":"26.04","version":"v9.9.9"}}`,
		"content and a lower version":  `{"spec":{"osVersion":"26.04","version":"v0.1.0"}}`,
		"annotations":                  `{"metadata":{"annotations":{"gitops.k8c.io/commit":"0000000000000000000000000000000000000000"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			f.told()
			f.do(f.client.Patch(t.Context(), f.custom(), client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("kubectl-edit")))
			f.applied("main@sha1:" + commit)
			if o := f.has("v1.0.0", "one", commit); o.Spec.OSVersion != "24.04" {
				t.Errorf("it has osVersion %s", o.Spec.OSVersion)
			}
			f.toldOf("Warning ProfileRestored CustomOperatingSystemProfile " + f.ps.Namespace + "/osp-a was changed by hand, and has version v1.0.0 of Git again: change osp-a.yaml instead")
			if f.look(); f.told() != "" {
				t.Error("it was restored twice")
			}
		})
	}
	f.t = t
	f.do(f.client.Delete(t.Context(), f.custom()))
	f.applied("main@sha1:" + commit)
	f.has("v1.0.0", "one", commit)
	f.do(f.client.Patch(t.Context(), f.custom(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"osVersion":"26.04"}}`))))
	f.told()
	next := f.commit("", "v1.1.0", "two")
	f.applied("main@sha1:" + next)
	f.has("v1.1.0", "two", next)
	f.toldOf("Warning ProfileRestored", "Normal ProfileCreated")
}

// An object that another made is never written, until its owner hands it over.
func TestForeignCustomProfile(t *testing.T) {
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		says                string
	}{
		"by hand": {nil, nil, "was not made by osm-gitops, and is not changed: delete it there, rename the profile, or hand it over with the labels"},
		"by Flux": {
			map[string]string{"kustomize.toolkit.fluxcd.io/name": "osps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}, nil,
			"is applied by Kustomization flux-system/osps, and is not changed",
		},
		"by Argo CD": {
			nil, map[string]string{"argocd.argoproj.io/tracking-id": "osps:operatingsystemmanager.k8c.io/CustomOperatingSystemProfile:NAMESPACE/osp-a"},
			"is applied by Application argocd/osps, and is not changed",
		},
		"of another profile": {map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelProfile: "osp-b"}, nil, "was not made by osm-gitops"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCustom(t)
			f.r.ArgoNamespace = "argocd"
			for key, value := range c.annotations {
				c.annotations[key] = strings.ReplaceAll(value, "NAMESPACE", f.ps.Namespace)
			}
			docs, err := profile.Decode("osp-a.yaml", []byte(profileFile("v1.0.0", "theirs")))
			f.do(err)
			theirs := &osm.CustomOperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: "osp-a", Labels: c.labels, Annotations: c.annotations}, Spec: docs[0].Spec}
			f.do(f.client.Create(t.Context(), theirs))
			f.commit("", "v1.1.0", "ours")
			f.notApplied("osp-a.yaml: CustomOperatingSystemProfile " + f.ps.Namespace + "/osp-a " + c.says)
			f.toldOf("Warning TwoAppliers osp-a.yaml: CustomOperatingSystemProfile")
			if f.custom().ResourceVersion != theirs.ResourceVersion || len(f.ps.Status.Profiles) != 0 {
				t.Error("it was changed")
			}
		})
	}
}

// Of two ProfileSources with a profile of one name, the first has the object until it no longer
// offers the profile or is deleted. It is never taken from it, whichever of the two is older, and
// whatever a status does not say yet.
func TestCustomProfileOfTwoSources(t *testing.T) {
	for name, c := range map[string]struct {
		before  func(f *following, first *api.ProfileSource) // the second one's reconciliation
		release func(f *following, first *api.ProfileSource)
	}{
		"the first leaves the profile": {
			func(*following, *api.ProfileSource) {},
			func(f *following, first *api.ProfileSource) {
				first.Status.Profiles[0].Removed = true
				f.do(f.client.Status().Update(f.t.Context(), first))
			},
		},
		"the first is deleted, and its status was not written": {
			func(f *following, first *api.ProfileSource) {
				first.Status.Profiles = nil
				f.do(f.client.Status().Update(f.t.Context(), first))
			},
			func(f *following, first *api.ProfileSource) { f.do(f.client.Delete(f.t.Context(), first)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCustom(t)
			commit := f.commit("", "v1.0.0", "one")
			f.applied("main@sha1:" + commit)
			first := f.ps.DeepCopy()
			c.before(f, first)
			made := f.custom()

			f.ps = &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: "another"}, Spec: *first.Spec.DeepCopy()}
			f.do(f.client.Create(t.Context(), f.ps))
			second := f.commit("", "v1.1.0", "two")
			f.notApplied("osp-a.yaml: ", `ProfileSource "team": remove it from one of the two sources`)
			if f.custom().ResourceVersion != made.ResourceVersion || len(f.ps.Status.Profiles) != 0 {
				t.Error("the object was changed, or is in two inventories")
			}
			c.release(f, first)
			f.applied("main@sha1:" + second)
			if o := f.has("v1.1.0", "two", second); o.UID != made.UID || o.Labels[api.LabelSource] != "another" {
				t.Errorf("it was replaced, or belongs to ProfileSource %q", o.Labels[api.LabelSource])
			}
		})
	}
}

// A ProfileSource that was created again under its name, with another repository, does not hold what
// the earlier one wrote, unless its own inventory has the profile.
func TestCustomProfileOfASourceCreatedAgain(t *testing.T) {
	f := newCustom(t)
	f.applied("main@sha1:" + f.commit("", "v1.0.0", "one"))
	made, first := f.custom(), f.ps
	again := first
	for deadline := time.Now().Add(30 * time.Second); !made.CreationTimestamp.Before(&again.CreationTimestamp); { // times are in seconds
		if time.Now().After(deadline) {
			t.Fatal("the ProfileSource is not younger than the object")
		}
		f.do(f.client.Delete(t.Context(), again))
		again = &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: first.Name}, Spec: *first.Spec.DeepCopy()}
		f.do(f.client.Create(t.Context(), again))
	}
	again.Status.Profiles = first.Status.Profiles
	f.do(f.client.Status().Update(t.Context(), again))

	f.ps = &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: "another"}, Spec: *first.Spec.DeepCopy()}
	f.do(f.client.Create(t.Context(), f.ps))
	second := f.commit("", "v1.1.0", "two")
	f.notApplied("osp-a.yaml: ", `ProfileSource "team": remove it from one of the two sources`)

	again.Status.Profiles = nil
	f.do(f.client.Status().Update(t.Context(), again))
	f.applied("main@sha1:" + second)
	if o := f.has("v1.1.0", "two", second); o.UID != made.UID || o.Labels[api.LabelSource] != "another" {
		t.Errorf("it was replaced, or belongs to ProfileSource %q", o.Labels[api.LabelSource])
	}
}

// A profile with the name of one that operating-system-manager has built in is refused: in each user
// cluster KKP and operating-system-manager would replace each other's content.
func TestCustomProfileOfTheReference(t *testing.T) {
	f := newCustom(t)
	f.do(os.WriteFile(filepath.Join(f.dir, "osp-b.yaml"), []byte(strings.ReplaceAll(profileFile("v2.0.0", "two"), "osp-a", "osp-ubuntu")), 0o600))
	commit := f.commit("", "v1.0.0", "one")
	f.notApplied(`osp-b.yaml: operating-system-manager restores its own profile "osp-ubuntu" in every user cluster: give this profile another name`)
	f.has("v1.0.0", "one", commit)
	if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.ps.Namespace, Name: "osp-ubuntu"}, &osm.CustomOperatingSystemProfile{}); !apierrors.IsNotFound(err) {
		t.Errorf("it was written: %v", err)
	}
}

// Fields that this program does not know, as a later release of the kind can have, survive every
// update, also one that restores an edit.
func TestCustomProfileKeepsUnknownFields(t *testing.T) {
	f := newCustom(t)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(osm.GroupVersion.WithKind("CustomOperatingSystemProfile"))
	f.schema(func(properties map[string]any) {
		properties["later"] = map[string]any{"type": "object", "properties": map[string]any{"field": map[string]any{"type": "string"}}}
	}, func() bool {
		docs, err := profile.Decode("osp-a.yaml", []byte(profileFile("v1.0.0", "x")))
		f.do(err)
		probe := object.DeepCopy()
		probe.Object["spec"], err = runtime.DefaultUnstructuredConverter.ToUnstructured(&docs[0].Spec)
		f.do(err)
		probe.SetNamespace(f.ps.Namespace)
		probe.SetName("probe")
		f.do(unstructured.SetNestedField(probe.Object, "x", "spec", "later", "field"))
		f.do(f.client.Create(context.WithoutCancel(t.Context()), probe, client.DryRunAll))
		_, stored, err := unstructured.NestedString(probe.Object, "spec", "later", "field")
		f.do(err)
		return stored
	})
	f.applied("main@sha1:" + f.commit("", "v1.0.0", "one"))
	unknown := func() string {
		f.do(f.client.Get(t.Context(), client.ObjectKeyFromObject(f.custom()), object))
		value, _, err := unstructured.NestedString(object.Object, "spec", "later", "field")
		f.do(err)
		return value
	}
	f.do(f.client.Patch(t.Context(), f.custom(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"later":{"field":"theirs"}}}`))))
	if unknown() != "theirs" {
		t.Fatal("the API server does not store the field")
	}
	next := f.commit("", "v1.1.0", "two")
	f.applied("main@sha1:" + next)
	if f.has("v1.1.0", "two", next); unknown() != "theirs" {
		t.Error("a new version removed the field")
	}
	f.do(f.client.Patch(t.Context(), f.custom(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"osVersion":"26.04"}}`))))
	f.applied("main@sha1:" + next)
	if f.has("v1.1.0", "two", next); unknown() != "theirs" {
		t.Error("restoring an edit removed the field")
	}
}

// Objects that are handed over by labels are followed from their own version on.
func TestCustomProfileHandedOver(t *testing.T) {
	f := newCustom(t)
	docs, err := profile.Decode("osp-a.yaml", []byte(profileFile("v1.1.0", "theirs")))
	f.do(err)
	f.do(f.client.Create(t.Context(), &osm.CustomOperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: "osp-a", Labels: map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelProfile: "osp-a"}},
		Spec:       docs[0].Spec,
	}))
	f.commit("", "v1.0.0", "lower")
	f.notApplied("has version v1.1.0, which is higher than v1.0.0")
	f.commit("", "v1.1.0", "ours")
	f.notApplied("has other content in version v1.1.0", "give the profile a new version")
	same := f.commit("", "v1.1.1", "theirs")
	f.told()
	f.applied("main@sha1:" + same)
	f.has("v1.1.1", "theirs", same)
	if said := f.told(); strings.Contains(said, "ProfileRestored") {
		t.Errorf("a take-over counts as an edit: %s", said)
	}
}

// An object that is handed over with the content of Git gets its provenance, and nobody edited it.
func TestCustomProfileHandedOverUnchanged(t *testing.T) {
	f := newCustom(t)
	docs, err := profile.Decode("osp-a.yaml", []byte(profileFile("v1.0.0", "same")))
	f.do(err)
	f.do(f.client.Create(t.Context(), &osm.CustomOperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: "osp-a", Labels: map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelProfile: "osp-a"}},
		Spec:       docs[0].Spec,
	}))
	commit := f.commit("", "v1.0.0", "same")
	f.applied("main@sha1:" + commit)
	f.has("v1.0.0", "same", commit)
	if said := f.told(); strings.Contains(said, "ProfileRestored") {
		t.Errorf("a take-over counts as an edit: %s", said)
	}
}

// A field that the kind in the seed does not have is reported at each reconciliation, until it
// has the field.
func TestCustomProfileOfAnOlderKind(t *testing.T) {
	f := newCustom(t)
	stores := func() bool {
		docs, err := profile.Decode("osp-a.yaml", []byte(strings.Replace(profileFile("v1.0.0", "x"), "bootstrapConfig:\n", "bootstrapConfig:\n    modules: {runcmd: [ls]}\n", 1)))
		f.do(err)
		o := &osm.CustomOperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: "probe"}, Spec: docs[0].Spec}
		f.do(f.client.Create(context.WithoutCancel(t.Context()), o, client.DryRunAll))
		return o.Spec.BootstrapConfig.CloudInitModules != nil
	}
	update := f.schema(func(properties map[string]any) {
		unstructured.RemoveNestedField(properties, "bootstrapConfig", "properties", "modules")
	}, func() bool { return !stores() })
	f.do(os.WriteFile(filepath.Join(f.dir, "osp-b.yaml"), []byte(strings.NewReplacer("osp-a", "osp-b", "bootstrapConfig:\n", "bootstrapConfig:\n    modules: {runcmd: [ls]}\n").Replace(profileFile("v1.0.0", "two"))), 0o600))
	commit := f.commit("", "v1.0.0", "one")
	for range 2 {
		f.notApplied("osp-b.yaml: the API server does not store all of CustomOperatingSystemProfile " + f.ps.Namespace + "/osp-b in version v1.0.0: its CustomResourceDefinition lacks a field of the profile")
	}
	f.has("v1.0.0", "one", commit)
	update()
	f.applied("main@sha1:" + commit)
}

// schema changes the properties of spec in the kind's definition until the test ends, or until it
// calls the function. It waits until the API server serves the change, as stands reports.
func (f *following) schema(change func(properties map[string]any), stands func() bool) (restore func()) {
	f.t.Helper()
	install := func(change func(map[string]any), stands func() bool) {
		crd, err := platforms.SeedCRD()
		f.do(err)
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		f.do(err)
		properties, _, err := unstructured.NestedFieldNoCopy(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties")
		f.do(err)
		change(properties.(map[string]any))
		f.do(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
		f.do(cluster.Shared(f.t).ApplyObjects(context.WithoutCancel(f.t.Context()), crd))
		testenv.Await(f.t, 30*time.Second, "the definition is in force", func() error {
			if !stands() {
				return errors.New("the kind did not change")
			}
			return nil
		})
	}
	install(change, stands)
	restore = func() { install(func(map[string]any) {}, func() bool { return !stands() }) }
	f.t.Cleanup(restore)
	return restore
}

// A cache that is behind leads neither to a lower version nor to a failure.
func TestCustomProfileBehindTheCache(t *testing.T) {
	f := newCustom(t)
	f.applied("main@sha1:" + f.commit("", "v1.0.0", "one"))
	stale := f.custom()
	last := f.commit("", "v1.2.0", "two")
	f.applied("main@sha1:" + last)
	for name, get := range map[string]func(*osm.CustomOperatingSystemProfile) error{
		"an earlier version": func(o *osm.CustomOperatingSystemProfile) error { stale.DeepCopyInto(o); return nil },
		"no object": func(*osm.CustomOperatingSystemProfile) error {
			return apierrors.NewNotFound(osm.GroupVersion.WithResource("customoperatingsystemprofiles").GroupResource(), "osp-a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f.t = t
			before := f.custom()
			f.r.Client = interceptor.NewClient(f.client.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if o, ok := obj.(*osm.CustomOperatingSystemProfile); ok {
						return get(o)
					}
					return c.Get(ctx, key, obj, opts...)
				},
			})
			f.applied("main@sha1:" + last)
			if f.custom().ResourceVersion != before.ResourceVersion {
				t.Error("it was written")
			}
		})
	}
}

// A profile that leaves the repository, or whose ProfileSource is deleted, stays in the seed: KKP
// has copied it to clusters whose machines need it.
func TestCustomProfileStays(t *testing.T) {
	f := newCustom(t)
	f.applied("main@sha1:" + f.commit("", "v1.0.0", "one"))
	f.git("rm", "--quiet", "osp-a.yaml")
	f.git("commit", "--quiet", "--message=none")
	f.push()
	f.told()
	f.look()
	f.toldOf(`Warning ProfileRemoved profile "osp-a" is no longer in the source; CustomOperatingSystemProfile osp-a remains: delete it when no user cluster needs it`)
	f.custom()
	f.do(f.client.Delete(t.Context(), f.ps))
	if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(f.ps), f.ps); !apierrors.IsNotFound(err) {
		t.Errorf("the ProfileSource waits: %v", err)
	}
	f.custom()
}
