package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

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

// listPoolsAndWarn lists the pools of a profile, and warns those whose wave is invalid.
func (r *Reconciler) listPoolsAndWarn(ctx context.Context, seen *observed, entry api.ProfileEntry) ([]cluster.MachineDeployment, error) {
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
		r.warnOnce(seen, &list.Items[i], "wave", invalid)
	}
	return list.Items, nil
}

// poolsFollowing returns the pools that follow the current version of a profile: not those
// that request a version, are suspended, or are being deleted. first is true if no
// rollout has recorded their versions yet.
func (r *Reconciler) poolsFollowing(ctx context.Context, seen *observed, mds []cluster.MachineDeployment, profile string, first bool) ([]waves.Pool, error) {
	var out []waves.Pool
	for i := range mds {
		md := &mds[i]
		if !md.DeletionTimestamp.IsZero() || md.Annotations[api.AnnotationVersionPin] != "" || md.Annotations[api.AnnotationSuspend] == "true" {
			continue
		}
		seen.pools[keyOf(md)] = md
		wave, _ := selection.WaveOf(md.Labels)
		p := waves.Pool{Key: keyOf(md), Wave: wave, Replacing: seen.replacing[md.UID], Machines: seen.machines[md.UID], IgnoresWindows: ignoresWindows(md)}
		if c := seen.configOf(md); c.digest != "" {
			p.Configured, p.Since, p.RejectedSince, p.RejectedVersion = true, c.created, c.rejectedSince, c.rejectedVersion
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

// observeCandidates reads about the pools of the source whose machines are to be replaced when their
// configuration changes. It returns the timelines of those with machines older than that.
func (r *Reconciler) observeCandidates(ctx context.Context, seen *observed) ([]candidate, map[types.UID]lineage.Timeline, error) {
	var out []candidate
	var withOlderMachines []*cluster.MachineDeployment // machines older than the configuration of their pool
	for _, md := range seen.replace {
		wave, _ := selection.WaveOf(md.Labels)
		c := candidate{md: md, wave: wave, templateAnnotation: md.Spec.Template.Metadata.Annotations[api.AnnotationConfig]}
		have := seen.configOf(md)
		if have.digest != "" && !mustNotReplace(seen.source, md, have) {
			// Until the Secrets have the documents of this configuration, a new machine would boot
			// from those of the previous one.
			written, err := r.bootstrapSecretMatches(ctx, md, have)
			if err != nil {
				return nil, nil, err
			}
			if written {
				c.config = have.digest
			}
		}
		for _, m := range seen.machines[md.UID] {
			c.booting = c.booting || !m.Leaving && !m.Joined
		}
		// The archived records are read only if a machine can have an earlier configuration.
		if c.config != c.templateAnnotation && slices.ContainsFunc(seen.machines[md.UID], have.isNewerThan) {
			withOlderMachines = append(withOlderMachines, md)
		}
		out = append(out, c)
	}
	timelines, err := r.timelines(ctx, seen, withOlderMachines)
	return out, timelines, err
}

// mustNotReplace reports whether the machines of a pool remain for now: the pool is being deleted, is
// paused or suspended, has a newer configuration that was rejected, or its source is suspended.
func mustNotReplace(source *api.ProfileSource, md *cluster.MachineDeployment, have activeConfig) bool {
	return !md.DeletionTimestamp.IsZero() ||
		md.Spec.Paused ||
		md.Annotations[api.AnnotationSuspend] == "true" ||
		!have.rejectedSince.IsZero() ||
		(source != nil && source.Spec.Suspend)
}

// isNewerThan reports whether a configuration was created after a machine. It is false for
// machines that machine-controller deletes or replaces in any case.
func (c activeConfig) isNewerThan(m waves.Machine) bool {
	return c.digest != "" && !m.Leaving && !m.Replaced && m.Created.Before(c.created)
}

// checkAnnotation returns an error if an annotation of a pool is not the only value that it can
// have; otherwise names what follows from that.
func checkAnnotation(md *cluster.MachineDeployment, key, value, otherwise string) error {
	if text := md.Annotations[key]; text != "" && text != value {
		return fmt.Errorf("annotation %s: %q is not %q, so %s: correct or remove it", key, text, value, otherwise)
	}
	return nil
}
