package view

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/test/fleetfixture"
)

func TestSearch(t *testing.T) {
	f := fleet.NewModel(fleetfixture.Noon, fleetfixture.World())
	for query, want := range map[string]string{
		"eu-2":                  "0 commits 0 profiles 0 pools: eu-2",
		"web-us":                "0 commits 0 profiles 1 pools: us-1",
		"ben":                   "2 commits 0 profiles 0 pools: eu-2 eu-3 eu-5", // the merge, and what it brought
		"Ben@example":           "2 commits 0 profiles 0 pools: eu-2 eu-3 eu-5",
		fleetfixture.Second[:8]: "1 commits 0 profiles 0 pools: eu-2 eu-3 eu-5",
		fleetfixture.Written:    "1 commits 0 profiles 0 pools: eu-2 eu-3 eu-5",
		"osp-web v1.1.0":        "0 commits 1 profiles 0 pools: eu-2 eu-3 eu-5",
		"v1.1.0":                "0 commits 1 profiles 0 pools: eu-2 eu-3 eu-5",
		"osp-web":               "0 commits 2 profiles 3 pools: eu-1 eu-2 eu-3 eu-4 eu-5 old-1",
		"2b":                    "0 commits 0 profiles 0 pools:", // too short for a commit
		"   ":                   "0 commits 0 profiles 0 pools:",
		"<script>":              "0 commits 0 profiles 0 pools:",
	} {
		v := NewSearch(f, query, 1)
		var nodes []string
		for _, n := range v.Items {
			nodes = append(nodes, n.Name)
		}
		got := strings.TrimSpace(fmt.Sprintf("%d commits %d profiles %d pools: %s", len(v.Commits), len(v.Profiles), len(v.Pools), strings.Join(nodes, " ")))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
}

func TestPaging(t *testing.T) {
	rows := make([]int, 2*pageSize+1)
	for i := range rows {
		rows[i] = i
	}
	for page, want := range map[int][3]int{-1: {0, pageSize, 1}, 0: {0, pageSize, 1}, 2: {pageSize, pageSize, 2}, 3: {2 * pageSize, 1, 3}, 99: {2 * pageSize, 1, 3}} {
		got, p := selectPage(rows, page)
		if len(got) != want[1] || got[0] != want[0] || p.Page != want[2] || p.Of != 3 || p.Matching != len(rows) {
			t.Errorf("page %d is %d rows from %d, %+v", page, len(got), got[0], p)
		}
	}
	if got, p := selectPage([]int(nil), 7); len(got) != 0 || p.Page != 1 || p.Of != 1 {
		t.Errorf("of nothing there is %v, %+v", got, p)
	}
}
