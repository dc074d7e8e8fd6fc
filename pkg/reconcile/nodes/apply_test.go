package nodes

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apicache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
)

// A run whose cache lacks a NodeProvenance retains the one that exists, and continues with it. It rejects
// that of another node.
func TestExistingProvenanceRemains(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	rec := f.serve(pool, "v1.0.0")
	f.start()
	node := f.join(f.machine(pool), says(rec))
	np := f.provenance(node)
	f.stop()

	here := kubeclient.Cluster{Client: unindexed{f.client}, Live: f.client}
	r := &Reconciler{
		Reader: observe.Reader{Management: here, Worker: here, Namespace: f.ns}, Clock: f.clock,
		suspected: apicache.NewLRUExpireCacheWithClock(maxNodes, f.clock), silent: apicache.NewLRUExpireCacheWithClock(maxNodes, f.clock),
	}
	seen := &observed{now: f.clock.Now(), node: &metav1.PartialObjectMetadata{ObjectMeta: node.ObjectMeta}, joining: &joining{}}
	again := np.DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Name: np.Name}
	again.Spec.Explanation = "of a later run"
	if _, err := r.apply(t.Context(), seen, plan{create: again}); err != nil || again.UID != "" {
		t.Fatalf("it creates %s, error %v", again.UID, err)
	}
	after, err := r.observeCreated(t.Context(), seen, again)
	if err != nil || after.current.UID != np.UID || after.current.untrimmed.Spec.Explanation != np.Spec.Explanation {
		t.Errorf("it continues with %+v, error %v", after.current, err)
	}
	seen.node.UID = "another"
	after, err = r.observeCreated(t.Context(), seen, &api.NodeProvenance{ObjectMeta: again.ObjectMeta})
	if err == nil || !strings.Contains(err.Error(), "is of another node") || planSummary(newPlan(after)) != "" {
		t.Errorf("it plans %+v, error %v", newPlan(after), err)
	}
}

// If the write about a deleted node fails, the node that has its name now is still handled in the next
// run, and not a minute later.
func TestFailedWriteAboutDeletedNode(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	rec := f.serve(pool, "v1.0.0")
	f.start()
	m := f.machine(pool)
	deleted := f.join(m, says(rec))
	old := f.provenance(deleted)
	f.stop()
	f.do(f.client.Delete(t.Context(), deleted))
	node := f.join(m, says(rec))
	np := &api.NodeProvenance{ObjectMeta: metav1.ObjectMeta{Name: lineage.ProvenanceName(node.Name, node.UID), Labels: old.Labels}, Spec: old.Spec}
	np.Spec.Node.UID = node.UID
	f.create(np)
	np.Status = old.Status
	f.do(f.client.Status().Update(t.Context(), np))

	failures := 1
	failing := interceptor.NewClient(f.client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, cl client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if obj.GetName() == old.Name && failures > 0 {
				failures--
				return errors.New("the API server is restarting")
			}
			return cl.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	here := kubeclient.Cluster{Client: unindexed{failing}, Live: f.client}
	recent := func() *apicache.LRUExpireCache { return apicache.NewLRUExpireCacheWithClock(maxNodes, f.clock) }
	r := &Reconciler{
		Reader: observe.Reader{Management: here, Worker: here, Namespace: f.ns}, Clock: f.clock,
		handled: recent(), suspected: recent(), silent: recent(), pace: flowcontrol.NewFakeAlwaysRateLimiter(),
	}
	run := func() error {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: node.Name}})
		return err
	}
	if err := run(); err == nil || failures > 0 {
		t.Fatalf("the first run: error %v, %d failures left", err, failures)
	}
	f.do(run())
	f.do(f.client.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	if got := node.Annotations[api.AnnotationProvenance]; got != np.Name {
		t.Errorf("the node names NodeProvenance %q, want %q", got, np.Name)
	}
	f.until(old.Name, func(np *api.NodeProvenance) bool { return np.Status.Removed != nil })
}
