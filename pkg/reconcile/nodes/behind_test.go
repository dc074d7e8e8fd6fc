package nodes

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
)

// unindexed answers what the cache has an index for: the lists of one pool, which is all
// there is.
type unindexed struct{ client.Client }

func (u unindexed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	for _, opt := range opts {
		if _, by := opt.(client.MatchingFields); !by && opt != client.UnsafeDisableDeepCopy {
			opt.ApplyToList(&o)
		}
	}
	return u.Client.List(ctx, list, &o)
}

// A Node that was deleted and created again with the same name is another one: the
// NodeProvenance of the earlier one no longer changes.
func TestBehindIsNotToldOfARecreatedNode(t *testing.T) {
	f := newFleet(t)
	pool := f.pool("workers", "osp-x")
	rec := f.serve(pool, "v1.0.0")
	f.start()
	m := f.machine(pool)
	stays, leaves := f.join(f.machine(pool), says(rec)), f.join(m, says(rec))
	f.provenance(stays)
	f.provenance(leaves)
	f.stop()
	f.do(f.client.Delete(t.Context(), leaves))
	again := f.join(m, says(rec))
	if again.Name != leaves.Name || again.UID == leaves.UID {
		t.Fatalf("%s %s is made again as %s %s", leaves.Name, leaves.UID, again.Name, again.UID)
	}
	f.serve(pool, "v2.0.0")

	here := kubeclient.Cluster{Client: unindexed{f.client}, Live: f.client}
	r := behindReconciler{&Reconciler{Reader: observe.Reader{Management: here, Worker: here, Namespace: f.ns}, Clock: f.clock, pace: flowcontrol.NewFakeAlwaysRateLimiter()}}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: pool.Namespace, Name: pool.Name}}); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]api.Behind{lineage.ProvenanceName(stays.Name, stays.UID): api.BehindYes, lineage.ProvenanceName(leaves.Name, leaves.UID): api.BehindNo} {
		var np api.NodeProvenance
		f.do(f.client.Get(t.Context(), types.NamespacedName{Name: node}, &np))
		if np.Status.Behind != want {
			t.Errorf("%s is behind: %s, want %s", node, np.Status.Behind, want)
		}
	}
}
