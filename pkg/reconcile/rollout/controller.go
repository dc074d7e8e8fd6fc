package rollout

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/machineindex"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
)

// racedRetry is the wait after a conflicting write, until the cache has the new object.
const racedRetry = 50 * time.Millisecond

// Reconciler manages rollouts. Its fields are set once, before Setup. It handles one
// ProfileSource at a time.
type Reconciler struct {
	// Management has ProfileSources and configurations.
	Management client.Client
	// Worker has pools and their Secrets: the same cluster, unless the controller has
	// two.
	Worker client.Client
	// Recorder writes events on pools, SourceRecorder those on ProfileSources.
	Recorder, SourceRecorder events.EventRecorder
	// Clock is used to check whether a window has passed.
	Clock clock.PassiveClock
	// Ahead returns how far the API server's clock is ahead of the controller's, negative if
	// it is behind.
	Ahead func() time.Duration
	// Metrics exports which maintenance windows are open; nil for none.
	Metrics *metrics.Metrics
	// Namespace is the controller's. ProfileSources in other namespaces belong to other
	// controllers.
	Namespace string
	// Shard selects the ProfileSources to handle. All of their pools are handled here,
	// also those of other shards.
	Shard shard.Shard

	controller  controller.Controller
	bootReports atomic.Pointer[cache.Cache] // nil until they can be read

	machines        machineindex.Index
	warned          map[string]map[string]string             // latest warnings, by ProfileSource, uid and subject
	patched         map[types.UID]*cluster.MachineDeployment // as returned by the API server, until the cache has them
	cachedTimelines map[types.UID]lineage.Timeline           // of pools whose machines are replaced
	windows         map[string]windowState                   // by ProfileSource
}

// Reconcile updates the rollouts of one ProfileSource, and has machines of its pools
// replaced if they request it. Without a name it handles the pools without a user's
// ProfileSource: those with manual or built-in profiles.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.makeMaps()
	seen, err := r.observe(ctx, req.Name)
	if err != nil {
		return r.report(req, seen, plan{}, applied{}, err)
	}
	if !seen.responsible {
		r.forget(req)
		return ctrl.Result{}, nil
	}
	planned := newPlan(seen)
	done, err := r.apply(ctx, seen, planned)
	return r.report(req, seen, planned, done, err)
}

// makeMaps makes what is remembered between runs, before the first one.
func (r *Reconciler) makeMaps() {
	if r.warned != nil {
		return
	}
	r.warned = map[string]map[string]string{}
	r.patched = map[types.UID]*cluster.MachineDeployment{}
	r.cachedTimelines = map[types.UID]lineage.Timeline{}
	r.windows = map[string]windowState{}
}
