package pools

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// commitOf is the commit of a version in these tests.
func commitOf(version string) string {
	return strings.Repeat(strings.NewReplacer("v", "", ".", "").Replace(version)+"0", 10)
}

// offers makes ProfileSource "team" of a namespace offer osp-a: one version is current,
// others can be requested.
func (f *fixture) offers(namespace, current string, others ...string) *api.ProfileSource {
	f.t.Helper()
	minute := metav1.Duration{Duration: time.Minute}
	ps := &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "team"},
		Spec:       api.ProfileSourceSpec{Git: &api.GitSource{URL: "https://git.example.com/osps.git", Timeout: minute}, Interval: minute, RetryInterval: minute},
	}
	f.ensure(ps)
	f.status(ps, func(s *api.ProfileSourceStatus) {
		s.Profiles = []api.ProfileEntry{{
			Name: "osp-a", Version: current, Object: "osp-a-" + current, Path: "a.yaml", Commit: commitOf(current),
			SelectedBy: strings.Repeat("5", 40), Digest: profile.Digest(specOf(current)), Versions: others,
		}}
	})
	return ps
}

func (f *fixture) status(ps *api.ProfileSource, change func(*api.ProfileSourceStatus)) {
	f.t.Helper()
	must(nil, f.client.Get(f.t.Context(), client.ObjectKeyFromObject(ps), ps))
	change(&ps.Status)
	must(nil, f.client.Status().Update(f.t.Context(), ps))
}

// specOf is the spec of a version of osp-a.
func specOf(version string) osm.OperatingSystemProfileSpec {
	return osm.OperatingSystemProfileSpec{
		OSName: "ubuntu", OSVersion: "24.04", Version: version,
		SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "aws"}},
		ProvisioningConfig: osm.OSPConfig{Files: []osm.File{{Path: "/version", Permissions: 600,
			Content: osm.FileContent{Inline: &osm.FileContentInline{Data: version + " {{ .BootstrapKubeconfig }} {{ .KubeVersion }}"}}}}},
	}
}

// version makes the object of a version of osp-a, as ProfileSource "team" does.
func (f *fixture) version(namespace, version string) {
	f.t.Helper()
	spec := specOf(version)
	f.ensure(&osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "osp-a-" + version,
			Labels: map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelProfile: "osp-a", api.LabelSource: "team"},
			Annotations: map[string]string{
				api.AnnotationVersion: version, api.AnnotationCommit: commitOf(version), api.AnnotationDigest: profile.Digest(spec),
			}},
		Spec: spec,
	})
}

// ask sets annotations of the pool, "" removes one, and runs until that is done.
func (f *fixture) ask(annotations map[string]string) {
	f.t.Helper()
	must(nil, f.client.Get(f.t.Context(), client.ObjectKeyFromObject(f.pool), f.pool))
	before := f.pool.DeepCopy()
	for k, v := range annotations {
		if f.pool.Annotations[k] = v; v == "" {
			delete(f.pool.Annotations, k)
		}
	}
	must(nil, f.client.Patch(f.t.Context(), f.pool, client.MergeFrom(before)))
	for range 3 {
		f.reconcile()
	}
}

// told collects the events of the fixture.
func (f *fixture) told() *remembered {
	told := &remembered{EventRecorder: f.r.Recorder}
	f.r.Recorder = told
	return told
}

// saidLast holds the last event to what it should say, and forgets all.
func (r *remembered) saidLast(t *testing.T, parts ...string) {
	t.Helper()
	last := ""
	if len(r.told) > 0 {
		last = r.told[len(r.told)-1]
	}
	for _, part := range parts {
		if !strings.Contains(last, part) {
			t.Errorf("the last event is %q, and not %q", last, part)
		}
	}
	r.told = nil
}

func (f *fixture) osc() *osm.OperatingSystemConfig {
	f.t.Helper()
	var osc osm.OperatingSystemConfig
	must(nil, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}, &osc))
	return &osc
}

// has holds the pool to an object and who selected it.
func (f *fixture) has(when, object, selectedBy string) {
	f.t.Helper()
	rec := recordOf(f.osc())
	if rec.Object != object || rec.SelectedBy != selectedBy {
		f.t.Errorf("%s: the pool has %s, selected by %s, want %s and %s", when, rec.Object, rec.SelectedBy, object, selectedBy)
	}
	version := object[strings.LastIndex(object, "-")+1:]
	for _, stage := range []string{stageProvision, stageBootstrap} {
		if got := f.secret(userDataName(f.pool, stage)).Annotations[api.AnnotationOSPVersion]; got != version {
			f.t.Errorf("%s: the %s document is of %s, want %s", when, stage, got, version)
		}
	}
}

func TestPins(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	f.offers(f.r.Namespace, "v1.2.0", "v1.1.1", "v1.1.0", "v1.0.0")
	for _, v := range []string{"v1.2.0", "v1.1.1", "v1.1.0"} {
		f.version(f.r.Namespace, v)
	}
	pin := func(version string) { f.ask(map[string]string{api.AnnotationVersionPin: version}) }
	f.ask(map[string]string{api.AnnotationOSP: "osp-a"})
	f.has("without a pin", "osp-a-v1.2.0", strings.Repeat("5", 40))
	pin("v1.1.0")
	f.has("an earlier version", "osp-a-v1.1.0", commitOf("v1.1.0"))
	told.saidLast(t, "ConfigRotated", "v1.2.0", "v1.1.0 at commit "+commitOf("v1.1.0")[:12])
	pin("~1.1")
	f.has("a range", "osp-a-v1.1.1", commitOf("v1.1.1"))
	provisioning := f.secret(namesOf(f.pool).Provisioning)
	pin("v1.1.1")
	if again := f.secret(provisioning.Name); again.ResourceVersion != provisioning.ResourceVersion {
		t.Error("the version stays, and the document was written")
	}
	told.told = nil

	for pin, says := range map[string][]string{
		"v1.0.0": {"Waiting", `version v1.0.0 of profile "osp-a"`, "is not in the cluster yet", `ProfileSource "team" creates it`},
		"v1.1.9": {"OperatingSystemProfileError", `annotation gitops.k8c.io/osp-version: profile "osp-a" of ProfileSource "team" has no version "v1.1.9"; nearest are v1.2.0, v1.1.1, v1.1.0, v1.0.0`},
		"~2":     {"OperatingSystemProfileError", `has no version "~2"`},
		"latest": {"OperatingSystemProfileError", `annotation gitops.k8c.io/osp-version: "latest" is neither a version such as v1.8.0 nor a range`},
	} {
		f.ask(map[string]string{api.AnnotationVersionPin: pin})
		told.saidLast(t, says...)
		// A version that is created after the pool is not a reason to reject the pool.
		if refused, err := f.r.CheckRequestedProfile(t.Context(), f.pool); refused != (says[0] != "Waiting") || refused == (err == nil) {
			t.Errorf("admission of %s: refused %t, %v", pin, refused, err)
		}
		f.has("what cannot be had: "+pin, "osp-a-v1.1.1", commitOf("v1.1.1"))
	}
	pin("v1.0.0")
	f.version(f.r.Namespace, "v1.0.0")
	f.reconcile()
	f.has("the source made it", "osp-a-v1.0.0", commitOf("v1.0.0"))

	ps := f.offers(f.r.Namespace, "v1.2.0", "v1.1.1")
	f.status(ps, func(s *api.ProfileSourceStatus) { s.Profiles[0].Removed, s.Profiles[0].Versions = true, nil })
	pin("1.0.0")
	f.has("the profile was removed", "osp-a-v1.0.0", commitOf("v1.0.0"))
	told.told = nil
	pin("v1.1.1")
	told.saidLast(t, "was removed from ProfileSource")
	f.has("the profile was removed, and another version is asked for", "osp-a-v1.0.0", commitOf("v1.0.0"))

	f.ask(map[string]string{api.AnnotationOSP: "osp-hand", api.AnnotationVersionPin: "~1.0"})
	if rec := recordOf(f.osc()); rec.Object != "osp-hand" || rec.SelectedBy != "" {
		t.Errorf("an object made by hand: %+v", rec)
	}
	told.told = nil
	pin("v3.0.0")
	told.saidLast(t, "which no ProfileSource made, has version v1.0.0 and no other")
}

// A source that does not look makes no version, and says why.
func TestPinOfASuspendedSource(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	ps := f.offers(f.r.Namespace, "v1.2.0", "v1.0.0")
	ps.Spec.Suspend = true
	must(nil, f.client.Update(t.Context(), ps))
	f.ask(map[string]string{api.AnnotationOSP: "osp-a", api.AnnotationVersionPin: "v1.0.0"})
	told.saidLast(t, "Waiting", "is suspended, and creates it when spec.suspend is false")
	f.version(f.r.Namespace, "v1.0.0")
	f.reconcile()
	f.has("it is there all the same", "osp-a-v1.0.0", commitOf("v1.0.0"))
}

// security.md 24: pools can take profiles of other namespaces only if a flag of the controller
// allows it, and no longer after the flag is removed.
func TestProfilesOfOtherNamespaces(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	other := f.namespace("profiles-of-" + f.r.Namespace)
	f.offers(other, "v1.2.0", "v1.1.0", "v1.0.0")
	f.version(other, "v1.2.0")
	f.version(other, "v1.1.0")
	hand := &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "osp-elsewhere"}}
	hand.Spec = f.profile("osp-hand").Spec
	f.ensure(hand)
	ask := map[string]string{api.AnnotationOSP: "osp-a", api.AnnotationOSPNamespace: other}
	for _, allowed := range [][]string{nil, {"elsewhere"}} {
		f.r.ProfileNamespaces = allowed
		f.ask(ask)
		told.saidLast(t, "OperatingSystemProfileError", `must not take profiles from namespace "`+other+`"`, "--allow-cross-namespace-profiles="+other)
		f.r.cache.forget(f.pool)
		if err := f.client.Get(t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: namesOf(f.pool).Config}, &osm.OperatingSystemConfig{}); !apierrors.IsNotFound(err) {
			t.Errorf("a configuration was made: %v", err)
		}
	}
	for _, allowed := range [][]string{{"elsewhere", other}, {desired.AllNamespaces}} {
		f.r.ProfileNamespaces = allowed
		f.ask(ask)
		f.has("it is allowed", other+"/osp-a-v1.2.0", strings.Repeat("5", 40))
		f.ask(map[string]string{api.AnnotationVersionPin: "~1.1"})
		f.has("a version there", other+"/osp-a-v1.1.0", commitOf("v1.1.0"))
		// The source of that namespace does not see this pool, so it creates no version from its history.
		told.told = nil
		f.ask(map[string]string{api.AnnotationVersionPin: "v1.0.0"})
		told.saidLast(t, `has no version "v1.0.0"; nearest are v1.2.0, v1.1.0: `)
		f.ask(map[string]string{api.AnnotationOSP: "osp-elsewhere", api.AnnotationVersionPin: ""})
		if rec := recordOf(f.osc()); rec.Object != other+"/osp-elsewhere" {
			t.Errorf("the pool has %s", rec.Object)
		}
	}
	// The present generation is maintained as long as its profile can be read.
	if _, err := f.r.records().RestoreInput(t.Context(), f.pool, recordOf(f.osc()), render.Cluster{}); err != nil {
		t.Error(err)
	}
	f.r.ProfileNamespaces = nil
	before := f.secret(namesOf(f.pool).Provisioning)
	f.clock.Step(40 * time.Minute)
	f.ask(nil)
	told.saidLast(t, "must not take profiles from namespace", "the last good configuration remains unchanged")
	if after := f.secret(before.Name); after.ResourceVersion != before.ResourceVersion {
		t.Error("the document was written")
	}
}

// security.md 25: if two pools have objects of the same names, the first retains them, and only an
// event is written for the second.
func TestCollidingPools(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	first := f.pool.DeepCopy()
	prefix := f.namespace("b-" + f.r.Namespace)
	make := func(namespace, name string) *machines.MachineDeployment {
		md := &machines.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{api.AnnotationOSP: "osp-hand"}},
			Spec:       *first.Spec.DeepCopy(),
		}
		f.ensure(md)
		return md
	}
	f.pool = make(prefix, "a")
	f.reconcile()
	told.told = nil
	before := f.everything()
	if len(before) < 4 {
		t.Fatalf("there are %v", before)
	}
	f.pool = make(f.r.Namespace, "a-b")
	for range 2 {
		f.reconcile()
	}
	if len(told.told) != 1 {
		t.Errorf("events are %q", told.told)
	}
	told.saidLast(t, "NameCollision", "MachineDeployment "+prefix+"/a, which", "MachineDeployment "+f.r.Namespace+"/a-b", "rename one of the two")
	if after := f.everything(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	// The end of the second takes nothing from the first.
	f.delete(f.pool)
	f.reconcile()
	if after := f.everything(); after != before {
		t.Errorf("before:\n%s\nafter the end of the second:\n%s", before, after)
	}
}

// If two new pools have the same names, the older one is served, independent of the order of
// reconciliation, and of the objects that each of them got before it saw the other.
func TestNewCollidingPools(t *testing.T) {
	for name, begun := range map[string]func(f *fixture, older, younger *machines.MachineDeployment){
		"nothing is there": func(*fixture, *machines.MachineDeployment, *machines.MachineDeployment) {},
		"each has what the other lacks": func(f *fixture, older, younger *machines.MachineDeployment) {
			of := func(md *machines.MachineDeployment) map[string]string {
				return map[string]string{api.AnnotationPool: poolKey(md), api.AnnotationPoolUID: string(md.UID)}
			}
			f.ensure(nextSecret(namesOf(older).Provisioning, nil, of(older), nil))
			f.ensure(nextSecret(namesOf(younger).Inputs, nil, of(younger), nil))
			f.ensure(&osm.OperatingSystemConfig{
				ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: namesOf(younger).Config, Annotations: of(younger)},
				Spec:       osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{Name: "aws"}},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			prefix := f.namespace("b-" + f.r.Namespace)
			older, younger := f.pool.DeepCopy(), f.pool.DeepCopy()
			older.ObjectMeta = metav1.ObjectMeta{Namespace: prefix, Name: "a", Annotations: f.pool.Annotations}
			younger.ObjectMeta = metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "a-b", Annotations: f.pool.Annotations}
			f.ensure(older)
			time.Sleep(time.Second) // the resolution of creationTimestamp
			f.ensure(younger)
			begun(f, older, younger)
			told := f.told()
			for range 2 {
				for _, f.pool = range []*machines.MachineDeployment{younger, older} {
					f.reconcile()
				}
			}
			if got := lineage.PoolOf(f.secret(namesOf(older).Bootstrap)); got != poolKey(older) {
				t.Errorf("the Secret is of %q", got)
			}
			if left, err := f.r.reader().listOwned(t.Context(), f.r.reader().live(), younger); err != nil || len(left) != 0 {
				t.Errorf("the younger one has %v (err %v)", left, err)
			}
			if all := strings.Join(told.told, "\n"); !strings.Contains(all, api.EventNameCollision+": MachineDeployment "+poolKey(older)+", which is older") {
				t.Errorf("told was %q", all)
			}
		})
	}
}

// everything lists all objects that pools of the fixture's namespace can have, with their
// resourceVersions, except tokens.
func (f *fixture) everything() string {
	f.t.Helper()
	var out bytes.Buffer
	var oscs osm.OperatingSystemConfigList
	must(nil, f.client.List(f.t.Context(), &oscs, client.InNamespace(f.r.Namespace)))
	for _, o := range oscs.Items {
		out.WriteString(o.Name + " " + o.ResourceVersion + "\n")
	}
	var secrets corev1.SecretList
	must(nil, f.client.List(f.t.Context(), &secrets, client.InNamespace(api.NamespaceCloudInitSettings)))
	for _, s := range secrets.Items {
		if strings.Contains(s.Name, f.r.Namespace) {
			out.WriteString(s.Name + " " + s.ResourceVersion + "\n")
		}
	}
	return out.String()
}

// namespace makes a namespace that goes with the test.
func (f *fixture) namespace(name string) string {
	f.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	f.ensure(ns)
	f.t.Cleanup(func() { _ = f.client.Delete(f.t.Context(), ns) })
	return name
}

func (f *fixture) profile(name string) *osm.OperatingSystemProfile {
	f.t.Helper()
	var osp osm.OperatingSystemProfile
	must(nil, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: f.r.Namespace, Name: name}, &osp))
	return &osp
}

// A user who can delete and create profiles cannot make pools boot from content that is not in Git:
// an object of other content in place of a source's object is rejected.
func TestObjectThatWasReplaced(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	f.offers(f.r.Namespace, "v1.0.0")
	f.version(f.r.Namespace, "v1.0.0")
	f.ask(map[string]string{api.AnnotationOSP: "osp-a"})
	f.has("as it was made", "osp-a-v1.0.0", strings.Repeat("5", 40))

	theirs := specOf("v1.0.0")
	theirs.ProvisioningConfig.Files[0].Content.Inline.Data = "theirs"
	object := &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-a-v1.0.0"}}
	must(nil, f.client.Delete(t.Context(), object))
	must(nil, f.client.Create(t.Context(), &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-a-v1.0.0"}, Spec: theirs}))
	for range 3 {
		f.reconcile()
	}
	if strings.Contains(string(f.secret(namesOf(f.pool).Provisioning).Data[api.UserDataKey]), "theirs") {
		t.Error("machines boot from what is not in Git")
	}
	told.saidLast(t, "OperatingSystemProfileError", "osp-a-v1.0.0 is not what ProfileSource \"team\" found in its source", "delete it")

	must(nil, f.client.Delete(t.Context(), object))
	f.version(f.r.Namespace, "v1.0.0")
	f.ask(map[string]string{"a": "b"})
	f.has("as it is made again", "osp-a-v1.0.0", strings.Repeat("5", 40))
	told.saidLast(t, "ConfigHealed", "osp-a")
}

// behind is a cache that has not seen some objects yet.
type behind struct {
	client.Client
	unseen []string
}

func (b behind) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if slices.Contains(b.unseen, key.Name) {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	return b.Client.Get(ctx, key, obj, opts...)
}

// Who has a bootstrap Secret that the cache does not know of yet takes nothing back.
func TestCacheBehindTakesNothingBack(t *testing.T) {
	f := newFixture(t)
	prefix := f.namespace("b-" + f.r.Namespace)
	older, younger := f.pool.DeepCopy(), f.pool.DeepCopy()
	older.ObjectMeta = metav1.ObjectMeta{Namespace: prefix, Name: "a"}
	younger.ObjectMeta = metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "a-b", Annotations: f.pool.Annotations}
	f.ensure(older)
	time.Sleep(time.Second) // the resolution of creationTimestamp
	f.ensure(younger)
	f.pool = younger
	f.reconcile()
	before := f.versions()
	f.patch(older, `{"metadata":{"annotations":{"k8c.io/operating-system-profile":"osp-hand"}}}`)
	cache := f.r.Worker.Client
	stale := behind{cache, []string{namesOf(younger).Provisioning, namesOf(younger).Bootstrap, namesOf(younger).Config}}
	f.r.Worker.Client, f.r.Management.Client = stale, stale
	f.reconcile()
	f.r.Worker.Client, f.r.Management.Client = cache, cache
	if after := f.versions(); !slices.Equal(before, after) {
		t.Errorf("before %q, after %q", before, after)
	}
}

// The pool that yields deletes the objects that it got, even if it has the older ones: otherwise
// they would block the pool that is served.
func TestWhatIsLeftOfTheLoserIsTakenBack(t *testing.T) {
	for name, cut := range map[string][]string{
		"served":             {},
		"no bootstrap":       {stageBootstrap},
		"only configuration": {stageBootstrap, stageProvision},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			prefix := f.namespace("b-" + f.r.Namespace)
			late := f.pool.DeepCopy()
			late.ObjectMeta = metav1.ObjectMeta{Namespace: prefix, Name: "a"}
			served := f.pool.DeepCopy()
			served.ObjectMeta = metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "a-b", Annotations: f.pool.Annotations}
			f.ensure(late)
			time.Sleep(time.Second) // the resolution of creationTimestamp
			f.ensure(served)
			f.pool = served
			f.reconcile()
			for _, stage := range cut {
				f.delete(f.secret(userDataName(served, stage)))
			}
			f.patch(late, `{"metadata":{"annotations":{"k8c.io/operating-system-profile":"osp-hand"}}}`)
			f.ensure(nextSecret(namesOf(late).Inputs, nil, map[string]string{api.AnnotationPool: poolKey(late), api.AnnotationPoolUID: string(late.UID)}, nil))
			told := f.told()
			for range 2 {
				for _, f.pool = range []*machines.MachineDeployment{served, late} {
					f.reconcile()
				}
			}
			if left, err := f.r.reader().listOwned(t.Context(), f.r.reader().live(), late); err != nil || len(left) != 0 {
				t.Errorf("%s has %v (err %v)", poolKey(late), left, err)
			}
			told.told = nil
			f.pool = served
			f.reconcile()
			for _, s := range append(f.documents(), f.secret(namesOf(served).Kubeconfig)) {
				if lineage.PoolOf(s) != poolKey(served) {
					t.Errorf("%s is of %q", s.Name, lineage.PoolOf(s))
				}
			}
			if f.config(); len(told.told) > 0 {
				t.Errorf("told was %q", told.told)
			}
		})
	}
}
