package manager

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/dryrun"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/dryrun/virtual"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/builtin"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// DryRun reports what the controller would do.
func DryRun(ctx context.Context, opts *Options) (*dryrun.Report, error) {
	c, err := opts.newClusters()
	if err != nil {
		return nil, err
	}
	for _, r := range []*connectivityMonitor{c.management, c.worker} {
		if err := r.probeAPIServer(ctx); err != nil {
			return nil, fmt.Errorf("the API server of the %s does not answer: %w", r.name, err)
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	alone := *opts
	// A dry run writes nothing, so it needs no lease.
	alone.LeaderElect = false
	deps, release, err := alone.dryRunDependencies(c)
	if err != nil {
		return nil, err
	}
	defer release()
	deps.unreadable = func(_ context.Context, r *toolscache.Reflector, err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
			stop(fmt.Errorf("reading %s: %w", r.TypeDescription(), err)) // a retry is useless
		}
	}
	s, err := alone.newDryRunEnvironment(ctx, deps, opts.Shard.LeaseName(LeaseName))
	if err != nil {
		return nil, err
	}
	report, err := s.runOnce(ctx)
	// The cause says more than the error of a canceled context.
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return report, err
}

// dryRunDependencies returns the dependencies of a dry run. The returned function releases the mirrors.
func (opts *Options) dryRunDependencies(c clusters) (deps dependencies, release func(), err error) {
	settings, err := opts.readSettings(c.worker.config)
	if err != nil {
		return deps, nil, err
	}
	mirrors, release, err := opts.lockMirrors()
	if err != nil {
		return deps, nil, fmt.Errorf("--cache-dir: %w: name another folder", err)
	}
	management := &clusterState{cluster: c.management}
	deps = dependencies{settings: settings, engine: render.NewEngine(), management: management, worker: management, mirrors: mirrors}
	if c.apart() {
		deps.worker = &clusterState{cluster: c.worker}
	}
	return deps, release, nil
}

// dryRunEnvironment is the environment of a dry run: managers that fill caches but run no controller,
// and the readers that use them.
type dryRunEnvironment struct {
	opts               *Options
	dependencies       dependencies
	management, worker ctrl.Manager // the same with one cluster
	store              *virtual.Store
	onManagement       *virtual.View
	onWorker           *virtual.View
	sources            *profilesource.Reconciler // caches what it read from repositories
	nodes              bool                      // the kind NodeProvenance is installed
}

// newDryRunEnvironment prepares a dry run without starting the managers.
func (opts *Options) newDryRunEnvironment(ctx context.Context, deps dependencies, lease string) (*dryRunEnvironment, error) {
	cfg := deps.management.cluster.config
	mgr, err := newManager(cfg, opts, deps, lease)
	if err != nil {
		return nil, err
	}
	s := &dryRunEnvironment{opts: opts, dependencies: deps, management: mgr, worker: mgr, store: virtual.NewStore(mgr.GetScheme(), clock.RealClock{})}
	s.onManagement = s.store.NewView("management", mgr.GetClient(), mgr.GetAPIReader(), digestCloudInitSecrets)
	s.onWorker = s.onManagement
	if deps.worker != deps.management {
		alone := *opts
		alone.LeaderElect = false // the lease of the management cluster is enough
		if s.worker, err = alone.newWorkerManager(deps); err != nil {
			return nil, err
		}
		s.onWorker = s.store.NewView("worker", s.worker.GetClient(), s.worker.GetAPIReader(), digestCloudInitSecrets)
	}
	if s.dependencies.flux, err = newFluxFetcher(mgr, opts, s.dependencies.mirrors.Dir); err != nil {
		return nil, err
	}
	if s.nodes, err = nodes.Installed(s.worker.GetRESTMapper()); err != nil {
		return nil, err
	}
	s.sources = opts.profileReconciler(s.dependencies)
	s.sources.Client = s.onManagement
	s.sources.Live = s.onManagement.Live
	s.sources.Recorder = s.store
	s.sources.Fetcher = opts.newFetcher(s.dependencies, s.onManagement, s.onManagement.Live)
	return s, s.addIndexes(ctx)
}

// addIndexes adds the indexes that controllers use for lists.
func (s *dryRunEnvironment) addIndexes(ctx context.Context) error {
	if err := s.sources.Pools.UseCache(ctx, s.worker.GetCache()); err != nil {
		return err
	}
	management := s.onManagement.NewFieldIndexer(s.management.GetFieldIndexer())
	worker := s.onWorker.NewFieldIndexer(s.worker.GetFieldIndexer())
	if err := pools.Index(ctx, worker); err != nil {
		return err
	}
	if err := s.newRolloutReconciler().IndexPools(ctx, worker); err != nil {
		return err
	}
	if !s.nodes {
		return nil // there is nothing to index
	}
	if err := nodecache.IndexMachines(ctx, worker); err != nil {
		return err
	}
	return nodecache.Index(ctx, worker, management)
}

// digestCloudInitSecrets returns the part of an object that caches store.
func digestCloudInitSecrets(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok && o.GetNamespace() == api.NamespaceCloudInitSettings {
		return pools.DigestSecretsAndTrim(obj)
	}
	return obj, nil
}

func (s *dryRunEnvironment) newRolloutReconciler() *rollout.Reconciler {
	return &rollout.Reconciler{
		Management: s.onManagement, Worker: s.onWorker, Recorder: s.store, SourceRecorder: s.store,
		Clock: clock.RealClock{}, Ahead: s.dependencies.worker.cluster.clockAhead, Namespace: s.opts.Namespace, Shard: s.opts.Shard,
	}
}

// newDryRun returns a dry run whose controllers have no state of an earlier one.
func (s *dryRunEnvironment) newDryRun() *dryrun.DryRun {
	s.store.Reset()
	r := &dryrun.DryRun{
		Store: s.store, Management: s.onManagement, Worker: s.onWorker, Namespace: s.opts.Namespace, Shard: s.opts.Shard,
		Builtin: &builtin.Reconciler{Client: s.onManagement, Recorder: s.store, Namespace: s.opts.Namespace, Disabled: s.opts.DisableDefaultOSPs},
		Sources: s.sources, Rollouts: s.newRolloutReconciler(),
	}
	machines := s.opts.poolReconciler(s.dependencies)
	machines.Indexed = true
	machines.Management = kubeclient.Cluster{Client: s.onManagement, Live: s.onManagement.Live}
	machines.Worker = kubeclient.Cluster{Client: s.onWorker, Live: s.onWorker.Live}
	machines.ClusterInfo = s.onWorker.Live
	machines.Registry = s.onManagement.Live
	machines.Recorder = s.store
	machines.Appliers = &ownership.Resolver{Live: s.management.GetAPIReader(), ArgoNamespace: s.opts.ArgoNamespace, Clock: clock.RealClock{}}
	r.Pools = machines
	r.Unallowed = machines.Unallowed
	r.Settings = machines.NodeSettings
	if s.nodes {
		provenance := s.opts.nodeReconciler(s.dependencies)
		provenance.Management = kubeclient.Cluster{Client: s.onManagement, Live: s.onManagement.Live}
		provenance.Worker = kubeclient.Cluster{Client: s.onWorker, Live: s.onWorker.Live}
		provenance.Recorder = s.store
		r.Nodes = provenance
	}
	return r
}

// runOnce fills the caches, executes one dry run, and ends.
func (s *dryRunEnvironment) runOnce(ctx context.Context) (*dryrun.Report, error) {
	var report *dryrun.Report
	all, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.start(ctx, all)
	all.Go(func() (err error) {
		// The managers only fill caches, and would not end by themselves.
		defer stop()
		if !s.waitForCaches(ctx) {
			return ctx.Err()
		}
		report, err = s.newDryRun().Run(ctx)
		return err
	})
	err := all.Wait()
	return report, err
}

// waitForCaches waits until the caches can be read; it returns false if ctx ended first.
func (s *dryRunEnvironment) waitForCaches(ctx context.Context) bool {
	return s.management.GetCache().WaitForCacheSync(ctx) && s.worker.GetCache().WaitForCacheSync(ctx)
}

// start starts the managers.
func (s *dryRunEnvironment) start(ctx context.Context, all *errgroup.Group) {
	for _, mgr := range slices.Compact([]ctrl.Manager{s.management, s.worker}) {
		all.Go(func() error {
			if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("filling caches: %w", err)
			}
			return nil
		})
	}
}
