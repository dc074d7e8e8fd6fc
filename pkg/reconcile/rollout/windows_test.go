package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// The next run is exactly at the next edge, of either clock: of two that differ by more than
// 30 seconds, the later one.
func TestEdges(t *testing.T) {
	ps := &api.ProfileSource{Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{MaintenanceWindows: []api.MaintenanceWindow{
		{Schedule: "0 22 * * 1-4", Duration: metav1.Duration{Duration: 6 * time.Hour}, TimeZone: "Europe/Berlin"},
		{Schedule: "0 23 * * *", Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "UTC", Applies: []string{api.WindowWaves}},
	}}}}
	opens := time.Date(2026, 3, 2, 21, 0, 0, 0, time.UTC) // a Monday
	for _, c := range []struct {
		at, ahead time.Duration // from the opening; of the API server
		open      bool
		edge      time.Duration // until the next one
	}{
		{-time.Hour - time.Millisecond, 0, false, time.Hour + time.Millisecond},
		{-time.Nanosecond, 0, false, time.Nanosecond},
		{0, 0, true, 2 * time.Hour}, // the next edge is that of the other window
		{2 * time.Hour, 0, true, time.Hour},
		{3 * time.Hour, 0, true, 3 * time.Hour},
		{6*time.Hour - 1, 0, true, 1},
		{6 * time.Hour, 0, false, 18 * time.Hour},
		{-20 * time.Second, 30 * time.Second, false, 20 * time.Second},
		{-31 * time.Second, 31 * time.Second, true, 2 * time.Hour},
		{0, -time.Hour, true, 2 * time.Hour},
		{6*time.Hour - time.Minute, time.Hour, false, 17*time.Hour + time.Minute},
	} {
		seen := &observed{source: ps}
		r := newReconcilerAt(opens.Add(c.at), c.ahead)
		again := r.observeWindows(seen)
		edge := seen.windows.until.Sub(r.windowTime())
		if open := seen.windows.waitsFor[api.WindowReplace] == ""; open != c.open || edge != c.edge || seen.windows.status[0].Open != c.open {
			t.Errorf("%s after the opening, API server ahead by %s: open %t, edge in %s; want %+v", c.at, c.ahead, open, edge, c)
		}
		// A timer does not notice that a clock was set.
		if want := min(c.edge, time.Minute); again != want {
			t.Errorf("%s after the opening, API server ahead by %s: again in %s, want %s", c.at, c.ahead, again, want)
		}
	}
	// Windows that never close are evaluated again after a day.
	ps.Spec.Rollout.MaintenanceWindows = []api.MaintenanceWindow{{Schedule: "0 0 * * *", Duration: metav1.Duration{Duration: 24 * time.Hour}}}
	seen := &observed{source: ps}
	again := newReconcilerAt(opens, 0).observeWindows(seen)
	if state := seen.windows; again != time.Minute || !state.until.Equal(opens.Add(24*time.Hour)) || !state.status[0].Open || state.status[0].Closes != nil {
		t.Errorf("again in %s, the state is %+v", again, state)
	}
}

func newReconcilerAt(now time.Time, ahead time.Duration) *Reconciler {
	return &Reconciler{
		Clock: clocktesting.NewFakePassiveClock(now), Ahead: func() time.Duration { return ahead }, windows: map[string]windowState{},
	}
}

// The windows of a ProfileSource are evaluated once, until the object changes or one of them opens
// or closes, and if the clock was set back.
func TestWindowsAreEvaluatedOnce(t *testing.T) {
	noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	clock := clocktesting.NewFakePassiveClock(noon)
	r := newReconcilerAt(noon, 0)
	r.Clock = clock
	ps := &api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Name: "osps", UID: "one", Generation: 1}, Spec: api.ProfileSourceSpec{Rollout: &api.Rollout{
		MaintenanceWindows: []api.MaintenanceWindow{{Schedule: "0 13 * * *", Duration: metav1.Duration{Duration: time.Hour}}},
	}}}
	check := func(when string, change func(), want bool) {
		t.Helper()
		seen := &observed{source: ps}
		r.observeWindows(seen)
		before := seen.windows.from
		change()
		r.observeWindows(seen)
		if after := seen.windows.from; after.Equal(before) == want {
			t.Errorf("%s: the windows were evaluated at %s and %s", when, before, after)
		}
	}
	check("a minute later", func() { clock.SetTime(noon.Add(time.Minute)) }, false)
	check("before the opening", func() { clock.SetTime(noon.Add(time.Hour - 1)) }, false)
	check("at the opening", func() { clock.SetTime(noon.Add(time.Hour)) }, true)
	check("set back", func() { clock.SetTime(noon) }, true)
	check("another generation", func() { clock.SetTime(noon.Add(time.Minute)); ps.Generation++ }, true)
	check("another object", func() { clock.SetTime(noon.Add(2 * time.Minute)); ps.UID = "two" }, true)
}

// annotationLog records all annotations of pools as the API server reports them, "a v2.0.0".
func (b *bench) annotationLog() func() []string {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	w, err := b.client.Watch(ctx, &machines.MachineDeploymentList{}, client.InNamespace(b.ns))
	b.do(err)
	var mu sync.Mutex
	var out []string
	last := map[string]string{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range w.ResultChan() {
			md, ok := event.Object.(*machines.MachineDeployment)
			if !ok {
				continue
			}
			if config := md.Spec.Template.Metadata.Annotations[api.AnnotationConfig]; config != last[md.Name] {
				last[md.Name] = config
				mu.Lock()
				out = append(out, md.Name+" "+strings.TrimPrefix(config, "digest-"))
				mu.Unlock()
			}
		}
	}()
	b.t.Cleanup(func() { cancel(); w.Stop(); <-ended })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(out)
	}
}

// nextMonday returns a function of days after the next Monday and a time of day.
func nextMonday(zone *time.Location) func(days, hour, minute, second int) time.Time {
	today := time.Now().In(zone)
	return func(days, hour, minute, second int) time.Time {
		return time.Date(today.Year(), today.Month(), today.Day()+8-int(today.Weekday())+days, hour, minute, second, 0, zone)
	}
}

// Waves begin in maintenance windows only, over three windows and two versions, the first of
// which fails; the replacement of machines has no window, and does not continue with a version
// that failed.
func TestWavesBeginInWindows(t *testing.T) {
	b := newBench(t)
	monday := nextMonday(time.UTC)
	at := func(days, hour int) {
		t.Helper()
		b.clock.SetTime(monday(days, hour, 0, 0))
		b.poke()
	}
	b.spec(`{"gate":"Waves","window":"1h","maxConcurrent":1,"maintenanceWindows":[{"schedule":"0 22 * * *","duration":"2h","applies":["Waves"]}]}`)
	at(0, 12)
	b.push("v1.0.0")
	b.is("v1.0.0", 9, "Done")
	replace := map[string]any{api.AnnotationRollout: api.RolloutReplace}
	for _, name := range []string{"a", "b"} {
		b.pool(name, 0, replace)
		b.machine(name, name+"-old")
		b.machineStatus(name+"-old", `{"nodeRef":{"kind":"Node","name":"x"}}`)
	}
	b.pool("last", 5, nil)
	b.second()
	b.follow()
	b.second()
	b.push("v2.0.0")
	if r := b.is("v2.0.0", -1, "MaintenanceWindow"); r.Message != "wave 0 waits for Mon 22:00 UTC ("+monday(0, 0, 0, 0).Format(time.DateOnly)+")" {
		t.Errorf("it says %q", r.Message)
	}
	b.restart()
	b.poke()
	b.is("v2.0.0", -1, "MaintenanceWindow")
	at(0, 22)
	b.is("v2.0.0", 0, "Replacing")
	b.saysOnce(api.EventRolloutStarted, "v2.0.0 replaces v1.0.0 in waves; wave 0 begins")
	b.waitForAnnotation("a", "digest-v2.0.0")
	b.second()
	b.machine("a", "a-new") // by the test's clock it has not joined for days
	b.done("a")
	b.is("v2.0.0", 0, "MachinesNotJoined")
	b.still("the version is held", "b", "")

	// Its successor waits for the next window. Until then machines of b stay.
	at(1, 12)
	b.spec(`{"maxConcurrent":2}`)
	b.push("v3.0.0")
	b.is("v3.0.0", -1, "MaintenanceWindow")
	b.still("a superseded version", "b", "")
	b.second()
	at(1, 22)
	b.is("v3.0.0", 0, "Replacing")
	b.saysOnce(api.EventRolloutStarted, "v3.0.0 replaces v1.0.0 in waves; wave 0 begins")

	// What has begun continues after the window, and the next wave waits for another one.
	at(2, 12)
	b.second()
	for _, name := range []string{"a", "b"} {
		b.waitForAnnotation(name, "digest-v3.0.0")
		b.machine(name, name+"-newest")
		b.machineStatus(name+"-newest", `{"nodeRef":{"kind":"Node","name":"x"}}`)
		b.done(name)
	}
	b.is("v3.0.0", 0, "MaintenanceWindow")
	at(2, 22)
	b.is("v3.0.0", 5, "Window")
	at(3, 12)
	b.is("v3.0.0", 9, "Done")
}

// A window that closes during a run ends it: no wave begins, and no more machines are replaced.
func TestWindowClosesDuringARun(t *testing.T) {
	b := newBench(t)
	monday := nextMonday(time.UTC)
	b.spec(`{"gate":"Waves","window":"1h","maxConcurrent":"100%","maintenanceWindows":[{"schedule":"0 22 * * *","duration":"2h","applies":["Waves","Replace"]}]}`)
	b.clock.SetTime(monday(0, 22, 0, 0))
	b.push("v1.0.0")
	b.is("v1.0.0", 9, "Done")
	for _, name := range []string{"a", "b", "c"} {
		b.pool(name, 0, map[string]any{api.AnnotationRollout: api.RolloutReplace})
		b.machine(name, name+"-old")
		b.machineStatus(name+"-old", `{"nodeRef":{"kind":"Node","name":"x"}}`)
	}
	b.second()
	b.follow()
	b.second()
	b.duringRun(&b.afterPools, func() { b.clock.SetTime(monday(1, 0, 0, 0)) })
	b.push("v2.0.0")
	b.is("v2.0.0", -1, "MaintenanceWindow")

	b.duringRun(&b.afterPatch, func() { b.clock.SetTime(monday(2, 0, 0, 0)) })
	b.clock.SetTime(monday(1, 22, 0, 0))
	b.poke()
	b.is("v2.0.0", 0, "Replacing")
	b.waitForAnnotation("a", "digest-v2.0.0")
	b.still("the window closed after the patch of a", "b", "")
	b.still("the window closed after the patch of a", "c", "")
	b.clock.SetTime(monday(2, 22, 0, 0))
	b.poke()
	b.waitForAnnotation("b", "digest-v2.0.0")
	b.waitForAnnotation("c", "digest-v2.0.0")
}

// Machines are replaced in maintenance windows only, over two windows, a restart, a window in
// which no controller ran, and a revert.
func TestMachinesAreReplacedInWindows(t *testing.T) {
	b := newBench(t)
	berlin, err := time.LoadLocation("Europe/Berlin")
	b.do(err)
	monday := nextMonday(berlin)
	at := func(days, hour, minute, second int) {
		t.Helper()
		b.clock.SetTime(monday(days, hour, minute, second))
		b.poke()
	}
	b.spec(`{"gate":"None","maxConcurrent":"40%","maintenanceWindows":[{"schedule":"0 22 * * 1-4","duration":"6h","timeZone":"Europe/Berlin"}]}`)
	at(0, 12, 0, 0)
	b.push("v1.0.0")
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		annotations := map[string]any{api.AnnotationRollout: api.RolloutReplace}
		if name == "e" {
			annotations[api.AnnotationWindows] = api.WindowsIgnore
		}
		b.pool(name, 5, annotations)
		b.machine(name, name+"-1")
		b.machineStatus(name+"-1", `{"nodeRef":{"kind":"Node","name":"x"}}`)
		b.done(name)
	}
	b.second()
	b.follow()
	annotations := b.annotationLog()
	want := func(when string, all ...string) {
		t.Helper()
		b.eventually("annotations "+when, func() error {
			if got := annotations(); !slices.Equal(got, all) {
				return fmt.Errorf("they are %q, want %q", got, all)
			}
			return nil
		})
		b.poke()
		time.Sleep(2 * settle) // one more would have come by now
		if got := annotations(); !slices.Equal(got, all) {
			t.Fatalf("%s: the annotations are %q, want %q", when, got, all)
		}
	}
	rolledOut := func(status metav1.ConditionStatus, reason, says string) {
		t.Helper()
		b.eventually("condition", func() error {
			c := apimeta.FindStatusCondition(b.source().Status.Conditions, api.RolledOutCondition)
			if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, says) {
				return fmt.Errorf("it is %+v, want %s %s %q", c, status, reason, says)
			}
			return nil
		})
	}
	b.gives("v2.0.0")
	want("outside, of the pool that ignores windows", "e v2.0.0")
	b.done("e")
	rolledOut(metav1.ConditionFalse, api.ReasonRollingOut, "waits for Mon 22:00 Europe/Berlin ("+monday(0, 0, 0, 0).Format(time.DateOnly)+")")
	if got := b.source().Status.MaintenanceWindows; len(got) != 1 || got[0].Applies != api.WindowReplace || got[0].Open || got[0].Closes != nil || got[0].TimeZone != "Europe/Berlin" || !got[0].Opens.Equal(&metav1.Time{Time: monday(0, 22, 0, 0)}) {
		t.Errorf("the windows are %+v", got)
	}

	// Nothing is written while nothing changes.
	b.eventually("counts", func() error {
		if got := b.source().Status.Replacements; got == nil || *got != (api.Replacements{Waiting: 4}) {
			return fmt.Errorf("they are %+v", got)
		}
		return nil
	})
	before := b.source().ResourceVersion
	b.clock.Step(time.Hour)
	b.do(b.client.Patch(t.Context(), b.md("a"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"any":"other"}}}`))))
	time.Sleep(3 * settle) // a write would have come by now
	if after := b.source().ResourceVersion; after != before {
		t.Error("the status was written although nothing changed")
	}

	at(0, 21, 59, 59)
	want("before the window", "e v2.0.0")
	at(0, 22, 0, 0)
	want("at the opening, 40% of five", "e v2.0.0", "a v2.0.0", "b v2.0.0")
	if got := b.source().Status.MaintenanceWindows; !got[0].Open || got[0].Opens != nil || !got[0].Closes.Equal(&metav1.Time{Time: monday(1, 4, 0, 0)}) {
		t.Errorf("the windows are %+v", got)
	}
	at(1, 3, 59, 59)
	b.done("a")
	want("until the window closes", "e v2.0.0", "a v2.0.0", "b v2.0.0", "c v2.0.0")
	at(1, 4, 0, 0)
	b.done("b")
	b.done("c")
	want("after it", "e v2.0.0", "a v2.0.0", "b v2.0.0", "c v2.0.0")
	b.restart()
	want("after a restart", "e v2.0.0", "a v2.0.0", "b v2.0.0", "c v2.0.0")
	// The controller is away for a window, and does not catch up.
	b.stop()
	at(2, 12, 0, 0)
	b.start()
	want("after a window that nobody used", "e v2.0.0", "a v2.0.0", "b v2.0.0", "c v2.0.0")
	b.suspend(true)
	at(2, 22, 0, 0)
	want("in a window, suspended", "e v2.0.0", "a v2.0.0", "b v2.0.0", "c v2.0.0")
	b.suspend(false)
	want("in the next window", "e v2.0.0", "a v2.0.0", "b v2.0.0", "c v2.0.0", "d v2.0.0")
	b.done("d")
	at(3, 12, 0, 0)
	rolledOut(metav1.ConditionTrue, api.ReasonRolledOut, "no pool waits")

	// A version is withdrawn outside, after two pools got it: they go back at once.
	all := append(annotations(), "e v3.0.0")
	b.gives("v3.0.0")
	want("outside, of the pool that ignores windows, again", all...)
	b.done("e")
	at(3, 23, 0, 0)
	all = append(all, "a v3.0.0", "b v3.0.0")
	want("in the third window", all...)
	at(4, 12, 0, 0)
	want("after it", all...)
	b.gives("v2.0.0")
	all = append(all, "a v2.0.0", "b v2.0.0")
	want("outside, after a revert", all...)
	b.done("a")
	all = append(all, "e v2.0.0")
	want("outside, after a revert, in turn", all...)
	b.done("b")
	b.done("e")

	// A release ignores windows, too; what it does not name waits.
	b.gives("v4.0.0")
	all = append(all, "e v4.0.0")
	want("outside, not released", all...)
	b.done("e")
	b.do(b.client.Patch(t.Context(), b.source(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+api.AnnotationRelease+`":"v4.0.0"}}}`))))
	want("outside, released", append(all, "a v4.0.0", "b v4.0.0")...)
}

// An invalid window never opens, which the condition says; Ready is not touched.
func TestInvalidWindow(t *testing.T) {
	b := newBench(t)
	b.spec(`{"gate":"None","maintenanceWindows":[{"schedule":"0 0 30 2 *","duration":"1h"}]}`)
	b.do(b.client.Status().Patch(t.Context(), b.source(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Succeeded","message":"ok","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))))
	b.push("v1.0.0")
	b.pool("a", 5, map[string]any{api.AnnotationRollout: api.RolloutReplace, api.AnnotationWindows: "ignore"})
	b.saysOnce(api.EventRolloutInvalid, `"ignore" is not "Ignore"`)
	b.machine("a", "a-1")
	b.second()
	b.follow()
	b.gives("v2.0.0")
	b.still("with an invalid window", "a", "")
	b.eventually("condition", func() error {
		all := b.source().Status.Conditions
		c, ready := apimeta.FindStatusCondition(all, api.RolledOutCondition), apimeta.FindStatusCondition(all, "Ready")
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != api.ReasonWindowInvalid || !strings.Contains(c.Message, `spec.rollout.maintenanceWindows[0]: schedule "0 0 30 2 *" never fires`) || ready == nil || ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("the conditions are %+v", all)
		}
		return nil
	})
	b.spec(`{"gate":"None","maintenanceWindows":null}`)
	b.waitForAnnotation("a", "digest-v2.0.0")
	b.eventually("end of the windows", func() error {
		if s := b.source().Status; len(s.MaintenanceWindows) > 0 || apimeta.FindStatusCondition(s.Conditions, api.RolledOutCondition) != nil {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
}
