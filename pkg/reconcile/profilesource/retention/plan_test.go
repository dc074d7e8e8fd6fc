package retention

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// outline lists what a plan does: entries with their versions, then "+" for an object of the history,
// "*" for a deleted one, and "-" for a deletion.
func outline(p Plan) string {
	var out []string
	for _, e := range p.Entries {
		out = append(out, fmt.Sprint(e.Name, "@", e.Version, e.Versions))
	}
	for _, missing := range p.profiles {
		for _, v := range missing.versions {
			out = append(out, "+"+v.Version)
		}
		for _, o := range missing.deleted {
			out = append(out, "*"+o.Name)
		}
	}
	for _, o := range p.unused {
		out = append(out, "-"+o.Name)
	}
	return strings.Join(out, " ")
}

// The source has profile a with versions v1.0.0 to v1.2.0, the last one current, and objects of
// v0.1.0 and v0.2.0, which left its history. It retains one superseded version.
func TestNewPlan(t *testing.T) {
	removed := func(c *planCase) {
		c.source.Status.Profiles[0].Removed = true
		c.index = shelfOf(0, "v0.1.0", "v0.2.0")
		c.index.live = false
		c.entry = api.ProfileEntry{Name: "a", Version: "v0.2.0", Object: "a-v0.2.0", Removed: true}
	}
	for name, c := range map[string]struct {
		change func(*planCase)
		want   string
	}{
		"the newest superseded version is created, the others are deleted": {
			func(*planCase) {}, "a@v1.2.0[v1.1.0 v1.0.0 v0.2.0 v0.1.0] +v1.1.0 -a-v0.2.0 -a-v0.1.0"},
		"an object in another inventory remains": {
			func(c *planCase) { c.seen.foreign = map[string]bool{"a-v0.1.0": true} }, "a@v1.2.0[v1.1.0 v1.0.0 v0.2.0 v0.1.0] +v1.1.0 -a-v0.2.0"},
		"nothing is deleted without pruning": {
			func(c *planCase) { c.source.Spec.Prune = new(bool) }, "a@v1.2.0[v1.1.0 v1.0.0 v0.2.0 v0.1.0] +v1.1.0"},
		"nothing is deleted while pools are unknown": {
			func(c *planCase) { c.seen.poolsUnknown = true }, "a@v1.2.0[v1.1.0 v1.0.0 v0.2.0 v0.1.0] +v1.1.0"},
		"nothing is deleted while the file is unreadable": {
			func(c *planCase) { c.index.sourceUnknown = true }, "a@v1.2.0[v1.1.0 v1.0.0 v0.2.0 v0.1.0] +v1.1.0"},
		"a deleted object that a configuration uses is created again": {
			func(c *planCase) {
				c.index.references.used = uses{"a": {"v0.0.2": true}}
				c.seen.deleted = map[string]*osm.OperatingSystemProfile{}
				for _, v := range []string{"v0.0.1", "v0.0.2"} {
					c.seen.deleted["a-"+v] = shelfOf(0, v).stored[0].object
				}
			}, "a@v1.2.0[v1.1.0 v1.0.0 v0.2.0 v0.1.0] +v1.1.0 *a-v0.0.2 -a-v0.2.0 -a-v0.1.0"},
		"a profile that leaves the source stays in the inventory": {
			func(c *planCase) { removed(c); c.source.Status.Profiles[0].Removed = false }, "a@v0.2.0[] -a-v0.1.0"},
		"it leaves the inventory in the next run":   {removed, "-a-v0.2.0 -a-v0.1.0"},
		"but not if a pool may name it":             {func(c *planCase) { removed(c); c.index.references.named = true }, "a@v0.2.0[] -a-v0.1.0"},
		"but not if a configuration uses any of it": {func(c *planCase) { removed(c); c.index.references.used = uses{"a": {"v0.0.1": true}} }, "a@v0.2.0[] -a-v0.1.0"},
		"but not without pruning":                   {func(c *planCase) { removed(c); c.source.Spec.Prune = new(bool) }, "a@v0.2.0[]"},
	} {
		t.Run(name, func(t *testing.T) {
			in := planCase{index: shelfOf(3, "v0.1.0", "v0.2.0")}
			in.source.Spec.HistoryLimit = new(int32)
			*in.source.Spec.HistoryLimit = 1
			in.entry = in.index.entry
			in.source.Status.Profiles = []api.ProfileEntry{{Name: "a"}}
			c.change(&in)
			in.index.entry = api.ProfileEntry{}
			in.seen.profiles = map[string]versionIndex{"a": in.index}
			got := NewPlan(&in.source, []api.ProfileEntry{in.entry}, in.seen)
			if diff := cmp.Diff(c.want, outline(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type planCase struct {
	source api.ProfileSource
	entry  api.ProfileEntry
	index  versionIndex
	seen   Observed
}

// A deleted source leaves what configurations use, what other sources have, and all if it does not
// prune.
func TestPlanDeletion(t *testing.T) {
	object := func(name string) osm.OperatingSystemProfile {
		return osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelProfile: "a"}, Annotations: map[string]string{api.AnnotationVersion: name}}}
	}
	seen := observedDeleted{
		objects: []osm.OperatingSystemProfile{object("used"), object("foreign"), object("unused")},
		used:    uses{"a": {"used": true}},
		foreign: map[string]bool{"foreign": true},
	}
	for prune, want := range map[bool]string{true: "[used foreign] 1", false: "[used foreign unused] 0"} {
		retained, unused := planDeletion(&api.ProfileSource{Spec: api.ProfileSourceSpec{Prune: &prune}}, seen)
		if got := fmt.Sprint(retained, len(unused)); got != want {
			t.Errorf("prune %t: got %s, want %s", prune, got, want)
		}
	}
}
