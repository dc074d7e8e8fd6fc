package fleet_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/fleet"
	"github.com/osm-gitops/osm-gitops/test/fleetfixture"
)

func TestResolve(t *testing.T) {
	o := fleetfixture.World()
	o.Profiles = append(o.Profiles, fleetfixture.ProfileMeta("osp-batch", "v1.0.0", "1a1a9999"+strings.Repeat("0", 32), "", "", fleetfixture.Day))
	f := fleet.NewModel(fleetfixture.Noon, o)
	for id, want := range map[string]string{fleetfixture.First: fleetfixture.First, fleetfixture.Second[:7]: fleetfixture.Second, "1a1": "", "1a1a": "", "1a1a1": fleetfixture.First, "ffff": "", "": ""} {
		if got := f.ResolveCommit(id); got != want {
			t.Errorf("%q is %q, want %q", id, got, want)
		}
	}
}

// The state of a pool follows from its own status, its configuration and its source.
func TestStates(t *testing.T) {
	five := intstr.FromInt32(5)
	gated := func(r api.RolloutStatus) func(*fleet.Objects) {
		return func(o *fleet.Objects) {
			o.Sources[0].Spec.Rollout = &api.Rollout{Gate: api.GateWaves, MaxConcurrent: &five}
			r.Profile, r.Version = "osp-web", "v1.2.0"
			o.Sources[0].Status.Rollouts = []api.RolloutStatus{r}
		}
	}
	annotated := func(key, value string) func(*fleet.Objects) {
		return func(o *fleet.Objects) { o.Pools[0].Annotations[key] = value }
	}
	for name, c := range map[string]struct {
		with  func(*fleet.Objects)
		state fleet.State
		why   string
	}{
		"it follows its profile":          {func(*fleet.Objects) {}, fleet.Following, ""},
		"it is suspended":                 {annotated(api.AnnotationSuspend, "true"), fleet.Suspended, api.AnnotationSuspend},
		"it asks for a version":           {annotated(api.AnnotationVersionPin, "~1.0"), fleet.Pinned, "~1.0"},
		"its wave has not begun":          {gated(api.RolloutStatus{Wave: 2, Message: "waits for machines"}), fleet.Waiting, "wave 2, this pool is in wave 5. waits for machines"},
		"the rollout is held before it":   {gated(api.RolloutStatus{Wave: 2, Held: true, Message: "1 machine did not join"}), fleet.Paused, "did not join"},
		"the rollout has reached it":      {gated(api.RolloutStatus{Wave: 5}), fleet.Following, ""},
		"the rollout is done":             {gated(api.RolloutStatus{Wave: 9, Done: true}), fleet.Following, ""},
		"it has no configuration":         {func(o *fleet.Objects) { o.Configs = o.Configs[1:] }, fleet.Waiting, "no configuration yet"},
		"its source is another's rollout": {func(o *fleet.Objects) { gated(api.RolloutStatus{Wave: 0})(o); o.Sources[0].Status.Profiles = nil }, fleet.Following, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := fleetfixture.World()
			c.with(&o)
			p := fleet.NewModel(fleetfixture.Noon, o).Pools["shop/web-eu"]
			if p.State != c.state || !strings.Contains(p.Why, c.why) || c.why == "" && p.Why != "" {
				t.Errorf("it is %s: %s", p.State, p.Why)
			}
		})
	}
}
