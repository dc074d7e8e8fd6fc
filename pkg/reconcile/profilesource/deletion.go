package profilesource

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
)

// ensureFinalizer adds the finalizer to a ProfileSource before any object is created for it.
func (r *Reconciler) ensureFinalizer(ctx context.Context, ps *api.ProfileSource) error {
	if controllerutil.ContainsFinalizer(ps, api.Finalizer) {
		return nil
	}
	before := ps.DeepCopy()
	controllerutil.AddFinalizer(ps, api.Finalizer)
	return r.patchFinalizers(ctx, before, ps)
}

func (r *Reconciler) patchFinalizers(ctx context.Context, before, after *api.ProfileSource) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, after, patch, client.FieldOwner(api.FieldManager)); err != nil {
		return fmt.Errorf("patching the finalizers of ProfileSource %s: %w", client.ObjectKeyFromObject(after), err)
	}
	return nil
}

// finalize deletes the objects of a ProfileSource that have no references, reports the others,
// and removes the finalizer. It needs only the API server. If that forbids to read or to
// delete objects, they remain as well.
func (r *Reconciler) finalize(ctx context.Context, ps *api.ProfileSource) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(ps)
	r.forget(key)
	if !controllerutil.ContainsFinalizer(ps, api.Finalizer) {
		return ctrl.Result{}, nil
	}
	left, err := r.retention(nil).DeleteAllUnretained(ctx, ps)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(left) > 0 {
		notify.EmitSourceEvent(r.Recorder, ps, corev1.EventTypeWarning, api.EventProfilesLeft,
			"%s left, because pools or their records refer to them, or their deletion is forbidden; pools can no longer choose them: delete them when nothing uses them: %s", notify.PluralizeWithVerb(len(left), "version"), strings.Join(left, ", "))
	}
	before := ps.DeepCopy()
	controllerutil.RemoveFinalizer(ps, api.Finalizer)
	err = r.patchFinalizers(ctx, before, ps)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: racedRetry}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}
