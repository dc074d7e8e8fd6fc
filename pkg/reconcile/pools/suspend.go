package pools

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// errSuspended says that a pool wants to keep the configuration it has.
var errSuspended = errors.New("the pool is suspended")

// suspended reports whether the configuration of a pool is frozen.
func suspended(md *cluster.MachineDeployment) (bool, error) {
	frozen, err := selection.Suspended(md.Annotations)
	if err != nil {
		return false, fault.Refuse("%w", err)
	}
	return frozen, nil
}

// decideWanted plans what the pool asks for, or to keep what it has while it is
// suspended. A pool that has nothing yet gets its first configuration all the same.
func (r *Reconciler) decideWanted(ctx context.Context, seen *observed) (plan, error) {
	frozen, err := suspended(seen.md)
	if err != nil {
		return plan{}, err
	}
	if !frozen {
		return r.decideDesired(seen)
	}
	p, err := r.decideLastGood(ctx, seen, errSuspended)
	switch {
	case errors.Is(err, errSuspended):
		return r.decideDesired(seen)
	case err != nil:
		return plan{}, err
	}
	p.refusal = nil
	if p.unrenewed != nil {
		p.refusal = fault.Refuse("the pool is suspended by annotation %s, and what it has cannot be rendered again", api.AnnotationSuspend)
	}
	if p.unrenewed != nil || p.unread != nil {
		followRevision(seen, &p)
	}
	return p, nil
}

// followRevision lets documents that stay as they are follow the pool's revision.
func followRevision(seen *observed, p *plan) {
	revision, have := revisionOf(seen), seen.objects
	if have.osc != nil && have.osc.Annotations[api.AnnotationRevisionFor] != revision {
		p.oscMetadata = map[string]string{api.AnnotationRevisionFor: revision}
	}
	for _, d := range []struct {
		have *corev1.Secret
		into *secretPlan
	}{{have.provisioning, &p.provisioning}, {have.bootstrap, &p.bootstrap}} {
		switch {
		case d.into.write != nil: // with another token
			d.into.write.Annotations[api.AnnotationRevisionFor] = revision
		case d.have != nil && d.have.Annotations[api.AnnotationRevisionFor] != revision:
			d.into.patch = map[string]string{api.AnnotationRevisionFor: revision}
		}
	}
}

// revisionOf is the revision that machine-controller gave the pool's template.
func revisionOf(seen *observed) string { return seen.md.Annotations[api.AnnotationMDRevision] }
