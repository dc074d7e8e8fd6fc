package retention

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
)

// shelfOf returns an index with versions v1.0.0 to v1.<n-1>.0 of profile a, the newest
// current. The history does not contain the versions in gone, which exist as objects.
func shelfOf(n int, gone ...string) versionIndex {
	s := versionIndex{name: "a", live: true}
	var objects []*osm.OperatingSystemProfile
	var history []catalog.Version
	for i := range n {
		v := catalog.Version{Name: "a", Version: fmt.Sprintf("v1.%d.0", i), Path: "a.yaml"}
		if i == n-1 {
			v.CurrentPath, s.current = "a.yaml", v
			s.entry = api.ProfileEntry{Name: "a", Version: v.Version, Object: "a-" + v.Version}
		}
		history = append(history, v)
	}
	for i, v := range gone {
		objects = append(objects, &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{
			Name: "a-" + v, CreationTimestamp: metav1.Unix(int64(i), 0), Annotations: map[string]string{api.AnnotationVersion: v},
			Labels: map[string]string{api.LabelProfile: "a"},
		}})
	}
	s.stored = storedVersions(&api.ProfileSource{}, history, objects)
	return s
}

func TestRetained(t *testing.T) {
	pin := func(text string) version.Pin {
		p, err := version.ParsePin(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, c := range map[string]struct {
		shelf  versionIndex
		change func(*versionIndex)
		limit  int
		want   string
	}{
		"the current one and the newest": {shelf: shelfOf(5), limit: 2, want: "v1.4.0 v1.3.0 v1.2.0"},
		"no history is wanted":           {shelf: shelfOf(5), want: "v1.4.0"},
		"what is used does not count": {shelf: shelfOf(5), limit: 1, change: func(s *versionIndex) {
			s.references.used = uses{"a": {"v1.3.0": true, "v1.0.0": true}, "b": {"v1.1.0": true}}
		}, want: "v1.4.0 v1.3.0 v1.2.0 v1.0.0"},
		"what is pinned does not count":          {shelf: shelfOf(5), limit: 1, change: func(s *versionIndex) { s.references.pins = []version.Pin{pin("v1.3.0"), pin("<1.2.0"), pin("v7.0.0")} }, want: "v1.4.0 v1.3.0 v1.2.0 v1.1.0"},
		"what lies in the source does not count": {shelf: shelfOf(4), limit: 1, change: func(s *versionIndex) { s.stored[2].history.CurrentPath = "old.yaml" }, want: "v1.3.0 v1.2.0 v1.1.0"},
		"objects of another history come last":   {shelf: shelfOf(2, "v0.1.0", "v0.2.0", "v0.3.0"), limit: 2, want: "v1.1.0 v1.0.0 v0.3.0"},
		"a profile that left keeps what is used": {shelf: shelfOf(4), limit: 9, change: func(s *versionIndex) {
			s.live, s.entry.Removed, s.current = false, true, catalog.Version{}
			s.references = references{pins: []version.Pin{pin("v1.1.0")}, used: uses{"a": {"v1.2.0": true}}}
		}, want: "v1.2.0"},
		"and what the inventory names": {shelf: shelfOf(0, "v1.0.0", "v1.1.0"), limit: 9, change: func(s *versionIndex) {
			s.live, s.entry = false, api.ProfileEntry{Name: "a", Version: "v1.1.0", Object: "a-v1.1.0", Removed: true}
		}, want: "v1.1.0"},
		"what a rollout has to go back to": {shelf: shelfOf(1, "v0.1.0", "v0.2.0"), change: func(s *versionIndex) { s.references.rolled = map[string]bool{"a-v0.1.0": true} }, want: "v1.0.0 v0.1.0"},
		"or what is named itself":          {shelf: shelfOf(0, "v1.0.0", "v1.1.0"), limit: 9, change: func(s *versionIndex) { s.live, s.references.used = false, uses{"a-v1.0.0": {"v1.0.0": true}} }, want: "v1.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(&c.shelf)
			}
			var got []string
			for i, keep := range c.shelf.markRetained(c.limit) {
				if keep {
					got = append(got, c.shelf.stored[i].version)
				}
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The inventory names the versions in the cluster, those that pools request, and some more.
func TestIndexOfVersions(t *testing.T) {
	s := shelfOf(300, "v0.1.0")
	p, err := version.ParsePin("v1.7.0")
	if err != nil {
		t.Fatal(err)
	}
	s.references.pins = []version.Pin{p}
	got := s.requestableVersions(api.MaxListedVersions)
	if len(got) != api.MaxListedVersions+2 || got[0] != "v1.299.0" || got[api.MaxListedVersions-1] != "v1.100.0" || got[api.MaxListedVersions] != "v1.7.0" || got[api.MaxListedVersions+1] != "v0.1.0" {
		t.Errorf("got %d: %v", len(got), got)
	}
}
