package pools

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// versionError says that a pool cannot have what a version of its profile holds.
type versionError struct {
	version string
	err     error
}

func (e *versionError) Error() string { return e.err.Error() }
func (e *versionError) Unwrap() error { return e.err }

// aboutVersion marks a refusal that came of rendering, by which a rollout judges the
// version. Whatever is wrong before, with the pool or with what it refers to, says nothing
// about that.
func aboutVersion(seen *observed, err error) error {
	if _, unclear := suspended(seen.md); unclear != nil || seen.desiredErr != nil {
		return err
	}
	return &versionError{seen.desired.Profile.Provenance.Version, err}
}

// refusedVersion is the version that a refusal is about, "" for none.
func refusedVersion(refusal error) string {
	var about *versionError
	if errors.As(refusal, &about) {
		return about.version
	}
	return ""
}

// waveChanged passes pools that moved to another wave.
var waveChanged = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetLabels()[api.LabelWave] != e.ObjectNew.GetLabels()[api.LabelWave]
	},
}

// versionsGiven are what the waves get of the profiles of a source, and all there is to
// know of one that has no waves.
func versionsGiven(obj client.Object) map[string][]api.ProfileEntry {
	out := map[string][]api.ProfileEntry{}
	ps, ok := obj.(*api.ProfileSource)
	if !ok || ps == nil {
		return out
	}
	for _, e := range ps.Status.Profiles {
		out[e.Name] = []api.ProfileEntry{e} // pins and removals
		for wave := int32(0); ps.Gated() && wave <= api.LastWave; wave++ {
			given, decided := selection.EntryForWave(ps, e, wave)
			if !decided {
				given = api.ProfileEntry{}
			}
			out[e.Name] = append(out[e.Name], given)
		}
	}
	return out
}
