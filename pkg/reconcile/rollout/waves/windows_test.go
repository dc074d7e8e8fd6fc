package waves

import (
	"errors"
	"strings"
	"testing"
	"time"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

const monday = "Mon 22:00 Europe/Berlin (2026-03-02)"

// Outside of maintenance windows no wave begins; what has begun goes on.
func TestWavesWaitForMaintenanceWindows(t *testing.T) {
	f := newFleet(t, 0, 5)
	f.pass(time.Minute)
	f.terms.WaitsFor = monday
	f.push("v2")
	f.have("pushed outside", "v1 v1 MaintenanceWindow")
	if f.had.Message != "wave 0 waits for "+monday || f.had.Wave != -1 || f.again != 0 {
		t.Errorf("the status is %+v, again in %s", f.had, f.again)
	}
	f.push("v3")
	f.have("another one", "v1 v1 MaintenanceWindow")
	if len(f.had.Superseded) > 0 || f.had.From.Version != "v1" {
		t.Errorf("a version that nobody has is kept: %+v", f.had)
	}
	f.terms.WaitsFor = ""
	f.settle()
	f.have("it opens", "v3 v1 Window")
	f.terms.WaitsFor = monday
	f.pass(time.Hour) // the bake time passes outside
	f.have("it closed", "v3 v1 MaintenanceWindow")
	if f.had.Message != "wave 5 waits for "+monday || f.had.Wave != 0 {
		t.Errorf("the status is %+v", f.had)
	}
	f.push("v1")
	f.have("withdrawn", "v1 v1 RolledBack")
	f.push("v4")
	f.have("outside again", "v1 v1 MaintenanceWindow")
	f.push("v1")
	f.have("withdrawn before it began", "v1 v1 RolledBack")
	if f.had.Message != "v4 was withdrawn before its first wave" {
		t.Errorf("it says %q", f.had.Message)
	}
	f.push("v4")
	if f.have("pushed again", "v1 v1 MaintenanceWindow"); f.had.Revert {
		t.Errorf("a version that no pool had is a return: %+v", f.had)
	}
	f.push("v1")
	f.push("v5")
	f.pools[0].IgnoresWindows = true
	f.settle()
	f.have("all pools of wave 0 ignore windows", "v5 v1 Window")
	f.terms.release = release{"v5", api.LastWave}
	f.settle()
	f.have("released", "v5 v5 Done")
	f.terms.release = release{}
	f.pools[0].IgnoresWindows = false
	f.push("v1")
	if f.have("going back later is a rollout without windows", "v1 v5 Window"); !f.had.Revert {
		t.Errorf("the status is %+v", f.had)
	}
	f.terms.suspended = true
	f.pass(time.Hour)
	f.have("suspended", "v1 v5 Suspended")
	f.terms.suspended = false
	f.settle()
	f.have("and on", "v1 v1 Window")
}

// A version that waited for its window must fix the pools that failed with the one before.
func TestFailuresBeforeAWindow(t *testing.T) {
	f := newFleet(t, 0, 5)
	f.push("v2")
	f.machine(0, "one", false)
	f.pass(time.Hour)
	f.have("the version", "v2 v1 MachinesNotJoined")
	f.terms.WaitsFor = monday
	f.push("v3")
	f.have("pushed outside", "v2 v1 MaintenanceWindow")
	f.pass(time.Hour)
	f.slow = true // pools have the version before when the wave begins
	f.terms.WaitsFor = ""
	f.settle()
	if len(f.had.FailingBefore) > 0 {
		t.Errorf("its machines do not count: %+v", f.had)
	}
}

// suspend wins over an open window and a release.
func TestSuspendWins(t *testing.T) {
	f := newFleet(t, 0, 5)
	f.pass(time.Minute)
	f.terms.suspended, f.terms.release = true, release{"v2", api.LastWave}
	f.push("v2")
	f.have("suspended", "v1 v1 Done")
}

func TestConditionOfWindows(t *testing.T) {
	ps := &api.ProfileSource{}
	for _, c := range []struct {
		windows Windows
		want    string
	}{
		{Windows{Configured: true}, "True RolledOut no pool waits for a maintenance window"},
		{Windows{Configured: true, Waiting: "it waits for " + monday}, "False RollingOut it waits for " + monday},
		{Windows{Configured: true, Waiting: "it waits", Invalid: []error{errors.New("it is bad")}}, "False WindowInvalid the window never opens: it is bad; it waits"},
		{Windows{}, ""},
	} {
		SetCondition(ps, c.windows)
		var got string
		for _, x := range ps.Status.Conditions {
			got += strings.Join([]string{string(x.Status), x.Reason, x.Message}, " ")
		}
		if got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
