package view

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/ui/internal/comparison"
	"github.com/osm-gitops/osm-gitops/test/fleetfixture"
)

// What a commit introduced, wrote or made current again, and which pools have it.
func TestCommit(t *testing.T) {
	f := fleet.NewModel(fleetfixture.Noon, fleetfixture.World())
	for name, c := range map[string]struct {
		id        string
		profiles  string
		rotations string
		born      string
	}{
		"the first one":          {fleetfixture.First, "Brought osp-web v1.0.0", "shop/web-eu v1.0.0 after nothing; shop/web-us v1.0.0 after nothing", "eu-1 eu-4"},
		"a merge":                {fleetfixture.Second, "Brought osp-web v1.1.0 after v1.0.0", "shop/web-eu v1.1.0 after v1.0.0", "eu-2 eu-3 eu-5"},
		"what the merge brought": {fleetfixture.Written, "Written osp-web v1.1.0 after v1.0.0", "shop/web-eu v1.1.0 after v1.0.0", "eu-2 eu-3 eu-5"},
		"a revert":               {fleetfixture.Third, "Selected osp-web v1.0.0 after v1.1.0", "shop/web-eu v1.0.0 after v1.1.0", "eu-4"},
	} {
		t.Run(name, func(t *testing.T) {
			v, ok := NewCommit(f, c.id, "", 1)
			if !ok {
				t.Fatal("nothing is known of it")
			}
			var profiles, rotations, born []string
			for _, p := range v.Profiles {
				profiles = append(profiles, strings.TrimSuffix(fmt.Sprintf("%s %s %s after %s", p.Role, p.Profile, p.Version, p.Before), " after "))
			}
			for _, r := range v.Rotations {
				before := r.Before
				if before == "" {
					before = "nothing"
				}
				rotations = append(rotations, fmt.Sprintf("%s %s after %s", r.Pool, r.Version, before))
			}
			for _, n := range v.Items {
				born = append(born, n.Name)
			}
			got := []string{strings.Join(profiles, "; "), strings.Join(rotations, "; "), strings.Join(born, " ")}
			if diff := cmp.Diff([]string{c.profiles, c.rotations, c.born}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, ok := NewCommit(f, strings.Repeat("f", 40), "", 1); ok {
		t.Error("there is a page of a commit that nobody knows")
	}
}

// The page of a commit with a hundred pools compares the files of the requested one.
func TestRenderedPool(t *testing.T) {
	f := fleet.NewModel(fleetfixture.Noon, fleetfixture.World())
	for pool, want := range map[string]string{"": "shop/web-eu", "shop/web-us": "shop/web-us", "shop/nothing": "shop/web-eu"} {
		v, _ := NewCommit(f, fleetfixture.First, pool, 1)
		if v.Rendered == nil || v.Rendered.Pool != want {
			t.Errorf("asked for %q it compares %+v", pool, v.Rendered)
		}
	}
}

// counted counts the profiles that are read.
type counted struct {
	comparison.Inputs

	asked int
}

func (k *counted) ReadProfileAndDigest(context.Context, string) (*osm.OperatingSystemProfile, string, error) {
	k.asked++
	return &osm.OperatingSystemProfile{}, "", nil
}

// The number of versions that are read for a commit is bounded.
func TestCompareBounded(t *testing.T) {
	k := &counted{}
	v := Commit{Profiles: make([]Change, 10*maxCompared)}
	for i := range v.Profiles {
		v.Profiles[i].object, v.Profiles[i].before = "kube-system/a", "kube-system/b"
	}
	if err := v.LoadDifferences(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if k.asked != 2*maxCompared || v.Profiles[maxCompared-1].Note != "" || v.Profiles[maxCompared].Note == "" {
		t.Errorf("%d objects are read, the last notes are %q and %q", k.asked, v.Profiles[maxCompared-1].Note, v.Profiles[maxCompared].Note)
	}
}
