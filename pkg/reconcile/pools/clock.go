package pools

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
)

// clockLook is the time between two looks at the clock.
const clockLook = 5 * time.Second

// watchClock reconciles all pools when the clock was set, such as after a machine slept.
// Tokens expire by the wall clock, but RequeueAfter counts elapsed time, and
// controller-runtime has no queue that follows the wall clock. A shorter RequeueAfter
// would instead reconcile every pool at rest.
func (r *Reconciler) watchClock(ctx context.Context, every time.Duration, set chan<- event.GenericEvent) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	said, looked := r.Clock.Now().Round(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		says, passed := r.Clock.Now().Round(0), time.Since(looked) // by the two clocks of the system
		jump := says.Sub(said) - passed
		said, looked = says, looked.Add(passed)
		if jump.Abs() < token.ClockJump {
			continue
		}
		log.FromContext(ctx).Info("the clock was set, all pools are looked at", "by", jump.Round(time.Second))
		select {
		case set <- event.GenericEvent{Object: &cluster.MachineDeployment{}}:
		default: // they are about to be
		}
	}
}
