package selection

import (
	"fmt"
	"slices"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// WaveOf reads the wave of a pool from its labels. For an invalid label it returns an error
// and the default wave.
func WaveOf(labels map[string]string) (int32, error) {
	text, labelled := labels[api.LabelWave]
	if !labelled {
		return api.DefaultWave, nil
	}
	if len(text) != 1 || text[0] < '0' || text[0] > '9' {
		return api.DefaultWave, fmt.Errorf("label %s: invalid wave %q, using the default %d: set a digit from 0 to 9, or remove the label", api.LabelWave, text, api.DefaultWave)
	}
	return int32(text[0] - '0'), nil
}

// EntryForWave returns the inventory's entry of a profile for a wave. It returns false if
// versions are delivered in waves and none is released yet.
func EntryForWave(ps *api.ProfileSource, entry api.ProfileEntry, wave int32) (api.ProfileEntry, bool) {
	if !ps.HasWaves() {
		return entry, true
	}
	r := ps.RolloutOf(entry.Name)
	if r == nil {
		return entry, false
	}
	v := r.RolloutVersion
	if wave > r.Wave {
		// A wave that the version has not reached gets the latest version that did reach it.
		step := slices.IndexFunc(r.Superseded, func(s api.RolloutStep) bool { return wave <= s.Wave })
		switch {
		case step >= 0:
			v = r.Superseded[step].RolloutVersion
		case r.From != nil:
			v = *r.From
		default:
			return entry, false
		}
	}
	entry.Version = v.Version
	entry.Object = v.Object
	entry.Digest = v.Digest
	entry.Commit = v.Commit
	entry.SelectedBy = v.SelectedBy
	return entry, true
}

// ObjectsOfRollouts returns the OperatingSystemProfiles that a wave gets, or would have to
// return to.
func ObjectsOfRollouts(ps *api.ProfileSource) map[string]bool {
	out := map[string]bool{}
	for _, r := range ps.Status.Rollouts {
		out[r.Object] = true
		if r.From != nil {
			out[r.From.Object] = true
		}
		for _, s := range r.Superseded {
			out[s.Object] = true
		}
	}
	return out
}
