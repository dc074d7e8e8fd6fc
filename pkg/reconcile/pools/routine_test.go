package pools

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

// If many configurations change at once, a few of them are reported, and the others are counted.
// A problem is always reported.
func TestRoutineEventsAreLimited(t *testing.T) {
	f := newFixture(t)
	f.r.Metrics = metrics.New()
	told := f.told()
	f.reconcile()
	versions := 0
	rotate := func(n int) {
		for range n {
			versions++
			f.publish(fmt.Sprintf("v1.%d.0", versions), fmt.Sprint("file ", versions))
			f.reconcile()
		}
	}
	rotate(routineBurst + 4)
	if len(told.told) != routineBurst || !strings.Contains(told.told[0], api.EventConfigCreated) || !strings.Contains(told.told[routineBurst-1], api.EventConfigRotated) {
		t.Errorf("of %d, %d are told: %q", routineBurst+5, len(told.told), told.told)
	}
	if got := droppedEvents(t, f.r.Metrics); got != 5 {
		t.Errorf("%v are counted, want 5", got)
	}
	f.ask(map[string]string{api.AnnotationOSP: "none"})
	told.saidLast(t, api.EventProfileError)
	f.ask(map[string]string{api.AnnotationOSP: "osp-hand"})
	told.saidLast(t, api.EventConfigHealed)
	f.ask(map[string]string{api.AnnotationOSP: "none"})
	versions++
	f.publish(fmt.Sprintf("v1.%d.0", versions), fmt.Sprint("file ", versions))
	f.ask(map[string]string{api.AnnotationOSP: "osp-hand"})
	if last := told.told[len(told.told)-1]; !strings.Contains(last, api.EventConfigRotated) {
		t.Errorf("a rotation that ends a warning is not told; last is %q", last)
	}
	told.told = nil
	f.clock.Step(time.Second)
	rotate(2)
	if len(told.told) != 1 {
		t.Errorf("after a second, %q are told", told.told)
	}
}

// What differs from the documents of another controller is always reported.
func TestTakeOverIsAlwaysReported(t *testing.T) {
	f := newLegacyFixture(t)
	for f.r.Routine.AllowN(f.clock.Now(), 1) {
	}
	told := f.told()
	f.reconcile()
	if !strings.Contains(strings.Join(told.told, "\n"), api.EventConfigCreated) {
		t.Errorf("told is %q", told.told)
	}
}

func droppedEvents(t *testing.T, m *metrics.Metrics) (n float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "osm_gitops_events_dropped_total" {
			continue
		}
		for _, series := range family.GetMetric() {
			n += series.GetCounter().GetValue()
		}
	}
	return n
}

// Without a limiter, as in a dry run, every event is emitted.
func TestRoutineEventsWithoutLimit(t *testing.T) {
	f := newFixture(t)
	f.r.Routine = nil
	told := f.told()
	f.reconcile()
	for i := range routineBurst + 1 {
		f.publish(fmt.Sprintf("v1.%d.0", i+1), fmt.Sprint("file ", i))
		f.reconcile()
	}
	if len(told.told) != routineBurst+2 {
		t.Errorf("of %d, %d are told", routineBurst+2, len(told.told))
	}
}
