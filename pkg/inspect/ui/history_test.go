package ui

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// restored is the commit that made v1.2.0 current again.
var restored = strings.Repeat("5e", 20)

// rotated is a pool that had v1.0.0, v1.1.0 and v1.2.0 within one second, was set back to
// v1.0.0 a day later, and then got v1.2.0 again. The names of objects do not reveal their
// order.
func rotated(uids [3]types.UID) Objects {
	start, back, again := ago(3*day), ago(2*day), ago(day)
	o := Objects{
		Pools: []metav1.ObjectMeta{poolMeta("shop", "web")},
		Profiles: []metav1.ObjectMeta{
			profileMeta("osp-web", "v1.0.0", first, first, "Ada <ada@example.com>", 30*day),
			profileMeta("osp-web", "v1.1.0", second, written, "Ben <ben@example.com>", 20*day),
			profileMeta("osp-web", "v1.2.0", third, third, "Eve <eve@example.com>", 10*day),
		},
		Records: []metav1.ObjectMeta{
			recordMeta("shop/web", "v1.2.0", third, "d-3", api.Interval{From: start, Until: back, UID: uids[2], Replaces: uids[1]}),
			recordMeta("shop/web", "v1.0.0", first, "d-1", api.Interval{From: start, Until: start, UID: uids[0]}),
			recordMeta("shop/web", "v1.1.0", second, "d-2", api.Interval{From: start, Until: start, UID: uids[1], Replaces: uids[0]}),
		},
	}
	intervals, err := json.Marshal([]api.Interval{{From: start, Until: start, UID: uids[0]}, {From: back, Until: again, UID: "back", Replaces: uids[2], SelectedBy: written}})
	if err != nil {
		panic(err)
	}
	o.Records[1].Annotations[api.AnnotationIntervals] = string(intervals)
	config := configOf("shop/web", "v1.2.0", third, "d-3", again, "again")
	config.Annotations[api.AnnotationReplaces] = "back"
	config.Annotations[api.AnnotationSelectedBy] = restored
	o.Configs = []osm.OperatingSystemConfig{config}
	o.Nodes = []ProvenanceSummary{{Record: "n.0a1b2c3d", Node: "n", UID: "u", Pool: "shop/web", Digest: "d-3", Profile: "osp-web", Version: "v1.2.0", Evidence: api.EvidenceReported, Joined: ago(3*day - 1)}}
	return o
}

// For every order of the UIDs the history is the same: with equal times the references
// between generations decide. A configuration that came back has two periods.
func TestHistoryFollowsReplacements(t *testing.T) {
	names := [3]types.UID{"a", "b", "c"}
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		o := rotated([3]types.UID{names[order[0]], names[order[1]], names[order[2]]})
		for range 2 {
			slices.Reverse(o.Records)
			f := NewModel(noon, o)
			v, _ := ViewPool(f, "shop/web", 1)
			var periods []string
			for _, c := range v.Configurations {
				periods = append(periods, fmt.Sprintf("%s %s..%s %v", c.Version, formatTime(c.From), formatTime(c.Until), c.Current))
			}
			want := []string{
				"v1.2.0 2026-03-03 12:00:00 UTC.. true",
				"v1.0.0 2026-03-02 12:00:00 UTC..2026-03-03 12:00:00 UTC false",
				"v1.2.0 2026-03-01 12:00:00 UTC..2026-03-02 12:00:00 UTC false",
				"v1.1.0 2026-03-01 12:00:00 UTC..2026-03-01 12:00:00 UTC false",
				"v1.0.0 2026-03-01 12:00:00 UTC..2026-03-01 12:00:00 UTC false",
			}
			if diff := cmp.Diff(want, periods); diff != "" {
				t.Errorf("%v: periods (-want +got):\n%s", order, diff)
			}
			for commit, want := range map[string][]string{
				first:    {"v1.0.0 after "},
				second:   {"v1.1.0 after v1.0.0"},
				written:  {"v1.0.0 after v1.2.0", "v1.1.0 after v1.0.0"},
				third:    {"v1.2.0 after v1.1.0"},
				restored: {"v1.2.0 after v1.0.0"},
			} {
				page, _ := ViewCommit(f, commit, "", 1)
				var got []string
				for _, r := range page.Rotations {
					got = append(got, r.Version+" after "+r.Before)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%v: commit %s (-want +got):\n%s", order, commit[:4], diff)
				}
			}
			// The third commit is compared with the second.
			page, _ := ViewCommit(f, third, "", 1)
			if p := page.Profiles[0]; p.Version != "v1.2.0" || p.Before != "v1.1.0" {
				t.Errorf("%v: %s is compared with %q", order, p.Version, p.Before)
			}
		}
	}
}

// The page as HTML and as JSON has one row for each period, with seconds.
func TestHistoryIsServed(t *testing.T) {
	s := served(rotated([3]types.UID{"c", "a", "b"}))
	var v Pool
	if err := json.Unmarshal(ask(s, "GET", "/pools/shop/web", "Accept", "application/json").Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Configurations) != 5 || !v.Configurations[0].Current || v.Configurations[2].Current || v.Configurations[0].InputDigest != v.Configurations[2].InputDigest {
		t.Errorf("JSON has %+v", v.Configurations)
	}
	html := ask(s, "GET", "/pools/shop/web").Body.String()
	for text, want := range map[string]int{"osp-web v1.2.0": 2, "osp-web v1.0.0": 2, "osp-web v1.1.0": 1} {
		if got := strings.Count(html, `<th role="rowheader" scope="row">`+text); got != want {
			t.Errorf("%s has %d rows, want %d", text, got, want)
		}
	}
	if !strings.Contains(html, "2026-03-02 12:00:00 UTC") {
		t.Errorf("the table has no seconds:\n%s", html)
	}
}

// A page has the newest configurations, and osm-gitops history all of them.
func TestLongHistory(t *testing.T) {
	const all = pageSize + 10
	var o Objects
	for i := range all {
		from := ago(day * all).Add(day * time.Duration(i))
		o.Records = append(o.Records, recordMeta("shop/web", fmt.Sprintf("v1.%d.0", i), first, fmt.Sprintf("d-%d", i),
			api.Interval{From: metav1.NewTime(from), Until: metav1.NewTime(from.Add(day)), UID: types.UID(fmt.Sprint(i))}))
	}
	f := NewModel(noon, o)
	newest := fmt.Sprintf("v1.%d.0", all-1)
	if v, _ := ViewPool(f, "shop/web", 1); len(v.Configurations) != pageSize || v.Configurations[0].Version != newest {
		t.Errorf("a page has %d", len(v.Configurations))
	}
	if got := f.Configurations("shop/web"); len(got) != all || got[0].Version != newest || got[all-1].Version != "v1.0.0" {
		t.Errorf("there are %d", len(got))
	}
}
