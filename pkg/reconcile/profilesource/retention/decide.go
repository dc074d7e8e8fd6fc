package retention

import (
	"cmp"
	"slices"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
)

// storedVersion is one version of a profile: in the history, in the cluster, or both.
type storedVersion struct {
	version string
	history *catalog.Version            // nil if the source no longer contains the version
	object  *osm.OperatingSystemProfile // nil if the version has no object; from the cache, do not modify
}

// is reports whether this is the given version of the history.
func (e storedVersion) is(v catalog.Version) bool {
	return e.history != nil && e.history.Version == v.Version && e.history.Digest == v.Digest
}

// isAtCurrentRevision reports whether the source contains the version at its revision.
func (e storedVersion) isAtCurrentRevision() bool {
	return e.history != nil && e.history.CurrentPath != ""
}

// versionIndex lists the versions of one profile, and what refers to them.
type versionIndex struct {
	name string
	// entry is the profile's entry in the new inventory, zero if it was dropped. NewPlan sets it.
	entry api.ProfileEntry
	// live is true if the source offers the profile; current is its version then.
	live    bool
	current catalog.Version
	// sourceUnknown is true if the content of the source is unknown.
	sourceUnknown bool
	stored        []storedVersion // the newest first
	references    references
}

// references lists what refers to versions of a profile.
type references struct {
	pins   []version.Pin // versions that pools request
	used   uses
	rolled map[string]bool // objects of a wave rollout, including those to return to
	named  bool            // a pool may name the profile; known of profiles that left the source
}

// storedVersions merges a history with the existing objects, the newest first: the order of
// the history, then the objects that are not in it, by age.
func storedVersions(ps *api.ProfileSource, history []catalog.Version, existing []*osm.OperatingSystemProfile) []storedVersion {
	byName := map[string]*osm.OperatingSystemProfile{}
	for _, o := range existing {
		byName[o.Name] = o
	}
	var out []storedVersion
	for _, v := range slices.Backward(history) {
		name := objects.VersionedObjectName(ps, v)
		out = append(out, storedVersion{version: v.Version, history: &v, object: byName[name]})
		delete(byName, name)
	}
	var others []storedVersion
	for _, o := range byName {
		others = append(others, storedVersion{version: objects.VersionOf(o), object: o})
	}
	slices.SortFunc(others, func(a, b storedVersion) int {
		return cmp.Or(b.object.CreationTimestamp.Compare(a.object.CreationTimestamp.Time), cmp.Compare(a.object.Name, b.object.Name))
	})
	return append(out, others...)
}

// pinned returns the existing versions that pools request.
func (s versionIndex) pinned() map[string]bool {
	out := map[string]bool{}
	for _, pin := range s.references.pins {
		var versions []string
		for _, e := range s.stored {
			versions = append(versions, e.version)
		}
		if best, ok := pin.Best(versions); ok {
			out[best] = true
		}
	}
	return out
}

// markRetained reports for each version whether it must be in the cluster: the current one,
// those in the source, those with references, and the newest superseded ones up to a
// limit. If the profile left the source, only those remain that are in use, part of a
// rollout or named by the inventory.
func (s versionIndex) markRetained(limit int) []bool {
	out := make([]bool, len(s.stored))
	pinned, superseded := s.pinned(), 0
	for i, e := range s.stored {
		named := e.object != nil && (e.object.Name == s.entry.Object || s.references.rolled[e.object.Name])
		switch {
		case named, s.references.used[s.name][e.version], e.object != nil && s.references.used.includes(e.object):
			out[i] = true
		case s.live && (e.is(s.current) || e.isAtCurrentRevision() || pinned[e.version]):
			out[i] = true
		case s.live && superseded < limit:
			out[i] = true
			superseded++
		}
	}
	return out
}

// requestableVersions returns the versions that pools can request, the highest first: those in the
// cluster, those that pools request, and up to the given number of others.
func (s versionIndex) requestableVersions(others int) []string {
	var out []string
	pinned, historic := s.pinned(), 0
	for _, e := range s.stored {
		if e.object == nil && !pinned[e.version] {
			if historic++; historic > others {
				continue
			}
		}
		out = append(out, e.version)
	}
	return version.SortDescending(out)
}

// historyLimit returns the number of superseded versions to retain.
func historyLimit(ps *api.ProfileSource) int {
	if ps.Spec.HistoryLimit == nil {
		return 10 // the schema's default
	}
	return int(*ps.Spec.HistoryLimit)
}

// prunes reports whether the source allows the deletion of versions.
func prunes(ps *api.ProfileSource) bool { return ps.Spec.Prune == nil || *ps.Spec.Prune }
