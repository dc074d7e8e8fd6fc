package rollout

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// By default a window is as long as a machine may take to join. It must not pass before
// the first machine has shown what the version is worth.
func TestNoWindowOverWhatStillBoots(t *testing.T) {
	f := newFleet(t, 0, 5)
	f.terms.window = defaultWindow
	f.pass(time.Minute)
	f.push("v2")
	f.pass(time.Minute)
	f.machine(0, "first", false)
	f.pass(defaultWindow - time.Minute)
	f.have("the window has passed", "v2 v1 MachinesBooting")
	if f.again != time.Minute {
		t.Errorf("the next look is in %s", f.again)
	}
	f.pass(time.Minute)
	f.have("it does not join", "v2 v1 MachinesNotJoined")

	// If other machines have joined, one that never finishes booting does not block the
	// rollout for ever.
	f = newFleet(t, 0, 5)
	f.push("v2")
	f.pass(time.Second)
	f.machine(0, "late", false)
	f.machine(0, "joined", true)
	f.pass(29 * time.Minute)
	f.have("one has joined", "v2 v1 MachinesBooting")
	f.pools[0].machines[0].created = f.now // another in its place
	f.pass(29 * time.Minute)
	f.have("before the window has passed", "v2 v1 MachinesBooting")
	f.pools[0].machines[0].created = f.now
	f.pass(2 * time.Minute)
	f.have("after it", "v2 v2 Window")
}

// A machine that was deleted counts once its MachineSet has had time to say that it was
// not wanted any more.
func TestDeletedMachinesHaveGrace(t *testing.T) {
	f := newFleet(t, 0, 5)
	f.terms.window = time.Second
	f.push("v2")
	f.machine(0, "m", false)
	f.pools[0].machines[0].lost, f.pools[0].machines[0].leaving = f.now, true
	f.pass(29 * time.Second)
	f.have("it may be the cache", "v2 v1 MachinesBooting")
	if f.again != time.Second {
		t.Errorf("the next look is in %s", f.again)
	}
	seen := *f
	seen.pools = append([]pool{}, f.pools...)
	seen.pools[0].machines = []machine{{name: "m", created: f.now, leaving: true}}
	seen.pass(time.Second)
	seen.have("it was not wanted", "v2 v2 Window")
	f.pass(time.Second)
	f.have("it was", "v2 v1 MachinesNotJoined")
}

// What fails with a version has failed with it also after the pool was changed otherwise.
func TestAnotherConfigurationForgetsNoFailure(t *testing.T) {
	f := newFleet(t, 0, 5)
	f.push("v2")
	f.machine(0, "m", false)
	f.pass(31 * time.Minute)
	f.have("failed", "v2 v1 MachinesNotJoined")
	f.pools[0].since = f.now // its settings were changed
	f.pass(10 * time.Hour)
	f.have("still", "v2 v1 MachinesNotJoined")
	f.pools[0].machines[0].joined = true
	f.settle()
	f.have("it joins after all", "v2 v2 Window")
}

// A pool that machines did not join before holds no version for it; one that the version
// before broke does.
func TestFailingBefore(t *testing.T) {
	loops := func(f *fleet, name string) { // machine-controller deletes and makes machines all the time
		f.machine(0, name, false)
		m := &f.pools[0].machines[len(f.pools[0].machines)-1]
		m.lost, m.leaving = f.now, true
		f.pass(time.Minute)
	}
	f := newFleet(t, 0, 5)
	loops(f, "one")
	f.push("v2")
	loops(f, "two")
	f.have("it failed before", "v2 v1 Window")
	if f.had.Held || len(f.had.FailingBefore) != 1 || f.had.FailingBefore[0] != "ns/p0" {
		t.Errorf("the status is %+v", f.had)
	}
	f.machine(0, "three", true)
	f.have("it works after all", "v2 v2 Window")
	f.pass(time.Hour)
	f.have("at the end", "v2 v2 Done")
	if f.had.FailingBefore != nil {
		t.Errorf("the status is %+v", f.had)
	}

	f = newFleet(t, 0, 5)
	f.push("v2")
	loops(f, "one")
	f.have("the version", "v2 v1 MachinesNotJoined")
	f.push("v3")
	f.have("another", "v3 v1 Window")
	loops(f, "two")
	f.have("is no better", "v3 v1 MachinesNotJoined")

	f = newFleet(t, 0, 5)
	f.machine(0, "old", false)
	f.pass(time.Hour)
	f.push("v2")
	f.pools[0].replacing = true
	f.pass(time.Hour)
	f.have("its replacement never ends", "v2 v2 Window")
}

// Of all causes that prevent a pool from following, only those in the version count
// against it.
func TestRefusalsOfOtherThings(t *testing.T) {
	f := newFleet(t, 0, 0, 5)
	f.pass(time.Minute)
	f.slow = true
	f.push("v2")
	f.pools[1].version, f.pools[1].settled, f.pools[1].since = versionNamed("v2"), true, f.now
	f.pools[0].rejectedSince = f.now // something it needs is not there
	f.settle()
	if f.had.Held || f.had.Reason != "Window" {
		t.Errorf("the status is %+v", f.had)
	}
	f.pools[0].rejectedVersion = "v1"
	f.settle()
	if f.had.Held {
		t.Errorf("the status is %+v", f.had)
	}
	f.pools[0].rejectedVersion = "v2"
	f.settle()
	f.have("the version", "v1 v2 v1 PoolsRefused")
}

// A suspended source begins no wave, and later continues at the same point.
func TestSuspendedSource(t *testing.T) {
	f := newFleet(t, 0, 5, 9)
	f.pass(time.Minute)
	f.push("v2")
	f.terms.suspended = true
	f.machine(0, "m", true)
	f.pass(10 * time.Hour)
	f.have("suspended", "v2 v1 v1 Suspended")
	if f.had.Held || f.again != 0 || !strings.Contains(f.had.Message, "spec.suspend") {
		t.Errorf("the status is %+v", f.had)
	}
	f.push("v3") // it was seen just before
	f.have("nothing new begins", "v2 v1 v1 Suspended")
	f.push("v2")
	f.terms.suspended = false
	f.settle()
	f.have("resumed", "v2 v2 v1 Window")

	f = newFleet(t, 0, 5)
	f.had, f.terms.suspended = nil, true // the gate is new
	f.push("v2")
	f.have("what they have is noted", "v1 v1 Suspended")
	f.terms.suspended = false
	f.pass(10 * time.Hour)
	f.have("resumed", "v2 v1 Window")

	f = newFleet(t, 0, 5)
	f.push("v2")
	f.machine(0, "m", false)
	f.pass(31 * time.Minute)
	f.terms.suspended = true
	f.settle()
	f.have("held, and suspended", "v2 v1 MachinesNotJoined")
	if !f.had.Held {
		t.Errorf("the status is %+v", f.had)
	}
}

// A machine that has joined counts as joined, also if its Node is unavailable later.
func TestWorked(t *testing.T) {
	created := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(created.Add(d)) }
	for name, c := range map[string]struct {
		node      bool
		ready     string
		since     metav1.Time
		want      bool
		waitsFrom time.Duration
	}{
		"without a Node":                   {false, "", metav1.Time{}, false, 0},
		"a Node":                           {true, "", metav1.Time{}, true, 0},
		"a Node that is Ready":             {true, "True", at(time.Minute), true, 0},
		"one that was never Ready":         {true, "False", at(3 * time.Minute), false, 3 * time.Minute},
		"one that restarts early":          {true, "Unknown", at(29 * time.Minute), false, 29 * time.Minute},
		"one that is away after a month":   {true, "Unknown", at(720 * time.Hour), true, 0},
		"one of which nobody knows when":   {true, "False", metav1.Time{}, false, 0},
		"one with a time before its birth": {true, "False", at(-time.Hour), false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := &cluster.Machine{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0)}}
			if c.node {
				m.Status.NodeRef = &corev1.ObjectReference{Name: "n"}
			}
			if c.ready != "" {
				m.Status.Conditions = []cluster.MachineCondition{{Type: "Ready", Status: corev1.ConditionStatus(c.ready), LastTransitionTime: c.since}}
			}
			if got, waits := worked(m); got != c.want || !waits.Equal(created.Add(c.waitsFrom)) {
				t.Errorf("got %t, waiting since %s", got, waits)
			}
		})
	}
	// It is given as long after its restart as a new one has.
	f := newFleet(t, 0, 5)
	f.push("v2")
	f.machine(0, "m", false)
	f.pools[0].machines[0].waits = f.now.Add(29 * time.Minute)
	f.pass(58 * time.Minute)
	f.have("it restarts", "v2 v1 MachinesBooting")
	f.pass(2 * time.Minute)
	f.have("it stays away", "v2 v1 MachinesNotJoined")
}

// The MachineDeployment shows whether machine-controller is replacing machines, but not
// whether they are new or unavailable.
func TestBusy(t *testing.T) {
	for name, c := range map[string]struct {
		status  cluster.MachineDeploymentStatus
		booting bool
		want    bool
	}{
		"done":                            {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, false, false},
		"not seen yet":                    {cluster.MachineDeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3}, false, true},
		"old machines are left":           {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 1, AvailableReplicas: 4}, false, true},
		"new ones boot":                   {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}, true, true},
		"a Node is away since days":       {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2}, false, false},
		"it is not as large as it should": {cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}, false, true},
	} {
		md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: c.status}
		three := int32(3)
		md.Spec.Replicas = &three
		if got := (candidate{md: md, templateAnnotation: "d", booting: c.booting}).busy(); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// Machines are stale by what they were made with, not by their age.
func TestMadeWith(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	record := func(digest string, intervals string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationInputDigest: digest, api.AnnotationIntervals: intervals}}}
	}
	interval := func(uid, revision string, from, until int) string {
		return `{"uid":"` + uid + `","revision":"` + revision + `","from":"` + at(from).Format(time.RFC3339) + `","until":"` + at(until).Format(time.RFC3339) + `"}`
	}
	now := activeConfig{uid: "now", digest: "B", created: at(100)}
	back := activeConfig{uid: "now", digest: "A", created: at(100)}
	for name, c := range map[string]struct {
		have    activeConfig
		records []metav1.PartialObjectMetadata
		m       machine
		want    string
	}{
		"the first configuration":                           {now, nil, machine{created: at(0)}, "B"},
		"it was deleted by hand, and is back":               {now, nil, machine{created: at(50)}, "B"},
		"the one before":                                    {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 100)+"]")}, machine{created: at(50)}, "A"},
		"before the first, it waited":                       {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 20, 100)+"]")}, machine{created: at(10)}, "A"},
		"after a clock that is behind":                      {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 90)+"]")}, machine{created: at(95)}, "A"},
		"before a clock that is ahead":                      {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 200)+"]")}, machine{created: at(150)}, "B"},
		"to and fro, from the first":                        {back, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 50)+"]"), record("B", "["+interval("b", "1", 50, 100)+"]")}, machine{created: at(20)}, "A"},
		"to and fro, between":                               {back, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 50)+"]"), record("B", "["+interval("b", "1", 50, 100)+"]")}, machine{created: at(70)}, "B"},
		"archived, and not deleted yet":                     {now, []metav1.PartialObjectMetadata{record("B", "["+interval("now", "1", 100, 101)+"]")}, machine{created: at(102)}, "B"},
		"of a template that was changed, before we saw it":  {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 100)+"]")}, machine{created: at(99), revision: 2}, "B"},
		"of the same template":                              {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "2", 0, 100)+"]")}, machine{created: at(99), revision: 2}, "A"},
		"a record that somebody edited":                     {now, []metav1.PartialObjectMetadata{record("A", "nonsense")}, machine{created: at(50)}, "B"},
		"a MachineSet of which nobody knows which template": {now, []metav1.PartialObjectMetadata{record("A", "["+interval("a", "1", 0, 100)+"]")}, machine{created: at(99)}, "A"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := madeWith(timelineOf(c.have, c.records), c.m); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A profile that left its source during a rollout does not block the condition.
func TestConditionOfWhatIsOnItsWay(t *testing.T) {
	ps := &api.ProfileSource{Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{Gate: api.GateWaves}}}
	ps.Status.Profiles = []api.ProfileEntry{{Name: "osp"}, {Name: "other"}}
	ps.Status.Rollouts = []api.RolloutStatus{{Profile: "osp", RolloutVersion: versionNamed("v2"), Held: true, Message: "it is held"}, {Profile: "other", RolloutVersion: versionNamed("v1"), Message: "it waits"}}
	for _, want := range []string{api.ReasonRolloutHeld + " it is held; profile \"other\" v1 is at wave 0: it waits", api.ReasonRollingOut + " profile \"other\" v1 is at wave 0: it waits", api.ReasonRolledOut + " all waves have the current version of every profile"} {
		setCondition(ps)
		c := ps.Status.Conditions[0]
		if got := c.Reason + " " + c.Message; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		for i := range ps.Status.Profiles {
			if e := &ps.Status.Profiles[i]; !e.Removed {
				e.Removed = true
				break
			}
		}
	}
}

// KubeOne lets machine-controller delete a machine that has not joined after 15 minutes, half of
// the time after which it would fail here: it is a failure, and what is known of it is retained.
func TestMachineDeletedAtTheJoinTimeout(t *testing.T) {
	created := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	replicas := int32(1)
	ms := cluster.MachineSet{
		ObjectMeta: metav1.ObjectMeta{UID: "set", OwnerReferences: []metav1.OwnerReference{{APIVersion: cluster.GroupVersion.String(), Kind: "MachineDeployment", Name: "web", UID: "pool"}}},
		Spec:       cluster.MachineDeploymentSpec{Replicas: &replicas},
	}
	var gone cluster.Machine
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"m","uid":"1","creationTimestamp":"2026-03-02T09:00:00Z","ownerReferences":[{"apiVersion":"cluster.k8s.io/v1alpha1","kind":"MachineSet","name":"web-1","uid":"set"}]},
		"status":{"errorReason":"CreateMachine","errorMessage":"quota\texceeded"}}`), &gone); err != nil {
		t.Fatal(err)
	}
	found := assign([]cluster.MachineSet{ms}, nil, []lostMachine{{gone, created.Add(15 * time.Minute)}})["pool"]
	if len(found) != 1 {
		t.Fatalf("found %+v", found)
	}
	f := newFleet(t, 0, 5)
	f.push("v2")
	f.machine(0, "m", false)
	f.pass(15 * time.Minute)
	m := &f.pools[0].machines[0]
	m.lost, m.leaving, m.reported = f.now, true, found[0].reported
	f.pass(time.Minute)
	f.have("half of the time limit", "v2 v1 MachinesNotJoined")
	const evidence = "15m0s after it was created, and machine-controller reported CreateMachine: quota exceeded"
	if got := f.had.Failures; len(got) != 1 || got[0].Reason != api.FailureDeleted || got[0].Message != evidence || !strings.Contains(f.had.Message, "was deleted before it joined, "+evidence) {
		t.Errorf("the status is %+v", f.had)
	}
	f.pools[0].machines = nil // nothing else has it now
	f.pass(10 * time.Hour)
	if got := f.had.Failures; len(got) != 1 || got[0].Message != evidence {
		t.Errorf("later the status is %+v", f.had)
	}
}
