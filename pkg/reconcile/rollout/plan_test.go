package rollout

import (
	"strings"
	"testing"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/replacements"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
)

// Two pools are in the waves 0 and 5. The first has version v2, its machine has v1, and the rollout
// of v2 is at wave 0.
func TestPlan(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	v1, v2 := api.RolloutVersion{Version: "v1", Object: "osp-v1"}, api.RolloutVersion{Version: "v2", Object: "osp-v2"}
	replaced := time.Minute // before now
	newObserved := func() *observed {
		md := func(name string) *cluster.MachineDeployment {
			return &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Annotations: map[string]string{api.AnnotationOSP: "osp"}}}
		}
		a, b := md("a"), md("b")
		ps := &api.ProfileSource{Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{Gate: api.GateWaves}}}
		ps.Status.Profiles = []api.ProfileEntry{{Name: "osp", Version: v2.Version, Object: v2.Object}}
		ps.Status.Rollouts = []api.RolloutStatus{{Profile: "osp", RolloutVersion: v2, From: &v1, Since: metav1.NewTime(now.Add(-replaced))}}
		have := activeConfig{uid: "now", poolUID: "a", version: v2.Version, digest: "d2", created: now.Add(-replaced)}
		old := waves.Machine{Name: "a-1", Created: now.Add(-time.Hour), Joined: true}
		return &observed{
			now: now, source: ps, responsible: true, untilWindow: time.Hour,
			configs:  map[string]activeConfig{"ns/a": have},
			machines: map[types.UID][]waves.Machine{"a": {old}},
			candidates: []replacements.Candidate{{
				Pool: a, Config: "d2", Machines: []waves.Machine{old},
				Current:  replacements.Configuration{InputDigest: "d2", Version: v2.Version, Created: have.created},
				Timeline: lineage.Timeline{{UID: "before", InputDigest: "d1", From: now.Add(-2 * time.Hour), Until: have.created}, {UID: "now", InputDigest: "d2", From: have.created}},
			}},
			following: map[string][]waves.Pool{"osp": {
				{Key: "ns/a", Configured: true, Settled: true, Version: v2, Since: have.created, Machines: []waves.Machine{old}},
				{Key: "ns/b", Wave: 5, Configured: true, Settled: true, Version: v1},
			}},
			pools: map[string]*cluster.MachineDeployment{"ns/a": a, "ns/b": b},
		}
	}
	for name, c := range map[string]struct {
		change    func(*observed)
		reason    string // of the rollout
		templates string
		next      time.Duration
	}{
		"the machines of the wave are replaced before the next one": {func(*observed) {}, "Replacing", "a", time.Hour},
		"a closed window": {func(seen *observed) {
			seen.windows.waitsFor = map[string]string{api.WindowReplace: "Mon 22:00"}
		}, "Replacing", "", time.Hour},
		"a paused version": {func(seen *observed) {
			seen.source.Status.Rollouts[0].Failures = []api.RolloutFailure{{Pool: "ns/a", Machine: "a-2", Reason: api.FailureDeleted}}
		}, "MachinesNotJoined", "", time.Hour},
		"a superseded version": {func(seen *observed) {
			seen.source.Status.Profiles[0].Version, seen.source.Status.Profiles[0].Object = "v3", "osp-v3"
			seen.windows.waitsFor = map[string]string{api.WindowWaves: "Mon 22:00"}
		}, "MaintenanceWindow", "", time.Hour},
		"a superseded version that the pool pins": {func(seen *observed) {
			seen.source.Status.Profiles[0].Version, seen.source.Status.Profiles[0].Object = "v3", "osp-v3"
			seen.windows.waitsFor = map[string]string{api.WindowWaves: "Mon 22:00"}
			seen.candidates[0].Pool.Annotations[api.AnnotationVersionPin] = "v2"
		}, "MaintenanceWindow", "a", time.Hour},
		"no machine is older than the configuration": {func(seen *observed) { seen.candidates[0].Timeline = nil }, "Window", "", 30*time.Minute - replaced},
	} {
		t.Run(name, func(t *testing.T) {
			seen := newObserved()
			c.change(seen)
			before := seen.source.DeepCopy()
			planned := newPlan(seen)
			if planned.source == nil {
				t.Fatal("the status remains")
			}
			var templates []string
			planned.templates.InTurn(func(c replacements.Candidate) bool {
				templates = append(templates, c.Pool.Name)
				return true
			})
			if got := planned.source.Status.Rollouts[0].Reason; got != c.reason {
				t.Errorf("the rollout waits for %s, want %s", got, c.reason)
			}
			if got := strings.Join(templates, " "); got != c.templates {
				t.Errorf("it annotates %q, want %q", got, c.templates)
			}
			if planned.next != c.next {
				t.Errorf("the next run is in %s, want %s", planned.next, c.next)
			}
			if seen.candidates[0].Config == "" || !apiequality.Semantic.DeepEqual(seen.source, before) {
				t.Error("planning changed what was observed")
			}
			// The same again writes nothing.
			seen.source = planned.source
			if again := newPlan(seen); again.source != nil {
				t.Errorf("the second plan writes %+v", again.source.Status)
			}
		})
	}
}
