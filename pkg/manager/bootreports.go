package manager

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// watchBootReports calls watch with a cache of the worker cluster's BootReports, once they can be
// listed: after an update of the controller alone, the kind is not installed or its permissions
// are those of an earlier release. Nothing else needs them.
func watchBootReports(mgr ctrl.Manager, watch func(ctx context.Context, reports cache.Cache) error) error {
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
		reports, err := cache.New(mgr.GetConfig(), cache.Options{
			Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(), // managedFields say when a machine reported
			DefaultNamespaces: map[string]cache.Config{api.NamespaceCloudInitSettings: {}},
		})
		if err == nil {
			err = mgr.Add(reports)
		}
		if err == nil && reports.WaitForCacheSync(ctx) { // it cannot be read before it is started
			err = watch(ctx, reports)
		}
		if err != nil {
			return fmt.Errorf("watching BootReports: %w", err)
		}
		return nil
	}))
}
