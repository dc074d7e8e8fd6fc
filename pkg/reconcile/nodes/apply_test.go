package nodes

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apicache "k8s.io/apimachinery/pkg/util/cache"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
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
