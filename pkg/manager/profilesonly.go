package manager

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
)

// ProfilesCOSP is the value of --profiles-only for a seed of KKP.
const ProfilesCOSP = "cosp"

// cospLease is the lease of a controller in a seed, which does not wait for others in its
// namespace: they write other kinds.
const cospLease = "osm-gitops-cosp"

// newProfilesOnlyManager creates the manager of a seed of KKP. It runs the ProfileSource controller and
// nothing else, and reads no kinds but ProfileSource and CustomOperatingSystemProfile.
func newProfilesOnlyManager(opts *Options, deps dependencies) (ctrl.Manager, error) {
	cfg, lease := deps.management.cluster.config, opts.Shard.LeaseName(cospLease)
	o, err := managerOptions(opts, lease, opts.Namespace, cache.Options{
		DefaultTransform:  nodecache.TrimTransform(),
		DefaultNamespaces: map[string]cache.Config{opts.Namespace: {}},
	})
	if err != nil {
		return nil, err
	}
	if o.LeaderElectionResourceLockInterface, err = quietLease(cfg, lease, opts.Namespace); err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(cfg, o)
	if err != nil {
		return nil, fmt.Errorf("starting the controller: %w", err)
	}
	kind := schema.GroupKind{Group: osm.GroupVersion.Group, Kind: "CustomOperatingSystemProfile"}
	if _, err := mgr.GetRESTMapper().RESTMapping(kind, osm.GroupVersion.Version); err != nil {
		return nil, fmt.Errorf("--profiles-only=%s: looking up the kind %s: %w: start the controller in a seed, where KKP installs this kind", ProfilesCOSP, kind.Kind, err)
	}
	if deps.flux, err = newFluxFetcher(mgr, opts, deps.mirrors.Dir); err != nil {
		return nil, err
	}
	sources, err := prepareSourceReconciler(mgr, opts, deps)
	if err != nil {
		return nil, err
	}
	sources.Custom = true
	sources.Pools = nil
	sources.Check = lint.OSMTemplateCheck(deps.engine)
	if _, err := addPush(mgr, opts, sources); err != nil {
		return nil, err
	}
	if err := sources.Setup(mgr, sourceConcurrency); err != nil {
		return nil, fmt.Errorf("setting up the ProfileSource controller: %w", err)
	}
	return mgr, nil
}
