package selection

import (
	"slices"
	"testing"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// The list of versions is a copy: the inventory is that of a cache.
func TestVersionsLeavesTheInventory(t *testing.T) {
	listed := []string{"v1.2.0", "v1.1.0"}
	c := Candidate{Entry: api.ProfileEntry{Version: "v1.3.0", Versions: listed[:1]}}
	if got, want := c.Versions(), []string{"v1.2.0", "v1.3.0"}; !slices.Equal(got, want) || listed[1] != "v1.1.0" {
		t.Errorf("got %q, want %q; the inventory has %q", got, want, listed)
	}
}
