package manager

import (
	"context"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/boots"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
)

// startBoots returns what adds the boot controller to the manager of the worker cluster.
func startBoots(management ctrlcluster.Cluster, mgr ctrl.Manager, opts *Options, deps dependencies) watchReports {
	reports := &boots.Reconciler{
		Reader:      observe.Reader{Namespace: opts.Namespace, ProfileNamespaces: opts.CrossNamespaces},
		Recorder:    notify.DistinctRecorder{EventRecorder: mgr.GetEventRecorder(api.FieldManager)},
		Clock:       clock.RealClock{},
		Metrics:     deps.metrics,
		Shard:       opts.Shard,
		SharedToken: opts.NodeTokenTTL == 0,
		Profiles: &verify.Verifier{
			Management: management.GetAPIReader(), Worker: mgr.GetAPIReader(), Namespace: opts.Namespace,
			Engine: deps.engine, Check: lint.TemplateCheck(deps.engine), Builtin: catalog.Builtin(), Git: deps.mirrors,
			FollowedOnly: true, // machines choose what is read
		},
	}
	reports.Management = observe.Cluster{Client: management.GetClient(), Live: management.GetAPIReader()}
	reports.Worker = observe.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	if deps.auditLog != nil {
		reports.AuditLog = deps.auditLog
	}
	return func(ctx context.Context, cached cache.Cache) error { return reports.Setup(ctx, mgr, cached) }
}
