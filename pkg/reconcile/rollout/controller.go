package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/machineindex"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// racedRetry is the wait after a conflicting write, until the cache has the new object.
const racedRetry = 50 * time.Millisecond

// Reconciler manages rollouts. Its fields are set once, before Setup. It handles one
// ProfileSource at a time.
type Reconciler struct {
	// Management has ProfileSources and configurations.
	Management client.Client
	// Worker has pools and their Secrets: the same cluster, unless the controller has
	// two.
	Worker client.Client
	// Recorder writes events on pools, SourceRecorder those on ProfileSources.
	Recorder, SourceRecorder events.EventRecorder
	// Clock is used to check whether a window has passed.
	Clock clock.PassiveClock
	// Ahead returns how far the API server's clock is ahead of the controller's, negative if
	// it is behind.
	Ahead func() time.Duration
	// Metrics exports which maintenance windows are open; nil for none.
	Metrics *metrics.Metrics
	// Namespace is the controller's. ProfileSources in other namespaces belong to other
	// controllers.
	Namespace string
	// Shard selects the ProfileSources to handle. All of their pools are handled here,
	// also those of other shards.
	Shard shard.Shard

	controller  controller.Controller
	bootReports atomic.Pointer[cache.Cache] // nil until they can be read

	machines        machineindex.Index
	warned          map[string]map[string]string             // latest warnings, by ProfileSource, uid and subject
	patched         map[types.UID]*cluster.MachineDeployment // as returned by the API server, until the cache has them
	cachedTimelines map[types.UID]lineage.Timeline           // of pools whose machines are replaced
	windows         map[string]windowState                   // by ProfileSource
}

// Reconcile updates the rollouts of one ProfileSource, and has machines of its pools
// replaced if they request it. Without a name it handles the pools without a user's
// ProfileSource: those with manual or built-in profiles.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if r.warned == nil {
		r.warned, r.patched, r.cachedTimelines = map[string]map[string]string{}, map[types.UID]*cluster.MachineDeployment{}, map[types.UID]lineage.Timeline{}
		r.windows = map[string]windowState{}
	}
	seen, err := r.observe(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !r.isResponsibleFor(seen.source, req.Name) {
		delete(r.warned, req.Name)
		delete(r.windows, req.Name)
		r.Metrics.SetWindows(req.NamespacedName, nil)
		return ctrl.Result{}, nil
	}
	untilWindow := r.observeWindows(seen)
	r.Metrics.SetWindows(req.NamespacedName, seen.windows.status)
	next, again, err := r.decideRolloutsAndReplacements(ctx, seen)
	if err != nil {
		return ctrl.Result{}, err
	}
	again = waves.EarliestNonZero(again, untilWindow)
	if r.windowEdgePassed(seen) {
		return ctrl.Result{RequeueAfter: racedRetry}, nil // no wave begins after the window of the decision
	}
	// The decision is stored before machines are replaced: after a lost race everything is
	// decided again.
	if raced, err := r.writeStatusAndEmitEvents(ctx, seen, next); raced || err != nil {
		return ctrl.Result{RequeueAfter: racedRetry}, err
	}
	err = r.patchTemplates(ctx, seen, next.candidates)
	r.warned[req.Name] = seen.warnings // warnings about deleted or corrected objects are forgotten
	if apierrors.IsConflict(err) || err == nil && r.windowEdgePassed(seen) {
		return ctrl.Result{RequeueAfter: racedRetry}, nil
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// isResponsibleFor reports whether this controller is responsible for the rollouts of a
// ProfileSource, or of pools without one.
func (r *Reconciler) isResponsibleFor(source *api.ProfileSource, name string) bool {
	switch {
	case source != nil:
		return r.Shard.Includes(source)
	case name != "":
		return false // it was deleted
	default:
		return r.Shard.IncludesUnlabeled()
	}
}

// outcome is the new status of a ProfileSource's rollouts.
type outcome struct {
	rollouts   []api.RolloutStatus
	candidates []candidate
}

// decideRolloutsAndReplacements decides about the rollout of every profile. It reads configurations and machines
// only if a version is being rolled out, or machines are to be replaced.
func (r *Reconciler) decideRolloutsAndReplacements(ctx context.Context, seen *observed) (out outcome, again time.Duration, err error) {
	if len(seen.replace) > 0 {
		if err := r.observeConfigsAndMachines(ctx, seen); err != nil {
			return out, 0, err
		}
		candidates, timelines, err := r.observeCandidates(ctx, seen)
		if err != nil {
			return out, 0, err
		}
		decideReplacements(seen, candidates, timelines)
		out.candidates = candidates
	}
	if seen.source == nil || !seen.source.HasWaves() {
		return out, 0, nil
	}
	policy, invalid := waves.PolicyOf(seen.source)
	policy.WaitsFor = seen.windows.waitsFor[api.WindowWaves]
	r.warnOnce(seen, seen.source, "annotations", invalid)
	for _, entry := range seen.source.Status.Profiles {
		next, wait, err := r.decideRollout(ctx, seen, entry, policy)
		if err != nil {
			return out, 0, err
		}
		out.rollouts, again = append(out.rollouts, next), waves.EarliestNonZero(again, wait)
	}
	excludePausedPools(out.candidates, seen, out.rollouts)
	return out, again, nil
}

func (r *Reconciler) decideRollout(ctx context.Context, seen *observed, entry api.ProfileEntry, t waves.Policy) (api.RolloutStatus, time.Duration, error) {
	had := seen.source.RolloutOf(entry.Name)
	// This comes first, because it warns about pools of settled profiles, too.
	mds, err := r.listPoolsAndWarn(ctx, seen, entry)
	if err != nil {
		return api.RolloutStatus{}, 0, err
	}
	if waves.IsDoneForCurrent(entry, had) {
		return *had, 0, nil
	}
	if err := r.observeConfigsAndMachines(ctx, seen); err != nil {
		return api.RolloutStatus{}, 0, err
	}
	pools, err := r.poolsFollowing(ctx, seen, mds, entry.Name, had == nil)
	if err != nil {
		return api.RolloutStatus{}, 0, err
	}
	next, wait := waves.NextStatus(entry, had, pools, t, seen.now)
	return next, wait, nil
}

// excludePausedPools excludes pools with a paused version from the replacement of machines, and those
// with a version that another one supersedes: it can have been held, and they get the other one.
func excludePausedPools(all []candidate, seen *observed, rollouts []api.RolloutStatus) {
	for i, c := range all {
		version := seen.configs[keyOf(c.md)].version
		for _, ro := range rollouts {
			superseded := c.md.Annotations[api.AnnotationVersionPin] == "" &&
				slices.ContainsFunc(ro.Superseded, func(s api.RolloutStep) bool { return s.Version == version })
			if c.md.Annotations[api.AnnotationOSP] == ro.Profile && (superseded || ro.Held && ro.Version == version) {
				all[i].config = ""
			}
		}
	}
}

// maxConcurrent is the number of pools whose machines can be replaced at the same time, of
// all that request it.
func maxConcurrent(ps *api.ProfileSource, all int) int {
	if ps == nil || ps.Spec.Rollout == nil || ps.Spec.Rollout.MaxConcurrent == nil {
		return 1 // the schema's default
	}
	n, _ := intstr.GetScaledValueFromIntOrPercent(ps.Spec.Rollout.MaxConcurrent, all, true) // 0 with an error, which the schema prevents
	return max(n, 1)
}

// writeStatusAndEmitEvents writes the status once, and only if it changed, and reports what is new. raced is
// true if the status was based on an old object.
func (r *Reconciler) writeStatusAndEmitEvents(ctx context.Context, seen *observed, next outcome) (raced bool, err error) {
	if seen.source == nil {
		return false, nil
	}
	before, after := seen.source.DeepCopy(), seen.source.DeepCopy()
	after.Status.Rollouts, after.Status.Replacements = next.rollouts, countReplacements(next.candidates)
	after.Status.MaintenanceWindows = seen.windows.status
	waves.SetCondition(after, seen.windows.invalid, seen.describeWaiting(next.candidates))
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return false, nil
	}
	after.Summarize() // not before: a summary alone is no reason for a write
	// Optimistic locking: a decision about another inventory must not be stored.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err = r.Management.Status().Patch(ctx, after, patch, client.FieldOwner(api.FieldManager))
	switch {
	case apierrors.IsConflict(err):
		return true, nil
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("writing the rollouts of ProfileSource %s: %w", client.ObjectKeyFromObject(before), err)
	}
	r.emitEvents(before, after, seen)
	return false, nil
}

// observed has the reads of one run.
type observed struct {
	name     string // of the ProfileSource, "" for none
	now      time.Time
	source   *api.ProfileSource // nil if it was deleted; belongs to the cache: do not modify it
	sources  []api.ProfileSource
	warnings map[string]string // the warnings, by uid and subject
	// replace are the pools of the source that request the replacement of their machines.
	replace []*cluster.MachineDeployment

	// Set by observeConfigsAndMachines.
	configs  map[string]activeConfig // by pool, "namespace/name"
	machines map[types.UID][]waves.Machine
	pools    map[string]*cluster.MachineDeployment // set by poolsFollowing

	replacing map[types.UID]bool // pools that are replacing machines, or have to; set by decideReplacements

	windows windowState // set by observeWindows
}

// observe reads what decides whether there is anything to do.
func (r *Reconciler) observe(ctx context.Context, name string) (*observed, error) {
	seen := &observed{
		now:      r.Clock.Now().Truncate(time.Second), // the precision of times in the API
		warnings: map[string]string{}, pools: map[string]*cluster.MachineDeployment{}, replacing: map[types.UID]bool{},
	}
	needsMachines := false // a source has waves, or a pool requests replacement
	var sources api.ProfileSourceList
	if err := r.Management.List(ctx, &sources, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ProfileSources: %w", err)
	}
	seen.sources = sources.Items
	for i := range seen.sources {
		ps := &seen.sources[i]
		needsMachines = needsMachines || ps.HasWaves()
		if ps.Name == name {
			seen.source = ps
		}
	}
	var list cluster.MachineDeploymentList // belongs to the cache: do not modify it
	if err := r.Worker.List(ctx, &list, client.MatchingFields{replaceIndex: indexed}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pools whose machines are replaced: %w", err)
	}
	requested := map[types.UID]bool{}
	for i := range list.Items {
		md := &list.Items[i]
		invalid := checkAnnotation(md, api.AnnotationRollout, api.RolloutReplace, "machines are not replaced")
		if invalid == nil {
			requested[md.UID], needsMachines = true, true
		}
		if r.pacingSourceOf(md, seen.sources) != name {
			continue
		}
		r.warnOnce(seen, md, "rollout", invalid)
		r.warnOnce(seen, md, "windows", checkAnnotation(md, api.AnnotationWindows, api.WindowsIgnore, "it waits for maintenance windows"))
		if invalid == nil {
			seen.replace = append(seen.replace, r.withLatestTemplate(md))
		}
	}
	maps.DeleteFunc(r.patched, func(uid types.UID, _ *cluster.MachineDeployment) bool { return !requested[uid] })
	maps.DeleteFunc(r.cachedTimelines, func(uid types.UID, _ lineage.Timeline) bool { return !requested[uid] })
	r.machines.SetEventHandling(needsMachines)
	return seen, nil
}

// pacingSourceOf returns the ProfileSource that paces the replacement of a pool's machines, "" for
// pools without a user's ProfileSource.
func (r *Reconciler) pacingSourceOf(md *cluster.MachineDeployment, sources []api.ProfileSource) string {
	if r.profileNamespaceOf(md) != r.Namespace {
		return ""
	}
	return selection.UserSourceProviding(sources, md.Annotations[api.AnnotationOSP])
}

// profileNamespaceOf returns the namespace of a pool's profile.
func (r *Reconciler) profileNamespaceOf(md *cluster.MachineDeployment) string {
	return cmp.Or(md.Annotations[api.AnnotationOSPNamespace], r.Namespace)
}

// subjectTemplate is the subject of rejected template patches.
const subjectTemplate = "template"

// warnOnce emits a warning about a subject of an object, once until it changes.
func (r *Reconciler) warnOnce(seen *observed, obj client.Object, subject string, err error) {
	if err == nil {
		return
	}
	key := string(obj.GetUID()) + " " + subject
	seen.warnings[key] = err.Error()
	if r.warned[seen.name][key] == err.Error() {
		return
	}
	if r.warned[seen.name] == nil {
		r.warned[seen.name] = map[string]string{}
	}
	r.warned[seen.name][key] = err.Error() // in case this run fails
	reason := api.EventRolloutInvalid
	if subject == subjectTemplate {
		reason = api.EventWriteRefused
	}
	r.event(obj, corev1.EventTypeWarning, reason, "%v", err)
}
