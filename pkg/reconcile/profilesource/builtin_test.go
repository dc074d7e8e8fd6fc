package profilesource

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fluxcd/pkg/apis/meta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/builtin"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }

// builtins runs a builtin.Reconciler and a Reconciler step by step against the real API server.
type builtins struct {
	t        *testing.T
	client   client.Client
	recorder *events.FakeRecorder
	keeper   *builtin.Reconciler
	r        *Reconciler
}

func newBuiltins(t *testing.T) *builtins {
	t.Helper()
	c := cluster.Shared(t)
	b := &builtins{t: t, client: c.Client(t), recorder: events.NewFakeRecorder(100)}
	b.keeper = &builtin.Reconciler{Client: b.client, Recorder: b.recorder, Namespace: c.Namespace(t)}
	b.r = &Reconciler{Client: b.client, Live: b.client, Recorder: b.recorder, Fetcher: &fetcher.Fetcher{Client: b.client, Live: b.client}}
	b.ship("v1.0.0", "one")
	return b
}

// ship replaces the content of the binary: its only profile is osp-a.
func (b *builtins) ship(version, content string) {
	file := profileFile(version, content)
	b.r.Fetcher.Builtin = &source.Embedded{
		FS:         fstest.MapFS{"osp-a.yaml": {Data: []byte(file)}, "README.md": {Data: []byte("# no profile\n")}},
		Repository: "https://git.example.com/ours", Path: "profiles",
	}
	b.r.forget(b.keeper.Key())
}

// profileFile returns a file with profile osp-a.
func profileFile(version, content string) string { return artifactProfile("osp-a", version, content) }

func (b *builtins) keep() {
	b.t.Helper()
	if _, err := b.keeper.Reconcile(b.t.Context(), ctrl.Request{}); err != nil {
		b.t.Fatal(err)
	}
}

// sync runs the reconciler and returns the ProfileSource.
func (b *builtins) sync() *api.ProfileSource {
	b.t.Helper()
	if _, err := b.r.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: b.keeper.Key()}); err != nil {
		b.t.Fatal(err)
	}
	return b.get()
}

func (b *builtins) get() *api.ProfileSource {
	b.t.Helper()
	var ps api.ProfileSource
	if err := b.client.Get(b.t.Context(), b.keeper.Key(), &ps); err != nil {
		b.t.Fatal(err)
	}
	return &ps
}

func (b *builtins) do(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func TestBuiltInsBecomeObjects(t *testing.T) {
	b := newBuiltins(t)
	b.keep()
	ps := b.sync()
	ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionTrue || !strings.Contains(ready.Message, "applied builtin@sha256:") || !strings.HasSuffix(ready.Message, ": 1 profile") {
		t.Fatalf("Ready is %+v", ready)
	}
	if len(ps.Status.Profiles) != 1 {
		t.Fatalf("inventory is %+v", ps.Status.Profiles)
	}
	first := ps.Status.Profiles[0]
	hex := strings.TrimPrefix(first.Digest, "v1:sha256:")[:6]
	if first.Object != "osp-a-"+hex+"-v1.0.0" || first.Version != "v1.0.0" || first.Path != "profiles/osp-a.yaml" || first.Commit != "" || first.SelectedBy != "" {
		t.Errorf("the entry is %+v", first)
	}
	var osp osm.OperatingSystemProfile
	b.do(b.client.Get(t.Context(), client.ObjectKey{Namespace: ps.Namespace, Name: first.Object}, &osp))
	a := osp.Annotations
	if a[api.AnnotationRepository] != "https://git.example.com/ours" || a[api.AnnotationPath] != first.Path || a[api.AnnotationRevision] != ps.Status.Revision || a[api.AnnotationDigest] != first.Digest {
		t.Errorf("annotations are %v", a)
	}
	for _, key := range []string{api.AnnotationCommit, api.AnnotationChange, api.AnnotationAuthor, api.AnnotationCommittedAt} {
		if v, ok := a[key]; ok {
			t.Errorf("annotation %s is %q: no commit is known", key, v)
		}
	}
	osp.Spec.OSVersion = "26.04"
	if err := b.client.Update(t.Context(), &osp); !apierrors.IsInvalid(err) {
		t.Errorf("the object can be changed: %v", err)
	}

	version := ps.ResourceVersion
	if again := b.sync(); again.ResourceVersion != version {
		t.Error("a second look wrote a status")
	}
	// A developer's build can change content without changing the version. That creates
	// another object, and the one from which pools were made remains.
	b.ship("v1.0.0", "two")
	second := b.sync().Status.Profiles[0]
	if second.Object == first.Object || !strings.HasSuffix(second.Object, "-v1.0.0") {
		t.Errorf("other content is object %s, as before %s", second.Object, first.Object)
	}
	b.do(b.client.Get(t.Context(), client.ObjectKey{Namespace: ps.Namespace, Name: first.Object}, &osp))
}

// An object that the cache does not contain yet is not mistaken for other content, and an
// unreachable API server is an error, not an absent object.
func TestObjectsThatTheCacheHasNotSeen(t *testing.T) {
	b := newBuiltins(t)
	b.keep()
	object := b.sync().Status.Profiles[0].Object
	b.r.forget(b.keeper.Key())
	b.r.Client = blind{b.client}
	if ps := b.sync(); !apimeta.IsStatusConditionTrue(ps.Status.Conditions, meta.ReadyCondition) || ps.Status.Profiles[0].Object != object {
		t.Errorf("status is %+v", ps.Status)
	}
	b.r.Live = away{b.client}
	ps := b.sync()
	ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != "Failed" || !strings.Contains(ready.Message, "the API server is away") {
		t.Errorf("Ready is %+v", ready)
	}
}

// blind is a cache without OperatingSystemProfiles.
type blind struct{ client.Client }

func (b blind) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(*osm.OperatingSystemProfile); ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "operatingsystemprofiles"}, key.Name)
	}
	return b.Client.Get(ctx, key, obj, opts...)
}

// away is an API server that does not respond.
type away struct{ client.Reader }

func (away) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the API server is away")
}

func TestBuiltInsAndGitOfferTheSameProfile(t *testing.T) {
	b := newBuiltins(t)
	b.keep()
	b.sync()
	root := t.TempDir()
	file, err := b.r.Fetcher.Builtin.FS.(fstest.MapFS).ReadFile("osp-a.yaml")
	b.do(err)
	b.do(os.WriteFile(root+"/osp-a.yaml", file, 0o600))
	b.r.Fetcher.DirectoryRoot = root
	team := &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.keeper.Namespace, Name: "team"},
		Spec:       *builtin.DesiredSource(&api.ProfileSource{}).Spec.DeepCopy(),
	}
	team.Spec.Builtin, team.Spec.Directory = nil, &api.DirectorySource{Path: root}
	b.do(b.client.Create(t.Context(), team))
	_, err = b.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(team)})
	b.do(err)
	b.do(b.client.Get(t.Context(), client.ObjectKeyFromObject(team), team))
	for _, ps := range []*api.ProfileSource{team, b.sync()} {
		if !apimeta.IsStatusConditionTrue(ps.Status.Conditions, meta.ReadyCondition) || len(ps.Status.Profiles) != 1 || ps.Status.Profiles[0].Removed {
			t.Errorf("%s complains: %+v", ps.Name, ps.Status)
		}
	}
}

func TestOnlyTheKeptSourceIsBuiltIn(t *testing.T) {
	b := newBuiltins(t)
	other := builtin.DesiredSource(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: b.keeper.Namespace, Name: "mine"}})
	b.do(b.client.Create(t.Context(), other))
	refused := func(ps *api.ProfileSource, reason, part string) {
		t.Helper()
		_, err := b.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(ps)})
		b.do(err)
		b.do(b.client.Get(t.Context(), client.ObjectKeyFromObject(ps), ps))
		ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason || !strings.Contains(ready.Message, part) {
			t.Errorf("Ready is %+v, want %s with %q", ready, reason, part)
		}
	}
	refused(other, api.ReasonSourceInvalid, api.DefaultsName)
	b.r.Fetcher.Builtin = nil
	b.keep()
	refused(b.get(), api.ReasonAccessDenied, "--disable-default-osps")
}

func TestKeeper(t *testing.T) {
	b := newBuiltins(t)
	b.keep()
	made := b.get()
	b.keep()
	if again := b.get(); again.ResourceVersion != made.ResourceVersion {
		t.Error("what is as it has to be was written")
	}
	for what, change := range map[string]func(ps *api.ProfileSource){
		"the path":     func(ps *api.ProfileSource) { ps.Spec.Path = "other" },
		"the interval": func(ps *api.ProfileSource) { ps.Spec.Interval.Duration *= 2 },
		"the kind": func(ps *api.ProfileSource) {
			ps.Spec.Builtin, ps.Spec.Directory = nil, &api.DirectorySource{Path: "/x"}
		},
		"the label": func(ps *api.ProfileSource) { ps.Labels = nil },
	} {
		ps := b.get()
		change(ps)
		b.do(b.client.Update(t.Context(), ps))
		b.keep()
		now := b.get()
		if now.UID != made.UID || now.Spec.Path != "" || now.Spec.Interval != made.Spec.Interval || now.Spec.Builtin == nil || now.Spec.Directory != nil || !builtin.Managed(now) {
			t.Errorf("%s was not put back: %v %+v", what, now.Labels, now.Spec)
		}
	}

	ps := b.get()
	ps.Spec.Suspend, ps.Annotations = true, map[string]string{"theirs": "stays"}
	b.do(b.client.Update(t.Context(), ps))
	b.keep()
	if now := b.get(); !now.Spec.Suspend || now.Annotations["theirs"] != "stays" {
		t.Errorf("what people may say was put back: %+v", now)
	}

	b.do(b.client.Delete(t.Context(), ps))
	b.keep()
	if now := b.get(); now.UID == made.UID || now.Spec.Suspend {
		t.Error("it was not made again")
	}

	b.keeper.Disabled = true
	for range 2 {
		b.keep()
		if err := b.client.Get(t.Context(), b.keeper.Key(), &api.ProfileSource{}); !apierrors.IsNotFound(err) {
			t.Errorf("it is still there (err %v)", err)
		}
	}
}

// A ProfileSource of a user that has the reserved name, but not our label, is not changed.
func TestKeeperLeavesWhatIsNotOurs(t *testing.T) {
	b := newBuiltins(t)
	theirs := builtin.DesiredSource(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: b.keeper.Namespace, Name: api.DefaultsName}})
	theirs.Labels = nil
	theirs.Spec.Builtin, theirs.Spec.Directory = nil, &api.DirectorySource{Path: "/x"}
	b.do(b.client.Create(t.Context(), theirs))
	for _, disabled := range []bool{false, true} {
		b.keeper.Disabled = disabled
		b.keep()
		if now := b.get(); now.UID != theirs.UID || now.ResourceVersion != theirs.ResourceVersion {
			t.Errorf("disabled %v: it was touched", disabled)
		}
	}
	var said []string
	for len(b.recorder.Events) > 0 {
		said = append(said, <-b.recorder.Events)
	}
	if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "give this ProfileSource another name") }) {
		t.Errorf("nobody was told: %q", said)
	}
}
