package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

const (
	// racedRetry is the wait after a conflicting write, until the cache has the new
	// object.
	racedRetry = 50 * time.Millisecond
	// poll is the time between two attempts for profiles of unknown origin: an applier
	// can be installed, or a permission granted.
	poll = 10 * time.Minute
)

// Setup registers a controller that records who applied profiles as soon as they are
// created, whether or not a pool uses them.
func (n *Resolver) Setup(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("applied-profile").
		For(&osm.OperatingSystemProfile{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(obj client.Object) bool {
			osp, ok := obj.(*osm.OperatingSystemProfile)
			return ok && osp.Labels[api.LabelSource] == "" && len(possibleAppliers(osp, n.ArgoNamespace)) > 0
		}))).
		Complete(n)
	if err != nil {
		return fmt.Errorf("setting up the controller that records who applied profiles: %w", err)
	}
	return nil
}

// Reconcile records who applied one profile. Nothing else records that: pools only resolve it.
func (n *Resolver) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var osp osm.OperatingSystemProfile
	if err := n.Client.Get(ctx, req.NamespacedName, &osp); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading OperatingSystemProfile %s: %w", req, err)
	}
	found, err := n.ResolveOrigin(ctx, &osp)
	if found.Warning != "" {
		n.event(&osp, corev1.EventTypeWarning, api.EventTwoAppliers, found.Warning)
	}
	if err == nil && found.Revision != "" && !found.recorded {
		err = n.annotate(ctx, &osp, found)
		if apierrors.IsForbidden(err) {
			found.Revision, found.Why = "", "the controller has no permission to write that on the profile: apply deploy/appliers.yaml"
			err = nil
		}
		err = markRaced(err)
	}
	var both *TwoError
	switch {
	case errors.As(err, &both):
		n.event(&osp, corev1.EventTypeWarning, api.EventTwoAppliers, both.Error())
		return ctrl.Result{RequeueAfter: poll}, nil
	case errors.Is(err, ErrRaced):
		return ctrl.Result{RequeueAfter: racedRetry}, nil
	case err != nil:
		return ctrl.Result{}, err
	case found.Revision == "":
		if len(found.By) > 0 {
			n.event(&osp, corev1.EventTypeNormal, api.EventOriginUnknown, "the revision of its origin is unknown: "+found.Why)
		}
		// No watch reports when the applier has a revision.
		return ctrl.Result{RequeueAfter: poll}, nil
	}
	return ctrl.Result{}, nil
}
