package manager

import (
	"context"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout"
)

// addRollouts adds the controllers that release versions to pools in waves and replace
// machines to the manager of the worker cluster. It returns what lets them read BootReports.
func addRollouts(ctx context.Context, management ctrlcluster.Cluster, mgr ctrl.Manager, opts *Options, deps dependencies) (watchReports, error) {
	rollouts := &rollout.Reconciler{
		Management:     management.GetClient(),
		Worker:         mgr.GetClient(),
		Recorder:       notify.DistinctRecorder{EventRecorder: mgr.GetEventRecorder(api.FieldManager)},
		SourceRecorder: notify.DistinctRecorder{EventRecorder: management.GetEventRecorder(api.FieldManager)},
		Clock:          clock.RealClock{},
		Ahead:          deps.worker.cluster.clockAhead,
		Metrics:        deps.metrics,
		Namespace:      opts.Namespace,
		Shard:          opts.Shard,
	}
	if err := rollouts.Setup(ctx, mgr, management.GetCache()); err != nil {
		return nil, err
	}
	return func(_ context.Context, reports cache.Cache) error { return rollouts.WatchBootReports(reports) }, nil
}
