package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/replacements"
)

// applied is what a run wrote.
type applied struct {
	source    *api.ProfileSource // as written; nil if the status was not written
	templates []templateResult
	complete  bool // all of the plan was tried
	outdated  bool // a maintenance window opened or closed meanwhile
}

// templateResult is a template that was annotated, or that the API server rejected.
type templateResult struct {
	candidate replacements.Candidate
	rejection error // nil if it was annotated
}

// apply writes what was planned, until a maintenance window opens or closes: then everything is
// decided again.
func (r *Reconciler) apply(ctx context.Context, seen *observed, planned plan) (done applied, err error) {
	if r.windowEdgePassed(seen) {
		return applied{outdated: true}, nil // no wave begins after the window of the decision
	}
	// The decision is stored before machines are replaced: after a lost race everything is
	// decided again.
	if done.source, err = r.writeStatus(ctx, seen.source, planned.source); err != nil {
		return done, err
	}
	done.templates, err = r.annotateTemplates(ctx, seen, planned.templates)
	done.complete = true
	done.outdated = r.windowEdgePassed(seen)
	return done, err
}

// windowEdgePassed reports whether a window can have opened or closed since the run began.
func (r *Reconciler) windowEdgePassed(seen *observed) bool {
	return len(seen.windows.status) > 0 && !r.windowTime().Before(seen.windows.until)
}

// writeStatus writes a planned status, nil for none, once, and returns the object as written. A
// conflict means that the status was based on an old object.
func (r *Reconciler) writeStatus(ctx context.Context, before, planned *api.ProfileSource) (*api.ProfileSource, error) {
	if planned == nil {
		return nil, nil
	}
	after := planned.DeepCopy()
	// Optimistic locking: a decision about another inventory must not be stored.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.Management.Status().Patch(ctx, after, patch, client.FieldOwner(api.FieldManager))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("writing the rollouts of ProfileSource %s: %w", client.ObjectKeyFromObject(before), err)
	}
	return after, nil
}

// annotateTemplates annotates the planned templates, as long as no window opens or closes.
func (r *Reconciler) annotateTemplates(ctx context.Context, seen *observed, planned replacements.TemplatePlan) ([]templateResult, error) {
	var out []templateResult
	var errs []error
	planned.InTurn(func(c replacements.Candidate) bool {
		if r.windowEdgePassed(seen) {
			return false // each patch takes time, and a window can have closed
		}
		patched, err := r.patchTemplate(ctx, c)
		errs = append(errs, err)
		// A pool whose template cannot be patched must not take the place of another.
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
			out = append(out, templateResult{c, err})
			return false
		}
		if patched {
			out = append(out, templateResult{c, nil})
		}
		return true // it is done, or will be
	})
	return out, errors.Join(errs...)
}

// patchTemplate patches this one annotation of exactly the object that was read: our type has
// only a part of a MachineDeployment. It returns false if the object was deleted.
func (r *Reconciler) patchTemplate(ctx context.Context, c replacements.Candidate) (patched bool, err error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": c.Pool.ResourceVersion},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{
			"annotations": map[string]string{api.AnnotationConfig: c.Config},
		}}},
	})
	if err != nil {
		return false, fmt.Errorf("encoding a patch: %w", err)
	}
	into := &cluster.MachineDeployment{}
	into.Namespace, into.Name = c.Pool.Namespace, c.Pool.Name
	err = r.Worker.Patch(ctx, into, client.RawPatch(types.MergePatchType, body), client.FieldOwner(api.FieldManager))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("annotating the template of MachineDeployment %s: %w", keyOf(c.Pool), err)
	}
	r.patched[c.Pool.UID] = into
	return true, nil
}
