package pools

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// A user can remove annotation and finalizer in one update: no object of the pool remains after
// that, including objects that are not in the cache yet.
func TestReleaseWithoutFinalizer(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.reconcile()
	var before, after machines.MachineDeployment
	must(nil, f.client.Get(t.Context(), client.ObjectKeyFromObject(f.pool), &before))
	f.patch(before.DeepCopy(), `{"metadata":{"finalizers":null,"annotations":null}}`)
	must(nil, f.client.Get(t.Context(), client.ObjectKeyFromObject(f.pool), &after))
	if !concerned.Update(event.UpdateEvent{ObjectOld: &before, ObjectNew: &after}) {
		t.Error("the update starts nothing")
	}
	if concerned.Update(event.UpdateEvent{ObjectOld: &after, ObjectNew: &after}) {
		t.Error("what was never a pool starts a run")
	}
	f.r.Worker.Client = withoutRoles{digesting{f.client}}
	f.reconcile()
	f.r.Worker.Client = digesting{f.client}
	have, err := f.r.reader().objects(t.Context(), f.r.reader().live(), f.pool)
	if err != nil || len(have.listExisting()) != 0 || len(f.tokens(t.Context())) != 0 {
		t.Errorf("left are %v and %d tokens (err %v)", have.listExisting(), len(f.tokens(t.Context())), err)
	}
	if n := len(f.r.cache.of); n != 0 {
		t.Errorf("%d pools are remembered", n)
	}
}

// A list of finalizers is written whole: those of others stay, also one that came after
// ours was decided on.
func TestFinalizersOfOthersStay(t *testing.T) {
	f := newFixture(t)
	var stale, now machines.MachineDeployment
	must(nil, f.client.Get(t.Context(), client.ObjectKeyFromObject(f.pool), &stale))
	f.patch(stale.DeepCopy(), `{"metadata":{"finalizers":["example.com/other"]}}`)
	defer f.patch(f.pool.DeepCopy(), `{"metadata":{"finalizers":null}}`)
	has := func(want ...string) {
		t.Helper()
		must(nil, f.client.Get(t.Context(), client.ObjectKeyFromObject(f.pool), &now))
		if !slices.Equal(now.Finalizers, want) {
			t.Errorf("the finalizers are %q, want %q", now.Finalizers, want)
		}
	}
	if err := f.r.newWriter().ensureFinalizer(t.Context(), &stale); !errors.Is(err, fault.ErrRaced) {
		t.Errorf("what was read before the other came is written (err %v)", err)
	}
	has("example.com/other")
	must(nil, f.r.newWriter().ensureFinalizer(t.Context(), &now))
	has("example.com/other", api.FinalizerPool)
	stale = *now.DeepCopy()
	stale.Finalizers = []string{api.FinalizerPool} // as if the other had not come yet
	f.patch(now.DeepCopy(), `{"metadata":{"annotations":{"example.com/a":"b"}}}`)
	if err := f.r.newWriter().deletePoolObjects(t.Context(), &stale); !errors.Is(err, fault.ErrRaced) {
		t.Errorf("what was read before is released (err %v)", err)
	}
	has("example.com/other", api.FinalizerPool)
	must(nil, f.r.newWriter().deletePoolObjects(t.Context(), &now))
	has("example.com/other")
}

// withoutRoles is a cache that has not seen the Role of a pool yet.
type withoutRoles struct{ digesting }

func (w withoutRoles) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	switch obj.(type) {
	case *rbacv1.Role, *rbacv1.RoleBinding:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "roles"}, key.Name)
	}
	return w.digesting.Get(ctx, key, obj, opts...)
}

// The cached state of a deleted pool is dropped, and is not used for the next pool of the same name.
func TestForgottenPools(t *testing.T) {
	f := newFixture(t)
	f.r.NodeTokenTTL = testTokenTTL
	told := f.told()
	f.reconcile()
	f.ask(map[string]string{api.AnnotationOSP: "none"})
	told.saidLast(t, `offers a profile "none"`)
	if got := f.r.cache.get(f.pool); got.reported == "" || got.nodeToken.Value == "" {
		t.Fatalf("remembered is %+v", got)
	}
	next := f.pool.DeepCopy()
	next.UID = "another"
	if got := f.r.cache.get(next); got.reported != "" || got.nodeToken.Value != "" {
		t.Error("the next pool of the name is taken for the one before")
	}
	f.delete(f.pool)
	f.reconcile()
	f.reconcile() // it is deleted
	if n := len(f.r.cache.of); n != 0 {
		t.Errorf("%d pools are remembered", n)
	}
}

// takeNames gives the names of the record of the pool's configuration to other objects.
func (f *fixture) takeNames() []*appsv1.ControllerRevision {
	f.t.Helper()
	var out []*appsv1.ControllerRevision
	for _, name := range lineage.RecordNames(keyOf(f.pool), recordOf(f.config()).Digests.Input) {
		other := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: name}, Data: runtime.RawExtension{Raw: []byte(`{"a":1}`)}}
		f.ensure(other)
		out = append(out, other)
	}
	return out
}

// If both names of a record are taken, an event reports it, the existing generation is maintained,
// and the pool continues when they are free. Meanwhile the controller does not retry in a loop.
func TestNamesOfARecordAreTaken(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	told := f.told()
	f.reconcile()
	others := f.takeNames()
	first := f.config()
	f.spoil("two, Bearer {{ .Token }}")
	f.reconcile()
	res := f.reconcile()
	told.saidLast(t, api.EventNameCollision, "delete those", others[0].Name, others[1].Name)
	if res.RequeueAfter < time.Second || res.RequeueAfter > time.Minute {
		t.Errorf("the next look is in %s", res.RequeueAfter)
	}
	if f.config().UID != first.UID {
		t.Error("the configuration was replaced, and its record is nowhere")
	}
	token := f.carried(stageBootstrap)
	f.pass(13 * time.Hour)
	for range 3 {
		f.reconcile()
	}
	if f.carried(stageBootstrap) == token || f.carried(stageProvision) == token {
		t.Error("the token was not renewed")
	}
	for _, other := range others {
		f.delete(other)
	}
	f.pass(rejectedRetryMax)
	f.reconcile()
	if got := string(f.secret(namesOf(f.pool).Bootstrap).Data[api.UserDataKey]); !strings.Contains(got, "two, ") {
		t.Errorf("the document is the old one:\n%s", got)
	}
}

// Names of a record that are taken do not prevent the release of a pool.
func TestNamesOfARecordAreTakenAtTheEnd(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	f.reconcile()
	others := f.takeNames()
	f.delete(f.pool)
	f.reconcile()
	told.saidLast(t, api.EventNameCollision, others[1].Name, "The record is deleted with the pool")
	if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(f.pool), &machines.MachineDeployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pool is still there (err %v)", err)
	}
	if left, err := f.r.reader().listOwned(t.Context(), f.r.reader().live(), f.pool); err != nil || len(left) != 0 {
		t.Errorf("left are %v (err %v)", left, err)
	}
}

// A finalizer that cannot be set and a profile that does not exist are both reported.
func TestUnheldAndRefused(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	f.patch(f.pool, `{"metadata":{"annotations":{"k8c.io/operating-system-profile":"none"}}}`)
	f.r.Worker.Client = refusing{digesting{f.client}, func(obj client.Object) bool { _, ok := obj.(*machines.MachineDeployment); return ok }}
	for range 2 {
		if _, err := f.r.Reconcile(t.Context(), requestFor(poolKey(f.pool))[0]); !apierrors.IsForbidden(err) {
			t.Errorf("it does not try again: %v", err)
		}
	}
	if len(told.told) != 1 {
		t.Errorf("told was %q", told.told)
	}
	told.saidLast(t, "OperatingSystemProfileError", `offers a profile "none"`, "its finalizer cannot be set", "cut off")
}

// refusing is an API server that forbids to write some objects.
type refusing struct {
	digesting
	refuses func(client.Object) bool
}

func (r refusing) forbid(obj client.Object, do func() error) error {
	if r.refuses(obj) {
		return apierrors.NewForbidden(schema.GroupResource{}, obj.GetName(), errCutOff)
	}
	return do()
}

func (r refusing) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return r.forbid(obj, func() error { return r.digesting.Create(ctx, obj, opts...) })
}

func (r refusing) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return r.forbid(obj, func() error { return r.digesting.Patch(ctx, obj, patch, opts...) })
}

// A missing namespace is not a race: an event reports it, and the pool is retried now and then.
func TestMissingNamespaceIsNoRace(t *testing.T) {
	f := newFixture(t)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "none-" + f.r.Namespace, Name: "s"}}
	err := f.r.newWriter().writeSecret(t.Context(), s)
	told := f.told()
	res, failed := f.r.newReporter().report(f.pool, plan{}, nil, err)
	if failed != nil || res.RequeueAfter < waitRetry {
		t.Errorf("the next look is in %s (err %v)", res.RequeueAfter, failed)
	}
	told.saidLast(t, api.EventWaiting, `namespaces "`+s.Namespace+`" not found: create what is missing`)
}

// A token that the API server does not give is asked for again.
func TestTokenIsNotGiven(t *testing.T) {
	f := newBoundFixture(t, "hetzner")
	f.r.Worker.Client = noTokens{digesting{f.client}}
	if _, err := f.r.Reconcile(t.Context(), requestFor(poolKey(f.pool))[0]); !errors.Is(err, errCutOff) {
		t.Errorf("it is not asked for again: %v", err)
	}
	f.r.Worker.Client = digesting{f.client}
	f.reconcile()
	f.carried(stageBootstrap)
}

// noTokens is an API server that gives no tokens.
type noTokens struct{ digesting }

func (n noTokens) SubResource(string) client.SubResourceClient { return noToken{} }

type noToken struct{ client.SubResourceClient }

func (noToken) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	return errCutOff
}
