package pools

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// ownWrites knows what runs of pools wrote, so that the watch events of those writes do not start
// the pools again. An event that comes during a run of its pool waits for the end of the run: the
// answer to a write can come after its event. The zero value is ready to use; losing it costs
// runs, never correctness.
type ownWrites struct {
	mu    sync.Mutex
	pools map[types.NamespacedName]*poolWrites
}

// poolWrites are those of a pool whose events are yet to come.
type poolWrites struct {
	running bool
	unseen  []objectVersion // oldest first
	waiting []ownedEvent
}

// maxUnseen bounds the writes of a pool whose events are yet to come: a watch that begins again
// skips some.
const maxUnseen = 64

// objectVersion is one state of an object.
type objectVersion struct {
	uid             types.UID
	resourceVersion string // empty for its deletion
}

// ownedEvent is a watch event of an object of a pool.
type ownedEvent struct {
	pool    types.NamespacedName
	version objectVersion
	// ignorable reports whether the event of an own write can be ignored.
	ignorable func() bool
	// enqueue starts the pool.
	enqueue func()
}

// beginRun begins a run of a pool; the returned function ends it. The run can miss earlier writes
// in the cache, if their events are yet to come, so these events start the pool again.
func (o *ownWrites) beginRun(pool types.NamespacedName) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pools == nil {
		o.pools = map[types.NamespacedName]*poolWrites{}
	}
	writes := o.pools[pool]
	if writes == nil {
		writes = &poolWrites{}
		o.pools[pool] = writes
	}
	writes.running, writes.unseen = true, nil
	return func() {
		o.mu.Lock()
		waiting := writes.waiting
		writes.running, writes.waiting = false, nil
		if len(writes.unseen) == 0 {
			delete(o.pools, pool)
		}
		o.mu.Unlock()
		// enqueueUnlessOwn takes the lock itself.
		for _, e := range waiting {
			o.enqueueUnlessOwn(e)
		}
	}
}

// dropWrites forgets the writes of a pool's run, so that their events start the pool again: the
// next run has more to do.
func (o *ownWrites) dropWrites(pool types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.pools[pool]; p != nil {
		p.unseen = nil
	}
}

// enqueueUnlessOwn enqueues the pool of an event, unless a run of the pool caused the event.
func (o *ownWrites) enqueueUnlessOwn(e ownedEvent) {
	o.mu.Lock()
	isOwnWrite := false
	if writes := o.pools[e.pool]; writes != nil {
		if writes.running {
			writes.waiting = append(writes.waiting, e)
			o.mu.Unlock()
			return
		}
		if isOwnWrite = writes.consumeVersion(e.version); len(writes.unseen) == 0 {
			delete(o.pools, e.pool)
		}
	}
	o.mu.Unlock()
	if !isOwnWrite || !e.ignorable() {
		e.enqueue()
	}
}

// consumeVersion reports whether a run wrote a version, and drops it and earlier versions of the
// object. If another client wrote it, the deletion of the object is not only ours either: a
// finalizer delayed it.
func (p *poolWrites) consumeVersion(v objectVersion) bool {
	at := slices.Index(p.unseen, v)
	i := -1
	p.unseen = slices.DeleteFunc(p.unseen, func(u objectVersion) bool {
		i++
		return u.uid == v.uid && (at < 0 || i <= at)
	})
	return at >= 0
}

// recordOwnWrite records a version that a run wrote.
func (o *ownWrites) recordOwnWrite(obj client.Object, resourceVersion string) {
	pool, ok := lineage.ParsePool(lineage.PoolOf(obj))
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	writes, version := o.pools[pool], objectVersion{obj.GetUID(), resourceVersion}
	if writes == nil || !writes.running || slices.Contains(writes.unseen, version) { // an update that changes nothing has no event
		return
	}
	writes.unseen = append(writes.unseen, version)
	// An event that was dropped here starts a run that changes nothing.
	writes.unseen = writes.unseen[max(0, len(writes.unseen)-maxUnseen):]
}

// recordFailedDeletion records that a deletion failed.
func (o *ownWrites) recordFailedDeletion(obj client.Object) {
	pool, _ := lineage.ParsePool(lineage.PoolOf(obj))
	o.mu.Lock()
	defer o.mu.Unlock()
	if p := o.pools[pool]; p != nil {
		p.unseen = slices.DeleteFunc(p.unseen, func(u objectVersion) bool { return u == objectVersion{obj.GetUID(), ""} })
	}
}

// hasDeleted reports whether a run deleted an object.
func (o *ownWrites) hasDeleted(obj client.Object) bool {
	pool, _ := lineage.ParsePool(lineage.PoolOf(obj))
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.pools[pool]
	return p != nil && slices.Contains(p.unseen, objectVersion{obj.GetUID(), ""})
}

// recordingClient records what it writes.
type recordingClient struct {
	client.Client
	ownWrites *ownWrites
}

func (c recordingClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	err := c.Client.Create(ctx, obj, opts...)
	return c.recordIfWritten(obj, err)
}

func (c recordingClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	err := c.Client.Update(ctx, obj, opts...)
	return c.recordIfWritten(obj, err)
}

func (c recordingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	err := c.Client.Patch(ctx, obj, patch, opts...)
	return c.recordIfWritten(obj, err)
}

// recordIfWritten records the new version of an object if the write succeeded, and returns the
// error unchanged.
func (c recordingClient) recordIfWritten(obj client.Object, err error) error {
	if err == nil {
		c.ownWrites.recordOwnWrite(obj, obj.GetResourceVersion())
	}
	return err
}

func (c recordingClient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	c.ownWrites.recordOwnWrite(obj, "") // the answer does not say more
	err := c.Client.Delete(ctx, obj, opts...)
	if err != nil {
		c.ownWrites.recordFailedDeletion(obj)
	}
	return err
}

// ownedObjectHandler starts the pool that an object was made for, unless a run of the pool wrote the event.
type ownedObjectHandler struct {
	ownWrites *ownWrites
	// pools reads MachineDeployments from the cache.
	pools client.Reader
}

// anotherOwner stands for the version of an object whose owner changed. No run writes that.
const anotherOwner = "another owner"

type requestQueue = workqueue.TypedRateLimitingInterface[crreconcile.Request]

func (s ownedObjectHandler) Create(ctx context.Context, e event.CreateEvent, q requestQueue) {
	s.forwardEvent(ctx, e.Object, e.Object.GetResourceVersion(), q)
}

func (s ownedObjectHandler) Update(ctx context.Context, e event.UpdateEvent, q requestQueue) {
	s.forwardEvent(ctx, e.ObjectNew, e.ObjectNew.GetResourceVersion(), q)
	if lineage.PoolOf(e.ObjectOld) != lineage.PoolOf(e.ObjectNew) {
		s.forwardEvent(ctx, e.ObjectOld, anotherOwner, q)
	}
}

func (s ownedObjectHandler) Delete(ctx context.Context, e event.DeleteEvent, q requestQueue) {
	s.forwardEvent(ctx, e.Object, "", q)
}

func (s ownedObjectHandler) Generic(ctx context.Context, e event.GenericEvent, q requestQueue) {
	s.forwardEvent(ctx, e.Object, e.Object.GetResourceVersion(), q)
}

// forwardEvent passes the event of an owned object to ownWrites, which starts the pool unless a run
// of it caused the event.
func (s ownedObjectHandler) forwardEvent(ctx context.Context, obj client.Object, resourceVersion string, q requestQueue) {
	pool, ok := lineage.ParsePool(lineage.PoolOf(obj))
	if !ok {
		return
	}
	uid := obj.GetAnnotations()[api.AnnotationPoolUID]
	s.ownWrites.enqueueUnlessOwn(ownedEvent{
		pool: pool, version: objectVersion{obj.GetUID(), resourceVersion},
		// Objects of what is not a pool any more are removed by a run that finds them in the
		// cache. As long as the cache has the pool, its end starts that run.
		ignorable: func() bool {
			var md cluster.MachineDeployment
			err := s.pools.Get(ctx, pool, &md, client.UnsafeDisableDeepCopy)
			return err == nil && isPool(&md) && string(md.UID) == uid
		},
		enqueue: func() { q.Add(crreconcile.Request{NamespacedName: pool}) },
	})
}
