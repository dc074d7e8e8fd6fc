package profilesource_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/inventory"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

const digest = "v1:sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func entry(name, version string) api.ProfileEntry {
	return api.ProfileEntry{Name: name, Version: version, Object: name + "-" + version, Path: name + ".yaml", Digest: digest}
}

func removed(e api.ProfileEntry) api.ProfileEntry {
	e.Removed = true
	return e
}

func offer(name, version string) catalog.Version {
	return catalog.Version{Name: name, Version: version, Digest: digest, Path: name + ".yaml", CurrentPath: name + ".yaml"}
}

func named(name string, age time.Duration, entries ...api.ProfileEntry) api.ProfileSource {
	return api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", Generation: 2, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))},
		Status:     api.ProfileSourceStatus{Profiles: entries},
	}
}

func builtinSource(entries ...api.ProfileEntry) api.ProfileSource {
	ps := named(api.DefaultsName, 0, entries...)
	ps.Spec.Builtin = &api.BuiltinSource{}
	return ps
}

func TestInventory(t *testing.T) {
	withHistory := &source.Snapshot{Line: make([]source.HistoryEntry, 1)}
	for name, c := range map[string]struct {
		ps      api.ProfileSource
		snap    *source.Snapshot
		cat     catalog.Catalog
		others  []api.ProfileSource
		failed  map[string]bool
		want    []api.ProfileEntry
		refused []string
	}{
		"a new profile is added, a new version takes the place of the old": {
			ps: named("mine", 0, entry("a", "v1.0.0")), snap: withHistory,
			cat:  catalog.Catalog{Current: []catalog.Version{offer("a", "v1.1.0"), offer("b", "v1.0.0")}},
			want: []api.ProfileEntry{entry("a", "v1.1.0"), entry("b", "v1.0.0")},
		},
		"what left the source is marked, and comes back": {
			ps: named("mine", 0, entry("a", "v1.0.0"), removed(entry("b", "v1.0.0"))), snap: withHistory,
			cat:  catalog.Catalog{Current: []catalog.Version{offer("b", "v1.0.0")}},
			want: []api.ProfileEntry{removed(entry("a", "v1.0.0")), entry("b", "v1.0.0")},
		},
		"a version that cannot become an object leaves the one before": {
			ps: named("mine", 0, entry("a", "v1.0.0")), snap: withHistory, failed: map[string]bool{"a": true},
			cat:  catalog.Catalog{Current: []catalog.Version{offer("a", "v1.1.0")}},
			want: []api.ProfileEntry{entry("a", "v1.0.0")},
		},
		"a removed profile whose new version cannot become an object remains removed": {
			ps: named("mine", 0, removed(entry("a", "v1.0.0"))), snap: withHistory, failed: map[string]bool{"a": true},
			cat:  catalog.Catalog{Current: []catalog.Version{offer("a", "v1.1.0")}},
			want: []api.ProfileEntry{removed(entry("a", "v1.0.0"))},
		},
		"a removed profile whose file is restored and broken remains removed": {
			ps: named("mine", 0, removed(entry("a", "v1.0.0"))), snap: &source.Snapshot{},
			cat:  catalog.Catalog{Rejected: []*catalog.Rejection{{Problem: strictyaml.Problem{Path: "a.yaml", Err: errors.New("broken")}}}},
			want: []api.ProfileEntry{removed(entry("a", "v1.0.0"))}, refused: []string{"a.yaml: broken"},
		},
		"a broken file of a folder without history stands for what it held": {
			ps: named("mine", 0, entry("a", "v1.0.0"), entry("b", "v1.0.0")), snap: &source.Snapshot{},
			cat:  catalog.Catalog{Rejected: []*catalog.Rejection{{Problem: strictyaml.Problem{Path: "a.yaml", Err: errors.New("broken")}}}},
			want: []api.ProfileEntry{entry("a", "v1.0.0"), removed(entry("b", "v1.0.0"))}, refused: []string{"a.yaml: broken"},
		},
		"who has a profile keeps it": {
			ps: named("mine", time.Hour), snap: withHistory, others: []api.ProfileSource{named("theirs", 0, entry("a", "v1.0.0"))},
			cat:     catalog.Catalog{Current: []catalog.Version{offer("a", "v1.1.0")}},
			refused: []string{`a.yaml: profile "a" is already offered by ProfileSource "theirs": remove it from one of the two sources`},
		},
		"of two that have it the older source keeps it": {
			ps: named("mine", time.Hour, entry("a", "v1.0.0")), snap: withHistory, others: []api.ProfileSource{named("theirs", 0, entry("a", "v1.0.0"))},
			cat:  catalog.Catalog{Current: []catalog.Version{offer("a", "v1.1.0")}},
			want: []api.ProfileEntry{entry("a", "v1.1.0")},
		},
		"what another source has removed is free": {
			ps: named("mine", 0), snap: withHistory, others: []api.ProfileSource{named("theirs", time.Hour, removed(entry("a", "v1.0.0")))},
			cat:  catalog.Catalog{Current: []catalog.Version{offer("a", "v1.1.0")}},
			want: []api.ProfileEntry{entry("a", "v1.1.0")},
		},
		"a built-in profile may be offered by another source, too": {
			ps: named("mine", 0), snap: withHistory, others: []api.ProfileSource{builtinSource(entry("a", "v1.0.0"))},
			cat:  catalog.Catalog{Current: []catalog.Version{offer("a", "v1.1.0")}},
			want: []api.ProfileEntry{entry("a", "v1.1.0")},
		},
		"built-in profiles stay on offer beside those that shadow them": {
			ps: builtinSource(), snap: &source.Snapshot{}, others: []api.ProfileSource{named("theirs", time.Hour, entry("a", "v1.0.0"))},
			cat:  catalog.Catalog{Current: []catalog.Version{offer("a", "v1.0.0")}},
			want: []api.ProfileEntry{{Name: "a", Version: "v1.0.0", Object: "a-012345-v1.0.0", Path: "a.yaml", Digest: digest}},
		},
		"a built-in profile that a release drops is marked": {
			ps: builtinSource(entry("a", "v1.0.0")), snap: &source.Snapshot{},
			want: []api.ProfileEntry{removed(entry("a", "v1.0.0"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := inventory.NewPlan(&c.ps, c.snap, &c.cat, c.others)
			if diff := cmp.Diff(c.want, inventory.NextEntries(&c.ps, w, c.failed, nil, objects.VersionedObjectName)); diff != "" {
				t.Error(diff)
			}
			var refused []string
			for _, err := range w.Rejected {
				refused = append(refused, err.Error())
			}
			if diff := cmp.Diff(c.refused, refused); diff != "" {
				t.Error(diff)
			}
		})
	}
}
