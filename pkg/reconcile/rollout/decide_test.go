package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// fleet is a world in which pools do what they are given, and the clock is moved.
type fleet struct {
	t      *testing.T
	now    time.Time
	entry  api.ProfileEntry
	had    *api.RolloutStatus
	terms  rolloutPolicy
	pools  []pool
	again  time.Duration
	refuse map[string]string // pool -> version that it cannot have, or "any"
	slow   bool              // pools do not follow
}

func newFleet(t *testing.T, waves ...int32) *fleet {
	f := &fleet{t: t, now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), terms: rolloutPolicy{pause: true, window: time.Hour}, refuse: map[string]string{}}
	for i, w := range waves {
		f.pools = append(f.pools, pool{key: fmt.Sprintf("ns/p%d", i), wave: w})
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
		next, again := decide(f.entry, f.had, f.pools, f.terms, f.now)
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
		given, ok := selection.EntryForWave(ps, f.entry, p.wave)
		switch {
		case !ok || p.version.Version == given.Version || f.refuse[p.key] == "any":
		case f.refuse[p.key] == given.Version:
			if p.rejectedVersion != given.Version {
				p.rejectedSince, p.rejectedVersion = f.now, given.Version
			}
		default:
			p.version, p.configured, p.settled, p.since = versionNamed(given.Version), true, true, f.now
			p.rejectedSince, p.rejectedVersion = time.Time{}, ""
		}
	}
}

// machine makes a machine of a pool.
func (f *fleet) machine(pool int, name string, joined bool) {
	f.pools[pool].machines = append(f.pools[pool].machines, machine{name: name, created: f.now, joined: joined})
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
		got = append(got, p.version.Version)
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
	f.pools[0].config = "two"
	f.pools[0].machines = []machine{{name: "stamped", created: f.now, joined: true}}
	f.pools[0].machines[0].config = "one"
	f.settle()
	f.have("a machine of that second, made for what was before", "v2 v1 Window")
	f.pools[0].machines[0].config = "two"
	f.settle()
	f.have("one made for it", "v2 v2 Window")
}

func TestWavesWaitForMachinesOrTheWindow(t *testing.T) {
	f := newFleet(t, 0, 5, 5, 9)
	f.have("at first", "v1 v1 v1 v1 Done")
	f.pools[0].machines = []machine{{name: "old", created: f.now.Add(-time.Hour), joined: true}}
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
	f.pools[0].machines[1].joined = true
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
			f.pools[0].machines[0].lost, f.pools[0].machines[0].leaving = f.now, true
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
			held.pools = append([]pool{}, f.pools...)
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
	f.pools[0].machines[0].leaving = true // its MachineSet became smaller
	f.pass(100 * time.Hour)
	f.have("a machine that nobody wants", "v2 v2 Window")

	f = newFleet(t, 0, 5)
	f.push("v2")
	f.pass(time.Second)
	f.machine(0, "m", false)
	f.pass(31 * time.Minute)
	f.have("late", "v2 v1 MachinesNotJoined")
	f.pools[0].machines[0].joined = true
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
	f.pools[0].rejectedSince, f.refuse["ns/p0"] = f.now, "any"
	f.pass(time.Minute)
	f.push("v2")
	f.have("broken before", "v1 v2 v1 Window")

	f = newFleet(t, 0, 0, 5)
	f.pass(time.Minute)
	f.refuse["ns/p0"] = "v2"
	f.push("v2")
	refusedAt := f.pools[0].rejectedSince
	f.pass(time.Minute)
	f.refuse["ns/p0"] = "v3"
	f.push("v3")
	f.have("the next one is refused, too", "v1 v3 v1 PoolsRefused")
	if p := f.pools[0]; p.rejectedVersion != "v3" || !p.rejectedSince.After(refusedAt) {
		t.Errorf("%q is refused since %s, and the one before since %s", p.rejectedVersion, p.rejectedSince, refusedAt)
	}
	f.slow = true
	f.push("v4")
	f.pools[1].version, f.pools[1].since = versionNamed("v4"), f.now
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

// The time of a rejection in an OperatingSystemConfig is read as pools write it: never a
// future one.
func TestRefusedSince(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	created := now.Add(-time.Hour)
	for since, want := range map[string]time.Time{
		"2026-01-01T11:30:00Z": now.Add(-30 * time.Minute),
		"2999-01-01T00:00:00Z": now,
		"edited":               created,
	} {
		for refused, want := range map[string]time.Time{"because": want, "": {}} {
			osc := &metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created), Annotations: map[string]string{
				api.AnnotationRefused: refused, api.AnnotationRefusedVersion: "v2", api.AnnotationRefusedSince: since,
			}}
			if got := activeConfigOf(osc, now).rejectedSince; !got.Equal(want) {
				t.Errorf("refused %q since %q is read as %s, want %s", refused, since, got, want)
			}
		}
	}
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
	middle.pools = append([]pool{}, f.pools...)
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
	f.pools = append(f.pools, pool{key: "ns/new0", wave: 0}, pool{key: "ns/new9", wave: 9})
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
	f.pools[0].replacing = true
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
		got, err := policyOf(ps)
		if got.release != c.want || (err != nil) != c.bad || !got.pause || got.window != 30*time.Minute {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
		if got.allows("", 0) {
			t.Errorf("%q: releases nothing in particular", text)
		}
	}
}

func TestToStamp(t *testing.T) {
	made := func(name string, wave int32, stamp, config string, stale, busy bool) candidate {
		md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 2}}
		md.Status = cluster.MachineDeploymentStatus{ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
		if busy {
			md.Status.ObservedGeneration = 1
		}
		return candidate{md: md, wave: wave, templateAnnotation: stamp, config: config, stale: stale}
	}
	for name, c := range map[string]struct {
		all   []candidate
		limit int
		want  string
	}{
		"the earlier wave first":                        {[]candidate{made("a", 5, "", "d", true, false), made("b", 0, "", "d", true, false)}, 1, "b"},
		"as many as allowed":                            {[]candidate{made("a", 5, "c", "d", true, false), made("b", 5, "c", "d", true, false), made("c", 5, "c", "d", true, false)}, 2, "a b"},
		"a current stamp is left":                       {[]candidate{made("a", 5, "d", "d", true, false)}, 5, ""},
		"machines that boot from it already are left":   {[]candidate{made("a", 5, "", "d", false, false)}, 5, ""},
		"Secrets that are not written yet":              {[]candidate{made("a", 5, "c", "", true, false)}, 5, ""},
		"what is refused takes nobody's turn":           {[]candidate{made("refused", 0, "", "d", true, false), made("b", 5, "", "d", true, false), made("c", 5, "", "d", true, false)}, 1, "b"},
		"one is at it":                                  {[]candidate{made("a", 0, "d", "d", true, true), made("b", 5, "c", "d", true, false)}, 1, ""},
		"one that is at it gets another stamp at once":  {[]candidate{made("a", 0, "c", "d", true, false), made("b", 5, "c", "d", true, true)}, 1, "b"},
		"one without a stamp is not at it":              {[]candidate{made("a", 0, "", "d", true, true), made("b", 5, "c", "d", true, false)}, 1, "a"},
		"a lower limit than there are at it, and a way": {[]candidate{made("a", 0, "c", "c", true, true), made("b", 5, "c", "c", true, true), made("c", 5, "c", "d", true, false)}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			selectReplacements(c.all, c.limit, func(c candidate) bool {
				if c.md.Name == "refused" {
					return false
				}
				got = append(got, c.md.Name)
				return true
			})
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got %q, want %q", text, c.want)
			}
		})
	}
}

// Without a gate there is nothing to wait for: looking again would be a loop that never
// rests.
func TestNothingToWaitForWithoutAGate(t *testing.T) {
	for name, source := range map[string]*api.ProfileSource{
		"no source":           nil,
		"no rollout":          {},
		"a rollout, no gate":  {Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{}}},
		"a gate, no profiles": {Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{Gate: api.GateWaves}}},
	} {
		out, again, err := (&Reconciler{}).decideAll(t.Context(), &observed{source: source})
		if again != 0 || err != nil || len(out.rollouts) > 0 {
			t.Errorf("%s: again after %s, rollouts %+v (err %v)", name, again, out.rollouts, err)
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
		got, err := policyOf(&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{api.AnnotationRelease: text}}})
		if got.release != want || (err != nil) != (want == release{}) {
			t.Errorf("%q releases %+v (error %v), want %+v", text, got.release, err, want)
		}
	}
}
