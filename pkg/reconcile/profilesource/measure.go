package profilesource

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// exportMetrics exports the state of a source as metrics.
func (r *Reconciler) exportMetrics(ps *api.ProfileSource) {
	s := metrics.SourceState{Kind: kindOf(ps), Ready: "Unknown", Suspended: ps.Spec.Suspend, Revision: redact.PrintableLine(ps.Status.Revision)}
	if ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition); ready != nil {
		s.Ready, s.Reason = string(ready.Status), ready.Reason
	}
	r.Metrics.SetSource(client.ObjectKeyFromObject(ps), s)
}

// measureFetch exports metrics of a fetch that started at the given time.
func (r *Reconciler) measureFetch(ctx context.Context, ps *api.ProfileSource, began time.Time, err error) {
	failure := ""
	if err != nil {
		if ctx.Err() != nil {
			return // the controller is stopping
		}
		failure = classify(err).reason
	}
	now := time.Now()
	r.Metrics.ObserveFetch(client.ObjectKeyFromObject(ps), now, now.Sub(began), failure)
}

// kindOf names the kind of a source.
func kindOf(ps *api.ProfileSource) string {
	switch {
	case ps.Spec.Git != nil:
		return "git"
	case ps.Spec.SourceRef != nil:
		return "sourceRef"
	case ps.Spec.Directory != nil:
		return "directory"
	}
	return "builtin"
}
