package drift

import (
	"slices"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
)

// only returns the report with the differences that match. The others are counted.
func (r Report) only(match func(api.MatchDifference) bool) Report {
	var reported []api.MatchDifference
	for _, d := range r.Differences {
		if match(d) {
			reported = append(reported, d)
		} else {
			r.Others++
		}
	}
	r.Differences = reported
	return r
}

// RestrictedTo returns the report with the differences of files and units that a manifest has, and of drop-ins
// of its units. The others are counted.
func (r Report) RestrictedTo(m *manifest.Manifest) Report {
	return r.only(func(d api.MatchDifference) bool {
		if unit, ok := strings.CutPrefix(d.Path, UnitPrefix); ok {
			return hasUnit(m, unit)
		}
		if _, ok := m.FileAt(d.Path); ok || d.Path == manifest.Path {
			return true
		}
		parts := strings.Split(d.Path, "/")
		if len(parts) < 2 || d.Reason != api.DifferenceDropIn {
			return false
		}
		unit, isDropIn := strings.CutSuffix(parts[len(parts)-2], ".d")
		return isDropIn && hasUnit(m, unit)
	})
}

// WithoutContentOf returns the report without the files whose content is that of another manifest.
func (r Report) WithoutContentOf(m *manifest.Manifest) Report {
	r.Differences = slices.DeleteFunc(slices.Clone(r.Differences), func(d api.MatchDifference) bool {
		f, ok := m.FileAt(d.Path)
		return ok && d.Found != "" && strings.HasPrefix(f.Digest, d.Found)
	})
	return r
}

// OfOtherConfiguration returns the report of a node that compares itself with a configuration from
// which it cannot have been provisioned: its manifest was replaced, and the rest says nothing.
func (r Report) OfOtherConfiguration() Report {
	r = r.only(func(api.MatchDifference) bool { return false })
	r.Differences = []api.MatchDifference{{Path: manifest.Path, Reason: api.DifferenceContent}}
	return r
}

func hasUnit(m *manifest.Manifest, name string) bool {
	return slices.ContainsFunc(m.Units, func(u manifest.Unit) bool { return u.Name == name })
}
