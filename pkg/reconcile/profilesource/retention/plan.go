package retention

import (
	"cmp"
	"maps"
	"slices"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
)

// Plan is the next inventory, and which objects of versions that are not current to create and to
// delete.
type Plan struct {
	Entries  []api.ProfileEntry
	profiles []missingObjects // in the order of their names
	// unused are objects that nothing refers to, but possibly an archived record.
	unused  []*osm.OperatingSystemProfile
	skipped []string // versions in the history that pools cannot get, and why
}

// missingObjects are the objects of one profile to create.
type missingObjects struct {
	versions []catalog.Version // of the history, the newest first
	// deleted are objects that were deleted just before a configuration began to use them, and
	// that the source no longer contains.
	deleted []*osm.OperatingSystemProfile
}

// NewPlan completes the entries of the next inventory, and decides which versions are objects.
func NewPlan(ps *api.ProfileSource, entries []api.ProfileEntry, seen Observed) Plan {
	out := Plan{Entries: nextEntries(ps, entries, seen), skipped: seen.skipped}
	byName := map[string]api.ProfileEntry{}
	for _, e := range out.Entries {
		byName[e.Name] = e
	}
	for _, name := range slices.Sorted(maps.Keys(seen.profiles)) {
		index := seen.profiles[name]
		index.entry = byName[name]
		retained := index.markRetained(historyLimit(ps))
		out.profiles = append(out.profiles, missingObjects{versions: index.missingVersions(retained), deleted: index.deletedButUsed(seen.deleted)})
		if prunes(ps) && !seen.poolsUnknown && !index.sourceUnknown {
			out.unused = append(out.unused, index.unusedObjects(retained, seen.foreign)...)
		}
	}
	return out
}

// nextEntries adds to each inventory entry the other versions that pools can request. It drops the
// entry of a profile that left the source when no configuration uses it and no pool names it.
func nextEntries(ps *api.ProfileSource, entries []api.ProfileEntry, seen Observed) []api.ProfileEntry {
	was := map[string]bool{}
	for _, e := range ps.Status.Profiles {
		was[e.Name] = e.Removed
	}
	var out []api.ProfileEntry
	// All entries are in the status of one object, which must stay below the etcd size limit.
	listed := min(api.MaxListedVersions, max(historyLimit(ps), api.MaxListedTotal/max(len(entries), 1)))
	for _, e := range entries {
		index := seen.profiles[e.Name]
		if e.Removed && was[e.Name] && prunes(ps) && len(index.references.used[e.Name]) == 0 && !index.references.named {
			continue
		}
		e.Versions = slices.DeleteFunc(index.requestableVersions(listed), func(v string) bool { return v == e.Version })
		if e.Removed || len(e.Versions) == 0 {
			e.Versions = nil // pools cannot get them, or the list is empty
		}
		out = append(out, e)
	}
	return out
}

// missingVersions returns the retained versions of the history that have no object. That of the
// current version is created before the versions are observed.
func (s versionIndex) missingVersions(retained []bool) []catalog.Version {
	var out []catalog.Version
	for i, e := range s.stored {
		if retained[i] && e.object == nil && e.history != nil && !e.is(s.current) {
			out = append(out, *e.history)
		}
	}
	return out
}

// deletedButUsed returns the deleted objects of the profile that a configuration uses.
func (s versionIndex) deletedButUsed(deleted map[string]*osm.OperatingSystemProfile) []*osm.OperatingSystemProfile {
	var out []*osm.OperatingSystemProfile
	for _, o := range deleted {
		if o.Labels[api.LabelProfile] == s.name && s.references.used.includes(o) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *osm.OperatingSystemProfile) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// unusedObjects returns the objects that are not retained, and that no other source has in its
// inventory.
func (s versionIndex) unusedObjects(retained []bool, foreign map[string]bool) []*osm.OperatingSystemProfile {
	var out []*osm.OperatingSystemProfile
	for i, e := range s.stored {
		if e.object != nil && !retained[i] && !foreign[e.object.Name] {
			out = append(out, e.object)
		}
	}
	return out
}
