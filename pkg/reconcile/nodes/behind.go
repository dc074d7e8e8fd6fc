package nodes

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
)

const (
	// behindRate is the number of NodeProvenances per second that are set to behind,
	// after behindBurst at once: a push to a pool of 20,000 nodes takes seven minutes.
	behindRate, behindBurst = 50, 100
	// behindBatch is the number of NodeProvenances of one pool per turn.
	behindBatch = 200
)

// behindReconciler updates Behind when a pool gets another version. Each node falls behind once,
// whatever follows: it only writes to nodes that had the pool's version.
type behindReconciler struct{ *Reconciler }

// Reconcile updates Behind of the nodes of one pool.
func (r behindReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	nodes, timeline, err := r.observePool(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	more, err := r.applyBatch(ctx, planBehind(nodes, timeline))
	if more {
		return ctrl.Result{RequeueAfter: time.Millisecond}, nil
	}
	return ctrl.Result{}, err
}

// observePool reads the NodeProvenances of a pool and its timeline.
func (r behindReconciler) observePool(ctx context.Context, pool types.NamespacedName) ([]api.NodeProvenance, lineage.Timeline, error) {
	nodes, err := r.ListProvenances(ctx, client.MatchingFields{nodecache.PoolIndex: pool.String()})
	if err != nil || len(nodes) == 0 {
		return nil, nil, err // a new pool has no nodes, so its records need not be read
	}
	timeline, err := r.TimelineOf(ctx, pool, false)
	return nodes, timeline, err
}

// applyBatch writes the first statuses of a plan, and returns whether others remain: other pools get
// their turn in between. A batch takes seconds to write, and a plan can have all nodes of a pool, so
// whether a node still exists is read right before its status is written.
func (r behindReconciler) applyBatch(ctx context.Context, todo []statusPlan) (more bool, err error) {
	written := 0
	for _, p := range todo {
		node := kubeclient.Metadata(nodecache.NodeKind)
		found, err := kubeclient.Find(ctx, r.Worker, types.NamespacedName{Name: p.of.Spec.Node.Name}, node)
		if err != nil {
			return false, err
		}
		if !found || node.UID != p.of.Spec.Node.UID {
			continue // the node was deleted, which is not recorded yet
		}
		if written == behindBatch {
			return true, nil
		}
		if err := r.pace.Wait(ctx); err != nil {
			return false, fmt.Errorf("waiting to write: %w", err)
		}
		if err := r.patchStatus(ctx, p.of, p.change); err != nil {
			return false, err
		}
		written++
	}
	return false, nil
}
