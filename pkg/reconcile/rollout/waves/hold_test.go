package waves

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	f.pools[0].Machines[0].Created = f.now // another in its place
	f.pass(29 * time.Minute)
	f.have("before the window has passed", "v2 v1 MachinesBooting")
	f.pools[0].Machines[0].Created = f.now
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
	f.pools[0].Machines[0].Lost, f.pools[0].Machines[0].Leaving = f.now, true
	f.pass(29 * time.Second)
	f.have("it may be the cache", "v2 v1 MachinesBooting")
	if f.again != time.Second {
		t.Errorf("the next look is in %s", f.again)
	}
	seen := *f
	seen.pools = append([]Pool{}, f.pools...)
	seen.pools[0].Machines = []Machine{{Name: "m", Created: f.now, Leaving: true}}
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
	f.pools[0].Since = f.now // its settings were changed
	f.pass(10 * time.Hour)
	f.have("still", "v2 v1 MachinesNotJoined")
	f.pools[0].Machines[0].Joined = true
	f.settle()
	f.have("it joins after all", "v2 v2 Window")
}

// A pool that machines did not join before holds no version for it; one that the version
// before broke does.
func TestFailingBefore(t *testing.T) {
	loops := func(f *fleet, name string) { // machine-controller deletes and makes machines all the time
		f.machine(0, name, false)
		m := &f.pools[0].Machines[len(f.pools[0].Machines)-1]
		m.Lost, m.Leaving = f.now, true
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
	f.pools[0].Replacing = true
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
	f.pools[1].Version, f.pools[1].Settled, f.pools[1].Since = versionNamed("v2"), true, f.now
	f.pools[0].RejectedSince = f.now // something it needs is not there
	f.settle()
	if f.had.Held || f.had.Reason != "Window" {
		t.Errorf("the status is %+v", f.had)
	}
	f.pools[0].RejectedVersion = "v1"
	f.settle()
	if f.had.Held {
		t.Errorf("the status is %+v", f.had)
	}
	f.pools[0].RejectedVersion = "v2"
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

// A machine that restarts is given as long after its restart as a new one has.
func TestRestartedMachine(t *testing.T) {
	f := newFleet(t, 0, 5)
	f.push("v2")
	f.machine(0, "m", false)
	f.pools[0].Machines[0].Waits = f.now.Add(29 * time.Minute)
	f.pass(58 * time.Minute)
	f.have("it restarts", "v2 v1 MachinesBooting")
	f.pass(2 * time.Minute)
	f.have("it stays away", "v2 v1 MachinesNotJoined")
}

// A profile that left its source during a rollout does not block the condition.
func TestConditionOfWhatIsOnItsWay(t *testing.T) {
	ps := &api.ProfileSource{Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{Gate: api.GateWaves}}}
	ps.Status.Profiles = []api.ProfileEntry{{Name: "osp"}, {Name: "other"}}
	ps.Status.Rollouts = []api.RolloutStatus{{Profile: "osp", RolloutVersion: versionNamed("v2"), Held: true, Message: "it is held"}, {Profile: "other", RolloutVersion: versionNamed("v1"), Message: "it waits"}}
	for _, want := range []string{api.ReasonRolloutHeld + " it is held; profile \"other\" v1 is at wave 0: it waits", api.ReasonRollingOut + " profile \"other\" v1 is at wave 0: it waits", api.ReasonRolledOut + " all waves have the current version of every profile"} {
		SetCondition(ps, Windows{})
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
	f := newFleet(t, 0, 5)
	f.push("v2")
	f.machine(0, "m", false)
	f.pass(15 * time.Minute)
	m := &f.pools[0].Machines[0]
	m.Lost, m.Leaving, m.Reported = f.now, true, "CreateMachine: quota\texceeded"
	f.pass(time.Minute)
	f.have("half of the time limit", "v2 v1 MachinesNotJoined")
	const evidence = "15m0s after it was created, and machine-controller reported CreateMachine: quota exceeded"
	if got := f.had.Failures; len(got) != 1 || got[0].Reason != api.FailureDeleted || got[0].Message != evidence || !strings.Contains(f.had.Message, "was deleted before it joined, "+evidence) {
		t.Errorf("the status is %+v", f.had)
	}
	f.pools[0].Machines = nil // nothing else has it now
	f.pass(10 * time.Hour)
	if got := f.had.Failures; len(got) != 1 || got[0].Message != evidence {
		t.Errorf("later the status is %+v", f.had)
	}
}

// A machine that reports failing scripts holds its wave before it exceeds the time to join.
func TestFailingBootsHold(t *testing.T) {
	cause := &api.BootCause{File: "osps/a.yaml", Line: 42, NodeFile: "/opt/bin/setup", NodeLine: 7, Command: "curl -f https://example.com", ExitStatus: 22}
	begin := func() *fleet {
		f := newFleet(t, 0, 5)
		f.push("v2")
		f.pass(time.Second)
		f.machine(0, "m", false)
		f.pools[0].Machines[0].Boot = &api.MachineBootStatus{Attempt: 1, Version: "v2", Since: metav1.NewTime(f.now), Cause: cause}
		f.settle()
		f.have("the first attempt failed", "v2 v1 MachinesBooting")
		return f
	}
	f := begin()
	if f.again != 5*time.Minute {
		t.Errorf("the next decision is in %s", f.again)
	}
	f.pass(5*time.Minute - time.Second)
	f.have("for nearly 5 minutes", "v2 v1 MachinesBooting")
	f.pass(time.Second)
	f.have("for 5 minutes", "v2 v1 MachinesNotJoined")
	if got := f.had.Failures[0]; got.Reason != api.FailureBootFailing || got.Cause != "osps/a.yaml:42, exit status 22" {
		t.Errorf("the failure is %+v", got)
	}
	if want := "the boot of machine m of pool ns/p0 fails: osps/a.yaml:42, exit status 22"; !strings.Contains(f.had.Message, want) || strings.Contains(f.had.Message, "curl") {
		t.Errorf("it says %q", f.had.Message)
	}
	f.pools[0].Machines[0].Boot = nil
	f.settle()
	f.have("an attempt succeeded", "v2 v1 MachinesBooting")

	f = begin()
	f.pools[0].Machines[0].Boot.Attempt = 3
	f.settle()
	f.have("the third attempt failed", "v2 v1 MachinesNotJoined")
	lost := f.pools[0].Machines[0]
	lost.Leaving, lost.Lost, lost.Boot = true, f.now, nil
	f.pools[0].Machines[0] = lost
	f.pass(lostGrace)
	if got := f.had.Failures[0]; got.Reason != api.FailureDeleted || got.Cause == "" {
		t.Errorf("after it was deleted the failure is %+v", got)
	}

	f = begin()
	f.pools[0].Machines[0].Boot.Attempt = 3
	f.terms.release = release{"v2", api.LastWave}
	f.settle()
	f.have("released", "v2 v2 Done")

	f = begin()
	f.pools[0].Machines[0].Boot.Version = "v1"
	f.pass(10 * time.Minute)
	f.have("a report about another version", "v2 v1 MachinesBooting")

	f = newFleet(t, 0, 5)
	f.machine(0, "m", false)
	f.pools[0].Machines[0].Boot = &api.MachineBootStatus{Attempt: 3, Version: "v1", Since: metav1.NewTime(f.now)}
	f.pass(time.Minute)
	f.push("v2")
	if got := f.had.FailingBefore; len(got) != 1 || got[0] != "ns/p0" {
		t.Errorf("failing before: %v", got)
	}
}
