package pools

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// ownFixture writes an object of a pool as a run does, and hands watch events to the handler that
// Setup registers.
type ownFixture struct {
	*fixture
	writes recordingClient
	watch  ownedObjectHandler
	queue  workqueue.TypedRateLimitingInterface[crreconcile.Request]
	object *corev1.Secret
}

func newOwnFixture(t *testing.T) *ownFixture {
	f := &ownFixture{fixture: newFixture(t)}
	f.writes = recordingClient{f.client, &f.r.ownWrites}
	f.watch = ownedObjectHandler{&f.r.ownWrites, f.client}
	f.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[crreconcile.Request]())
	t.Cleanup(f.queue.ShutDown)
	f.object = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.r.Namespace, Name: "made", Annotations: map[string]string{
		api.AnnotationPool: poolKey(f.pool), api.AnnotationPoolUID: string(f.pool.UID),
	}}}
	return f
}

// run writes as a run does; the function is what else happens until its end.
func (f *ownFixture) run(write func() error, meanwhile ...func()) {
	f.t.Helper()
	end := f.r.ownWrites.beginRun(keyOf(f.pool))
	if err := write(); err != nil {
		f.t.Fatal(err)
	}
	for _, do := range meanwhile {
		do()
	}
	end()
}

func (f *ownFixture) create() error { return f.writes.Create(f.t.Context(), f.object) }
func (f *ownFixture) remove() error { return f.writes.Delete(f.t.Context(), f.object) }

func (f *ownFixture) update() error {
	f.object.Labels = map[string]string{"updated": "true"}
	return f.writes.Update(f.t.Context(), f.object)
}

func (f *ownFixture) created() {
	f.watch.Create(f.t.Context(), event.CreateEvent{Object: f.object.DeepCopy()}, f.queue)
}

func (f *ownFixture) deleted() {
	f.watch.Delete(f.t.Context(), event.DeleteEvent{Object: f.object.DeepCopy()}, f.queue)
}

// edited is an event about the write of another client.
func (f *ownFixture) edited() {
	now := f.object.DeepCopy()
	f.patch(now, `{"metadata":{"labels":{"by":"another"}}}`)
	f.watch.Update(f.t.Context(), event.UpdateEvent{ObjectOld: f.object.DeepCopy(), ObjectNew: now}, f.queue)
}

// A pool is not started by what its own run wrote, and is by everything else.
func TestOwnWritesStartNothing(t *testing.T) {
	for name, c := range map[string]struct {
		do     func(f *ownFixture)
		starts bool
	}{
		"the event of a creation after the run":  {func(f *ownFixture) { f.run(f.create); f.created() }, false},
		"the event of a creation during the run": {func(f *ownFixture) { f.run(f.create, f.created) }, false},
		"an event that comes before the answer": {func(f *ownFixture) {
			f.run(func() error {
				err := f.client.Create(f.t.Context(), f.object)
				f.created()
				f.r.ownWrites.recordOwnWrite(f.object, f.object.ResourceVersion)
				return err
			})
		}, false},
		"two writes of one run":  {func(f *ownFixture) { f.run(f.create, f.created, func() { must(nil, f.update()) }); f.created() }, false},
		"a deletion":             {func(f *ownFixture) { f.run(f.create, f.created); f.run(f.remove); f.deleted() }, false},
		"an edit after the run":  {func(f *ownFixture) { f.run(f.create); f.created(); f.edited() }, true},
		"an edit during the run": {func(f *ownFixture) { f.run(f.create, f.created, f.edited) }, true},
		"a deletion by a user":   {func(f *ownFixture) { f.run(f.create); f.created(); f.deleted() }, true},
		"the same version again": {func(f *ownFixture) { f.run(f.create); f.created(); f.created() }, true},
		"a deletion that failed": {func(f *ownFixture) {
			f.object.UID = "none"
			f.run(func() error { return client.IgnoreNotFound(f.remove()) })
			f.deleted()
		}, true},
		"an object of another client": {func(f *ownFixture) { must(nil, f.client.Create(f.t.Context(), f.object)); f.created() }, true},
		"the event of a write that the next run may not have seen": {func(f *ownFixture) {
			f.run(f.create)
			f.run(func() error { return nil })
			f.created()
		}, true},
		"the event of a run whose pool has more to do": {func(f *ownFixture) {
			f.run(f.create, func() { f.r.ownWrites.dropWrites(keyOf(f.pool)) })
			f.created()
		}, true},
		"an owner that was removed, with a version that was not seen yet": {func(f *ownFixture) {
			f.run(f.create)
			now := f.object.DeepCopy()
			f.patch(now, `{"metadata":{"annotations":{"`+api.AnnotationPool+`":null}}}`)
			f.watch.Update(f.t.Context(), event.UpdateEvent{ObjectOld: f.object.DeepCopy(), ObjectNew: now}, f.queue)
		}, true},
		"a deletion that a finalizer delays": {func(f *ownFixture) {
			f.run(f.create, f.created)
			f.run(f.remove)
			f.object.ResourceVersion = "later"
			f.created()
			f.drain()
			f.deleted()
		}, true},
		"a pool that was deleted meanwhile": {func(f *ownFixture) { f.run(f.create); f.delete(f.pool); f.created() }, true},
		"a pool that was made anew": {func(f *ownFixture) {
			f.object.Annotations[api.AnnotationPoolUID] = "before"
			f.run(f.create)
			f.created()
		}, true},
		"a pool that has no profile any more": {func(f *ownFixture) {
			f.run(f.create)
			f.patch(f.pool.DeepCopy(), `{"metadata":{"annotations":{"`+api.AnnotationOSP+`":null}}}`)
			f.created()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newOwnFixture(t)
			c.do(f)
			if starts := f.queue.Len() > 0; starts != c.starts {
				t.Errorf("it starts the pool: %v, want %v", starts, c.starts)
			}
		})
	}
}

func (f *ownFixture) drain() {
	for f.queue.Len() > 0 {
		item, _ := f.queue.Get()
		f.queue.Done(item)
	}
}

// What was written and seen takes no memory.
func TestOwnWritesAreForgotten(t *testing.T) {
	f := newOwnFixture(t)
	f.run(f.create, func() { must(nil, f.update()) })
	f.created()
	f.run(func() error { return nil })
	if len(f.r.ownWrites.pools) != 0 {
		t.Errorf("%d pools are remembered", len(f.r.ownWrites.pools))
	}
}

// After some runs the pool has more to do, so the events of their writes start it.
func TestOwnWritesOfAnUnfinishedPool(t *testing.T) {
	for name, c := range map[string]struct {
		fixture func(t *testing.T) *fixture
		starts  bool
	}{
		"a new pool": {newFixture, false},
		"a new pool that is suspended": {func(t *testing.T) *fixture {
			f := newFixture(t)
			f.patch(f.pool, `{"metadata":{"annotations":{"`+api.AnnotationSuspend+`":"true"}}}`)
			return f
		}, true},
		"a pool that was taken over": {newLegacyFixture, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newOwnFixture(t)
			f.fixture = c.fixture(t)
			f.r.Worker.Client = recordingClient{f.r.Worker.Client, &f.r.ownWrites}
			f.watch.ownWrites = &f.r.ownWrites
			f.reconcile()
			f.object = f.secret(namesOf(f.pool).Bootstrap)
			f.created()
			if starts := f.queue.Len() > 0; starts != c.starts {
				t.Errorf("it starts the pool: %v, want %v", starts, c.starts)
			}
		})
	}
}
