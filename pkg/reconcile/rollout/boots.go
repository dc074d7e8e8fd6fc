package rollout

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// WatchBootReports lets machines whose boots fail count before they exceed the time limit. It is
// called after Setup, also while the controller runs, once the kind is installed and the controller
// has the permission to list it: without them a cache is never filled.
func (r *Reconciler) WatchBootReports(reports cache.Cache) error {
	if err := r.controller.Watch(source.Kind[client.Object](reports, &api.BootReport{}, r.enqueueLater(r.requestsForPoolObject))); err != nil {
		return fmt.Errorf("watching BootReports: %w", err)
	}
	r.bootReports.Store(&reports)
	return nil
}

// failingBoots returns the boots that fail, by the uid of their machine.
func (r *Reconciler) failingBoots(ctx context.Context) (map[types.UID]*api.MachineBootStatus, error) {
	reports := r.bootReports.Load()
	if reports == nil {
		return nil, nil
	}
	var list api.BootReportList // belongs to the cache: do not modify it
	if err := (*reports).List(ctx, &list, client.InNamespace(api.NamespaceCloudInitSettings), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing BootReports: %w", err)
	}
	out := map[types.UID]*api.MachineBootStatus{}
	for i := range list.Items {
		for j := range list.Items[i].Status.Machines {
			m := &list.Items[i].Status.Machines[j]
			// Stages follow each other: the last one that fails is the one that prevents joining.
			if m.Outcome == api.BootFailing && (out[m.MachineUID] == nil || out[m.MachineUID].Since.Before(&m.Since)) {
				out[m.MachineUID] = m
			}
		}
	}
	return out, nil
}
