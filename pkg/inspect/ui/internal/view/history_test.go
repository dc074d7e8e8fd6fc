package view

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/test/fleetfixture"
)

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.DateTime)
}

// For every order of the UIDs the history is the same: with equal times the references
// between generations decide. A configuration that came back has two periods.
func TestHistoryFollowsReplacements(t *testing.T) {
	names := [3]types.UID{"a", "b", "c"}
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		o := fleetfixture.Rotated([3]types.UID{names[order[0]], names[order[1]], names[order[2]]})
		for range 2 {
			slices.Reverse(o.Records)
			f := fleet.NewModel(fleetfixture.Noon, o)
			v, _ := NewPool(f, "shop/web", 1)
			var periods []string
			for _, c := range v.Configurations {
				periods = append(periods, fmt.Sprintf("%s %s..%s %v", c.Version, instant(c.From), instant(c.Until), c.Current))
			}
			want := []string{
				"v1.2.0 2026-03-03 12:00:00.. true",
				"v1.0.0 2026-03-02 12:00:00..2026-03-03 12:00:00 false",
				"v1.2.0 2026-03-01 12:00:00..2026-03-02 12:00:00 false",
				"v1.1.0 2026-03-01 12:00:00..2026-03-01 12:00:00 false",
				"v1.0.0 2026-03-01 12:00:00..2026-03-01 12:00:00 false",
			}
			if diff := cmp.Diff(want, periods); diff != "" {
				t.Errorf("%v: periods (-want +got):\n%s", order, diff)
			}
			for commit, want := range map[string][]string{
				fleetfixture.First:    {"v1.0.0 after "},
				fleetfixture.Second:   {"v1.1.0 after v1.0.0"},
				fleetfixture.Written:  {"v1.0.0 after v1.2.0", "v1.1.0 after v1.0.0"},
				fleetfixture.Third:    {"v1.2.0 after v1.1.0"},
				fleetfixture.Restored: {"v1.2.0 after v1.0.0"},
			} {
				page, _ := NewCommit(f, commit, "", 1)
				var got []string
				for _, r := range page.Rotations {
					got = append(got, r.Version+" after "+r.Before)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%v: commit %s (-want +got):\n%s", order, commit[:4], diff)
				}
			}
			// The third commit is compared with the second.
			page, _ := NewCommit(f, fleetfixture.Third, "", 1)
			if p := page.Profiles[0]; p.Version != "v1.2.0" || p.Before != "v1.1.0" {
				t.Errorf("%v: %s is compared with %q", order, p.Version, p.Before)
			}
		}
	}
}

// A page has the newest configurations, and osm-gitops history all of them.
func TestLongHistory(t *testing.T) {
	const all = pageSize + 10
	var o fleet.Objects
	for i := range all {
		from := fleetfixture.Ago(fleetfixture.Day * all).Add(fleetfixture.Day * time.Duration(i))
		o.Records = append(o.Records, fleetfixture.RecordMeta("shop/web", fmt.Sprintf("v1.%d.0", i), fleetfixture.First, fmt.Sprintf("d-%d", i),
			api.Interval{From: metav1.NewTime(from), Until: metav1.NewTime(from.Add(fleetfixture.Day)), UID: types.UID(fmt.Sprint(i))}))
	}
	f := fleet.NewModel(fleetfixture.Noon, o)
	newest := fmt.Sprintf("v1.%d.0", all-1)
	if v, _ := NewPool(f, "shop/web", 1); len(v.Configurations) != pageSize || v.Configurations[0].Version != newest {
		t.Errorf("a page has %d", len(v.Configurations))
	}
	if got := f.PeriodsOfPool("shop/web"); len(got) != all || got[0].Version != newest || got[all-1].Version != "v1.0.0" {
		t.Errorf("there are %d", len(got))
	}
}
