package manager

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcluster "sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient/runnables"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/publish"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout"
)

// WorkerLeaseName is the name that operating-system-manager uses, like LeaseName. Its namespace is
// kube-system of the worker cluster.
const WorkerLeaseName = "operating-system-manager-worker-manager"

// followEvery is the interval at which a replica that does not lead checks the worker
// cluster, for a probe and a metric.
const followEvery = 15 * time.Second

// setUpRetry is the interval of attempts to start in a cluster, for instance while a kind
// is not installed, or not yet served by an API server that has just started.
const setUpRetry = 2 * time.Second

// workerCache configures the cached objects of the worker cluster: only digests of user
// data, and only bootstrap tokens of kube-system.
func workerCache() (map[client.Object]cache.ByObject, error) {
	tokens, err := labels.NewRequirement(api.LabelTokenPool, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("selecting bootstrap tokens: %w", err)
	}
	objects := pools.AccessCacheOptions()
	maps.Copy(objects, nodecache.WorkerObjects())
	maps.Copy(objects, map[client.Object]cache.ByObject{
		&cluster.MachineDeployment{}: {Namespaces: map[string]cache.Config{cache.AllNamespaces: {}}, Transform: nodecache.TrimTransform()},
		&corev1.Secret{}: {Namespaces: map[string]cache.Config{
			api.NamespaceCloudInitSettings: {Transform: pools.DigestSecretsAndTrim},
			metav1.NamespaceSystem:         {LabelSelector: labels.NewSelector().Add(*tokens), Transform: nodecache.TrimTransform()},
		}},
	})
	return objects, nil
}

// addWorkerControllers adds the pool controller to the manager of the worker cluster.
func addWorkerControllers(ctx context.Context, management ctrlcluster.Cluster, mgr ctrl.Manager, opts *Options, deps dependencies) error {
	info := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"}}
	clusterInfo, err := cacheOfOne(mgr, info, pools.TrimClusterInfo)
	if err != nil {
		return err
	}
	machines := opts.poolReconciler(deps)
	machines.Management = kubeclient.Cluster{Client: management.GetClient(), Live: management.GetAPIReader()}
	machines.Worker = kubeclient.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
	machines.ClusterInfo = clusterInfo
	machines.Recorder = notify.DistinctRecorder{EventRecorder: mgr.GetEventRecorder(api.FieldManager)}
	machines.Routine = pools.NewRoutineEventLimiter()
	machines.Engine = metrics.Renderer{Engine: deps.engine, Clock: clock.RealClock{}, Metrics: deps.metrics}
	machines.AuditLog = deps.auditLog
	machines.Appliers = deps.appliers
	watches := pools.Watches{Management: management.GetCache(), ClusterInfo: clusterInfo, Concurrency: opts.WorkerCount}
	if deps.registry != nil {
		machines.Registry, watches.Registry = deps.registry, deps.registry
	}
	if err := machines.Setup(ctx, mgr, watches); err != nil {
		return fmt.Errorf("setting up the pool controller: %w", err)
	}
	deps.reports = &reportReader{}
	if err := nodecache.IndexMachines(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	rollouts, err := addRollouts(ctx, management, mgr, opts, deps)
	if err != nil {
		return err
	}
	if err := watchBootReportsWhenReadable(mgr, rollouts, deps.statuses.WatchBootReports, deps.reports.store, startBoots(management, mgr, opts, deps)); err != nil {
		return err
	}
	if opts.Shard.IncludesUnlabeled() {
		if err := addNodes(ctx, management, mgr, opts, deps); err != nil {
			return err
		}
		if err := addSnapshotPublisher(management, mgr, opts); err != nil {
			return err
		}
	}
	return addUI(management, mgr, opts, deps)
}

// poolReconciler returns a reconciler of pools with the values of flags. The caller adds
// the clients for clusters.
func (opts *Options) poolReconciler(deps dependencies) *pools.Reconciler {
	return &pools.Reconciler{
		Engine:            deps.engine,
		Metrics:           deps.metrics,
		Clock:             clock.RealClock{},
		Random:            rand.Reader,
		Environment:       cloudProviderEnvironment(),
		Namespace:         opts.Namespace,
		ProfileNamespaces: opts.CrossNamespaces,
		Settings:          deps.settings,
		CA:                deps.settings.KubernetesCACert,
		RegistrySecret:    opts.RegistrySecret,

		CloudProviderReferences: opts.CloudProviderReferences,

		TokenServiceAccount: opts.TokenServiceAccount,
		NodeTokenTTL:        opts.NodeTokenTTL,
		OverrideServer:      opts.OverrideServer,
		Shard:               opts.Shard,
		History:             archive.Retention{Limit: opts.HistoryLimit, Gone: opts.HistoryRetention},
	}
}

// addWorker adds the work in a separate worker cluster. It starts once this replica leads
// in the management cluster, the worker cluster answers, and this replica also holds the
// lease there, which any other writer such as operating-system-manager needs. If the lease
// is lost, the process ends.
func addWorker(mgr ctrl.Manager, opts *Options, deps dependencies) error {
	waitFor := func(what string) { deps.worker.waits.Store(&what) }
	waitFor("waits until this replica leads")
	// A replica that does not lead also reports whether it could reach the cluster.
	follow := runnables.Everywhere(func(ctx context.Context) error {
		deps.worker.cluster.checkPeriodically(ctx, mgr.Elected(), followEvery)
		return nil
	})
	if err := mgr.Add(follow); err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		deps.worker.working.Lock()
		defer deps.worker.working.Unlock()
		deps.worker.waits.Store(nil)
		worker, err := deps.worker.createManagerWithRetry(ctx, func() (ctrl.Manager, error) { return newConfiguredWorkerManager(ctx, mgr, opts, deps) })
		if err != nil {
			return nil // shutting down before the start
		}
		if opts.LeaderElect {
			waitFor("waits for the lease " + metav1.NamespaceSystem + "/" + opts.Shard.LeaseName(WorkerLeaseName))
		}
		go func() {
			select {
			case <-worker.Elected():
				deps.worker.waits.Store(nil)
			case <-ctx.Done():
			}
		}()
		if err := worker.Start(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("in the worker cluster: %w", err)
		}
		return nil
	}))
}

// createManagerWithRetry calls attempt until it returns a manager, which the caller starts, or ctx
// ends. It retries after every error: the API server may be unreachable, or necessary objects may
// be missing.
func (p *clusterState) createManagerWithRetry(ctx context.Context, attempt func() (ctrl.Manager, error)) (out ctrl.Manager, err error) {
	err = wait.PollUntilContextCancel(ctx, setUpRetry, true, func(ctx context.Context) (bool, error) {
		if !p.cluster.waitUntilReachable(ctx) {
			return false, ctx.Err()
		}
		mgr, err := attempt()
		if err != nil {
			if before := p.broken.Swap(&err); before == nil || (*before).Error() != err.Error() {
				ctrl.Log.Error(err, "beginning work", "cluster", p.cluster.name)
			}
			return false, nil
		}
		p.broken.Store(nil)
		readCache := mgr.GetCache()
		p.caches.Store(&readCache)
		out = mgr
		return true, nil
	})
	return out, err
}

// newWorkerManager creates the manager of a separate worker cluster, without controllers.
func (opts *Options) newWorkerManager(deps dependencies) (ctrl.Manager, error) {
	objects, err := workerCache()
	if err != nil {
		return nil, err
	}
	o, err := managerOptions(opts, opts.Shard.LeaseName(WorkerLeaseName), metav1.NamespaceSystem, cache.Options{
		DefaultTransform: nodecache.TrimTransform(), ByObject: objects, DefaultWatchErrorHandler: deps.unreadable,
	})
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(deps.worker.cluster.config, o)
	if err != nil {
		return nil, fmt.Errorf("preparing the worker cluster: %w", err)
	}
	return mgr, nil
}

// newConfiguredWorkerManager creates the manager of a separate worker cluster with everything that it
// runs.
func newConfiguredWorkerManager(ctx context.Context, management ctrl.Manager, opts *Options, deps dependencies) (ctrl.Manager, error) {
	mgr, err := opts.newWorkerManager(deps)
	if err != nil {
		return nil, err
	}
	if deps.webhooks != nil { // MachineDeployments are reviewed there
		if err := deps.webhooks.PublishBundles(mgr, mgr); err != nil {
			return nil, err
		}
	}
	if err := deps.sources.WatchPools(ctx, mgr); err != nil {
		return nil, err
	}
	if err := addLeaseReporter(mgr, opts, types.NamespacedName{Namespace: metav1.NamespaceSystem, Name: opts.Shard.LeaseName(WorkerLeaseName)}); err != nil {
		return nil, err
	}
	return mgr, addWorkerControllers(ctx, management, mgr, opts, deps)
}

// addRollouts adds the controllers that release versions to pools in waves and replace
// machines to the manager of the worker cluster. It returns what lets them read BootReports.
func addRollouts(ctx context.Context, management ctrlcluster.Cluster, mgr ctrl.Manager, opts *Options, deps dependencies) (watchReports, error) {
	rollouts := &rollout.Reconciler{
		Management:     management.GetClient(),
		Worker:         mgr.GetClient(),
		Recorder:       notify.DistinctRecorder{EventRecorder: mgr.GetEventRecorder(api.FieldManager)},
		SourceRecorder: notify.DistinctRecorder{EventRecorder: management.GetEventRecorder(api.FieldManager)},
		Clock:          clock.RealClock{},
		Ahead:          deps.worker.cluster.clockAhead,
		Metrics:        deps.metrics,
		Namespace:      opts.Namespace,
		Shard:          opts.Shard,
	}
	if err := rollouts.Setup(ctx, mgr, management.GetCache()); err != nil {
		return nil, err
	}
	return func(_ context.Context, reports cache.Cache) error { return rollouts.WatchBootReports(reports) }, nil
}

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
