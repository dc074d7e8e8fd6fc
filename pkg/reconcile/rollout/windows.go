package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/selection/windows"
)

// maxWindowAge limits the use of an evaluation without an edge: to evaluate windows every
// five minutes without a break takes 0.1 s.
const maxWindowAge = 24 * time.Hour

// windowState is the state of the maintenance windows of one generation of a ProfileSource
// between two instants.
type windowState struct {
	uid         types.UID
	generation  int64
	from, until time.Time
	waitsFor    map[string]string // by use: the next opening, absent if the use is allowed
	status      []api.WindowStatus
	invalid     []error
}

func evaluateWindows(ps *api.ProfileSource, now time.Time) windowState {
	parsed := windows.ParseAll(ps)
	out := windowState{uid: ps.UID, generation: ps.Generation, from: now, until: now.Add(maxWindowAge), waitsFor: map[string]string{}, invalid: parsed.Problems}
	for _, use := range []string{api.WindowReplace, api.WindowWaves} {
		set, limited := parsed.ByUse[use]
		if !limited {
			continue
		}
		state := set.At(now)
		status := api.WindowStatus{Applies: use, Open: state.Open}
		if edge := state.Edge(); !edge.IsZero() {
			status.TimeZone = edge.Location().String()
			if state.Open {
				status.Closes = &metav1.Time{Time: edge}
			} else {
				status.Opens = &metav1.Time{Time: edge}
			}
			if edge.Before(out.until) {
				out.until = edge
			}
		}
		if !state.Open {
			out.waitsFor[use] = windows.Describe(state.Opens)
		}
		out.status = append(out.status, status)
	}
	return out
}

func ignoresWindows(md *cluster.MachineDeployment) bool {
	return md.Annotations[api.AnnotationWindows] == api.WindowsIgnore
}
