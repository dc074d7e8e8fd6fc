package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/impact"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/selection/windows"
)

// Reader reads pools from clients, which can be caches.
type Reader struct {
	// Management has profiles, their sources and configurations.
	Management client.Reader
	// Worker has the MachineDeployments.
	Worker client.Reader
	// Settings has the ConfigMaps with settings; it reads the management cluster.
	Settings client.Reader
	// Namespace is the controller's.
	Namespace string
}

// Read reads the pools, their settings, and the objects that determine their profiles. Pools that
// are being deleted are omitted. A pool whose settings cannot be read is an error, because a
// snapshot without it would hide what a change does to it.
func (r Reader) Read(ctx context.Context) (impact.PoolSnapshot, error) {
	out := impact.PoolSnapshot{Namespace: r.Namespace, Settings: map[string]impact.Settings{}, Pools: []impact.Pool{}}
	records, err := r.records(ctx)
	if err != nil {
		return out, err
	}
	if err := errors.Join(r.addUserSources(ctx, &out), r.addUnmanagedProfiles(ctx, &out)); err != nil {
		return out, err
	}
	var list cluster.MachineDeploymentList
	if err := r.Worker.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing MachineDeployments: %w", err)
	}
	defaultDigest := mostUsedSettings(records) // for pools without a record
	for i := range list.Items {
		md := &list.Items[i] // can belong to a cache: do not modify it
		if md.Annotations[api.AnnotationOSP] == "" || !md.DeletionTimestamp.IsZero() {
			continue
		}
		rec, hasRecord := records[md.Namespace+"/"+md.Name]
		digest := defaultDigest
		if hasRecord {
			digest = rec.SettingsDigest
		}
		if digest == "" {
			return out, fmt.Errorf("the controller of namespace %q has configured no pool yet, or their records cannot be read, so its settings are unknown: wait, or name another --namespace", r.Namespace)
		}
		settings, err := r.readAndAddSettings(ctx, &out, digest)
		if err != nil {
			return out, err
		}
		pool := impact.NewPool(md, digest, func(from *cluster.MachineDeployment) (render.Pool, error) {
			return decodePool(from, settings.Settings, rec)
		})
		if hasRecord {
			pool.Current = &impact.ProfileVersion{Profile: rec.Profile, Version: rec.Version}
			pool.SecretName = rec.BootstrapKubeconfigSecretName
		}
		out.Pools = append(out.Pools, pool)
	}
	return out, nil
}

// decodePool reads the inputs of rendering from a MachineDeployment. The configuration of a
// cloud provider refers to Secrets, which are not read: the record says whether they
// exist.
func decodePool(md *cluster.MachineDeployment, settings render.Settings, rec render.Record) (render.Pool, error) {
	pool, err := render.DecodePool(md)
	if err != nil || len(pool.CloudConfigRefs(md, settings)) == 0 {
		return pool, err
	}
	pool.CloudConfig = rec.Pool.CloudConfig
	return pool, nil
}

// records returns the records of the configurations, by pool. Those that cannot be read, or lack the
// settings, are omitted: their pools count as pools without a record.
func (r Reader) records(ctx context.Context) (map[string]render.Record, error) {
	configs, err := kubeclient.ListConfigMetadata(ctx, r.Management, r.Namespace)
	if err != nil {
		return nil, err
	}
	out := map[string]render.Record{}
	for i := range configs {
		osc := &configs[i]
		if rec, err := lineage.ParseRecordAnnotation(osc); err == nil && rec.SettingsDigest != "" {
			out[osc.Annotations[api.AnnotationPool]] = rec
		}
	}
	return out, nil
}

// mostUsedSettings returns the digest of the settings of most pools, for pools that have none
// yet.
func mostUsedSettings(records map[string]render.Record) string {
	uses, best := map[string]int{}, ""
	for _, rec := range records {
		uses[rec.SettingsDigest]++
	}
	for digest, n := range uses {
		if n > uses[best] || n == uses[best] && digest < best {
			best = digest
		}
	}
	return best
}

// readAndAddSettings reads settings, once.
func (r Reader) readAndAddSettings(ctx context.Context, out *impact.PoolSnapshot, digest string) (impact.Settings, error) {
	if s, ok := out.Settings[digest]; ok {
		return s, nil
	}
	key := types.NamespacedName{Namespace: r.Namespace, Name: lineage.SettingsName(digest)}
	var cm corev1.ConfigMap
	if err := r.Settings.Get(ctx, key, &cm); err != nil {
		return impact.Settings{}, fmt.Errorf("reading settings %s: %w", key, err)
	}
	var s impact.Settings
	if err := json.Unmarshal([]byte(cm.Data[lineage.SettingsKey]), &s); err != nil {
		return s, fmt.Errorf("reading settings %s: invalid JSON: delete the ConfigMap, and the controller creates it again", key)
	}
	s = impact.RedactSettings(s.Settings, s.Cluster.Server) // a user can have edited it
	out.Settings[digest] = s
	return s, nil
}

// addUserSources adds the ProfileSources that users created, with the profiles in their status. The
// source of the built-in profiles is omitted: a comparison reads those from its own release. Of the
// maintenance windows, those that limit the replacement of machines are added.
func (r Reader) addUserSources(ctx context.Context, out *impact.PoolSnapshot) error {
	var list api.ProfileSourceList
	if err := r.Management.List(ctx, &list, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing ProfileSources: %w", err)
	}
	for i := range list.Items {
		ps := &list.Items[i]
		if ps.Spec.Builtin != nil {
			continue
		}
		s := impact.Source{Name: ps.Name, Waves: ps.HasWaves(), Windows: windows.SummarizeFor(ps, api.WindowReplace), Profiles: []string{}}
		for _, e := range ps.Status.Profiles {
			if !e.Removed {
				s.Profiles = append(s.Profiles, e.Name)
			}
		}
		slices.Sort(s.Profiles)
		out.Sources = append(out.Sources, s)
	}
	return nil
}

// addUnmanagedProfiles reads the OperatingSystemProfiles that no ProfileSource created.
func (r Reader) addUnmanagedProfiles(ctx context.Context, out *impact.PoolSnapshot) error {
	var list osm.OperatingSystemProfileList
	if err := r.Management.List(ctx, &list, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing OperatingSystemProfiles: %w", err)
	}
	for i := range list.Items {
		if osp := &list.Items[i]; osp.Labels[api.LabelManagedBy] != api.FieldManager {
			out.Unmanaged = append(out.Unmanaged, osp.Name)
		}
	}
	return nil
}
