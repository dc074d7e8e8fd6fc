package verify

import (
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// Revisions of MachineDeployments are compared as numbers; a revision that is not a number
// is never the older one.
func TestOlder(t *testing.T) {
	for _, c := range []struct {
		revision, than string
		want           bool
	}{
		{"1", "2", true},
		{"2", "1", false},
		{"2", "2", false},
		{"9", "10", true},
		{"", "1", false},
		{"1", "", false},
		{"x", "1", false},
		{"1", "x", false},
		{"-1", "1", false},
		{"x", "y", false},
	} {
		if got := lineage.IsOlderRevision(c.revision, c.than); got != c.want {
			t.Errorf("lineage.IsOlder(%q, %q) = %t, want %t", c.revision, c.than, got, c.want)
		}
	}
}
