package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

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

// IsApplied reports whether an object is a profile that Reconcile is for: no ProfileSource created
// it, and somebody can have applied it.
func (n *Resolver) IsApplied(obj client.Object) bool {
	osp, ok := obj.(*osm.OperatingSystemProfile)
	return ok && osp.Labels[api.LabelSource] == "" && len(possibleAppliers(osp, n.ArgoNamespace)) > 0
}

// Reconcile records who applied one profile. Nothing else records that: pools only resolve it.
func (n *Resolver) Reconcile(ctx context.Context, req crreconcile.Request) (crreconcile.Result, error) {
	var osp osm.OperatingSystemProfile
	if err := n.Client.Get(ctx, req.NamespacedName, &osp); err != nil {
		if apierrors.IsNotFound(err) {
			return crreconcile.Result{}, nil
		}
		return crreconcile.Result{}, fmt.Errorf("reading OperatingSystemProfile %s: %w", req, err)
	}
	found, err := n.ResolveOrigin(ctx, &osp)
	if found.Warning != "" {
		n.event(&osp, corev1.EventTypeWarning, api.EventTwoAppliers, found.Warning)
	}
	if err == nil && found.Revision != "" && !found.recorded {
		err = n.annotate(ctx, &osp, found)
		if apierrors.IsForbidden(err) {
			found.Revision = ""
			found.Why = "the controller has no permission to write that on the profile: apply deploy/appliers.yaml"
			err = nil
		}
		err = markRaced(err)
	}
	var both *TwoError
	switch {
	case errors.As(err, &both):
		n.event(&osp, corev1.EventTypeWarning, api.EventTwoAppliers, both.Error())
		return crreconcile.Result{RequeueAfter: poll}, nil
	case errors.Is(err, ErrRaced):
		return crreconcile.Result{RequeueAfter: racedRetry}, nil
	case err != nil:
		return crreconcile.Result{}, err
	case found.Revision == "":
		if len(found.By) > 0 {
			n.event(&osp, corev1.EventTypeNormal, api.EventOriginUnknown, "the revision of its origin is unknown: "+found.Why)
		}
		// No watch reports when the applier has a revision.
		return crreconcile.Result{RequeueAfter: poll}, nil
	}
	return crreconcile.Result{}, nil
}
