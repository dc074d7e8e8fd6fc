package waves

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// fleet is a world in which pools do what they are given, and the clock is moved.
type fleet struct {
	t      *testing.T
	now    time.Time
	entry  api.ProfileEntry
	had    *api.RolloutStatus
	terms  Policy
	pools  []Pool
	again  time.Duration
	refuse map[string]string // pool -> version that it cannot have, or "any"
	slow   bool              // pools do not follow
}

func newFleet(t *testing.T, waves ...int32) *fleet {
	f := &fleet{t: t, now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), terms: Policy{pause: true, window: time.Hour}, refuse: map[string]string{}}
	for i, w := range waves {
		f.pools = append(f.pools, Pool{Key: fmt.Sprintf("ns/p%d", i), Wave: w})
	}
	f.push("v1")
	if !f.had.Done {
		t.Fatalf("a fleet that has nothing begins with %+v", f.had)
	}
	return f
}

func versionNamed(v string) api.RolloutVersion {
	return api.RolloutVersion{Version: v, Object: "osp-" + v, Digest: "digest-" + v}
}

// push makes a version current, and lets all pools follow.
func (f *fleet) push(version string) {
	f.t.Helper()
	v := versionNamed(version)
	f.entry = api.ProfileEntry{Name: "osp", Version: v.Version, Object: v.Object, Digest: v.Digest}
	f.settle()
}

// settle decides until nothing changes, in steps of a minute, and at most five.
func (f *fleet) settle() {
	f.t.Helper()
	for range 5 {
		next, again := NextStatus(f.entry, f.had, f.pools, f.terms, f.now)
		f.had, f.again = &next, again
		if !f.slow {
			f.follow()
		}
	}
}

// follow gives every pool what its wave is given.
func (f *fleet) follow() {
	ps := &api.ProfileSource{Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{Gate: api.GateWaves}}, Status: api.ProfileSourceStatus{Rollouts: []api.RolloutStatus{*f.had}}}
	for i := range f.pools {
		p := &f.pools[i]
		given, ok := selection.EntryForWave(ps, f.entry, p.Wave)
		switch {
		case !ok || p.Version.Version == given.Version || f.refuse[p.Key] == "any":
		case f.refuse[p.Key] == given.Version:
			if p.RejectedVersion != given.Version {
				p.RejectedSince, p.RejectedVersion = f.now, given.Version
			}
		default:
			p.Version, p.Configured, p.Settled, p.Since = versionNamed(given.Version), true, true, f.now
			p.RejectedSince, p.RejectedVersion = time.Time{}, ""
		}
	}
}

// machine makes a machine of a pool.
func (f *fleet) machine(pool int, name string, joined bool) {
	f.pools[pool].Machines = append(f.pools[pool].Machines, Machine{Name: name, Created: f.now, Joined: joined})
	f.settle()
}

func (f *fleet) pass(d time.Duration) {
	f.now = f.now.Add(d)
	f.settle()
}

// have checks the versions of the pools, and what the rollout waits for.
func (f *fleet) have(when, want string) {
	f.t.Helper()
	var got []string
	for _, p := range f.pools {
		got = append(got, p.Version.Version)
	}
	if text := strings.Join(got, " ") + " " + f.had.Reason; text != want {
		f.t.Errorf("%s: got %q, want %q (%s)", when, text, want, f.had.Message)
	}
}

// Times of objects are whole seconds: a machine created in the second in which its pool
// got the version can be older, and proves nothing.
func TestMachineOfTheSameSecondProvesNothing(t *testing.T) {
	f := newFleet(t, 0, 5)
	f.have("at first", "v1 v1 Done")
	f.pass(time.Minute)
	f.push("v2")
	f.have("pushed", "v2 v1 Window")
	f.machine(0, "same", true)
	f.have("a machine of that second", "v2 v1 Window")
	f.pass(time.Second)
	f.machine(0, "new", true)
	f.have("one made after it", "v2 v2 Window")

	// The template annotation names the configuration of a machine.
	f = newFleet(t, 0, 5)
	f.pass(time.Minute)
	f.push("v2")
	f.pools[0].Config = "two"
	f.pools[0].Machines = []Machine{{Name: "stamped", Created: f.now, Joined: true}}
	f.pools[0].Machines[0].Config = "one"
	f.settle()
	f.have("a machine of that second, made for what was before", "v2 v1 Window")
	f.pools[0].Machines[0].Config = "two"
	f.settle()
	f.have("one made for it", "v2 v2 Window")
}

func TestWavesWaitForMachinesOrTheWindow(t *testing.T) {
	f := newFleet(t, 0, 5, 5, 9)
	f.have("at first", "v1 v1 v1 v1 Done")
	f.pools[0].Machines = []Machine{{Name: "old", Created: f.now.Add(-time.Hour), Joined: true}}
	f.pass(time.Minute)
	f.push("v2")
	f.have("pushed", "v2 v1 v1 v1 Window")
	if f.again != time.Hour {
		t.Errorf("the next look is in %s", f.again)
	}
	f.pass(10 * time.Minute)
	f.machine(0, "new", false)
	f.have("a machine boots", "v2 v1 v1 v1 MachinesBooting")
	if f.again != 30*time.Minute || f.had.Machines != (api.RolloutMachines{Waiting: 1}) {
		t.Errorf("the next look is in %s, machines are %+v", f.again, f.had.Machines)
	}
	f.pools[0].Machines[1].Joined = true
	f.pass(time.Minute)
	f.have("it joined", "v2 v2 v2 v1 Window")
	if f.had.Pools != (api.RolloutPools{Adopted: 3, Total: 4}) || f.had.Machines != (api.RolloutMachines{Joined: 1}) || f.had.Since.Time != f.now {
		t.Errorf("the status is %+v", f.had)
	}
	f.pass(59 * time.Minute)
	f.have("before the window has passed", "v2 v2 v2 v1 Window")
	f.pass(time.Minute)
	f.have("after it", "v2 v2 v2 v2 Window")
	f.pass(time.Hour)
	f.have("at the end", "v2 v2 v2 v2 Done")
	if f.had.Wave != api.LastWave || f.had.From.Version != "v1" || f.had.Pools.Adopted != 4 {
		t.Errorf("the status is %+v", f.had)
	}
}

func TestFailuresHold(t *testing.T) {
	for name, c := range map[string]struct {
		fail      func(f *fleet)
		says      string
		stillHeld bool // after the machine is deleted
	}{
		"a machine that does not join": {func(f *fleet) {
			f.machine(0, "m", false)
			f.pass(29 * time.Minute)
			f.have("not for long", "v2 v1 v1 MachinesBooting")
			f.pass(time.Minute)
		}, "machine m of pool ns/p0 did not join within 30m0s", false},
		"a machine that was deleted before": {func(f *fleet) {
			f.machine(0, "m", false)
			f.pools[0].Machines[0].Lost, f.pools[0].Machines[0].Leaving = f.now, true
			f.pass(time.Minute)
		}, "machine m of pool ns/p0 was deleted before it joined", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 0, 5, 9)
			f.pass(time.Minute)
			f.push("v2")
			c.fail(f)
			f.have("failed", "v2 v1 v1 MachinesNotJoined")
			if !f.had.Held || !strings.Contains(f.had.Message, c.says) || !strings.Contains(f.had.Message, `gitops.k8c.io/release: "v2", or "v2@0" for this wave only`) || len(f.had.Failures) != 1 {
				t.Errorf("the status is %+v", f.had)
			}
			f.pass(100 * time.Hour)
			f.have("the window does not help", "v2 v1 v1 MachinesNotJoined")

			held := *f
			held.pools = append([]Pool{}, f.pools...)
			f.terms.release = release{"v2", 0}
			f.settle()
			f.have("released for one wave", "v2 v2 v1 Window")
			f.terms.release = release{"v2", api.LastWave}
			f.settle()
			f.have("released", "v2 v2 v2 Done")

			f = &held
			f.push("v3")
			f.have("another commit", "v3 v1 v1 Window")
			if len(f.had.Failures) > 0 {
				t.Errorf("failures are %+v", f.had.Failures)
			}
		})
	}
	f := newFleet(t, 0, 5)
	f.push("v2")
	f.machine(0, "m", false)
	f.pools[0].Machines[0].Leaving = true // its MachineSet became smaller
	f.pass(100 * time.Hour)
	f.have("a machine that nobody wants", "v2 v2 Window")

	f = newFleet(t, 0, 5)
	f.push("v2")
	f.pass(time.Second)
	f.machine(0, "m", false)
	f.pass(31 * time.Minute)
	f.have("late", "v2 v1 MachinesNotJoined")
	f.pools[0].Machines[0].Joined = true
	f.settle()
	f.have("it joins after all", "v2 v2 Window")

	f = newFleet(t, 0, 5)
	f.terms.pause = false
	f.push("v2")
	f.machine(0, "m", false)
	f.pass(75 * time.Minute)
	f.have("without a pause the window begins anew", "v2 v1 MachinesBooting")
	f.pass(15 * time.Minute)
	f.have("and passes", "v2 v2 Window")
}

func TestPoolsThatCannotHaveIt(t *testing.T) {
	f := newFleet(t, 0, 0, 5)
	f.pass(time.Minute)
	f.refuse["ns/p0"] = "v2"
	f.push("v2")
	f.have("refused", "v1 v2 v1 PoolsRefused")
	if !strings.Contains(f.had.Message, "pool ns/p0 cannot have it") {
		t.Errorf("it says %q", f.had.Message)
	}
	f.push("v3")
	f.have("the next commit", "v3 v3 v1 Window")

	f = newFleet(t, 0, 0, 5)
	f.pools[0].RejectedSince, f.refuse["ns/p0"] = f.now, "any"
	f.pass(time.Minute)
	f.push("v2")
	f.have("broken before", "v1 v2 v1 Window")

	f = newFleet(t, 0, 0, 5)
	f.pass(time.Minute)
	f.refuse["ns/p0"] = "v2"
	f.push("v2")
	refusedAt := f.pools[0].RejectedSince
	f.pass(time.Minute)
	f.refuse["ns/p0"] = "v3"
	f.push("v3")
	f.have("the next one is refused, too", "v1 v3 v1 PoolsRefused")
	if p := f.pools[0]; p.RejectedVersion != "v3" || !p.RejectedSince.After(refusedAt) {
		t.Errorf("%q is refused since %s, and the one before since %s", p.RejectedVersion, p.RejectedSince, refusedAt)
	}
	f.slow = true
	f.push("v4")
	f.pools[1].Version, f.pools[1].Since = versionNamed("v4"), f.now
	f.pass(100 * time.Hour)
	f.have("what was refused is on its way to another one", "v1 v4 v1 Adopting")
	if f.had.Wave != 0 {
		t.Errorf("wave %d began without it", f.had.Wave)
	}

	f = newFleet(t, 0, 5)
	f.slow = true
	f.push("v2")
	f.pass(100 * time.Hour)
	f.have("pools are slow", "v1 v1 Adopting")
}

func TestWaysBack(t *testing.T) {
	f := newFleet(t, 0, 3, 5, 9)
	f.push("v2")
	f.pass(time.Hour)
	f.have("v2 at wave 3", "v2 v2 v1 v1 Window")
	f.push("v3")
	f.have("v3 supersedes it", "v3 v2 v1 v1 Window")
	if len(f.had.Superseded) != 1 || f.had.Superseded[0].Version != "v2" || f.had.Superseded[0].Wave != 3 || f.had.From.Version != "v1" {
		t.Errorf("the status is %+v", f.had)
	}
	f.push("v4")
	f.have("v4 supersedes both", "v4 v2 v1 v1 Window")
	if len(f.had.Superseded) != 1 || f.had.Superseded[0].Version != "v2" { // v3 had no wave that v4 has not
		t.Errorf("superseded are %+v", f.had.Superseded)
	}
	middle := *f
	middle.pools = append([]Pool{}, f.pools...)
	middle.push("v2")
	middle.have("back to v2 at once, and on from there", "v2 v2 v1 v1 Window")
	middle.pass(time.Hour)
	middle.have("wave 5", "v2 v2 v2 v1 Window")

	f.push("v1")
	f.have("back to v1 at once", "v1 v1 v1 v1 RolledBack")

	f = newFleet(t, 0, 5)
	f.push("v2")
	f.pass(time.Hour)
	f.pass(time.Hour)
	f.have("all have it", "v2 v2 Done")
	f.push("v1")
	f.have("a rollback is a rollout", "v1 v2 Window")
	f.terms.release = release{"v1", api.LastWave}
	f.settle()
	f.have("unless it is released", "v1 v1 Done")
}

func TestBeginnings(t *testing.T) {
	f := newFleet(t, 0, 5)
	f.had = nil // the gate is new, and so is the version
	f.push("v2")
	f.have("a new gate", "v2 v1 Window")
	f.pools = append(f.pools, Pool{Key: "ns/new0", Wave: 0}, Pool{Key: "ns/new9", Wave: 9})
	f.settle()
	f.have("new pools", "v2 v1 v2 v1 Window")

	f = newFleet(t)
	f.push("v2")
	f.have("nobody there", " Done")

	f = newFleet(t, 0, 5)
	f.push("v2")
	f.entry.Removed = true
	f.pass(100 * time.Hour)
	f.have("removed from Git", "v2 v1 Window")

	f = newFleet(t, 0, 5)
	f.push("v2")
	f.pools[0].Replacing = true
	f.machine(0, "m", true)
	f.pass(100 * time.Hour)
	f.have("machines are still replaced", "v2 v1 Replacing")
}

func TestRelease(t *testing.T) {
	for text, c := range map[string]struct {
		want release
		bad  bool
	}{
		"":             {release{"", api.LastWave}, false},
		"v1.0.0":       {release{"v1.0.0", api.LastWave}, false},
		"v1.0.0+5@3":   {release{"v1.0.0+5", 3}, false},
		"v1.0.0@10":    {release{}, true},
		"v1.0.0@":      {release{}, true},
		"v1.0.0@-1":    {release{}, true},
		"v1.0.0@three": {release{}, true},
	} {
		ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationRelease: text}}}
		got, err := PolicyOf(ps)
		if got.release != c.want || (err != nil) != c.bad || !got.pause || got.window != 30*time.Minute {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
		if got.Allows("", 0) {
			t.Errorf("%q: releases nothing in particular", text)
		}
	}
}

// A release goes as far as the last wave that there is. What names another one releases
// nothing.
func TestReleaseUpToAWave(t *testing.T) {
	for text, want := range map[string]release{
		"v1.0.0": {"v1.0.0", 9}, "v1.0.0@0": {"v1.0.0", 0}, "v1.0.0@9": {"v1.0.0", 9},
		"v1.0.0@10": {}, "v1.0.0@-1": {}, "v1.0.0@": {}, "v1.0.0@last": {},
	} {
		got, err := PolicyOf(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationRelease: text}}})
		if got.release != want || (err != nil) != (want == release{}) {
			t.Errorf("%q releases %+v (error %v), want %+v", text, got.release, err, want)
		}
	}
}
