package rollout

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/rollout/waves"
	"github.com/osm-gitops/osm-gitops/pkg/selection/windows"
)

// maxSkew is the difference of two clocks that is ignored. The API server's clock is known with
// a precision of seconds.
const maxSkew = 30 * time.Second

// windowGate is the state of the maintenance windows for one use; zero if there are none.
type windowGate struct {
	waitsFor string // the next opening, empty if the use is allowed now
}

// observeWindows evaluates the maintenance windows of the source at the later of two clocks
// that differ by more than maxSkew. It returns the time until the next edge, 0 for never.
func (r *Reconciler) observeWindows(seen *observed) (again time.Duration) {
	now := r.Clock.Now()
	if r.Ahead != nil {
		if ahead := r.Ahead(); ahead > maxSkew {
			now = now.Add(ahead)
		}
	}
	seen.windows = map[string]windowGate{}
	for _, use := range []string{api.WindowReplace, api.WindowWaves} {
		set, limited := windows.For(seen.source, use)
		if !limited {
			continue
		}
		state := set.At(now)
		status := api.WindowStatus{Applies: use, Open: state.Open, Opens: optionalTime(state.Opens), Closes: optionalTime(state.Closes)}
		if edge := state.Edge(); !edge.IsZero() {
			status.TimeZone = edge.Location().String()
			again = waves.EarliestNonZero(again, edge.Sub(now))
		} else if state.Open {
			again = waves.EarliestNonZero(again, windows.MaxOpen)
		}
		if !state.Open {
			seen.windows[use] = windowGate{windows.Describe(state.Opens)}
		}
		seen.windowStatus = append(seen.windowStatus, status)
	}
	return again
}

// openWindows returns which windows are open, by use.
func (seen *observed) openWindows() map[string]bool {
	out := map[string]bool{}
	for _, w := range seen.windowStatus {
		out[w.Applies] = w.Open
	}
	return out
}

func optionalTime(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

// windowsOfCondition returns what the condition of the source says about maintenance windows.
func (seen *observed) windowsOfCondition(all []candidate) waves.Windows {
	out := waves.Windows{Configured: len(seen.windowStatus) > 0, Invalid: windows.Problems(seen.source)}
	var waiting []string
	for _, c := range all {
		if c.due() && c.waits {
			waiting = append(waiting, keyOf(c.md))
		}
	}
	if len(waiting) > 0 {
		out.Waiting = fmt.Sprintf("the replacement of machines waits for %s: %s", seen.windows[api.WindowReplace].waitsFor, waves.JoinNames(waiting, "pool"))
	}
	return out
}

func ignoresWindows(md *cluster.MachineDeployment) bool {
	return md.Annotations[api.AnnotationWindows] == api.WindowsIgnore
}
