package pools

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/ownership"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/access"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/secretdigest"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Renderer renders a pool. *render.Engine is one.
type Renderer interface {
	Render(in render.Input) (*render.Output, error)
}

// Reconciler reconciles pools. Its fields are set once, before Setup.
type Reconciler struct {
	// Management has profiles, configurations, records and settings.
	Management kubeclient.Cluster
	// Worker is the cluster with the pools, their Secrets and tokens, and the address and CA for
	// nodes: the management cluster, unless the controller was given two. Its cache contains
	// only digests of the Secrets in cloud-init-settings; see DigestSecretsAndTrim.
	Worker kubeclient.Cluster
	// ClusterInfo reads the ConfigMap kube-public/cluster-info, Registry the
	// Secret RegistrySecret; both through caches of their own.
	ClusterInfo, Registry client.Reader
	// Recorder writes events.
	Recorder events.EventRecorder
	// Metrics receives counters and gauges; nil disables them.
	Metrics *metrics.Metrics
	// AuditLog stores facts for auditors; nil disables the audit log.
	AuditLog *auditlog.Writer
	// Appliers finds the user who applied a profile that no ProfileSource created; nil disables it.
	Appliers *ownership.Resolver
	// Engine renders.
	Engine Renderer
	// Clock decides when a token has expired.
	Clock clock.PassiveClock
	// Random is the source of tokens and keys, crypto/rand's outside tests.
	Random io.Reader
	// Environment are the controller's variables that render.CloudConfigEnvironmentNames lists.
	Environment map[string]string
	// Namespace holds profiles, configurations and settings.
	Namespace string
	// ProfileNamespaces are other namespaces from which pools can take profiles;
	// desired.AllNamespaces allows every namespace.
	ProfileNamespaces []string
	// Settings are the controller's flags that reach nodes.
	Settings render.Settings
	// CA is the PEM bundle for nodes if there is no cluster-info.
	CA string
	// RegistrySecret holds credentials of registries; empty for none.
	RegistrySecret types.NamespacedName
	// CloudProviderReferences are the Secrets and ConfigMaps outside of a pool's namespace to
	// which the cloudProviderSpec of any pool may refer.
	CloudProviderReferences []types.NamespacedName
	// TokenServiceAccount replaces bootstrap tokens by a ServiceAccount's; empty for none.
	TokenServiceAccount types.NamespacedName
	// NodeTokenTTL is how long a token lives with which the machines of one pool fetch
	// that pool's Secrets; 0 has all pools share the getter's token.
	NodeTokenTTL time.Duration
	// OverrideServer replaces the API server's URL in kubeconfigs of nodes.
	OverrideServer string
	// History limits how long records of replaced configurations are stored.
	History archive.Retention
	// Indexed says that Worker lists by the fields of Index, which Setup sees to.
	Indexed bool
	// Routine limits the events ConfigCreated and ConfigRotated; nil emits all of them.
	Routine *rate.Limiter
	// Shard has the pools that are handled. Others are seen, so that nothing is removed that
	// they use.
	Shard shard.Shard

	cache    poolCache                            // of pools
	endpoint atomic.Pointer[clientcmdapi.Cluster] // of cluster-info
	digests  desired.SpecDigestCache              // of profiles
	values   desired.Values                       // of cloudProviderSpecs
	archived archive.State                        // of records

	ownWrites ownWrites

	replacing sync.Mutex // held while a Secret is absent
	reports   access.ReportRefusal

	key secretdigest.Key // of credentials and tokens
}

// Reconcile brings one pool's objects in line with its profile, its
// MachineDeployment and the cluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	defer r.ownWrites.beginRun(req.NamespacedName)()
	var md cluster.MachineDeployment
	err := r.Worker.Get(ctx, req.NamespacedName, &md)
	gone := apierrors.IsNotFound(err)
	switch {
	// The labels of a deleted pool are unknown, so the shard of pools without a label cleans up.
	case gone && r.Shard.IncludesUnlabeled():
		md.Namespace, md.Name = req.Namespace, req.Name
		return r.reportRelease(&md, r.newWriter().releaseOrphans(ctx, &md))
	case gone, err == nil && !r.Shard.Includes(&md):
		r.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("reading MachineDeployment %s: %w", req, err)
	case !isPool(&md):
		return r.reportRelease(&md, r.newWriter().deletePoolObjects(ctx, &md))
	}
	return r.reconcilePool(ctx, &md)
}

// reconcilePool observes a pool, plans, applies the plan and reports.
func (r *Reconciler) reconcilePool(ctx context.Context, md *cluster.MachineDeployment) (ctrl.Result, error) {
	// The finalizer and the plan do not depend on each other; what machines use is written only
	// after both. The plan stays in this goroutine, where controller-runtime makes a panic of a
	// library an error of this pool.
	waitFinalizer := startWrite(func() error { return r.newWriter().ensureFinalizer(ctx, md) })
	seen, err := r.observe(ctx, md)
	if err == nil {
		err = r.generateMissing(seen)
	}
	defer func() { _ = seen.waitGranted() }() // no write outlives its run
	todo := r.makePlan(ctx, seen, err)
	if todo.lacks == lacksNodeToken {
		seen, err = r.obtainNodeToken(ctx, seen, todo.readable)
		todo = r.makePlan(ctx, seen, err)
	}
	if err := waitFinalizer(); err != nil {
		return r.renewWithoutFinalizer(ctx, seen, todo, err)
	}
	r.newReporter().reportSuspendedOrResumed(seen, todo)
	done := appliedTo(seen.objects)
	err = r.newWriter().apply(ctx, seen, todo, done)
	if leavesWork(seen) {
		r.ownWrites.dropWrites(keyOf(md))
	}
	return r.newReporter().reportOutcome(seen, todo, done, err)
}

// renewWithoutFinalizer ends a run of a pool that did not get the finalizer: nothing that machines use
// is created then, because it could remain forever. Only the bootstrap token cannot wait.
func (r *Reconciler) renewWithoutFinalizer(ctx context.Context, seen *observed, todo plan, finalizerErr error) (ctrl.Result, error) {
	err := r.newWriter().renewToken(ctx, todo.bootstrapToken)
	if err == nil {
		err = todo.err
	}
	return r.newReporter().reportWithoutFinalizer(seen.md, renewalPlan(seen, err), err, finalizerErr)
}

// leavesWork reports whether the events of a run's own writes have to start the next run: it reports
// the suspension of a pool that got its first configuration, or replaces the token of all pools by the
// pool's own in documents of OSM.
func leavesWork(seen *observed) bool {
	suspended, _ := isSuspended(seen.md)
	return suspended && seen.objects.osc == nil || seen.boundTokens && seen.objects.hasOSMDocuments()
}

// makePlan plans what to write, or only to renew a token if observing failed. What only few pools
// need, and costs requests, is read when a plan lacks it, and the plan is made again. It returns a
// plan that lacks the node token, because obtaining that writes.
func (r *Reconciler) makePlan(ctx context.Context, seen *observed, err error) plan {
	for err == nil {
		todo := r.planner().planConfiguration(seen)
		switch todo.lacks {
		case lacksNodeToken:
			return todo
		case lacksNothing:
			if err = r.cacheMissingObjects(ctx, seen); err == nil {
				return todo
			}
		case lacksLastGood:
			err = r.observeLastGood(ctx, seen, todo.rejection)
		case lacksDocuments:
			err = r.reader().observeDocuments(ctx, seen)
		case lacksMachine:
			err = r.reader().observeBooting(ctx, seen)
		}
	}
	return renewalPlan(seen, err)
}

// newProfiles returns the reader of the profiles that pools request.
func (r *Reconciler) newProfiles() desired.Profiles {
	return desired.Profiles{
		Cached: r.Management, Live: r.Management.Live, Namespace: r.Namespace, Namespaces: r.ProfileNamespaces,
		Appliers: r.Appliers, Digests: &r.digests,
	}
}

// poolFinder returns the finder of the pools to which a change of an object matters.
func (r *Reconciler) poolFinder() poolFinder {
	return poolFinder{management: r.Management, worker: r.Worker, namespace: r.Namespace, profiles: r.newProfiles(), cache: &r.cache}
}

// records reads what records refer to.
func (r *Reconciler) records() desired.Records {
	return desired.Records{Profiles: r.newProfiles(), Worker: r.Worker.Live, CA: r.Settings.KubernetesCACert}
}

// cloudConfigs reads what cloudProviderSpecs refer to.
func (r *Reconciler) cloudConfigs() desired.CloudConfigs {
	return desired.CloudConfigs{
		Management: r.Management, Worker: r.Worker.Live, Namespace: r.Namespace, RegistrySecret: r.RegistrySecret,
		Allowed: r.CloudProviderReferences, Environment: r.Environment, Clock: r.Clock, Values: &r.values,
	}
}

// newArchive returns the store for records of replaced configurations.
func (r *Reconciler) newArchive() archive.Archive {
	return archive.Archive{
		Management: r.Management, Live: r.Management.Live, Pools: r.Worker, Provenances: r.Worker.Live,
		Clock: r.Clock, Namespace: r.Namespace, Retention: r.History, Complete: r.Shard.IsAll(), State: &r.archived,
	}
}

// reader reads the objects of pools.
func (r *Reconciler) reader() reader {
	return reader{management: r.Management, worker: r.Worker, namespace: r.Namespace, indexed: r.Indexed, clock: r.Clock}
}

// newWriter writes the objects of pools.
func (r *Reconciler) newWriter() writer {
	return writer{
		reader: r.reader(), archive: r.newArchive(), records: r.records(), engine: r.Engine,
		report: r.newReporter(), key: &r.key, replacing: &r.replacing, reports: &r.reports,
	}
}

// newReporter reports what comes of runs.
func (r *Reconciler) newReporter() reporter {
	return reporter{
		recorder: r.Recorder, metrics: r.Metrics, auditLog: r.AuditLog, cache: &r.cache, routine: r.Routine, clock: r.Clock,
		archived: r.Management.Live, namespace: r.Namespace,
	}
}

// planner compares what was observed with what pools should have.
func (r *Reconciler) planner() planner {
	return planner{engine: r.Engine, namespace: r.Namespace, ca: r.Settings.KubernetesCACert}
}

// newTokens returns what finds and requests the tokens of pools.
func (r *Reconciler) newTokens() token.Tokens {
	return token.Tokens{
		Worker: r.Worker, Live: r.Worker.Live, Indexed: r.Indexed, Clock: r.Clock,
		ServiceAccount: r.TokenServiceAccount, NodeTTL: r.NodeTokenTTL, Shared: r.reader().isNameShared,
	}
}

// endpoints reads where nodes reach the API server.
func (r *Reconciler) endpoints() desired.Endpoints {
	return desired.Endpoints{ClusterInfo: r.ClusterInfo, Worker: r.Worker.Live, CA: r.CA, OverrideServer: r.OverrideServer, Last: &r.endpoint}
}

// Unallowed returns those of render.ForeignReferences that this controller refuses to read.
func (r *Reconciler) Unallowed(md *cluster.MachineDeployment) []types.NamespacedName {
	return r.cloudConfigs().Unallowed(render.ForeignReferences(md, r.Settings))
}

// NodeSettings are the settings with the credentials of registries, without those if there
// is an error.
func (r *Reconciler) NodeSettings(ctx context.Context) (render.Settings, error) {
	s := r.Settings
	var err error
	s.RegistryCredentials, err = desired.RegistryCredentials(ctx, r.Registry, r.RegistrySecret)
	return s, err
}

func poolKey(md *cluster.MachineDeployment) string { return keyOf(md).String() }

func keyOf(md *cluster.MachineDeployment) types.NamespacedName {
	return types.NamespacedName{Namespace: md.Namespace, Name: md.Name}
}

func namesOf(md *cluster.MachineDeployment) lineage.Names { return lineage.NamesOf(keyOf(md)) }

// The stages of a node's start, as the names of user-data Secrets have them.
const (
	stageBootstrap = "bootstrap"
	stageProvision = "provisioning"
)

// sameKeys reports whether two maps agree on the given keys.
func sameKeys(have, want map[string]string, keys ...string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return have[k] != want[k] })
}

// recordOf reads the record of a configuration. It is zero if there is none or if it cannot be
// read.
func recordOf(osc *osm.OperatingSystemConfig) render.Record {
	if osc == nil {
		return render.Record{}
	}
	rec, _ := lineage.ParseRecordAnnotation(osc)
	return rec
}

// CheckRequestedProfile says why a pool cannot have the profile it asks for, nil if it can: the
// profile does not exist or does not suit the pool, or the pool cannot be read. It
// reads the management cluster, and writes nothing. An error for
// which rejected is false is about the cluster, and says nothing about the pool.
func (r *Reconciler) CheckRequestedProfile(ctx context.Context, md *cluster.MachineDeployment) (rejected bool, err error) {
	err = r.checkProfileFits(ctx, md)
	_, rejected = fault.PermanentReason(err)
	return rejected, err
}

// checkProfileFits returns the error of CheckRequestedProfile: why the profile that a
// MachineDeployment requests cannot serve its pool. A version that the source creates only after the
// pool exists is no error.
func (r *Reconciler) checkProfileFits(ctx context.Context, md *cluster.MachineDeployment) error {
	pool, err := render.DecodePool(md)
	if err != nil {
		return err
	}
	// A profile that left Git serves the pool that has it.
	osc, err := readConfigMetadata(ctx, r.Management.Client, types.NamespacedName{Namespace: r.Namespace, Name: namesOf(md).Config})
	if err != nil {
		return err
	}
	prof, err := r.newProfiles().Resolve(ctx, md, recordOf(osc))
	if reason, _ := fault.PermanentReason(err); reason == api.EventWaiting {
		return nil // the source creates this version after the pool exists
	}
	if err != nil {
		return err
	}
	return prof.Fits(pool)
}
