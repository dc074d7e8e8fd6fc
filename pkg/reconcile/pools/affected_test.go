package pools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// An object of a version starts the pools that look at objects themselves, and no others:
// at each push it would start all pools of the profile, and the inventory does so anyway.
func TestUsersOfObject(t *testing.T) {
	f := newFixture(t)
	f.start(t.TempDir())
	pool := func(name string, annotations map[string]string) {
		annotations[api.AnnotationOSP] = cmp.Or(annotations[api.AnnotationOSP], "osp-x")
		f.ensure(&machines.MachineDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: name, Annotations: annotations}, Spec: *f.pool.Spec.DeepCopy(),
		})
	}
	pool("plain", map[string]string{})
	pool("pinned", map[string]string{api.AnnotationVersionPin: "~1.0"})
	pool("by-name", map[string]string{api.AnnotationOSP: "osp-x-v1.0.0"})
	pool("lacking", map[string]string{})
	pool("having", map[string]string{})
	pool("had", map[string]string{})
	for name, version := range map[string]string{"having": "v1.0.0", "had": "v0.9.0"} {
		md := &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: name}}
		f.ensure(&osm.OperatingSystemConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: namesOf(md).Config, Annotations: map[string]string{
				api.AnnotationPool: poolKey(md), api.AnnotationProfile: "osp-x", api.AnnotationVersion: version,
			}},
			Spec: osm.OperatingSystemConfigSpec{OSName: "ubuntu", OSVersion: "24.04", CloudProvider: osm.CloudProviderSpec{Name: "aws"}},
		})
	}
	lacking := &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "lacking", UID: "u"}}
	r := &Reconciler{Management: f.r.Management, Worker: f.r.Worker, Namespace: f.r.Namespace} // no controller runs its pools
	r.cache.update(lacking, func(m *cachedPool) { m.lacks = []string{"osp-x-v1.0.0"} })

	object := &osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "osp-x-v1.0.0", UID: "1", Labels: map[string]string{api.LabelProfile: "osp-x"}},
		Spec:       osm.OperatingSystemProfileSpec{Version: "v1.0.0"},
	}
	edited := object.DeepCopy()
	edited.Annotations = map[string]string{api.AnnotationCommit: "another"}
	all := []string{"by-name", "had", "having", "lacking", "pinned", "plain"}
	h := r.poolFinder().profileObjectHandler()
	for name, c := range map[string]struct {
		happens func(handler.EventHandler, workqueue.TypedRateLimitingInterface[crreconcile.Request])
		want    []string
	}{
		"it was there before": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[crreconcile.Request]) {
			h.Create(t.Context(), event.CreateEvent{Object: object, IsInInitialList: true}, q)
		}, nil},
		"it comes": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[crreconcile.Request]) {
			h.Create(t.Context(), event.CreateEvent{Object: object}, q)
		}, []string{"by-name", "having", "lacking", "pinned"}},
		"nothing of it changes": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[crreconcile.Request]) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: object, ObjectNew: object.DeepCopy()}, q)
		}, nil},
		"it is edited": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[crreconcile.Request]) {
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: object, ObjectNew: edited}, q)
		}, all},
		"it goes": {func(h handler.EventHandler, q workqueue.TypedRateLimitingInterface[crreconcile.Request]) {
			h.Delete(t.Context(), event.DeleteEvent{Object: object}, q)
		}, []string{"by-name"}},
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Await(t, 30*time.Second, fmt.Sprintf("it starts %v", c.want), func() error { // the caches have to fill
				q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[crreconcile.Request]())
				c.happens(h, q)
				var got []string
				for q.Len() > 0 {
					req, _ := q.Get()
					got = append(got, req.Name)
				}
				q.ShutDown()
				if slices.Sort(got); !slices.Equal(got, c.want) {
					return fmt.Errorf("it starts %v", got)
				}
				return nil
			})
		})
	}
}

// A pool with a missing object runs when the object is created, even while the pool is being
// reconciled: before the cache has the object, or before the pool has recorded that it is missing.
func TestLackedObject(t *testing.T) {
	f := newFixture(t)
	told := f.told()
	f.offers(f.r.Namespace, "v1.0.0")
	f.ask(map[string]string{api.AnnotationOSP: "osp-a"})
	told.saidLast(t, "OperatingSystemProfileError", "is missing")
	object := "osp-a-v1.0.0"
	if got := f.r.cache.poolsLacking(object); !slices.Equal(got, []string{poolKey(f.pool)}) {
		t.Errorf("%s is lacked by %v", object, got)
	}
	late := &comesLate{digesting: digesting{f.client}, object: object, come: func() { f.version(f.r.Namespace, "v1.0.0") }}
	f.r.Management.Client, f.r.Management.Live = late, late
	if res := f.reconcile(); res.RequeueAfter != racedRetry {
		t.Errorf("the next look is in %s", res.RequeueAfter)
	}
	f.reconcile()
	f.has("it has come", object, "5555555555555555555555555555555555555555")
	if got := f.r.cache.poolsLacking(object); len(got) != 0 {
		t.Errorf("%s is still lacked by %v", object, got)
	}
}

// comesLate has an object come after the second look for it.
type comesLate struct {
	digesting
	object string
	looks  int
	come   func()
}

func (c *comesLate) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.digesting.Get(ctx, key, obj, opts...)
	if key.Name == c.object {
		if c.looks++; c.looks == 2 {
			c.come()
		}
	}
	return err
}
