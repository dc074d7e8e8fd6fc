package conformance

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/render/equivalence"
)

// CompareUserData fails the test if two documents differ in meaning: both are cloud-configs, or
// both are Ignition documents of any versions.
func CompareUserData(t testing.TB, want, got []byte) {
	t.Helper()
	differences, err := equivalence.Compare(want, got)
	if err != nil {
		t.Errorf("comparing user-data, the reference's being the expected: %v", err)
	}
	for _, d := range differences {
		t.Errorf("%s differs (-want +got):\n%s", d.What, cmp.Diff(d.Reference, d.Ours))
	}
}
