package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/dryrun"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// rehearsalFlags are about saying what would be done instead of doing it.
type rehearsalFlags struct {
	dryRun, observe bool
	output          string
}

func (r *rehearsalFlags) bind(fs *pflag.FlagSet) {
	fs.BoolVar(&r.dryRun, "dry-run", false, "print what would be done, for which it reads the cluster and the repositories, and end; nothing is written")
	fs.BoolVar(&r.observe, "observe", false, "beside another controller, say on ProfileSources what would be done, in the condition "+api.ObservedCondition+", and write nothing else")
	fs.StringVarP(&r.output, "output", "o", "text", "what --dry-run prints: "+strings.Join(slices.Sorted(maps.Keys(dryRunOutputs)), ", "))
}

func (r *rehearsalFlags) validate(bad func(flag, format string, args ...any)) {
	if r.dryRun && r.observe {
		bad("observe", "goes on for ever and --dry-run ends: give one of them")
	}
	if dryRunOutputs[r.output] == nil {
		bad("output", "%q is none of %s", r.output, strings.Join(slices.Sorted(maps.Keys(dryRunOutputs)), ", "))
	}
}

// dryRunOutputs are the values of --output.
var dryRunOutputs = map[string]func(*dryrun.Report) (string, error){
	"text": func(r *dryrun.Report) (string, error) { return r.Text(), nil },
	"json": func(r *dryrun.Report) (string, error) {
		b, err := json.MarshalIndent(r, "", "  ")
		return string(b) + "\n", err
	},
}

// runDryRun prints what the controller would do. Its error says that something is
// refused, or could not be looked at.
func runDryRun(ctx context.Context, f *controllerFlags, stdout io.Writer) error {
	ctrl.SetLogger(f.logger(os.Stderr))
	c, err := f.clusters()
	if err != nil {
		return err
	}
	for _, r := range []*reached{c.management, c.worker} {
		if err := r.ask(ctx); err != nil {
			return fmt.Errorf("the API server of the %s does not answer: %w", r.name, err)
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	alone := *f
	alone.leaderElect = false
	facts, release, err := alone.rehearsed(c)
	if err != nil {
		return err
	}
	defer release()
	facts.unreadable = func(_ context.Context, r *toolscache.Reflector, err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
			stop(fmt.Errorf("reading %s: %w", r.TypeDescription(), err)) // trying again is of no use
		}
	}
	s, err := alone.newStage(ctx, facts, f.shard.Lease(leaseName))
	if err != nil {
		return err
	}
	report, err := s.perform(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	text, err := dryRunOutputs[f.rehearsal.output](report)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	if report.Failed() {
		return fmt.Errorf("%w: see above", dryrun.ErrRefused)
	}
	return nil
}

// rehearsed are the facts for a rehearsal. What it returns gives the mirrors back.
func (f *controllerFlags) rehearsed(c clusters) (facts nodeFacts, release func(), err error) {
	settings, err := f.settings(c.worker.config)
	if err != nil {
		return facts, nil, err
	}
	mirrors := &source.Mirrors{Dir: f.cacheDir, AllowedCIDRs: f.gitAllowedCIDRs, AllowInsecure: f.allowInsecureGit}
	if release, err = mirrors.Lock(); err != nil {
		return facts, nil, fmt.Errorf("--cache-dir: %w: name another folder", err)
	}
	management := &part{cluster: c.management}
	facts = nodeFacts{settings: settings, engine: render.NewEngine(), management: management, worker: management, mirrors: mirrors}
	if c.apart() {
		facts.worker = &part{cluster: c.worker}
	}
	return facts, release, nil
}

// stage is where the controller is rehearsed: managers that fill caches and run no
// controller, and what reads through them.
type stage struct {
	f                  *controllerFlags
	facts              nodeFacts
	management, worker ctrl.Manager // the same with one cluster
	world              *dryrun.World
	onManagement       *dryrun.View
	onWorker           *dryrun.View
	sources            *profilesource.Reconciler // it remembers what it read of repositories
	nodes              bool                      // the kind NodeProvenance is installed
}

// newStage prepares a rehearsal. The managers are not started.
func (f *controllerFlags) newStage(ctx context.Context, facts nodeFacts, lease string) (*stage, error) {
	cfg := facts.management.cluster.config
	mgr, err := newManager(cfg, f, facts, lease)
	if err != nil {
		return nil, err
	}
	s := &stage{f: f, facts: facts, management: mgr, worker: mgr, world: dryrun.NewWorld(mgr.GetScheme(), clock.RealClock{})}
	s.onManagement = s.world.View("management", mgr.GetClient(), mgr.GetAPIReader(), trimmed)
	s.onWorker = s.onManagement
	if facts.worker != facts.management {
		if s.worker, err = f.workerStage(facts); err != nil {
			return nil, err
		}
		s.onWorker = s.world.View("worker", s.worker.GetClient(), s.worker.GetAPIReader(), trimmed)
	}
	if s.facts.flux, err = fluxOf(mgr, cfg, f); err != nil {
		return nil, err
	}
	if s.nodes, err = nodes.Installed(s.worker.GetRESTMapper()); err != nil {
		return nil, err
	}
	s.sources = f.profileReconciler(s.facts)
	s.sources.Client, s.sources.Live, s.sources.Git, s.sources.Recorder = s.onManagement, s.onManagement.Live, facts.mirrors, s.world
	return s, s.prepare(ctx)
}

// workerStage is the manager of a worker cluster apart.
func (f *controllerFlags) workerStage(facts nodeFacts) (ctrl.Manager, error) {
	objects, err := workerCache()
	if err != nil {
		return nil, err
	}
	alone := *f
	alone.leaderElect = false
	o, err := managerOptions(&alone, workerLeaseName, metav1.NamespaceSystem, cache.Options{
		DefaultTransform: nodes.Transform(), ByObject: objects, DefaultWatchErrorHandler: facts.unreadable,
	})
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(facts.worker.cluster.config, o)
	if err != nil {
		return nil, fmt.Errorf("preparing the worker cluster: %w", err)
	}
	return mgr, nil
}

// prepare says by which fields is listed.
func (s *stage) prepare(ctx context.Context) error {
	if err := s.sources.Know(ctx, s.worker.GetCache()); err != nil {
		return err
	}
	management := s.onManagement.Index(s.management.GetFieldIndexer())
	worker := s.onWorker.Index(s.worker.GetFieldIndexer())
	if err := pools.Index(ctx, worker); err != nil {
		return err
	}
	if err := s.rollouts().Index(ctx, worker); err != nil {
		return err
	}
	if !s.nodes {
		return nil // what would be indexed is not there
	}
	return nodes.Index(ctx, worker, management)
}

// trimmed is what the caches keep of what controllers write.
func trimmed(obj any) (any, error) {
	switch obj := obj.(type) {
	case *osm.OperatingSystemConfig:
		return pools.TrimConfig(obj)
	case metav1.Object:
		if obj.GetNamespace() == api.NamespaceCloudInitSettings {
			return pools.CacheTransform(obj)
		}
	}
	return obj, nil
}

func (s *stage) rollouts() *rollout.Reconciler {
	return &rollout.Reconciler{
		Management: s.onManagement, Worker: s.onWorker, Recorder: s.world, SourceRecorder: s.world,
		Clock: clock.RealClock{}, Namespace: s.f.namespace, Shard: s.f.shard.Shard,
	}
}

// rehearsal is one, of controllers that remember nothing of the one before.
func (s *stage) rehearsal() *dryrun.Rehearsal {
	s.world.Reset()
	r := &dryrun.Rehearsal{
		World: s.world, Management: s.onManagement, Worker: s.onWorker, Namespace: s.f.namespace, Shard: s.f.shard.Shard,
		Keeper:  &profilesource.Keeper{Client: s.onManagement, Recorder: s.world, Namespace: s.f.namespace, Disabled: s.f.disableDefaultOSPs},
		Sources: s.sources, Rollouts: s.rollouts(),
	}
	machines := s.f.poolReconciler(s.facts)
	machines.Indexed = true
	machines.Management = pools.Cluster{Client: s.onManagement, Live: s.onManagement.Live}
	machines.Worker = pools.Cluster{Client: s.onWorker, Live: s.onWorker.Live}
	machines.ClusterInfo, machines.Registry, machines.Recorder = s.onWorker.Live, s.onManagement.Live, s.world
	machines.Appliers = &ownership.Noter{Live: s.management.GetAPIReader(), ArgoNamespace: s.f.argoNamespace, Clock: clock.RealClock{}}
	r.Pools, r.Unallowed, r.Settings = machines, machines.Unallowed, machines.NodeSettings
	if s.nodes {
		provenance := s.f.nodeReconciler(s.facts)
		provenance.Management = nodes.Cluster{Client: s.onManagement, Live: s.onManagement.Live}
		provenance.Worker = nodes.Cluster{Client: s.onWorker, Live: s.onWorker.Live}
		provenance.Recorder = s.world
		r.Nodes = provenance
	}
	return r
}

// perform fills the caches, rehearses once, and ends.
func (s *stage) perform(ctx context.Context) (*dryrun.Report, error) {
	var report *dryrun.Report
	all, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.start(ctx, all)
	all.Go(func() (err error) {
		defer stop()
		if !s.filled(ctx) {
			return ctx.Err()
		}
		report, err = s.rehearsal().Run(ctx)
		return err
	})
	err := all.Wait()
	return report, err
}

// filled waits until the caches can be read; false is that ctx ended before.
func (s *stage) filled(ctx context.Context) bool {
	return s.management.GetCache().WaitForCacheSync(ctx) && s.worker.GetCache().WaitForCacheSync(ctx)
}

// start runs the managers.
func (s *stage) start(ctx context.Context, all *errgroup.Group) {
	for _, mgr := range slices.Compact([]ctrl.Manager{s.management, s.worker}) {
		all.Go(func() error {
			if err := mgr.Start(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("filling caches: %w", err)
			}
			return nil
		})
	}
}
