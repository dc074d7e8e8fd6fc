package ui

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui/internal/view"
	"github.com/osm-gitops/osm-gitops/test/fleetfixture"
)

// large is a fleet of 20,000 nodes in 200 pools with ten configurations each.
func large() fleet.Objects {
	const pools, nodes, versions = 200, 20_000, 10
	o := fleet.Objects{Sources: fleetfixture.World().Sources}
	commit := func(v int) string { return fmt.Sprintf("%040x", v+1) }
	version := func(v int) string { return fmt.Sprintf("v1.%d.0", v) }
	for v := range versions {
		o.Profiles = append(o.Profiles, fleetfixture.ProfileMeta("osp-web", version(v), commit(v), commit(v), "Ada <ada@example.com>", time.Duration(versions-v)*fleetfixture.Day))
	}
	for p := range pools {
		name := fmt.Sprintf("pool-%03d", p)
		o.Pools = append(o.Pools, fleetfixture.PoolMeta("shop", name))
		for v := range versions {
			digest, from := fmt.Sprintf("%s-%d", name, v), fleetfixture.Ago(time.Duration(versions-v)*fleetfixture.Day)
			if v == versions-1 {
				o.Configs = append(o.Configs, fleetfixture.ConfigOf("shop/"+name, version(v), commit(v), digest, from, types.UID(digest)))
				continue
			}
			o.Records = append(o.Records, fleetfixture.RecordMeta("shop/"+name, version(v), commit(v), digest, api.Interval{From: from, Until: fleetfixture.Ago(time.Duration(versions-v-1) * fleetfixture.Day), UID: types.UID(digest)}))
		}
	}
	for n := range nodes {
		v := n / pools % versions
		pool := fmt.Sprintf("pool-%03d", n%pools)
		o.Nodes = append(o.Nodes, fleet.ProvenanceSummary{
			Record: fmt.Sprintf("node-%05d.0a1b2c3d", n), Node: fmt.Sprintf("node-%05d", n), Pool: "shop/" + pool, Digest: fmt.Sprintf("%s-%d", pool, v),
			Profile: "osp-web", Version: version(v), Evidence: api.EvidenceReported, Behind: api.BehindYes, Joined: metav1.NewTime(fleetfixture.Noon.Add(-fleetfixture.Day)),
		})
	}
	return o
}

// The cost of combining the objects of a cluster, and of building each page.
func BenchmarkPages(b *testing.B) {
	o := large()
	b.Run("facts", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fleet.NewModel(fleetfixture.Noon, o)
		}
	})
	f := fleet.NewModel(fleetfixture.Noon, o)
	for name, view := range map[string]func() pageView{
		"fleet": func() pageView { return pageView{"", "fleet", view.NewFleet(f, view.Filter{}, 1)} },
		"filtered": func() pageView {
			return pageView{"", "fleet", view.NewFleet(f, view.Filter{Query: "pool-17", State: "Behind"}, 1)}
		},
		"pool": func() pageView { v, _ := view.NewPool(f, "shop/pool-007", 1); return pageView{"", "pool", v} },
		"commit": func() pageView {
			v, _ := view.NewCommit(f, fmt.Sprintf("%040x", 5), "", 1)
			return pageView{"", "commit", v}
		},
		"search": func() pageView { return pageView{"", "search", view.NewSearch(f, "node-01", 2)} },
	} {
		b.Run(name, func(b *testing.B) {
			s, r := served(o), httptest.NewRequest("GET", "/", nil)
			b.ReportAllocs()
			for b.Loop() {
				var page bytes.Buffer
				if err := s.renderPage(&page, r, view()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(page.Len()), "bytes")
			}
		})
	}
}
