package fleet_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet/bootcounts"
	"github.com/osm-gitops/osm-gitops/test/fleetfixture"
)

// Versions are counted by the nodes that joined and the machines that did not, those of the newest
// machine first; and a pool's break is after the last version with nodes.
func TestCount(t *testing.T) {
	o := fleetfixture.World()
	for i := range o.Nodes {
		o.Nodes[i].Created = metav1.NewTime(o.Nodes[i].Joined.Add(-time.Duration(i+1) * time.Minute))
	}
	o.Profiles = append(o.Profiles, fleetfixture.ProfileMeta("osp-web", "v1.2.0", fleetfixture.Third, fleetfixture.Third, "Cy <cy@example.com>", fleetfixture.Day))
	o.Configs[0] = fleetfixture.ConfigOf("shop/web-eu", "v1.2.0", fleetfixture.Third, "d-eu-3", fleetfixture.Ago(2*time.Hour), "u9")
	f := fleet.NewModel(fleetfixture.Noon, o)
	const pool = "shop/web-eu"
	current := f.Pools[pool].Current
	cause := &api.MachineBootStatus{Profile: current.Profile, Version: current.Version, Attempt: 3}
	unjoined := []fleet.MachineBoot{
		{Pool: pool, Machine: "booting", Created: f.At.Add(-time.Minute)},
		{Pool: pool, Machine: "failing", Created: f.At.Add(-29 * time.Minute), Boot: cause},
		{Pool: pool, Machine: "failed", Created: f.At.Add(-30 * time.Minute), Boot: cause},
		{Pool: pool, Machine: "silent", Created: f.At.Add(-time.Hour)},
		{Pool: "shop/web-us", Machine: "other", Created: f.At.Add(-time.Hour)},
		{Pool: "unknown/pool", Machine: "other", Created: f.At.Add(-time.Hour)},
	}
	own := func(p string) bool { return p == pool }
	summarize := func(rows []*bootcounts.Version) (out []string) {
		for _, b := range rows {
			out = append(out, fmt.Sprintf("%s %d %d %d %d %.0f %.0f", b.Version, b.Joined, b.Booting, b.Failing, b.Failed, b.P50Seconds, b.P95Seconds))
		}
		return out
	}
	boots := bootcounts.Count(f, unjoined, own)
	// v1.1.0 has nodes 2, 3 and 5, v1.0.0 has 1 and 4: their numbers are the minutes to join.
	if diff := cmp.Diff([]string{"v1.2.0 0 1 1 2 0 0", "v1.0.0 2 0 0 0 60 240", "v1.1.0 3 0 0 0 180 300"}, summarize(boots)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if b := bootcounts.FindRegression(f, pool, boots); b == nil || b.Joined != "v1.1.0" || b.Failed != "v1.2.0" || len(b.Commits) != 1 || b.Commits[0].Version != "v1.2.0" || b.Commits[0].Author == "" {
		t.Errorf("the break is %+v", b)
	}
	if b := bootcounts.FindRegression(f, pool, bootcounts.Count(f, unjoined[:1], own)); b != nil {
		t.Errorf("while a machine boots, the break is %+v", b)
	}
	if all := bootcounts.Count(f, unjoined, func(string) bool { return true }); len(all) <= len(boots) {
		t.Errorf("all pools have %v", summarize(all))
	}
}
