package replacements

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
)

// One pool has version v2, and its machine was created with v1.
func TestDecide(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	before := lineage.Generation{UID: "before", InputDigest: "d1", From: noon.Add(-2 * time.Hour), Until: noon}
	current := lineage.Generation{UID: "now", InputDigest: "d2", From: noon}
	released, err := waves.PolicyOf(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationRelease: "v2@5"}}})
	if err != nil {
		t.Fatal(err)
	}
	const opens = "Mon 22:00 UTC"
	waits := "the replacement of machines waits for " + opens + ": ns/a"
	for name, c := range map[string]struct {
		change  func(*Candidate)
		policy  waves.Policy
		opens   string
		needs   bool // the timeline
		counts  api.Replacements
		waiting string
		next    bool // its template is annotated now
	}{
		"an older machine with another configuration": {func(*Candidate) {}, waves.Policy{}, "", true, api.Replacements{Waiting: 1}, "", true},
		"a closed window":                              {func(*Candidate) {}, waves.Policy{}, opens, true, api.Replacements{Waiting: 1}, waits, false},
		"a pool that ignores windows":                  {func(c *Candidate) { c.IgnoresWindows = true }, waves.Policy{}, opens, true, api.Replacements{Waiting: 1}, "", true},
		"a released version":                           {func(c *Candidate) { c.Wave = 5 }, released, opens, true, api.Replacements{Waiting: 1}, "", true},
		"a version that is released for earlier waves": {func(c *Candidate) { c.Wave = 6 }, released, opens, true, api.Replacements{Waiting: 1}, waits, false},
		"the pool returned to an earlier configuration": {func(c *Candidate) {
			c.Timeline = lineage.Timeline{{UID: "first", InputDigest: "d2", From: noon.Add(-3 * time.Hour), Until: before.From}, before, current}
		}, waves.Policy{}, opens, true, api.Replacements{Waiting: 1}, "", true},
		"an older machine with the same configuration": {func(c *Candidate) {
			c.Timeline = lineage.Timeline{current}
		}, waves.Policy{}, "", true, api.Replacements{}, "", false},
		"a machine that is as old as the configuration": {func(c *Candidate) { c.Machines[0].Created = noon }, waves.Policy{}, "", false, api.Replacements{}, "", false},
		"a machine that is being deleted":               {func(c *Candidate) { c.Machines[0].Leaving = true }, waves.Policy{}, "", false, api.Replacements{}, "", false},
		"a machine of an earlier template":              {func(c *Candidate) { c.Machines[0].Replaced = true }, waves.Policy{}, "", false, api.Replacements{}, "", false},
		"no configuration":                              {func(c *Candidate) { c.Current, c.Config = Configuration{}, "" }, waves.Policy{}, "", false, api.Replacements{}, "", false},
		"machines must not be replaced now":             {func(c *Candidate) { c.Config = "" }, waves.Policy{}, "", false, api.Replacements{}, "", false},
		"the template is annotated, and the change is not observed yet": {func(c *Candidate) {
			c.TemplateAnnotation = "d2"
			c.Pool.Generation++
		}, waves.Policy{}, "", false, api.Replacements{Replacing: 1}, "", false},
		"a pool that is replacing machines has to replace them again": {func(c *Candidate) {
			c.TemplateAnnotation = "d1"
			c.Pool.Generation++
		}, waves.Policy{}, "", true, api.Replacements{Replacing: 1}, "", true},
		"a paused pool replaces no machines": {func(c *Candidate) {
			c.TemplateAnnotation = "d2"
			c.Pool.Generation++
			c.Pool.Spec.Paused = true
		}, waves.Policy{}, "", false, api.Replacements{}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "uid", Generation: 2}}
			pool.Status = cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
			one := Candidate{
				Pool: pool, Config: "d2",
				Current:  Configuration{InputDigest: "d2", Version: "v2", Created: noon},
				Machines: []waves.Machine{{Name: "a-1", Created: noon.Add(-time.Hour), Joined: true}},
				Timeline: lineage.Timeline{before, current},
			}
			c.change(&one)
			needs := one.NeedsTimeline()
			if !needs {
				one.Timeline = nil
			}
			given := []Candidate{one}
			all, replacing := Decide(given, c.policy, c.opens)
			if needs != c.needs {
				t.Errorf("it needs the timeline: %t, want %t", needs, c.needs)
			}
			if got := Count(all); *got != c.counts {
				t.Errorf("the counts are %+v, want %+v", *got, c.counts)
			}
			if want := c.counts != (api.Replacements{}); replacing["uid"] != want {
				t.Errorf("it is replacing machines, or has to: %t, want %t", !want, want)
			}
			if got := DescribeWaiting(all, c.opens); got != c.waiting {
				t.Errorf("it says %q, want %q", got, c.waiting)
			}
			next := false
			PlanTemplates(all, 1).InTurn(func(Candidate) bool {
				next = true
				return true
			})
			if next != c.next {
				t.Errorf("its template is annotated: %t, want %t", next, c.next)
			}
			if given[0].stale || given[0].waitsForWindow {
				t.Error("it changed its argument")
			}
		})
	}
	if got := Count(nil); got != nil {
		t.Errorf("no pools are counted as %+v", got)
	}
}

func TestExcludePaused(t *testing.T) {
	step := func(version string) api.RolloutStep {
		return api.RolloutStep{RolloutVersion: api.RolloutVersion{Version: version}}
	}
	v2 := api.RolloutVersion{Version: "v2"}
	for name, c := range map[string]struct {
		pinned  bool
		rollout api.RolloutStatus
		want    string
	}{
		"a version that is rolled out":                 {false, api.RolloutStatus{Profile: "osp", RolloutVersion: v2}, "d2"},
		"a paused version":                             {false, api.RolloutStatus{Profile: "osp", RolloutVersion: v2, Held: true}, ""},
		"a paused version that the pool pins":          {true, api.RolloutStatus{Profile: "osp", RolloutVersion: v2, Held: true}, ""},
		"a paused version that the pool does not have": {false, api.RolloutStatus{Profile: "osp", RolloutVersion: api.RolloutVersion{Version: "v3"}, Held: true}, "d2"},
		"a paused version of another profile":          {false, api.RolloutStatus{Profile: "other", RolloutVersion: v2, Held: true}, "d2"},
		"a superseded version":                         {false, api.RolloutStatus{Profile: "osp", Superseded: []api.RolloutStep{step("v1"), step("v2")}}, ""},
		"a superseded version that the pool pins":      {true, api.RolloutStatus{Profile: "osp", Superseded: []api.RolloutStep{step("v2")}}, "d2"},
		"a superseded version of another profile":      {false, api.RolloutStatus{Profile: "other", Superseded: []api.RolloutStep{step("v2")}}, "d2"},
	} {
		pool := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationOSP: "osp"}}}
		if c.pinned {
			pool.Annotations[api.AnnotationVersionPin] = "v2"
		}
		all := []Candidate{{Pool: pool, Config: "d2", Current: Configuration{Version: "v2"}}}
		if got := ExcludePaused(all, []api.RolloutStatus{c.rollout})[0].Config; got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if all[0].Config != "d2" {
			t.Errorf("%s: it changed its argument", name)
		}
	}
}

func TestCanReplace(t *testing.T) {
	type facts struct {
		source   *api.ProfileSource
		pool     cluster.MachineDeployment
		rejected bool
	}
	for name, c := range map[string]struct {
		change func(*facts)
		want   bool
	}{
		"nothing prevents it":                {func(*facts) {}, true},
		"no source":                          {func(f *facts) { f.source = nil }, true},
		"the source is suspended":            {func(f *facts) { f.source.Spec.Suspend = true }, false},
		"the pool is being deleted":          {func(f *facts) { f.pool.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
		"the pool is paused":                 {func(f *facts) { f.pool.Spec.Paused = true }, false},
		"the pool is suspended":              {func(f *facts) { f.pool.Annotations = map[string]string{api.AnnotationSuspend: "true"} }, false},
		"a newer configuration was rejected": {func(f *facts) { f.rejected = true }, false},
	} {
		f := facts{source: &api.ProfileSource{}}
		c.change(&f)
		if got := CanReplace(f.source, &f.pool, f.rejected); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// The MachineDeployment shows whether machine-controller is replacing machines, but not
// whether they are new or unavailable.
func TestBusy(t *testing.T) {
	for name, c := range map[string]struct {
		status  cluster.MachineDeploymentStatus
		booting bool
		want    bool
	}{
		"done":                                {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, false, false},
		"the change is not observed yet":      {cluster.MachineDeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, false, true},
		"old machines exist":                  {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 1, AvailableReplicas: 4}, false, true},
		"new machines boot":                   {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}, true, true},
		"a Node is not Ready for days":        {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}, false, false},
		"it has fewer machines than replicas": {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, false, true},
	} {
		md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: c.status}
		three := int32(3)
		md.Spec.Replicas = &three
		if got := (Candidate{Pool: md, TemplateAnnotation: "d", Machines: []waves.Machine{{Joined: !c.booting}}}).isReplacing(); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
