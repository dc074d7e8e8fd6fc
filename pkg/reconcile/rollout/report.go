package rollout

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// emitEvents emits events about the rollouts of a source.
func (r *Reconciler) emitEvents(before, after *api.ProfileSource, seen *observed) {
	for _, now := range after.Status.Rollouts {
		was := before.RolloutOf(now.Profile)
		r.emitFailures(was, now, seen)
		if was == nil {
			was = &api.RolloutStatus{Done: true}
			if now.From == nil {
				continue // it only records what all pools have
			}
		}
		for _, n := range waves.EventsBetween(*was, now) {
			r.event(after, n.Type, n.Reason, "%s", n.Message)
		}
	}
}

// emitFailures emits events on a pool about its machines that do not join. The controller
// that renders reports versions that the pool cannot have.
func (r *Reconciler) emitFailures(was *api.RolloutStatus, now api.RolloutStatus, seen *observed) {
	for _, f := range now.Failures {
		reported := was != nil && slices.ContainsFunc(was.Failures, func(had api.RolloutFailure) bool {
			return had.Pool == f.Pool && had.Machine == f.Machine && had.Reason == f.Reason
		})
		if md := seen.pools[f.Pool]; md != nil && !reported && f.Machine != "" {
			r.event(md, corev1.EventTypeWarning, api.EventMachineFailed, "profile %q %s: %s", now.Profile, now.Version, waves.DescribeFailure(f))
		}
	}
}

func (r *Reconciler) event(obj client.Object, kind, reason, format string, args ...any) {
	recorder := r.Recorder
	if _, ok := obj.(*api.ProfileSource); ok {
		recorder = r.SourceRecorder
	}
	recorder.Eventf(obj, nil, kind, reason, "RollOut", "%s", redact.Shorten(redact.RemoveControlChars(fmt.Sprintf(format, args...)), redact.MaxEvent))
}
