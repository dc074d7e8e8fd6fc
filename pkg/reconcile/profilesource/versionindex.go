package profilesource

import (
	"cmp"
	"slices"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// How many versions the inventory names that are in the history only: of one profile,
// and of all together.
const (
	maxListed = 200
	allListed = 10_000
)

// storedVersion is one version of a profile: in the history, in the cluster, or both.
type storedVersion struct {
	version string
	history *profile.Version            // nil for an object that the source knows nothing of any more
	object  *osm.OperatingSystemProfile // nil where there is none; from the cache, not to be changed
}

// is tells an edition that stands for a version of the history.
func (e storedVersion) is(v profile.Version) bool {
	return e.history != nil && e.history.Version == v.Version && e.history.Digest == v.Digest
}

// inCurrentSource reports whether the source holds the edition at its revision.
func (e storedVersion) inCurrentSource() bool { return e.history != nil && e.history.CurrentPath != "" }

// versionIndex is what there is of one profile, and who wants it.
type versionIndex struct {
	name string
	// entry is that of the new inventory, zero where there is none any more.
	entry api.ProfileEntry
	// live is true while the source offers the profile, current then its version.
	live    bool
	current profile.Version
	// unread is true where nothing is known about what the source holds.
	unread   bool
	editions []storedVersion // the newest first
	demand   references
}

// references is what refers to versions of a profile.
type references struct {
	pins   []profile.Pin // of pools
	used   uses
	rolled map[string]bool // objects that waves get, or have to go back to
}

// editionsOf joins a history with the objects there are. The newest come first:
// in the order of the line, then objects of which the line knows nothing, by age.
func editionsOf(ps *api.ProfileSource, history []profile.Version, objects []*osm.OperatingSystemProfile) []storedVersion {
	byName := map[string]*osm.OperatingSystemProfile{}
	for _, o := range objects {
		byName[o.Name] = o
	}
	var out []storedVersion
	for _, v := range slices.Backward(history) {
		name := objectName(ps, v)
		out = append(out, storedVersion{version: v.Version, history: &v, object: byName[name]})
		delete(byName, name)
	}
	var others []storedVersion
	for _, o := range byName {
		others = append(others, storedVersion{version: versionOf(o), object: o})
	}
	slices.SortFunc(others, func(a, b storedVersion) int {
		return cmp.Or(b.object.CreationTimestamp.Compare(a.object.CreationTimestamp.Time), cmp.Compare(a.object.Name, b.object.Name))
	})
	return append(out, others...)
}

// versionOf is the version of an object.
func versionOf(o *osm.OperatingSystemProfile) string {
	return cmp.Or(o.Annotations[api.AnnotationVersion], o.Spec.Version)
}

// pinned are the versions that pools ask for, of those there are.
func (s versionIndex) pinned() map[string]bool {
	out := map[string]bool{}
	for _, pin := range s.demand.pins {
		var versions []string
		for _, e := range s.editions {
			versions = append(versions, e.version)
		}
		if best, ok := pin.Best(versions); ok {
			out[best] = true
		}
	}
	return out
}

// retained says for each edition whether it has to be in the cluster: what is
// current, what lies in the source, what something refers to, and the newest
// superseded ones up to a limit. Of a profile that left the source only what is in
// use stays, and what the inventory names.
func (s versionIndex) retained(limit int) []bool {
	out := make([]bool, len(s.editions))
	pinned, superseded := s.pinned(), 0
	for i, e := range s.editions {
		named := e.object != nil && (e.object.Name == s.entry.Object || s.demand.rolled[e.object.Name])
		switch {
		case named, s.demand.used[s.name][e.version], e.object != nil && s.demand.used.of(e.object):
			out[i] = true
		case s.live && (e.is(s.current) || e.inCurrentSource() || pinned[e.version]):
			out[i] = true
		case s.live && superseded < limit:
			out[i] = true
			superseded++
		}
	}
	return out
}

// index are the versions that pools may ask for, the highest first: those in the
// cluster, those that are asked for, and as many others.
func (s versionIndex) index(others int) []string {
	var out []string
	pinned, historic := s.pinned(), 0
	for _, e := range s.editions {
		if e.object == nil && !pinned[e.version] {
			if historic++; historic > others {
				continue
			}
		}
		out = append(out, e.version)
	}
	return profile.SortVersions(out)
}

// historyLimit is the number of superseded versions to keep.
func historyLimit(ps *api.ProfileSource) int {
	if ps.Spec.HistoryLimit == nil {
		return 10 // the schema's default
	}
	return int(*ps.Spec.HistoryLimit)
}

// prunes reports whether versions may be deleted.
func prunes(ps *api.ProfileSource) bool { return ps.Spec.Prune == nil || *ps.Spec.Prune }
