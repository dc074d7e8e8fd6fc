package virtual

import (
	"context"
	runtimego "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// empty is a cluster with nothing in it, to rehearse on. Nothing can be written to it.
type empty struct{ client.Client }

func (empty) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	plural, _ := apimeta.UnsafeGuessKindToResource(obj.GetObjectKind().GroupVersionKind())
	return apierrors.NewNotFound(plural.GroupResource(), key.Name)
}

func (empty) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// onTop is a View on a cluster that has what make made in it.
func onTop(t *testing.T, objects ...client.Object) *View {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	below := NewStore(scheme, clock).NewView("c", empty{}, empty{}, nil)
	for _, obj := range objects {
		if err := below.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	return NewStore(scheme, clock).NewView("c", below, below, nil)
}

func secret(name string, more ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"name": name}}, Data: map[string][]byte{"k": []byte("v")}}
	for _, f := range more {
		f(s)
	}
	return s
}

// Every kind of read returns the writes, and the cluster below has none of them.
func TestWritesAreRead(t *testing.T) {
	v, ctx := onTop(t, secret("a"), secret("b")), t.Context()
	var a corev1.Secret
	if err := v.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "a"}, &a); err != nil {
		t.Fatal(err)
	}
	a.Data["k"] = []byte("changed")
	if err := v.Update(ctx, &a); err != nil {
		t.Fatal(err)
	}
	if err := v.Delete(ctx, secret("b")); err != nil {
		t.Fatal(err)
	}
	if err := v.Create(ctx, secret("c")); err != nil {
		t.Fatal(err)
	}
	listed := func(from client.Reader, opts ...client.ListOption) (names []string) {
		t.Helper()
		var list corev1.SecretList
		if err := from.List(ctx, &list, opts...); err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Items {
			names = append(names, s.Name+"="+string(s.Data["k"]))
		}
		slices.Sort(names)
		return names
	}
	if err := v.store.IndexField(ctx, &corev1.Secret{}, "initial", func(obj client.Object) []string { return []string{obj.GetName()[:1]} }); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want []string }{
		"all":            {listed(v), []string{"a=changed", "c=v"}},
		"live":           {listed(v.Live), []string{"a=changed", "c=v"}},
		"by label":       {listed(v, client.MatchingLabels{"name": "c"}), []string{"c=v"}},
		"by field":       {listed(v, client.MatchingFields{"initial": "a"}), []string{"a=changed"}},
		"by namespace":   {listed(v, client.InNamespace("other")), nil},
		"limited":        {listed(v, client.Limit(1)), []string{"a=changed", "c=v"}},
		"the real thing": {listed(v.from), []string{"a=v", "b=v"}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
	if err := v.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "b"}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was deleted is there (err %v)", err)
	}
	v.store.Reset()
	if got := listed(v); !slices.Equal(got, []string{"a=v", "b=v"}) {
		t.Errorf("after Reset there are %q", got)
	}
}

// Only the current state is stored after repeated writes: for ten thousand pools all
// states would be gigabytes, again each minute with --observe.
func TestOneStateIsKept(t *testing.T) {
	const size, times = 1 << 20, 24
	v, ctx := onTop(t), t.Context()
	large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "large"}}
	if err := v.Create(ctx, large); err != nil {
		t.Fatal(err)
	}
	inUse := func() int {
		runtimego.GC()
		var m runtimego.MemStats
		runtimego.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := inUse()
	for i := range times {
		large.Data = map[string]string{"k": strings.Repeat(string(rune('a'+i%26)), size)}
		if err := v.Update(ctx, large); err != nil {
			t.Fatal(err)
		}
	}
	if more := inUse() - before; more > times/4*size {
		t.Errorf("%d writes of %d bytes keep %d", times, size, more)
	}
	runtimego.KeepAlive(v)
}

// A list by a field asks the cache that knows it, and has what was written in its place.
func TestListsByField(t *testing.T) {
	v, ctx := onTop(t, secret("a"), secret("b")), t.Context()
	cached := NewStore(v.store.scheme, v.store.clock).NewView("c", v, v, nil)
	initial := func(obj client.Object) []string { return []string{obj.GetName()[:1]} }
	if err := cached.NewFieldIndexer(v.store).IndexField(ctx, &corev1.Secret{}, "initial", initial); err != nil {
		t.Fatal(err)
	}
	if err := cached.Delete(ctx, secret("a")); err != nil {
		t.Fatal(err)
	}
	if err := cached.Create(ctx, secret("b2")); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string][]string{"a": nil, "b": {"b", "b2"}} {
		var list corev1.SecretList
		if err := cached.List(ctx, &list, client.MatchingFields{"initial": value}); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range list.Items {
			names = append(names, s.Name)
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("%q lists %q, want %q", value, names, want)
		}
	}
}

// Writes that the API server rejects, and controllers rely on that, are rejected here.
func TestRefusals(t *testing.T) {
	fixed := func(s *corev1.Secret) { yes := true; s.Immutable = &yes }
	v, ctx := onTop(t, secret("a"), secret("fixed", fixed)), t.Context()
	var now corev1.Secret
	if err := v.Get(ctx, types.NamespacedName{Namespace: "ns", Name: "a"}, &now); err != nil {
		t.Fatal(err)
	}
	stale := func(s *corev1.Secret) { s.ResourceVersion = "stale" }
	other := types.UID("other")
	merge := func(body string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(body)) }
	for name, c := range map[string]struct {
		err error
		is  func(error) bool
	}{
		"a second of a name":                 {v.Create(ctx, secret("a")), apierrors.IsAlreadyExists},
		"an update of what is another":       {v.Update(ctx, secret("a", stale)), apierrors.IsConflict},
		"an update of what is not there":     {v.Update(ctx, secret("b")), apierrors.IsNotFound},
		"a patch of another version":         {v.Patch(ctx, secret("a"), merge(`{"metadata":{"resourceVersion":"stale"}}`)), apierrors.IsConflict},
		"a patch of another object":          {v.Patch(ctx, secret("a"), merge(`{"metadata":{"uid":"other"}}`)), apierrors.IsConflict},
		"data of an immutable Secret":        {v.Patch(ctx, secret("fixed"), merge(`{"data":{"k":"bmV3"}}`)), apierrors.IsInvalid},
		"a deletion of another object":       {v.Delete(ctx, secret("a"), client.Preconditions{UID: &other}), apierrors.IsConflict},
		"a deletion of what is not there":    {v.Delete(ctx, secret("b")), apierrors.IsNotFound},
		"a token for what is not there":      {v.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"}}, &authenticationv1.TokenRequest{}), apierrors.IsNotFound},
		"annotations of an immutable Secret": {v.Patch(ctx, secret("fixed"), merge(`{"metadata":{"annotations":{"a":"b"}}}`)), func(err error) bool { return err == nil }},
	} {
		if !c.is(c.err) {
			t.Errorf("%s: got %v", name, c.err)
		}
	}
	if n := v.store.WriteCount(); n != 1 {
		t.Errorf("%d writes are kept", n)
	}
}

// Status and the rest are written separately, a change of spec increases the generation,
// and an object with finalizers waits for them.
func TestParts(t *testing.T) {
	v, ctx := onTop(t, &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "osps", Finalizers: []string{api.Finalizer}}}), t.Context()
	key := types.NamespacedName{Namespace: "ns", Name: "osps"}
	get := func() *api.ProfileSource {
		t.Helper()
		var ps api.ProfileSource
		if err := v.Get(ctx, key, &ps); err != nil {
			t.Fatal(err)
		}
		return &ps
	}
	ps := get()
	before := ps.DeepCopy()
	ps.Status.Revision, ps.Spec.Suspend = "main", true
	if err := v.Status().Patch(ctx, ps, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if now := get(); now.Status.Revision != "main" || now.Spec.Suspend || now.Generation != 1 {
		t.Errorf("after the status there is %+v", now)
	}
	ps = get()
	before = ps.DeepCopy()
	ps.Status.Revision, ps.Spec.Suspend = "other", true
	if err := v.Patch(ctx, ps, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		t.Fatal(err)
	}
	if now := get(); now.Status.Revision != "main" || !now.Spec.Suspend || now.Generation != 2 || ps.ResourceVersion != now.ResourceVersion {
		t.Errorf("after the spec there is %+v", now)
	}
	if err := v.Delete(ctx, get()); err != nil {
		t.Fatal(err)
	}
	ps = get()
	if ps.DeletionTimestamp == nil {
		t.Fatal("it does not wait for its finalizer")
	}
	before = ps.DeepCopy()
	ps.Finalizers = nil
	if err := v.Patch(ctx, ps, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := v.Get(ctx, key, &api.ProfileSource{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is there (err %v)", err)
	}
}
