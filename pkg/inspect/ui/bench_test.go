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
)

// large is a fleet of 20,000 nodes in 200 pools with ten configurations each.
func large() Objects {
	const pools, nodes, versions = 200, 20_000, 10
	o := Objects{Sources: world().Sources}
	commit := func(v int) string { return fmt.Sprintf("%040x", v+1) }
	version := func(v int) string { return fmt.Sprintf("v1.%d.0", v) }
	for v := range versions {
		o.Profiles = append(o.Profiles, profileMeta("osp-web", version(v), commit(v), commit(v), "Ada <ada@example.com>", time.Duration(versions-v)*day))
	}
	for p := range pools {
		name := fmt.Sprintf("pool-%03d", p)
		o.Pools = append(o.Pools, poolMeta("shop", name))
		for v := range versions {
			digest, from := fmt.Sprintf("%s-%d", name, v), ago(time.Duration(versions-v)*day)
			if v == versions-1 {
				o.Configs = append(o.Configs, configOf("shop/"+name, version(v), commit(v), digest, from, types.UID(digest)))
				continue
			}
			o.Records = append(o.Records, recordMeta("shop/"+name, version(v), commit(v), digest, api.Interval{From: from, Until: ago(time.Duration(versions-v-1) * day), UID: types.UID(digest)}))
		}
	}
	for n := range nodes {
		v := n / pools % versions
		pool := fmt.Sprintf("pool-%03d", n%pools)
		o.Nodes = append(o.Nodes, ProvenanceSummary{
			Record: fmt.Sprintf("node-%05d.0a1b2c3d", n), Node: fmt.Sprintf("node-%05d", n), Pool: "shop/" + pool, Digest: fmt.Sprintf("%s-%d", pool, v),
			Profile: "osp-web", Version: version(v), Evidence: api.EvidenceReported, Behind: api.BehindYes, Joined: metav1.NewTime(noon.Add(-day)),
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
			NewModel(noon, o)
		}
	})
	f := NewModel(noon, o)
	for name, view := range map[string]func() shown{
		"fleet":    func() shown { return shown{"", "fleet", ViewFleet(f, Filter{}, 1)} },
		"filtered": func() shown { return shown{"", "fleet", ViewFleet(f, Filter{Query: "pool-17", State: "Behind"}, 1)} },
		"pool":     func() shown { v, _ := ViewPool(f, "shop/pool-007", 1); return shown{"", "pool", v} },
		"commit":   func() shown { v, _ := ViewCommit(f, fmt.Sprintf("%040x", 5), "", 1); return shown{"", "commit", v} },
		"search":   func() shown { return shown{"", "search", ViewSearch(f, "node-01", 2)} },
	} {
		b.Run(name, func(b *testing.B) {
			s, r := served(o), httptest.NewRequest("GET", "/", nil)
			b.ReportAllocs()
			for b.Loop() {
				var page bytes.Buffer
				if err := s.html(&page, r, view()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(page.Len()), "bytes")
			}
		})
	}
}
