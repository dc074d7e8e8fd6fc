package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Plan is the desired state according to a catalogue.
type Plan struct {
	Apply    []catalog.Version          // current versions that this source can offer
	Current  map[string]catalog.Version // Apply by profile name
	Retained map[string]bool            // names of profiles whose file could not be read: their entry remains
	Rejected []error                    // files, versions and profiles that are not applied
	// noHistory is true for a source without a history, such as an artifact: only the inventory knows
	// the commit with which a version was first seen.
	noHistory bool
}

// NewPlan compares a catalogue with the inventory and with other sources.
func NewPlan(ps *api.ProfileSource, snap *source.Snapshot, cat *catalog.Catalog, others []api.ProfileSource) Plan {
	p := Plan{Retained: map[string]bool{}, Current: map[string]catalog.Version{}, noHistory: len(snap.Line) == 0}
	unreadable := map[string]bool{}
	for _, ref := range cat.Rejected {
		p.Rejected = append(p.Rejected, ref)
		unreadable[ref.File()] = true
	}
	withoutBase := appliedOverlaysWithoutBase(ps, cat)
	maps.Copy(p.Retained, withoutBase)
	inInventory := map[string]bool{}
	for _, e := range ps.Status.Profiles {
		inInventory[e.Name] = !e.Removed
		// Without a history only the inventory knows which profile a broken file contained.
		if len(snap.Line) == 0 && unreadable[e.Path] {
			p.Retained[e.Name] = true
		}
	}
	for _, v := range cat.Current {
		if withoutBase[v.Name] {
			continue // do not return to the profile that the file contained before its overlay
		}
		if owner := otherOwner(ps, v.Name, inInventory[v.Name], others); owner != "" {
			p.Rejected = append(p.Rejected, fmt.Errorf("%s: profile %q is already offered by ProfileSource %q: remove it from one of the two sources", v.CurrentPath, v.Name, owner))
			continue
		}
		p.Apply = append(p.Apply, v)
		p.Current[v.Name] = v
	}
	return p
}

// appliedOverlaysWithoutBase returns the profiles in the inventory that were made from a ProfileOverlay whose
// base no longer exists: it was built in, and this release contains another version. The
// result of the overlay still exists as an object, and stays current until Git changes it.
func appliedOverlaysWithoutBase(ps *api.ProfileSource, cat *catalog.Catalog) map[string]bool {
	out := map[string]bool{}
	for _, ref := range cat.Rejected {
		var missing *overlay.MissingBaseError
		if !errors.As(ref, &missing) {
			continue
		}
		for _, e := range ps.Status.Profiles {
			if e.Name == ref.Profile && e.Version == ref.Version && !e.Removed {
				out[e.Name] = true
			}
		}
	}
	return out
}

// otherOwner returns the name of another source that owns a profile, or "". A source that
// offers a profile owns it; if two offer it, the older source does. Built-in profiles have
// no owner: another source shadows them, and they are offered again when it is deleted.
// inInventory is true if ps offers the profile already.
func otherOwner(ps *api.ProfileSource, name string, inInventory bool, others []api.ProfileSource) string {
	if ps.Spec.Builtin != nil {
		return ""
	}
	for _, other := range others {
		if other.Spec.Builtin != nil || !other.DeletionTimestamp.IsZero() {
			continue
		}
		for _, e := range other.Status.Profiles {
			if e.Name != name || e.Removed {
				continue
			}
			if !inInventory || older(other.ObjectMeta, ps.ObjectMeta) {
				return other.Name
			}
		}
	}
	return ""
}

func older(a, b metav1.ObjectMeta) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// NextEntries returns the new inventory. A profile that left the source is marked as removed; failed
// names those whose current version could not become an object, and whose entry does not change.
// signatures maps profile names to who signed the current version. objectName returns the name of
// a version's object, which depends on the kind that the controller writes.
func NextEntries(ps *api.ProfileSource, p Plan, failed map[string]bool, signatures map[string]string, objectName func(*api.ProfileSource, catalog.Version) string) []api.ProfileEntry {
	out := map[string]api.ProfileEntry{}
	known := map[string]api.ProfileEntry{}
	for _, e := range ps.Status.Profiles {
		known[e.Name] = e
		_, current := p.Current[e.Name]
		// A removed profile is offered again only with a version that was applied, below.
		e.Removed = e.Removed || !current && !p.Retained[e.Name]
		out[e.Name] = e
	}
	for name, v := range p.Current {
		if failed[name] {
			continue
		}
		e := api.ProfileEntry{
			Name: name, Version: v.Version, Object: objectName(ps, v),
			Path: v.CurrentPath, Commit: string(v.Commit), SelectedBy: string(v.SelectedBy), Digest: v.Digest,
			Signature: signatures[name],
		}
		// Without a history, the first commit that was seen with this content remains: a newer
		// commit with the same content did not change this profile. After a removal, the newer
		// commit made the version current again.
		if had := known[name]; p.noHistory && had.Version == e.Version && had.Digest == e.Digest && had.Commit != "" {
			e.Commit = had.Commit
			if !had.Removed {
				e.SelectedBy = had.SelectedBy
			}
		}
		out[name] = e
	}
	return slices.SortedFunc(maps.Values(out), func(a, b api.ProfileEntry) int { return cmp.Compare(a.Name, b.Name) })
}

// Changes are the differences of two inventories of a source.
type Changes struct {
	Current  []api.ProfileEntry // their current version or content changed
	Removed  []api.ProfileEntry // they left the source
	Restored []api.ProfileEntry // they had left the source and are in it again, unchanged
}

// ChangesOf compares two inventories of a source.
func ChangesOf(before, after *api.ProfileSource) (out Changes) {
	was := map[string]api.ProfileEntry{}
	for _, e := range before.Status.Profiles {
		was[e.Name] = e
	}
	for _, e := range after.Status.Profiles {
		old, known := was[e.Name]
		switch {
		case e.Removed && known && !old.Removed:
			out.Removed = append(out.Removed, e)
		case e.Removed:
		case !known || old.Version != e.Version || old.Digest != e.Digest:
			out.Current = append(out.Current, e)
		case old.Removed:
			out.Restored = append(out.Restored, e)
		}
	}
	return out
}
