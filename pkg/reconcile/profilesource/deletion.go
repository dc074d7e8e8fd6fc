package profilesource

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// hold puts the finalizer on a ProfileSource before anything is made for it.
func (r *Reconciler) hold(ctx context.Context, ps *api.ProfileSource) error {
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

// remove deletes what a ProfileSource made and nothing refers to, says what is left,
// and lets the ProfileSource go. It needs nothing but the API server: where that
// forbids to look or to delete, the objects are left as well.
func (r *Reconciler) remove(ctx context.Context, ps *api.ProfileSource) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(ps)
	r.forget(key)
	if !controllerutil.ContainsFinalizer(ps, api.Finalizer) {
		return ctrl.Result{}, nil
	}
	left, err := r.discardAll(ctx, ps)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(left) > 0 {
		r.event(ps, corev1.EventTypeWarning, api.EventProfilesLeft,
			"%s left, to which pools or their records refer, or which may not be deleted; no pool can choose them any more: delete them once nothing has them: %s", is(len(left), "version"), strings.Join(left, ", "))
	}
	before := ps.DeepCopy()
	controllerutil.RemoveFinalizer(ps, api.Finalizer)
	err = r.patchFinalizers(ctx, before, ps)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: racedRetry}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// discardAll deletes the objects of a source, and names those that stay. It asks the
// API server itself: what the cache has not seen yet would stay for ever.
func (r *Reconciler) discardAll(ctx context.Context, ps *api.ProfileSource) ([]string, error) {
	var list osm.OperatingSystemProfileList
	err := r.Live.List(ctx, &list, client.InNamespace(ps.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager, api.LabelSource: ps.Name})
	if err != nil {
		return nil, fmt.Errorf("listing OperatingSystemProfiles: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	needed, err := r.neededBeside(ctx, ps)
	if err != nil {
		return nil, err
	}
	var left []string
	for i := range list.Items {
		o := &list.Items[i]
		stays := needed(o)
		if !stays {
			stays, err = r.recorded(ctx, o)
		}
		if !stays && err == nil {
			_, err = r.discard(ctx, o)
		}
		switch {
		case stays, apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			left = append(left, o.Name)
		case err != nil:
			return nil, err
		}
	}
	slices.Sort(left)
	return left, nil
}

// neededBeside tells objects that pools have, or that another source offers. Without
// prune none is deleted.
func (r *Reconciler) neededBeside(ctx context.Context, ps *api.ProfileSource) (func(*osm.OperatingSystemProfile) bool, error) {
	used, err := r.used(ctx, ps.Namespace)
	if err != nil {
		return nil, err
	}
	others, err := r.otherSources(ctx, ps)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, other := range others {
		for _, e := range other.Status.Profiles {
			named[e.Object] = true
		}
	}
	return func(o *osm.OperatingSystemProfile) bool {
		return !prunes(ps) || used.of(o) || named[o.Name]
	}, nil
}

// deletionStarted lets a ProfileSource through that somebody deletes.
func deletionStarted() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld != nil && e.ObjectNew != nil && e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
}
