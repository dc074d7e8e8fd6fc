package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// behindState returns whether a node is behind, and the first version that followed the node's
// version, if there is one.
func behindState(np *api.NodeProvenance, pool lineage.Timeline) (api.Behind, *api.MissingVersion) {
	is, missing := lineage.FindMissingVersions(np, pool)
	if len(missing) == 0 {
		return is, nil
	}
	return is, &missing[0]
}

// behindReconciler updates Behind when a pool gets another version. Each node falls behind once,
// whatever follows: it only writes to nodes that had the pool's version.
type behindReconciler struct{ *Reconciler }

// Reconcile updates Behind of the nodes of one pool.
func (r behindReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	nodes, err := r.ListProvenances(ctx, client.MatchingFields{nodecache.PoolIndex: req.String()})
	if err != nil || len(nodes) == 0 {
		return ctrl.Result{}, err // a new pool has no nodes, so its records need not be read
	}
	t, err := r.TimelineOf(ctx, req.NamespacedName, false)
	if err != nil {
		return ctrl.Result{}, err
	}
	if _, ok := t.Current(); !ok {
		return ctrl.Result{}, nil // the configuration is being replaced, or the pool was deleted: change nothing
	}
	written := 0
	for i := range nodes {
		np := &nodes[i]
		is, missing := behindState(np, t)
		if np.Status.Removed != nil || np.Status.Behind == is {
			continue
		}
		node := kubeclient.Metadata(nodecache.NodeKind)
		if found, err := kubeclient.Find(ctx, r.Worker, types.NamespacedName{Name: np.Spec.Node.Name}, node); err != nil || !found || node.UID != np.Spec.Node.UID {
			if err != nil {
				return ctrl.Result{}, err
			}
			continue // the node was deleted, which is not recorded yet
		}
		// Other pools get their turn between two batches.
		if written == behindBatch {
			return ctrl.Result{RequeueAfter: time.Millisecond}, nil
		}
		if err := r.pace.Wait(ctx); err != nil {
			return ctrl.Result{}, fmt.Errorf("waiting to write: %w", err)
		}
		if err := r.patchStatus(ctx, np, map[string]any{"behind": is, "missing": missing}); err != nil {
			return ctrl.Result{}, err
		}
		written++
	}
	return ctrl.Result{}, nil
}

// patchStatus merges changes into the status of a NodeProvenance, of which the cache has
// only parts.
func (r *Reconciler) patchStatus(ctx context.Context, np *api.NodeProvenance, change map[string]any) error {
	// With the uid, the patch fails for an object that was created again under this name.
	patch, err := mergePatch(map[string]any{"metadata": map[string]any{"uid": np.UID}, "status": change})
	if err != nil {
		return err
	}
	into := &api.NodeProvenance{ObjectMeta: metav1.ObjectMeta{Name: np.Name}}
	err = r.Worker.Status().Patch(ctx, into, patch, client.FieldOwner(api.FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching the status of NodeProvenance %s: %w", np.Name, err)
	}
	return nil
}

func mergePatch(body map[string]any) (client.Patch, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return client.RawPatch(types.MergePatchType, text), nil
}
