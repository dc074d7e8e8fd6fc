package pools

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

// isPool reports whether a MachineDeployment asks for a profile.
func isPool(md *cluster.MachineDeployment) bool {
	return md.DeletionTimestamp.IsZero() && md.Annotations[api.AnnotationOSP] != ""
}

// reportRelease reports the result of releasing a pool, and drops its cached state.
func (r *Reconciler) reportRelease(md *cluster.MachineDeployment, err error) (ctrl.Result, error) {
	r.Metrics.PoolGone(client.ObjectKeyFromObject(md))
	res, err := r.newReporter().report(md, plan{}, nil, err)
	if err == nil && res.IsZero() {
		r.cache.forget(md)
	}
	return res, err
}

// forget leaves a pool to the controller that handles it now.
func (r *Reconciler) forget(pool types.NamespacedName) {
	md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: pool.Name}}
	r.Metrics.PoolGone(pool)
	r.cache.forget(md)
}

// deletePoolObjects deletes all objects that were created for a pool, then its finalizer. Objects of
// another pool remain. It reads from the API server: an object that the cache does not have
// yet would remain forever.
func (w writer) deletePoolObjects(ctx context.Context, md *cluster.MachineDeployment) error {
	if !controllerutil.ContainsFinalizer(md, api.FinalizerPool) {
		return w.releaseOrphans(ctx, md)
	}
	if err := w.archiveAndDeleteOwned(ctx, md); err != nil {
		return err
	}
	// The finalizer is removed last: until then, an interrupted deletion continues in the next
	// run.
	before := md.DeepCopy()
	controllerutil.RemoveFinalizer(md, api.FinalizerPool)
	return w.patchFinalizers(ctx, before, md)
}

// releaseOrphans removes the objects of a MachineDeployment that is deleted, or that is not a pool
// any more and has no finalizer: a user can remove the finalizer before our first object
// exists, or together with the annotation. The object that was created last always leads here, so
// the cache suffices to know that there is something to remove. The API server then says what
// there is to remove, and whether the pool is deleted.
func (w writer) releaseOrphans(ctx context.Context, gone *cluster.MachineDeployment) error {
	orphans, err := w.listOwned(ctx, w.cached(), gone)
	if err != nil || len(orphans) == 0 {
		return err
	}
	key := client.ObjectKeyFromObject(gone)
	var md cluster.MachineDeployment
	switch err := w.worker.Live.Get(ctx, key, &md); {
	case err == nil && (isPool(&md) || controllerutil.ContainsFinalizer(&md, api.FinalizerPool)):
		return fmt.Errorf("%w: MachineDeployment %s is a pool", fault.ErrRaced, key)
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading MachineDeployment %s: %w", key, err)
	}
	return w.archiveAndDeleteOwned(ctx, gone)
}

// archiveAndDeleteOwned deletes the objects of a pool that the API servers have. If a record cannot be
// archived because other objects have its names, it reports that and continues.
func (w writer) archiveAndDeleteOwned(ctx context.Context, md *cluster.MachineDeployment) error {
	owned, err := w.listOwned(ctx, w.live(), md)
	if err != nil {
		return err
	}
	for _, obj := range owned {
		if osc, ok := obj.(*osm.OperatingSystemConfig); ok {
			rec := recordOf(osc)
			// A record that the documents contradict must not become evidence about nodes.
			believed := mismatchedAnnotation(osc, rec) == "" && !userDataSecretsOf(md, owned).hasOnlyOtherInputs(rec.Digests.Input)
			var err error
			if believed {
				err = w.archiveRecord(ctx, osc)
			}
			if reason, permanent := fault.PermanentReason(err); permanent {
				w.report.reportProblem(md, reason, fmt.Errorf("%w. The record is deleted with the pool, and is not stored elsewhere", err))
			} else if err != nil {
				return err
			}
			// The entry comes before the deletion, which loses the content.
			w.report.recordDeleted(md, osc, believed)
		}
		if err := w.remove(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}
