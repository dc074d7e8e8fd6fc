package version

import "testing"

// A release is preferred to a pre-release, then the later version. A version of an edited
// file counts as the version that was edited.
func TestHigher(t *testing.T) {
	order := []string{"v0.9.0-rc.1", "v1.0.0-rc.1", "v1.0.0-rc.2", "v2.0.0-rc.1", "v0.9.0", "v1.0.0", "v1.0.0-dirty.abcdef01", "v1.0.1-dirty.12345678", "v1.2.0", "v1.10.0"}
	for i, a := range order {
		for j, b := range order {
			if got := IsPreferred(a, b); got != (i > j) {
				t.Errorf("higher(%q, %q) = %t", a, b, got)
			}
		}
	}
}
