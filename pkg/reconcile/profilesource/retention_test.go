package profilesource

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/retention"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// withPools gives the reconciler the pools of its namespace.
func (f *following) withPools() {
	f.t.Helper()
	scheme, err := cluster.Scheme()
	f.do(err)
	pools, err := cache.New(cluster.Shared(f.t).Config, cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{f.ps.Namespace: {}}})
	f.do(err)
	f.pools = retention.NewPools(f.ps.Namespace)
	f.do(f.pools.UseCache(f.t.Context(), pools))
	f.restart()
	go func() { _ = pools.Start(f.t.Context()) }()
	if !pools.WaitForCacheSync(f.t.Context()) {
		f.t.Fatal("the cache of pools does not fill")
	}
}

// pool creates a pool of osp-a that requests a version, and waits until the cache has it.
func (f *following) pool(name, pin string) *machines.MachineDeployment {
	f.t.Helper()
	md := &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: name, Annotations: map[string]string{api.AnnotationOSP: "osp-a"}}}
	if pin != "" {
		md.Annotations[api.AnnotationVersionPin] = pin
	}
	f.do(f.client.Create(f.t.Context(), md))
	f.known(md)
	return md
}

// known waits until the cache has the current state of a pool.
func (f *following) known(md *machines.MachineDeployment) {
	f.t.Helper()
	testenv.Await(f.t, 30*time.Second, "the cache has the state of pool "+md.Name, func() error {
		var there machines.MachineDeployment
		err := f.pools.Reader().Get(f.t.Context(), client.ObjectKeyFromObject(md), &there)
		if apierrors.IsNotFound(err) && md.ResourceVersion == "" {
			return nil
		}
		if err == nil && (there.ResourceVersion != md.ResourceVersion || md.ResourceVersion == "") {
			return fmt.Errorf("it has version %q, not %q", there.ResourceVersion, md.ResourceVersion)
		}
		return err
	})
}

// config creates the configuration of a pool that uses a version of osp-a.
func (f *following) config(pool, version string) *osm.OperatingSystemConfig {
	f.t.Helper()
	osc := &osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: pool, Annotations: map[string]string{api.AnnotationProfile: "osp-a", api.AnnotationVersion: version}},
		Spec:       osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{Name: "aws"}},
	}
	f.do(f.client.Create(f.t.Context(), osc))
	return osc
}

// objects returns the names of the objects of osp-a.
func (f *following) objects() []string {
	f.t.Helper()
	return objectsIn(f.t, f.client, f.ps.Namespace)
}

func objectsIn(t *testing.T, c client.Client, namespace string) []string {
	t.Helper()
	var list osm.OperatingSystemProfileList
	if err := c.List(t.Context(), &list, client.InNamespace(namespace), client.MatchingLabels{api.LabelProfile: "osp-a"}); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range list.Items {
		out = append(out, o.Name)
	}
	slices.Sort(out)
	return out
}

func (f *following) wantObjects(when string, versions ...string) {
	f.t.Helper()
	var want []string
	for _, v := range versions {
		want = append(want, "osp-a-"+v)
	}
	slices.Sort(want)
	if got := f.objects(); !slices.Equal(got, want) {
		f.t.Errorf("%s: the objects are %v, want %v", when, got, want)
	}
}

// change changes the spec of the source, without a commit.
func (f *following) change(change func(spec *api.ProfileSourceSpec)) {
	f.t.Helper()
	change(&f.ps.Spec)
	f.do(f.client.Update(f.t.Context(), f.ps))
}

// A new cluster gets the newest earlier versions, and all that pools request.
func TestEarlierVersions(t *testing.T) {
	f := newFollowing(t, nil)
	f.withPools()
	commits := map[string]string{}
	var all []string
	for i := range 14 {
		v := fmt.Sprintf("v1.%d.0", i)
		commits[v] = f.commit("", v, v)
		all = append(all, v)
	}
	head := commits["v1.13.0"]
	f.applied("main@sha1:" + head)
	f.wantObjects("the first look", all[3:]...)
	f.toldOf("10 earlier versions are in the cluster: osp-a v1.12.0, osp-a v1.11.0")
	entry := f.ps.Status.Profiles[0]
	slices.Reverse(all)
	if entry.Version != "v1.13.0" || !slices.Equal(entry.Versions, all[1:]) {
		t.Errorf("the inventory offers %s and %v", entry.Version, entry.Versions)
	}
	if a := f.object("osp-a-v1.4.0").Annotations; a[api.AnnotationCommit] != commits["v1.4.0"] || a[api.AnnotationChange] != commits["v1.4.0"] || a[api.AnnotationAuthor] != "Ada <ada@example.com>" || a[api.AnnotationSubject] != "v1.4.0" {
		t.Errorf("v1.4.0 comes with %v", a)
	}
	version := f.ps.ResourceVersion
	if f.look(); f.ps.ResourceVersion != version || f.told() != "" {
		t.Error("a second look wrote a status, or told something")
	}

	f.pool("exact", "v1.0.0")
	f.pool("range", ">=1.0.0 <1.3.0")
	f.pool("current", "1.x")
	f.pool("wrong", "latest")
	f.look()
	f.wantObjects("pools ask for versions", append([]string{"v1.0.0", "v1.2.0"}, all[:11]...)...)
	if got := f.object("osp-a-v1.0.0").Annotations[api.AnnotationCommit]; got != commits["v1.0.0"] {
		t.Errorf("v1.0.0 is of commit %s, want %s", got, commits["v1.0.0"])
	}
	uid := f.object("osp-a-v1.0.0").UID

	// A user deletes the object of a version that a pool requests.
	f.do(f.client.Delete(t.Context(), f.object("osp-a-v1.0.0")))
	f.look()
	if again := f.object("osp-a-v1.0.0"); again.UID == uid || again.Annotations[api.AnnotationCommit] != commits["v1.0.0"] {
		t.Errorf("v1.0.0 is of %v", again.Annotations)
	}

	// All versions in the tree exist as objects, independent of the limit.
	f.change(func(spec *api.ProfileSourceSpec) { spec.HistoryLimit = new(int32) })
	f.do(os.WriteFile(filepath.Join(f.dir, "old.yaml"), []byte(profileFile("v1.1.0", "v1.1.0")), 0o600))
	f.applied("main@sha1:" + f.commit("", "v1.14.0", "new"))
	f.wantObjects("the tree has two", "v1.14.0", "v1.1.0", "v1.0.0", "v1.2.0")
	f.toldOf("versions are deleted, to which nothing refers: ", "osp-a v1.3.0")
}

// A revert makes an earlier version and its object current again.
func TestRollbackByRevert(t *testing.T) {
	f := newFollowing(t, nil)
	first := f.commit("", "v1.0.0", "one")
	f.applied("main@sha1:" + first)
	second := f.commit("", "v1.1.0", "two")
	f.applied("main@sha1:" + second)
	uids := map[string]any{"v1.0.0": f.object("osp-a-v1.0.0").UID, "v1.1.0": f.object("osp-a-v1.1.0").UID}
	for i, version := range []string{"v1.0.0", "v1.1.0", "v1.0.0"} {
		f.git("revert", "--no-edit", "HEAD")
		f.push()
		if i == 2 {
			f.restart() // by a new process, which has no mirror
		}
		head := f.git("rev-parse", "HEAD")
		f.applied("main@sha1:" + head)
		e := f.ps.Status.Profiles[0]
		if e.Version != version || e.Object != "osp-a-"+version || e.SelectedBy != head || e.Commit != map[string]string{"v1.0.0": first, "v1.1.0": second}[version] {
			t.Errorf("revert %d: current is %+v", i, e)
		}
		if o := f.object(e.Object); o.UID != uids[version] || o.Generation != 1 {
			t.Errorf("revert %d: another object, or a changed one", i)
		}
	}
	f.wantObjects("after three reverts", "v1.0.0", "v1.1.0")
}

// If signatures are required, only signed versions of the history become objects.
func TestEarlierVersionsAreSigned(t *testing.T) {
	f := newFollowing(t, func(git *api.GitSource) {
		verified("HEAD")(git)
		git.Verify.Paths = []api.PathPrincipals{{Glob: "*.yaml", Principals: []string{"ada@example.com"}}}
	})
	f.withPools()
	ada, adaLine := f.key("ada@example.com")
	ben, benLine := f.key("ben@example.com")
	eve, _ := f.key("eve@example.com")
	f.secret(adaLine + benLine)
	f.commit("", "v1.0.0", "unsigned")
	f.commit(eve, "v1.1.0", "of a stranger")
	f.commit(ben, "v1.2.0", "of who may not")
	f.commit(ada, "v1.3.0", "good")
	head := f.commit(ada, "v1.4.0", "current")
	f.pool("unsigned", "v1.0.0")
	f.applied("main@sha1:" + head)
	f.wantObjects("the first look", "v1.3.0", "v1.4.0")
	if got := f.ps.Status.Profiles[0].Versions; !slices.Equal(got, []string{"v1.3.0"}) {
		t.Errorf("the inventory offers %v", got)
	}
	if got := f.object("osp-a-v1.3.0").Annotations[api.AnnotationSignature]; !strings.Contains(got, "by ada@example.com") {
		t.Errorf("v1.3.0 was signed %q", got)
	}
	f.toldOf("Warning ProfileSkipped 3 versions of the history", "osp-a v1.0.0 (its commit", "is not signed", "osp-a v1.2.0", "only by ada@example.com")
	if f.look(); f.told() != "" {
		t.Error("it was told twice")
	}
}

// An earlier version that is invalid by today's rules is skipped, and the source is ready.
func TestUnreadablePast(t *testing.T) {
	f := newFollowing(t, nil)
	f.do(os.WriteFile(filepath.Join(f.dir, "osp-b.yaml"), []byte(strings.Replace(profileFile("v0.1.0", "x"), "osVersion", "formerField", 1)), 0o600))
	f.commit("", "v1.0.0", "one")
	f.do(os.Remove(filepath.Join(f.dir, "osp-b.yaml")))
	f.applied("main@sha1:" + f.commit("", "v1.1.0", "two"))
	f.toldOf("Warning ProfileSkipped 1 version of the history cannot be used by pools: osp-a v0.1.0", "osp-b.yaml:6", "formerField")
	f.wantObjects("the first look", "v1.0.0", "v1.1.0")
	if f.look(); f.told() != "" {
		t.Error("it was told twice")
	}
}

// record returns the archived record of a pool that had a version of osp-a.
func record(namespace, version string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "record-", Labels: map[string]string{
			api.LabelManagedBy: api.FieldManager, api.LabelProfile: "osp-a", api.LabelVersion: version,
		}},
		Data: runtime.RawExtension{Raw: []byte(`{}`)},
	}
}

func TestPruning(t *testing.T) {
	f := newFollowing(t, nil)
	f.withPools()
	f.change(func(spec *api.ProfileSourceSpec) {
		spec.HistoryLimit, spec.Prune = new(int32), new(bool)
		*spec.HistoryLimit = 1
	})
	for _, v := range []string{"v1.0.0", "v1.1.0", "v1.2.0", "v1.3.0", "v1.4.0", "v1.5.0"} {
		f.applied("main@sha1:" + f.commit("", v, v))
	}
	f.wantObjects("prune is off", "v1.0.0", "v1.1.0", "v1.2.0", "v1.3.0", "v1.4.0", "v1.5.0")
	osc := f.config("pool-of-v1.0.0", "v1.0.0")
	pool := f.pool("pinned", "~1.1.0")
	archived, second := record(f.ps.Namespace, "v1.2.0"), record(f.ps.Namespace, "v1.3.0")
	f.do(f.client.Create(t.Context(), archived))
	f.do(f.client.Create(t.Context(), second))
	f.change(func(spec *api.ProfileSourceSpec) { *spec.Prune = true })
	f.told()
	f.look()
	f.wantObjects("all is referred to", "v1.0.0", "v1.1.0", "v1.2.0", "v1.3.0", "v1.4.0", "v1.5.0")

	f.do(f.client.Delete(t.Context(), second))
	f.restart() // a record counts as existing for an hour after it was seen
	f.look()
	f.wantObjects("one record less", "v1.0.0", "v1.1.0", "v1.2.0", "v1.4.0", "v1.5.0")
	f.toldOf("Normal ProfilePruned 1 version is deleted, to which nothing refers: osp-a v1.3.0")
	f.do(f.client.Delete(t.Context(), osc))
	f.do(f.client.Delete(t.Context(), pool))
	pool.ResourceVersion = ""
	f.known(pool)
	f.do(f.client.Delete(t.Context(), archived))
	f.look()
	f.wantObjects("within the hour", "v1.2.0", "v1.4.0", "v1.5.0")
	f.r.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	f.look()
	f.wantObjects("nothing refers to any", "v1.4.0", "v1.5.0")

	// A pool can name an object directly.
	f.change(func(spec *api.ProfileSourceSpec) { *spec.HistoryLimit = 0 })
	direct := f.config("direct", "v1.4.0")
	direct.Annotations[api.AnnotationProfile] = "osp-a-v1.4.0"
	f.do(f.client.Update(t.Context(), direct))
	f.look()
	f.wantObjects("an object is named itself", "v1.4.0", "v1.5.0")
	f.do(f.client.Delete(t.Context(), direct))
	byName := record(f.ps.Namespace, "v1.4.0")
	byName.Labels[api.LabelProfile] = "osp-a-v1.4.0"
	f.do(f.client.Create(t.Context(), byName))
	f.look()
	f.wantObjects("a record names the object", "v1.4.0", "v1.5.0")

	// A pool began to use this version just before it was deleted.
	f.config("late", "v1.0.0")
	f.look()
	f.wantObjects("somebody has it after all", "v1.0.0", "v1.4.0", "v1.5.0")
	version := f.ps.ResourceVersion
	f.told()
	if f.look(); f.ps.ResourceVersion != version || f.told() != "" {
		t.Error("a second look wrote a status, or told something")
	}
}

// If the source has no history, an object that was deleted too early is still recreated.
func TestPruningWithoutHistory(t *testing.T) {
	b := newBuiltins(t)
	b.keep()
	b.sync()
	b.ship("v1.1.0", "two")
	b.sync()
	b.ship("v1.2.0", "three")
	ps := b.sync()
	before := objectsIn(t, b.client, ps.Namespace)
	if len(before) != 3 || !slices.Equal(ps.Status.Profiles[0].Versions, []string{"v1.1.0", "v1.0.0"}) {
		t.Fatalf("there are %v, on offer %v", before, ps.Status.Profiles[0].Versions)
	}
	ps.Spec.HistoryLimit = new(int32)
	*ps.Spec.HistoryLimit = 1
	b.do(b.client.Update(t.Context(), ps))
	b.sync()
	if got := objectsIn(t, b.client, ps.Namespace); len(got) != 2 || !strings.HasSuffix(got[0]+got[1], "v1.2.0") && !strings.HasSuffix(got[0], "v1.2.0") {
		t.Errorf("there are %v", got)
	}
	osc := &osm.OperatingSystemConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: ps.Namespace, Name: "late", Annotations: map[string]string{api.AnnotationProfile: "osp-a", api.AnnotationVersion: "v1.0.0"}},
		Spec:       osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{Name: "aws"}},
	}
	b.do(b.client.Create(t.Context(), osc))
	b.sync()
	if got := objectsIn(t, b.client, ps.Namespace); !slices.Equal(got, before) {
		t.Errorf("there are %v, want %v", got, before)
	}
}

// A profile that left the source remains until no pool uses or names it.
func TestRemovedProfile(t *testing.T) {
	f := newFollowing(t, nil)
	f.withPools()
	f.commit("", "v1.0.0", "one")
	f.applied("main@sha1:" + f.commit("", "v1.1.0", "two"))
	pool, osc := f.pool("user", ""), f.config("user", "v1.1.0")
	f.git("rm", "-q", "osp-a.yaml")
	f.git("commit", "--quiet", "--message=gone")
	f.push()
	head := "main@sha1:" + f.git("rev-parse", "HEAD")
	f.told()
	f.applied(head)
	f.toldOf("Warning ProfileRemoved", "pools with v1.1.0 retain it", "osp-a v1.0.0")
	f.applied(head)
	if e := f.ps.Status.Profiles; len(e) != 1 || !e[0].Removed || e[0].Object != "osp-a-v1.1.0" || len(e[0].Versions) != 0 {
		t.Errorf("the inventory is %+v", e)
	}
	f.wantObjects("in use", "v1.1.0")
	f.do(f.client.Delete(t.Context(), osc)) // by a rotation, or with the end of the pool
	f.applied(head)
	if e := f.ps.Status.Profiles; len(e) != 1 {
		t.Errorf("a pool names it, and the inventory is %+v", e)
	}
	f.wantObjects("a pool names it", "v1.1.0")
	f.do(f.client.Delete(t.Context(), pool))
	pool.ResourceVersion = ""
	f.known(pool)
	f.applied(head)
	if e := f.ps.Status.Profiles; len(e) != 0 {
		t.Errorf("nobody names it, and the inventory is %+v", e)
	}
	f.wantObjects("nobody has it")
}

// Objects without references are deleted with their source. The others are named in an
// event, and belong to the next source that offers the profile.
func TestDeletedSource(t *testing.T) {
	f := newFollowing(t, nil)
	f.withPools()
	for _, v := range []string{"v1.0.0", "v1.1.0", "v1.2.0"} {
		f.applied("main@sha1:" + f.commit("", v, v))
	}
	if !slices.Contains(f.ps.Finalizers, api.Finalizer) {
		t.Errorf("the finalizers are %v", f.ps.Finalizers)
	}
	osc := f.config("pool", "v1.1.0")
	f.do(f.client.Create(t.Context(), record(f.ps.Namespace, "v1.0.0")))
	f.do(f.client.Delete(t.Context(), f.ps))
	f.told()
	key := client.ObjectKeyFromObject(f.ps)
	for range 2 { // the second time there is nothing to do
		_, err := f.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		f.do(err)
	}
	if err := f.client.Get(t.Context(), key, &api.ProfileSource{}); !apierrors.IsNotFound(err) {
		t.Errorf("the source is there: %v", err)
	}
	f.wantObjects("the source is gone", "v1.0.0", "v1.1.0")
	if said := f.told(); strings.Count(said, "ProfilesLeft") != 1 || !strings.Contains(said, "2 versions are left") || !strings.Contains(said, ": osp-a-v1.0.0, osp-a-v1.1.0") {
		t.Errorf("told was %q", said)
	}

	f.ps = &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: f.ps.Namespace, Name: "next"}, Spec: f.ps.Spec}
	f.ps.Spec.HistoryLimit = new(int32)
	f.do(f.client.Create(t.Context(), f.ps))
	f.look()
	f.wantObjects("another source has them", "v1.0.0", "v1.1.0", "v1.2.0")
	f.do(f.client.Delete(t.Context(), osc))
	f.look()
	f.wantObjects("nobody has v1.1.0", "v1.0.0", "v1.2.0")
}
