package pools

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// isSuspended reports whether a pool retains its configuration until its user resumes it.
func isSuspended(md *cluster.MachineDeployment) (bool, error) {
	suspended, err := selection.Suspended(md.Annotations)
	if err != nil {
		return false, fault.Reject("%w", err)
	}
	return suspended, nil
}

// planSuspended plans to maintain what a pool has while it is suspended.
func (e planner) planSuspended(seen *observed) (plan, error) {
	p, err := e.planLastGood(seen, nil)
	if err != nil || p.lacks != lacksNothing {
		return p, err
	}
	if p.unrenewed != nil {
		p.rejection = fault.Reject("the pool is suspended by annotation %s, and what it has cannot be rendered again", api.AnnotationSuspend)
	}
	if p.unrenewed != nil || p.readError != nil {
		followRevision(seen, &p)
	}
	return p, nil
}

// followRevision lets documents with unchanged content follow the pool's revision.
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

// reportSuspendedOrResumed emits one event when a pool is suspended, and one when it is resumed.
func (r reporter) reportSuspendedOrResumed(seen *observed) {
	md := seen.md
	suspended, err := isSuspended(md)
	if err != nil {
		return // that is reported already
	}
	if !suspended {
		if r.cache.get(md).suspended {
			r.cache.update(md, func(m *cachedPool) { m.suspended = false })
			r.event(md, corev1.EventTypeNormal, api.EventConfigResumed, "the pool follows its profile again")
		}
		return
	}
	if seen.objects.osc == nil {
		return // the first one starts another run
	}
	if r.cache.get(md).suspended {
		return
	}
	r.cache.update(md, func(m *cachedPool) { m.suspended, m.reported = true, "" }) // what it cannot have does not matter now
	rec := recordOf(seen.objects.osc)
	r.event(md, corev1.EventTypeNormal, api.EventConfigSuspended,
		fmt.Sprintf("the configuration is frozen at profile %q %s%s; tokens, the CA and the revision follow. To resume, remove annotation %s", rec.Profile, rec.Version, atCommit(rec.Commit), api.AnnotationSuspend))
}
