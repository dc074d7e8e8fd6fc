package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/replacements"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

const (
	// maxSkew is the difference of two clocks that is ignored. The API server's clock is known with
	// a precision of seconds.
	maxSkew = 30 * time.Second
	// clockCheck is the longest wait while there are windows, because a timer does not notice
	// that a clock was set.
	clockCheck = time.Minute
)

// observed is what one run reads. Planning reads nothing else.
type observed struct {
	now     time.Time
	source  *api.ProfileSource // nil if it was deleted; belongs to the cache: do not modify it
	sources []api.ProfileSource
	// responsible is true if this controller is responsible for the rollouts of the source, or of pools
	// without one. Otherwise nothing more is read.
	responsible bool
	warnings    []warning // in the order of reading
	// replace are the pools of the source that request the replacement of their machines.
	replace []*cluster.MachineDeployment

	windows     windowState
	untilWindow time.Duration // until they must be observed again, 0 without windows

	// Read only if a version is being rolled out, or machines are to be replaced.
	configs  map[string]activeConfig // by pool, "namespace/name"
	machines map[types.UID][]waves.Machine

	candidates []replacements.Candidate // the pools in replace

	following map[string][]waves.Pool               // the pools that follow a profile whose rollout is not done
	pools     map[string]*cluster.MachineDeployment // those in following, by "namespace/name"
}

// warning says that a subject of an object is invalid.
type warning struct {
	obj     client.Object
	subject string
	err     error
}

// warn adds a warning, unless err is nil.
func (seen *observed) warn(obj client.Object, subject string, err error) {
	if err != nil {
		seen.warnings = append(seen.warnings, warning{obj, subject, err})
	}
}

// observe reads what decides about rollouts and replacements. If it fails it returns what it has
// read.
func (r *Reconciler) observe(ctx context.Context, name string) (*observed, error) {
	seen := &observed{
		now:       r.Clock.Now().Truncate(time.Second), // the precision of times in the API
		following: map[string][]waves.Pool{},
		pools:     map[string]*cluster.MachineDeployment{},
	}
	if err := r.observeRequests(ctx, seen, name); err != nil {
		return seen, err
	}
	if seen.responsible = r.isResponsibleFor(seen.source, name); !seen.responsible {
		return seen, nil
	}
	seen.untilWindow = r.observeWindows(seen)
	if err := r.observeReplacements(ctx, seen); err != nil {
		return seen, err
	}
	return seen, r.observeRollouts(ctx, seen)
}

// observeRequests reads the ProfileSources, and which pools request the replacement of their machines.
func (r *Reconciler) observeRequests(ctx context.Context, seen *observed, name string) error {
	needsMachines := false // a source has waves, or a pool requests replacement
	var sources api.ProfileSourceList
	if err := r.Management.List(ctx, &sources, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing ProfileSources: %w", err)
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
		return fmt.Errorf("listing the pools whose machines are replaced: %w", err)
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
		seen.warn(md, "rollout", invalid)
		seen.warn(md, "windows", checkAnnotation(md, api.AnnotationWindows, api.WindowsIgnore, "it waits for maintenance windows"))
		if invalid == nil {
			seen.replace = append(seen.replace, r.withLatestTemplate(md))
		}
	}
	maps.DeleteFunc(r.patched, func(uid types.UID, _ *cluster.MachineDeployment) bool { return !requested[uid] })
	maps.DeleteFunc(r.cachedTimelines, func(uid types.UID, _ lineage.Timeline) bool { return !requested[uid] })
	// Before they are read: a later change must start another run.
	r.machines.SetEventHandling(needsMachines)
	return nil
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

// withLatestTemplate returns a MachineDeployment with its latest template annotation if the cache
// does not have it yet; otherwise more pools than allowed would replace machines.
func (r *Reconciler) withLatestTemplate(md *cluster.MachineDeployment) *cluster.MachineDeployment {
	ours, ok := r.patched[md.UID]
	if !ok {
		return md
	}
	if md.Generation >= ours.Generation {
		delete(r.patched, md.UID)
		return md
	}
	return ours
}

// windowTime returns the later of two clocks that differ by more than maxSkew.
func (r *Reconciler) windowTime() time.Time {
	now := r.Clock.Now()
	if ahead := r.Ahead(); ahead > maxSkew {
		return now.Add(ahead)
	}
	return now
}

// observeWindows evaluates the maintenance windows of the source, if that was not done for this
// time. It returns the time until they must be observed again, 0 without windows.
func (r *Reconciler) observeWindows(seen *observed) (again time.Duration) {
	if seen.source == nil {
		return 0
	}
	now, state := r.windowTime(), r.windows[seen.source.Name]
	if state.uid != seen.source.UID || state.generation != seen.source.Generation || now.Before(state.from) || !now.Before(state.until) {
		state = evaluateWindows(seen.source, now)
		r.windows[seen.source.Name] = state
	}
	if seen.windows = state; len(state.status) == 0 {
		return 0
	}
	return min(clockCheck, state.until.Sub(now))
}

// activeConfig has the fields of an OperatingSystemConfig that a rollout uses.
type activeConfig struct {
	uid, replaces    types.UID
	poolUID          string
	profile, version string
	commit, selected string
	digest           string // of the input
	record           string
	created          time.Time
	rejectedSince    time.Time // since when a newer one was rejected
	rejectedVersion  string    // the rejected version of the profile; empty if the version is not the reason
}

func activeConfigOf(osc *metav1.ObjectMeta, now time.Time) activeConfig {
	a := osc.Annotations
	c := activeConfig{
		uid: osc.UID, replaces: types.UID(a[api.AnnotationReplaces]), poolUID: a[api.AnnotationPoolUID], profile: a[api.AnnotationProfile], version: a[api.AnnotationVersion],
		commit: a[api.AnnotationCommit], selected: a[api.AnnotationSelectedBy],
		digest: a[api.AnnotationInputDigest], record: a[api.AnnotationRecord], created: osc.CreationTimestamp.Time,
	}
	if a[api.AnnotationRefused] != "" {
		since, err := time.Parse(time.RFC3339, a[api.AnnotationRefusedSince])
		if err != nil {
			since = c.created // edited, and restored soon
		}
		if since.After(now) {
			since = now
		}
		c.rejectedSince, c.rejectedVersion = since, a[api.AnnotationRefusedVersion]
	}
	return c
}

// generation returns the configuration as the last one of a timeline.
func (c activeConfig) generation() lineage.Generation {
	return lineage.Generation{UID: c.uid, Replaces: c.replaces, InputDigest: c.digest, From: c.created, PoolUID: c.poolUID}
}

// observeConfigsAndMachines reads the configurations of all pools, and their machines, once.
func (r *Reconciler) observeConfigsAndMachines(ctx context.Context, seen *observed) error {
	if seen.configs != nil {
		return nil
	}
	list, err := kubeclient.ListConfigMetadata(ctx, r.Management, r.Namespace)
	if err != nil {
		return err
	}
	now := r.Clock.Now()
	configs := make(map[string]activeConfig, len(list))
	for i := range list {
		configs[list[i].Annotations[api.AnnotationPool]] = activeConfigOf(&list[i].ObjectMeta, now)
	}
	boots, err := r.failingBoots(ctx)
	if err != nil {
		return err
	}
	machines, err := r.machines.MachinesByPool(ctx, r.Worker, boots, now)
	if err != nil {
		return err
	}
	seen.configs, seen.machines = configs, machines
	return nil
}

// configOf returns the configuration of a pool, zero if there is none.
func (seen *observed) configOf(md *cluster.MachineDeployment) activeConfig {
	if c := seen.configs[keyOf(md)]; c.poolUID == string(md.UID) {
		return c
	}
	return activeConfig{}
}

// observeRollouts reads the pools that follow the profiles of a source with waves. It reads
// configurations and machines only if a version is being rolled out.
func (r *Reconciler) observeRollouts(ctx context.Context, seen *observed) error {
	if seen.source == nil || !seen.source.HasWaves() {
		return nil
	}
	_, invalid := waves.PolicyOf(seen.source)
	seen.warn(seen.source, "annotations", invalid)
	for _, entry := range seen.source.Status.Profiles {
		// This comes first, because it warns about pools of settled profiles, too.
		mds, err := r.observePools(ctx, seen, entry)
		if err != nil {
			return err
		}
		had := seen.source.RolloutOf(entry.Name)
		if waves.IsDoneForCurrent(entry, had) {
			continue
		}
		if err := r.observeConfigsAndMachines(ctx, seen); err != nil {
			return err
		}
		if seen.following[entry.Name], err = r.poolsFollowing(ctx, seen, mds, entry.Name, had == nil); err != nil {
			return err
		}
	}
	return nil
}

// observePools lists the pools of a profile, and adds warnings about invalid waves.
func (r *Reconciler) observePools(ctx context.Context, seen *observed, entry api.ProfileEntry) ([]cluster.MachineDeployment, error) {
	// Pools get the profile from another source.
	if selection.UserSourceProviding(seen.sources, entry.Name) != seen.source.Name {
		return nil, nil
	}
	var list cluster.MachineDeploymentList // belongs to the cache: do not modify it
	if err := r.Worker.List(ctx, &list, client.MatchingFields{profileIndex: r.Namespace + "/" + entry.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pools of profile %q: %w", entry.Name, err)
	}
	for i := range list.Items {
		_, invalid := selection.WaveOf(list.Items[i].Labels)
		seen.warn(&list.Items[i], "wave", invalid)
	}
	return list.Items, nil
}

// poolsFollowing returns the pools that follow the current version of a profile: not those
// that request a version, are suspended, or are being deleted. first is true if no
// rollout has recorded their versions yet. Which of them are replacing machines is decided later.
func (r *Reconciler) poolsFollowing(ctx context.Context, seen *observed, mds []cluster.MachineDeployment, profile string, first bool) ([]waves.Pool, error) {
	var out []waves.Pool
	for i := range mds {
		md := &mds[i]
		if !md.DeletionTimestamp.IsZero() || md.Annotations[api.AnnotationVersionPin] != "" || md.Annotations[api.AnnotationSuspend] == "true" {
			continue
		}
		seen.pools[keyOf(md)] = md
		wave, _ := selection.WaveOf(md.Labels)
		p := waves.Pool{Key: keyOf(md), Wave: wave, Machines: seen.machines[md.UID], IgnoresWindows: ignoresWindows(md)}
		if c := seen.configOf(md); c.digest != "" {
			p.Configured = true
			p.Since = c.created
			p.RejectedSince = c.rejectedSince
			p.RejectedVersion = c.rejectedVersion
			p.Config = c.digest
			if c.profile == profile {
				p.Version = api.RolloutVersion{Version: c.version, Commit: c.commit, SelectedBy: c.selected}
			}
			if first {
				p.Version = withRecordedObject(c, p.Version)
			}
			var err error
			if p.Settled, err = r.bootstrapSecretMatches(ctx, md, c); err != nil {
				return nil, err
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// withRecordedObject returns the version with the object of a configuration, which only its record
// has. An object of another namespace cannot be given to other pools.
func withRecordedObject(c activeConfig, v api.RolloutVersion) api.RolloutVersion {
	rec, err := lineage.ParseUnverifiedRecord([]byte(c.record))
	if err != nil || strings.Contains(rec.Object, "/") || v.Version == "" {
		return v
	}
	v.Object, v.Digest = rec.Object, rec.ObjectDigest
	return v
}

// bootstrapSecretMatches reports whether the machines of a pool boot from a configuration: the bootstrap
// document is the last one that is written.
func (r *Reconciler) bootstrapSecretMatches(ctx context.Context, md *cluster.MachineDeployment, c activeConfig) (bool, error) {
	var secret corev1.Secret
	key := types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: lineage.NamesOf(types.NamespacedName{Namespace: md.Namespace, Name: md.Name}).Bootstrap}
	err := r.Worker.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Secret %s: %w", key, err)
	}
	a := secret.Annotations
	return a[api.AnnotationInputDigest] == c.digest && a[api.AnnotationPoolUID] == string(md.UID), nil
}

// observeReplacements reads about the pools of the source whose machines are to be replaced when their
// configuration changes.
func (r *Reconciler) observeReplacements(ctx context.Context, seen *observed) error {
	if len(seen.replace) == 0 {
		return nil
	}
	if err := r.observeConfigsAndMachines(ctx, seen); err != nil {
		return err
	}
	var withOlderMachines []*cluster.MachineDeployment // machines older than the configuration of their pool
	for _, md := range seen.replace {
		wave, _ := selection.WaveOf(md.Labels)
		have := seen.configOf(md)
		c := replacements.Candidate{
			Pool: md, Wave: wave, IgnoresWindows: ignoresWindows(md),
			TemplateAnnotation: md.Spec.Template.Metadata.Annotations[api.AnnotationConfig],
			Current:            replacements.Configuration{InputDigest: have.digest, Version: have.version, Created: have.created},
			Machines:           seen.machines[md.UID],
		}
		if have.digest != "" && replacements.CanReplace(seen.source, md, !have.rejectedSince.IsZero()) {
			// Until the Secrets have the documents of this configuration, a new machine would boot
			// from those of the previous one.
			written, err := r.bootstrapSecretMatches(ctx, md, have)
			if err != nil {
				return err
			}
			if written {
				c.Config = have.digest
			}
		}
		// The archived records are read only if a machine can have an earlier configuration.
		if c.NeedsTimeline() {
			withOlderMachines = append(withOlderMachines, md)
		}
		seen.candidates = append(seen.candidates, c)
	}
	timelines, err := r.timelines(ctx, seen, withOlderMachines)
	if err != nil {
		return err
	}
	for i := range seen.candidates {
		seen.candidates[i].Timeline = timelines[seen.candidates[i].Pool.UID]
	}
	return nil
}

// recordKind is the kind of archived records.
var recordKind = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")

// timelines returns the timelines of pools, by uid. It reads the records once for many
// pools, and again only when a pool has another configuration.
func (r *Reconciler) timelines(ctx context.Context, seen *observed, of []*cluster.MachineDeployment) (map[types.UID]lineage.Timeline, error) {
	out, wanted := map[types.UID]lineage.Timeline{}, map[string]*cluster.MachineDeployment{}
	for _, md := range of {
		if known, ok := r.cachedTimelines[md.UID]; ok && known[len(known)-1].UID == seen.configOf(md).uid {
			out[md.UID] = known
			continue
		}
		wanted[keyOf(md)] = md
	}
	if len(wanted) == 0 {
		return out, nil
	}
	list := kubeclient.MetadataList(recordKind) // of the cache: not to be changed
	err := r.Management.List(ctx, list, client.InNamespace(r.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the archived records of pools: %w", err)
	}
	records := map[string][]metav1.PartialObjectMetadata{}
	for _, record := range list.Items {
		if pool := record.Annotations[api.AnnotationPool]; wanted[pool] != nil {
			records[pool] = append(records[pool], record)
		}
	}
	for key, md := range wanted {
		t := replacements.TimelineOf(seen.configOf(md).generation(), records[key])
		out[md.UID] = t
		if !t[len(t)-1].Unrecorded { // otherwise the cache can be behind
			r.cachedTimelines[md.UID] = t
		}
	}
	return out, nil
}

// checkAnnotation returns an error if an annotation of a pool is not the only value that it can
// have; otherwise names what follows from that.
func checkAnnotation(md *cluster.MachineDeployment, key, value, otherwise string) error {
	if text := md.Annotations[key]; text != "" && text != value {
		return fmt.Errorf("annotation %s: %q is not %q, so %s: correct or remove it", key, text, value, otherwise)
	}
	return nil
}

func keyOf(md *cluster.MachineDeployment) string { return md.Namespace + "/" + md.Name }
