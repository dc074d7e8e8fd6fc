package impact

import (
	"testing"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// The comment says in which maintenance windows running machines are replaced. A snapshot is
// untrusted text.
func TestWindowsOfReplacements(t *testing.T) {
	replace := map[string]string{api.AnnotationRollout: api.RolloutReplace}
	f := PoolSnapshot{Sources: []Source{
		{Name: "other", Profiles: []string{"osp-b"}, Windows: []string{"0 0 * * * UTC for 1h"}},
		{Name: "ours", Profiles: []string{"osp-a"}, Windows: []string{"0 22 * * 1-4 Europe/Berlin for 6h", "0 4 * * 6 UTC for 90m|\x1b@all"}},
	}}
	for _, c := range []struct {
		annotations   map[string]string
		profile, want string
	}{
		{replace, "osp-a", "are replaced in maintenance windows `0 22 * * 1-4 Europe/Berlin for 6h` and `0 4 * * 6 UTC for 90m\\|@all`"},
		{replace, "osp-b", "are replaced in maintenance windows `0 0 * * * UTC for 1h`"},
		{replace, "osp-c", "are replaced"},
		{nil, "osp-a", "stay"},
		{map[string]string{api.AnnotationRollout: api.RolloutReplace, api.AnnotationWindows: api.WindowsIgnore}, "osp-a", "are replaced"},
	} {
		p := Pool{Annotations: c.annotations}
		if got := (Affected{Replaced: p.replacesMachines(), Windows: f.windowsOf(p, c.profile)}).describeMachines(tableCell); got != c.want {
			t.Errorf("%v of %s: got %q, want %q", c.annotations, c.profile, got, c.want)
		}
	}
}
