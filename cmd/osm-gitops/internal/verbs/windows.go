package verbs

import (
	"context"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/verbs/session"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/selection/windows"
)

// openings is the number of next openings that are listed of a window.
const openings = 3

// windowRow is a maintenance window as -o json prints it.
type windowRow struct {
	Namespace string `json:"namespace"`
	Source    string `json:"source"`
	Index     int    `json:"index"` // in spec.rollout.maintenanceWindows

	api.MaintenanceWindow `json:",inline"`

	Open   bool        `json:"open"`
	Closes time.Time   `json:"closes,omitzero"`
	Opens  []time.Time `json:"opens"` // the next ones
	// Message says why the window never opens.
	Message string `json:"message,omitempty"`
}

// windowRows lists the maintenance windows of ProfileSources, by the clock of this computer.
func windowRows(ctx context.Context, s *session.Session, namespace string) (*listing, error) {
	l := &listing{columns: parseColumns("Source", "Window", "Schedule", "Applies", "State", "Opens", "+Then", "+Message")}
	now := time.Now()
	for list, err := range kubeclient.Pages(ctx, s.Management, &api.ProfileSourceList{}, client.InNamespace(namespace)) {
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			ps := &list.Items[i]
			for index, spec := range windows.Of(ps) {
				row := windowRow{Namespace: ps.Namespace, Source: ps.Name, Index: index, MaintenanceWindow: spec, Opens: []time.Time{}}
				state := "Invalid"
				next := make([]string, openings)
				if w, err := windows.Parse(spec); err != nil {
					row.Message = err.Error()
				} else {
					set := windows.Set{w}
					at := set.At(now)
					if state = "Closed"; at.Open {
						state = "Open"
					}
					row.Open = at.Open
					row.Closes = at.Closes
					row.Opens = set.Openings(now, openings)
					for i, opens := range row.Opens {
						next[i] = windows.Describe(opens)
					}
				}
				l.add(ps.Namespace, ps.Name, session.SourceKind.ArgumentPrefix+ps.Namespace+"/"+ps.Name, row,
					ps.Name, index, windows.Summarize(spec), strings.Join(spec.Applies, ","), state, next[0], strings.Join(slices.DeleteFunc(next[1:], func(s string) bool { return s == "" }), ", "), row.Message)
			}
		}
	}
	return l, nil
}
