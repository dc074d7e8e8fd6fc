package manager

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/doctor"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient/runnables"
	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/commitstatus"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/builtin"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/retention"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/webhook"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// LeaseName is the name that operating-system-manager uses, so that it and this controller never write
// at the same time.
const LeaseName = "operating-system-manager"

// Timing of leases: three times the defaults of controller-runtime, whose 10 seconds would
// end the process whenever a single API server restarts. Another replica takes over
// immediately from one that ends, and after leaseTime from one that was killed or could not
// release its lease.
const (
	leaseTime     = 45 * time.Second
	renewDeadline = 30 * time.Second
)

// sourceConcurrency bounds the ProfileSources that are reconciled concurrently. Most of
// them wait for a server, and those of an unreachable server must not block the others.
// source.Mirrors bounds what needs memory.
const sourceConcurrency = 128

// Run runs until ctx ends or a necessary part fails.
func Run(ctx context.Context, opts *Options) error {
	c, err := opts.newClusters()
	if err != nil {
		return err
	}
	var settings render.Settings
	if opts.ProfilesOnly == "" {
		if settings, err = opts.readSettings(c.worker.config); err != nil {
			return err
		}
	}
	mirrors, release, err := opts.lockMirrors()
	if err != nil {
		return fmt.Errorf("--cache-dir: %w", err)
	}
	defer release()
	management := &clusterState{cluster: c.management}
	worker := management
	if c.apart() {
		worker = &clusterState{cluster: c.worker}
	}
	servers, err := opts.newServers(management, worker)
	if err != nil {
		return err
	}
	counted, err := newMetrics(c)
	if err != nil {
		return err
	}
	deps := dependencies{settings: settings, engine: render.NewEngine(), metrics: counted, management: management, worker: worker}
	if deps.auditLog, err = opts.newAuditLog(counted); err != nil {
		return err
	}
	if deps.auditLog != nil {
		defer deps.auditLog.Close() // after every writer has ended
	}
	return c.runWithServers(ctx, servers, func(ctx context.Context) error { return runManager(ctx, opts, deps, mirrors) })
}

// runWithServers runs a function together with servers until it ends, a server fails, or the
// kubeconfig of a cluster is replaced.
func (c clusters) runWithServers(ctx context.Context, servers []func(context.Context) error, run func(context.Context) error) error {
	all, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for _, serve := range servers {
		all.Go(func() error { return serve(ctx) })
	}
	all.Go(func() error { return c.waitForNewKubeconfig(ctx, replacedInterval) })
	all.Go(func() error {
		// The servers end with the controller.
		defer stop()
		return run(ctx)
	})
	return all.Wait()
}

// runManager waits for the management cluster, then runs until ctx ends, a lease is lost,
// or a necessary part fails.
func runManager(ctx context.Context, opts *Options, deps dependencies, mirrors *source.Mirrors) error {
	deps.mirrors = mirrors
	mgr, err := deps.management.createManagerWithRetry(ctx, func() (ctrl.Manager, error) {
		if opts.ProfilesOnly == ProfilesCOSP {
			return newProfilesOnlyManager(opts, deps)
		}
		return newConfiguredManager(ctx, opts, deps)
	})
	if err != nil {
		return nil //nolint:nilerr // shutting down before the start
	}
	err = mgr.Start(ctx)
	// The process ends without waiting when the lease is lost, and would block the worker
	// cluster's lease for the next leader.
	deps.worker.waitForManagerStop()
	// During shutdown errors are expected: the next run repeats interrupted work.
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("running the controller: %w", err)
	}
	return nil
}

// newConfiguredManager creates the manager of the management cluster with everything that it runs.
func newConfiguredManager(ctx context.Context, opts *Options, deps dependencies) (ctrl.Manager, error) {
	cfg := deps.management.cluster.config
	if deps.management == deps.worker {
		if err := opts.rejectOSMConflict(ctx, cfg); err != nil {
			return nil, err
		}
	}
	mgr, err := newManager(cfg, opts, deps, opts.Shard.LeaseName(LeaseName))
	if err != nil {
		return nil, err
	}
	if opts.RegistrySecret.Name != "" {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: opts.RegistrySecret.Namespace, Name: opts.RegistrySecret.Name}}
		if deps.registry, err = cacheOfOne(mgr, secret, cache.TransformStripManagedFields()); err != nil {
			return nil, err
		}
	}
	if err := addLeaseReporter(mgr, opts, types.NamespacedName{Namespace: opts.Namespace, Name: opts.Shard.LeaseName(LeaseName)}); err != nil {
		return nil, err
	}
	if deps.flux, err = newFluxFetcher(mgr, opts, deps.mirrors.Dir); err != nil {
		return nil, err
	}
	// KubeOne and KKP have one cluster, and the controller in kube-system.
	if deps.management == deps.worker && opts.Namespace == metav1.NamespaceSystem && opts.Shard.IncludesUnlabeled() {
		if err := addCRDMismatchReporter(mgr, opts); err != nil {
			return nil, err
		}
	}
	return mgr, addControllers(ctx, mgr, opts, deps)
}

// rejectOSMConflict rejects a namespace other than kube-system while operating-system-manager,
// its lease or its profiles exist: a cluster has one controller, and the two would not wait
// for each other. A controller that only observes can run in any namespace.
func (opts *Options) rejectOSMConflict(ctx context.Context, cfg *rest.Config) error {
	if opts.Namespace == metav1.NamespaceSystem || opts.Observe {
		return nil
	}
	scheme, err := kubeclient.NewScheme()
	if err != nil {
		return err
	}
	live, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("preparing to read %s: %w", metav1.NamespaceSystem, err)
	}
	left, err := doctor.ListOSMObjectsInKubeSystem(ctx, live)
	if err != nil {
		return fmt.Errorf("--namespace %s: searching for another controller: %w", opts.Namespace, err)
	}
	if len(left) > 0 {
		return fmt.Errorf("--namespace %s: %s has %s: %s", opts.Namespace, metav1.NamespaceSystem, strings.Join(left, ", "), doctor.StayInSystemRemedy)
	}
	return nil
}

// newManager creates the manager of the management cluster. With a separate worker cluster,
// its cache contains nothing outside --namespace except profiles that pools can use.
func newManager(cfg *rest.Config, opts *Options, deps dependencies, lease string) (ctrl.Manager, error) {
	namespaceOnly := map[string]cache.Config{opts.Namespace: {}}
	caches := cache.Options{
		DefaultTransform:  nodecache.TrimTransform(),
		DefaultNamespaces: namespaceOnly,
		ByObject:          map[client.Object]cache.ByObject{},
	}
	if deps.management == deps.worker {
		var err error
		if caches.ByObject, err = workerCache(); err != nil {
			return nil, err
		}
	}
	for _, kind := range []client.Object{&osm.OperatingSystemProfile{}, &api.ProfileSource{}} {
		caches.ByObject[kind] = cache.ByObject{Namespaces: opts.profileNamespaces()}
	}
	caches.ByObject[&appsv1.ControllerRevision{}] = nodecache.Records(opts.Namespace)
	caches.DefaultWatchErrorHandler = deps.unreadable
	o, err := managerOptions(opts, lease, opts.Namespace, caches)
	if err == nil && opts.Observe {
		o.LeaderElectionResourceLockInterface, err = quietLease(cfg, lease, opts.Namespace)
	}
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(cfg, o)
	if err != nil {
		return nil, fmt.Errorf("starting the controller: %w", err)
	}
	return mgr, nil
}

// managerOptions returns the options of both managers. Probes and metrics have their own
// servers.
func managerOptions(opts *Options, lease, namespace string, caches cache.Options) (ctrl.Options, error) {
	scheme, err := kubeclient.NewScheme()
	return ctrl.Options{
		Scheme:                        scheme,
		MapperProvider:                kubeclient.NewMapper,
		LeaderElection:                opts.LeaderElect,
		LeaderElectionID:              lease,
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseTime),
		RenewDeadline:                 new(renewDeadline),
		HealthProbeBindAddress:        "0",
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		Cache:                         caches,
		// A failed attempt has registered the names of its controllers.
		Controller: config.Controller{SkipNameValidation: new(true)},
	}, err
}

// dependencies has the inputs of nodes other than their profile, and the readers for them and
// for profiles from Flux.
type dependencies struct {
	management, worker *clusterState // the same pointer with one cluster
	engine             *render.Engine
	metrics            *metrics.Metrics
	auditLog           *auditlog.Writer // nil without an audit log
	settings           render.Settings
	registry           cache.Cache // nil without credentials of registries
	flux               *fetcher.Flux
	appliers           *ownership.Resolver
	webhooks           *webhook.Certificates     // nil without our own certificates
	sources            *profilesource.Reconciler // to learn about the pools of a separate worker cluster
	statuses           *commitstatus.Statuses    // to learn that machines do not boot
	reports            *reportReader             // of the worker cluster
	mirrors            *source.Mirrors

	// unreadable handles errors of filling a cache; nil uses client-go's handler, which logs
	// and retries.
	unreadable toolscache.WatchErrorHandlerWithContext
}

// prepareSourceReconciler returns a reconciler of ProfileSources with what it needs of a manager, which it
// does not add to the manager.
func prepareSourceReconciler(mgr ctrl.Manager, opts *Options, deps dependencies) (*profilesource.Reconciler, error) {
	if err := mgr.Add(newMirrorSweeper(deps.mirrors)); err != nil {
		return nil, fmt.Errorf("setting up the sweep of mirrors: %w", err)
	}
	sources := opts.profileReconciler(deps)
	sources.Client, sources.Live = mgr.GetClient(), mgr.GetAPIReader()
	sources.Fetcher = opts.newFetcher(deps, mgr.GetClient(), mgr.GetAPIReader())
	sources.Recorder = notify.DistinctRecorder{EventRecorder: mgr.GetEventRecorder(api.FieldManager)}
	if deps.auditLog != nil {
		sources.AuditLog = deps.auditLog
		if err := mgr.Add(deps.auditLog); err != nil {
			return nil, fmt.Errorf("setting up --audit-log: %w", err)
		}
	}
	return sources, nil
}

func addControllers(ctx context.Context, mgr ctrl.Manager, opts *Options, deps dependencies) error {
	sources, err := prepareSourceReconciler(mgr, opts, deps)
	if err != nil {
		return err
	}
	deps.appliers = &ownership.Resolver{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: sources.Recorder, ArgoNamespace: opts.ArgoNamespace, Clock: clock.RealClock{},
	}
	if deps.management == deps.worker {
		if err := sources.Pools.UseCache(ctx, mgr.GetCache()); err != nil {
			return err
		}
	}
	if deps.statuses, err = addPush(mgr, opts, sources); err != nil {
		return err
	}
	if err := sources.Setup(mgr, sourceConcurrency); err != nil {
		return fmt.Errorf("setting up the ProfileSource controller: %w", err)
	}
	if opts.Shard.IncludesUnlabeled() {
		if err := recordAppliers(mgr, deps.appliers); err != nil {
			return err
		}
		builtinSource := &builtin.Reconciler{Client: mgr.GetClient(), Recorder: sources.Recorder, Namespace: opts.Namespace, Disabled: opts.DisableDefaultOSPs}
		if err := builtinSource.Setup(mgr); err != nil {
			return fmt.Errorf("setting up the ProfileSource of the built-in profiles: %w", err)
		}
		if err := warnOfSettings(mgr, opts, deps, sources.Recorder); err != nil {
			return err
		}
	}
	// Every replica answers admission reviews, using only the management cluster.
	reviewer := &pools.Reconciler{Management: kubeclient.Cluster{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}, Namespace: opts.Namespace, ProfileNamespaces: opts.CrossNamespaces}
	if deps.webhooks, err = addAdmission(mgr, opts, reviewer, deps); err != nil {
		return err
	}
	if deps.management == deps.worker {
		return addWorkerControllers(ctx, mgr, mgr, opts, deps)
	}
	deps.sources = sources
	return addWorker(mgr, opts, deps)
}

// profileReconciler returns a reconciler of ProfileSources with the values of flags. The
// caller adds the clients for clusters and sources.
func (opts *Options) profileReconciler(deps dependencies) *profilesource.Reconciler {
	return &profilesource.Reconciler{
		Namespace:     opts.Namespace,
		Shard:         opts.Shard,
		Pools:         retention.NewPools(opts.Namespace),
		Metrics:       deps.metrics,
		Check:         lint.TemplateCheck(deps.engine),
		Bases:         catalog.Builtin(),
		Hooks:         opts.Push.Address != "",
		ArgoNamespace: opts.ArgoNamespace,
	}
}

// recordAppliers adds a controller that records who applied profiles as soon as they are created,
// whether or not a pool uses them.
func recordAppliers(mgr ctrl.Manager, appliers *ownership.Resolver) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("applied-profile").
		For(&osm.OperatingSystemProfile{}, builder.WithPredicates(predicate.NewPredicateFuncs(appliers.IsApplied))).
		Complete(appliers)
	if err != nil {
		return fmt.Errorf("setting up the controller that records who applied profiles: %w", err)
	}
	return nil
}

// newFetcher returns a fetcher for what ProfileSources name.
func (opts *Options) newFetcher(deps dependencies, cached, live client.Reader) *fetcher.Fetcher {
	f := &fetcher.Fetcher{
		Client:        cached,
		Live:          live,
		Git:           deps.mirrors,
		DirectoryRoot: opts.DirectoryRoot,
		Flux:          deps.flux,
		Namespace:     opts.Namespace,
	}
	if !opts.DisableDefaultOSPs {
		f.Builtin = catalog.Builtin()
	}
	return f
}

// newFluxFetcher returns a reader of Flux's objects. Its cache starts a watch when a source first
// names an object, so Flux need not be installed.
func newFluxFetcher(mgr ctrl.Manager, opts *Options, dir string) (*fetcher.Flux, error) {
	c, err := runnables.AddCache(mgr, mgr, cache.Options{
		DefaultTransform:  cache.TransformStripManagedFields(),
		DefaultNamespaces: map[string]cache.Config{opts.Namespace: {}},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing to watch objects of Flux: %w", err)
	}
	return &fetcher.Flux{
		Cache:         c,
		Artifacts:     &source.Artifacts{Dir: dir, Hosts: opts.ArtifactHosts, AllowedCIDRs: opts.GitAllowedCIDRs},
		AllowExternal: opts.AllowExternalArtifacts,
	}, nil
}

// cloudProviderEnvironment returns the variables that are defaults for values of a cloudProviderSpec.
func cloudProviderEnvironment() map[string]string {
	out := map[string]string{}
	for _, name := range render.CloudConfigEnvironmentNames() {
		if value, ok := os.LookupEnv(name); ok {
			out[name] = value
		}
	}
	return out
}

// A mirror that no source uses is deleted. The check runs every sweepInterval, since hourly
// renewed credentials each leave a mirror. For mirrors of an earlier process the users are
// unknown, so they are deleted after mirrorLife without a fetch: the interval of a source
// is at most 720 hours.
const (
	mirrorLife    = 31 * 24 * time.Hour
	sweepInterval = time.Hour
)

// newMirrorSweeper deletes mirrors whose sources or credentials no longer exist.
func newMirrorSweeper(mirrors *source.Mirrors) manager.RunnableFunc {
	return func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			if err := mirrors.DeleteUnused(mirrorLife); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "deleting unused mirrors")
			}
		}, sweepInterval)
		return nil
	}
}

// cacheOfOne watches the object with one name, so that a permission for this name is
// sufficient.
func cacheOfOne(mgr ctrl.Manager, obj client.Object, trim toolscache.TransformFunc) (cache.Cache, error) {
	namespace, name := obj.GetNamespace(), obj.GetName()
	c, err := runnables.AddCache(mgr, mgr, cache.Options{
		ByObject: map[client.Object]cache.ByObject{
			obj: {
				Namespaces: map[string]cache.Config{namespace: {FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name)}},
				Transform:  trim,
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching %T %s/%s: %w", obj, namespace, name, err)
	}
	return c, nil
}

// profileNamespaces returns the namespaces whose profiles are watched.
func (opts *Options) profileNamespaces() map[string]cache.Config {
	out := map[string]cache.Config{opts.Namespace: {}}
	for _, ns := range opts.CrossNamespaces {
		if ns == desired.AllNamespaces {
			return map[string]cache.Config{cache.AllNamespaces: {}}
		}
		out[ns] = cache.Config{}
	}
	return out
}
