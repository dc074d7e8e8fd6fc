package desired

import (
	"testing"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// The message about an unknown profile lists the existing ones, each once.
func TestKnownProfiles(t *testing.T) {
	entries := api.ProfileSourceStatus{Profiles: []api.ProfileEntry{{Name: "osp-b"}, {Name: "osp-a"}, {Name: "osp-c", Removed: true}}}
	sources := []api.ProfileSource{{Status: entries}, {Spec: api.ProfileSourceSpec{Builtin: &api.BuiltinSource{}}, Status: entries}}
	if got, want := profileNames(sources), " (there are osp-a, osp-b)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
