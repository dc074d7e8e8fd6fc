package manager

import (
	"fmt"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/publish"
)

// addSnapshotPublisher adds the controller that publishes the snapshot of pools to the manager of
// the worker cluster.
func addSnapshotPublisher(management ctrlcluster.Cluster, mgr ctrl.Manager, opts *Options) error {
	if !opts.PublishSnapshot {
		return nil
	}
	err := mgr.Add(&publish.Publisher{
		Reader: publish.Reader{
			Management: management.GetClient(), Worker: mgr.GetClient(), Settings: management.GetAPIReader(), Namespace: opts.Namespace,
		},
		Live: management.GetAPIReader(), Writer: management.GetClient(), Clock: clock.RealClock{},
	})
	if err != nil {
		return fmt.Errorf("setting up --publish-snapshot: %w", err)
	}
	return nil
}
