package retention

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/inventory"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// Observed is what was read about the versions of a source, and about what refers to them.
type Observed struct {
	// profiles has each profile that the source offers, has in its inventory or has objects of.
	profiles map[string]versionIndex
	skipped  []string        // versions in the history that pools cannot get, and why
	foreign  map[string]bool // objects that inventories of other sources name
	// deleted are the objects that were deleted in earlier runs and that no history contains.
	deleted map[string]*osm.OperatingSystemProfile
	// poolsUnknown is true if a pool that is not known yet may request any version.
	poolsUnknown bool
}

// Observe finds the existing versions of every profile, and what refers to them. It runs after the
// objects of current versions were written, which it finds as existing, and as late as the next
// inventory allows, because deletions are decided from it. entries are those of that inventory,
// without other versions.
func (t *Retainer) Observe(ctx context.Context, l objects.Approved, cat *catalog.Catalog, want inventory.Plan, entries []api.ProfileEntry) (Observed, error) {
	seen := Observed{
		profiles: map[string]versionIndex{},
		foreign:  objectsInInventories(l.Others),
		deleted:  t.Archive.deleted,
		// This is before the pins are read: pools that become known in between must not be missed.
		poolsUnknown: t.Pools.awaited(),
	}
	existing, err := t.objectsOf(ctx, l.Source, want.Current, l.Others)
	if err != nil {
		return Observed{}, err
	}
	used, err := listUsesByConfigs(ctx, t.Objects.Client, l.Source.Namespace)
	if err != nil {
		return Observed{}, err
	}
	rolled := selection.ObjectsOfRollouts(l.Source)
	names, removed := map[string]bool{}, map[string]bool{}
	for name := range want.Current {
		names[name] = true
	}
	for name := range existing {
		names[name] = true
	}
	for _, e := range entries { // with those of the present inventory
		names[e.Name] = true
		removed[e.Name] = e.Removed
	}
	known := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		refs := references{used: used, rolled: rolled}
		if refs.pins, err = t.Pools.pins(ctx, l.Source.Namespace, name); err != nil {
			return Observed{}, err
		}
		if removed[name] { // only such an entry can be dropped
			if refs.named, err = t.Pools.isPossiblyNamedByPool(ctx, l.Source.Namespace, name); err != nil {
				return Observed{}, err
			}
		}
		current, live := want.Current[name]
		index := versionIndex{name: name, live: live, current: current, sourceUnknown: want.Retained[name], references: refs}
		all := storedVersions(l.Source, cat.History[name], existing[name])
		for _, e := range all {
			if e.history != nil {
				known[rejectedKey(l.Source, *e.history)] = true
			}
		}
		var skipped []string
		if index.stored, skipped, err = t.filterServable(ctx, l, current, all); err != nil {
			return Observed{}, err
		}
		seen.skipped = append(seen.skipped, skipped...)
		seen.profiles[name] = index
	}
	// Versions that left the history are forgotten, so that memory is bounded.
	maps.DeleteFunc(t.Archive.rejected, func(key, _ string) bool { return !known[key] })
	for _, ref := range cat.Skipped {
		seen.skipped = append(seen.skipped, fmt.Sprintf("%s %s (%v)", ref.Profile, ref.Version, ref))
	}
	return seen, nil
}

// rejectedKey is the key of a version of the history in archive.rejected.
func rejectedKey(ps *api.ProfileSource, v catalog.Version) string {
	return objects.VersionedObjectName(ps, v) + v.Digest
}

// objectsOf lists the objects of a source by profile: those that it created, and those
// that a deleted source created of a profile that this source offers now.
func (t *Retainer) objectsOf(ctx context.Context, ps *api.ProfileSource, current map[string]catalog.Version, others []api.ProfileSource) (map[string][]*osm.OperatingSystemProfile, error) {
	var list osm.OperatingSystemProfileList
	err := t.Objects.Client.List(ctx, &list, client.InNamespace(ps.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing OperatingSystemProfiles: %w", err)
	}
	otherSources := map[string]bool{api.DefaultsName: true}
	for _, other := range others {
		otherSources[other.Name] = true
	}
	out := map[string][]*osm.OperatingSystemProfile{}
	for i := range list.Items {
		o := &list.Items[i]
		name, from := o.Labels[api.LabelProfile], o.Labels[api.LabelSource]
		_, isCurrent := current[name]
		if name != "" && (from == ps.Name || isCurrent && !otherSources[from]) {
			out[name] = append(out[name], o)
		}
	}
	return out, nil
}

// filterServable drops the versions of the history that cannot become objects, because the API
// server rejects them or no trusted signature covers them, and returns them with the reason. It
// checks signatures of only the newest api.MaxListedVersions versions that have no object.
func (t *Retainer) filterServable(ctx context.Context, l objects.Approved, current catalog.Version, all []storedVersion) (servable []storedVersion, skipped []string, err error) {
	checked := 0
	for _, e := range all {
		if e.object == nil && !e.is(current) {
			why := t.Archive.rejected[rejectedKey(l.Source, *e.history)]
			if checked++; why == "" && checked <= api.MaxListedVersions {
				if why, err = l.Approval.SignatureProblem(ctx, l.Snapshot, *e.history); err != nil {
					return nil, nil, err
				}
			}
			if why != "" {
				skipped = append(skipped, describeSkipped(*e.history, why))
				continue
			}
		}
		servable = append(servable, e)
	}
	return servable, skipped, nil
}

// describeSkipped names a version of the history that pools cannot get, and why.
func describeSkipped(v catalog.Version, why string) string {
	return fmt.Sprintf("%s %s (%s)", v.Name, v.Version, why)
}
