package manager

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
)

// installedPoll is the interval of checks for the kind NodeProvenance.
const installedPoll = 10 * time.Second

// addNodes adds the node controller to the manager of the worker cluster. Provisioning does
// not need it: if the kind NodeProvenance is not installed, as after an update of the
// controller alone, the node controller starts after its installation.
func addNodes(ctx context.Context, management ctrlcluster.Cluster, mgr ctrl.Manager, opts *Options, deps dependencies) error {
	provenance := opts.nodeReconciler(deps)
	provenance.Management = kubeclient.Cluster{Client: management.GetClient(), Live: management.GetAPIReader()}
	provenance.Worker = kubeclient.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	provenance.Recorder = notify.DistinctRecorder{EventRecorder: mgr.GetEventRecorder(api.FieldManager)}
	provenance.AuditLog = deps.auditLog
	setUp := func(ctx context.Context) error {
		err := provenance.Setup(ctx, mgr, management.GetCache(), opts.WorkerCount)
		if err != nil {
			return fmt.Errorf("setting up the provenance of nodes: %w", err)
		}
		return nil
	}
	installed, err := nodes.Installed(mgr.GetRESTMapper())
	if err != nil {
		return err
	}
	if installed {
		return setUp(ctx)
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		logger := log.FromContext(ctx)
		logger.Info("the kind NodeProvenance is not installed: the provenance of nodes is not recorded; apply deploy/crds/gitops.k8c.io_nodeprovenances.yaml")
		err := wait.PollUntilContextCancel(ctx, installedPoll, false, func(context.Context) (bool, error) {
			installed, err := nodes.Installed(mgr.GetRESTMapper())
			if err != nil {
				logger.Error(err, "checking for the kind NodeProvenance")
			}
			return installed, nil
		})
		if err != nil {
			return nil //nolint:nilerr // shutting down while it waited
		}
		logger.Info("the kind NodeProvenance is installed now")
		return setUp(ctx)
	}))
}

// nodeReconciler returns a reconciler of nodes with the values of flags. The caller adds
// the clients for clusters.
func (opts *Options) nodeReconciler(deps dependencies) *nodes.Reconciler {
	return &nodes.Reconciler{
		Reader:    observe.Reader{Namespace: opts.Namespace, ProfileNamespaces: opts.CrossNamespaces, Engine: deps.engine},
		Clock:     clock.RealClock{},
		Retention: nodes.Retention{Age: opts.ProvenanceRetention, Max: opts.ProvenanceMax},
		Metrics:   deps.metrics,
	}
}
