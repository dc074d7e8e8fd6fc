package lineage

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// FindMissingVersions compares a node's version of its profile with the one that its pool gives to
// machines now. It returns the versions that the pool got after the node's, each once, in
// the order in which they came; there is none if they came before the node joined.
func FindMissingVersions(np *api.NodeProvenance, pool Timeline) (api.Behind, []api.MissingVersion) {
	has := np.Spec.Configuration
	now, ok := pool.Current()
	if has == nil || !ok {
		return api.BehindUnknown, nil
	}
	if !now.isOtherVersion(has) {
		return api.BehindNo, nil
	}
	since := np.Spec.Window.Until.Time
	for _, g := range pool { // the last time before it joined that the pool had what it has
		if g.InputDigest == has.InputDigest && !g.From.After(np.Spec.Window.Until.Time) {
			since = g.From
		}
	}
	var missing []api.MissingVersion
	listed := map[string]bool{}
	for _, g := range pool {
		if version := g.Profile + " " + g.Version; g.From.After(since) && g.isOtherVersion(has) && !listed[version] {
			listed[version] = true
			missing = append(missing, api.MissingVersion{Profile: g.Profile, Version: g.Version, Commit: g.Commit, Since: metav1.NewTime(g.From)})
		}
	}
	return api.BehindYes, missing
}

// isOtherVersion reports whether a generation is of another version of a profile.
func (g Generation) isOtherVersion(from *api.ProvenanceConfiguration) bool {
	return g.Profile != from.Profile || g.Version != from.Version
}
