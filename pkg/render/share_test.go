package render_test

import (
	"path/filepath"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/conformance"
)

// What profiles in use take is far below the limits (security.md 37): the cases of the
// corpus and the profiles that we ship use up less than a twentieth, and never wait for
// a large room.
func TestProfilesInUseAreFarBelowTheLimits(t *testing.T) {
	inputs := map[string]render.Input{"sample": sampleInput(t)}
	for _, c := range conformance.Cases(t) {
		if in, err := c.Input(t); err == nil && c.WantError == "" {
			inputs[c.Name] = in
		}
	}
	shipped, err := filepath.Glob("../../profiles/*.yaml")
	if err != nil || len(shipped) == 0 {
		t.Fatalf("found %d profiles, error %v", len(shipped), err)
	}
	for _, path := range shipped {
		name := filepath.Base(path)
		in := ourInput(t, name[:len(name)-len(".yaml")])
		if name == "osp-flatcar-cloud-init.yaml" {
			in.Pool.OperatingSystemSpec.Flatcar = &render.FlatcarSpec{ProvisioningUtility: "cloud-init"}
		}
		inputs[name] = in
	}
	most := [3]int{}
	for name, in := range inputs {
		units, made, actions, small, err := render.Used(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, n := range []int{units, made, actions} {
			most[i] = max(most[i], n)
		}
		if units > 50 || made > 50 || actions > 50 || !small {
			t.Errorf("%s takes %d, %d and %d thousandths of the limits of units, bytes and actions; small: %v", name, units, made, actions, small)
		}
	}
	t.Logf("of %d inputs the most take %d, %d and %d thousandths of the limits of units, bytes and actions", len(inputs), most[0], most[1], most[2])
}
