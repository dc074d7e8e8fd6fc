package manager

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/verify"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient/runnables"
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
	reports.Management = kubeclient.Cluster{Client: management.GetClient(), Live: management.GetAPIReader()}
	reports.Worker = kubeclient.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	if deps.auditLog != nil {
		reports.AuditLog = deps.auditLog
	}
	return func(ctx context.Context, cached cache.Cache) error { return reports.Setup(ctx, mgr, cached) }
}

// watchReports uses a cache of BootReports that is filled.
type watchReports func(ctx context.Context, reports cache.Cache) error

// reportReader reads BootReports once they can be read.
type reportReader struct{ cache atomic.Pointer[cache.Cache] }

func (r *reportReader) store(_ context.Context, reports cache.Cache) error {
	r.cache.Store(&reports)
	return nil
}

// get returns nil until BootReports can be read.
func (r *reportReader) get() client.Reader {
	if reports := r.cache.Load(); reports != nil {
		return *reports
	}
	return nil
}

// watchBootReportsWhenReadable calls starters with a cache of the worker cluster's BootReports, once
// they can be listed: after an update of the controller alone, the kind is not installed or its
// permissions are those of an earlier release. Nothing else needs them.
func watchBootReportsWhenReadable(mgr ctrl.Manager, starters ...watchReports) error {
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		var last string
		err := wait.PollUntilContextCancel(ctx, installedPoll, true, func(ctx context.Context) (bool, error) {
			err := mgr.GetAPIReader().List(ctx, &api.BootReportList{}, client.InNamespace(api.NamespaceCloudInitSettings), client.Limit(1))
			if err != nil && err.Error() != last {
				last = err.Error()
				log.FromContext(ctx).Info("reports of booting machines cannot be read: apply deploy/crds and deploy/rbac.yaml of this release (two clusters: deploy/two-clusters/worker.yaml)", "cause", last)
			}
			return err == nil, nil
		})
		if err != nil {
			return nil //nolint:nilerr // shutting down while it waited
		}
		// managedFields say when a machine reported, so nothing is trimmed.
		reports, err := runnables.AddCache(mgr, mgr, cache.Options{
			DefaultNamespaces: map[string]cache.Config{api.NamespaceCloudInitSettings: {}},
		})
		if err == nil && reports.WaitForCacheSync(ctx) { // it cannot be read before it is started
			for _, watch := range starters {
				err = errors.Join(err, watch(ctx, reports))
			}
		}
		if err != nil {
			return fmt.Errorf("watching BootReports: %w", err)
		}
		return nil
	}))
}
