package impact

import (
	"errors"
	"strings"
	"testing"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// security.md 28: the request of a pool can be any text, and is printed on a terminal.
func TestReasonsAreText(t *testing.T) {
	const escape = "osp-x\x1b[31m\nREFUSED: shop/other\u202e"
	nothing := newRevision(&versionIndex{catalog: &catalog.Catalog{}}, nil)
	for name, c := range map[string]struct {
		annotations map[string]string
		byHand      []string
	}{
		"a profile that is not there": {map[string]string{api.AnnotationOSP: escape}, nil},
		"a profile made by hand":      {map[string]string{api.AnnotationOSP: escape}, []string{escape}},
		"another namespace":           {map[string]string{api.AnnotationOSP: "osp-a", api.AnnotationOSPNamespace: escape}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			all := Comparison{Snapshot: PoolSnapshot{Namespace: "kube-system", Unmanaged: c.byHand}}
			got, _, _ := all.resolvePool(Pool{Inputs: render.Pool{Name: "web", Namespace: "shop"}, Annotations: c.annotations}, nothing, nothing)
			if !strings.Contains(got.unchanged, "osp-x[31mREFUSED: shop/other") || strings.ContainsAny(got.unchanged, "\x1b\n\u202e") {
				t.Errorf("got %q", got.unchanged)
			}
		})
	}
}

// security.md 15: errors of a pool are also in a snapshot, without the content of the pool.
func TestProblemHoldsNoCredential(t *testing.T) {
	md := &cluster.MachineDeployment{}
	p := NewPool(md, "s", func(*cluster.MachineDeployment) (render.Pool, error) {
		return render.Pool{}, errors.New("value \"password: canary-value\" is no number\x1b[31m")
	})
	if strings.Contains(p.Problem, "canary") || strings.Contains(p.Problem, "\x1b") || !strings.Contains(p.Problem, "is no number") {
		t.Errorf("got %q", p.Problem)
	}
}

// As in the controller, a profile that was removed from the repository serves the pools
// that have it, and no others.
func TestRemoved(t *testing.T) {
	there := choice{from: &versionIndex{}, version: catalog.Version{Name: "osp-a", Version: "v1.0.0"}}
	gone := there
	gone.removed = true
	for name, c := range map[string]struct {
		now             *ProfileVersion
		was             choice
		refused, before bool
	}{
		"a pool that is known by its manifest alone":   {nil, there, false, false},
		"a pool that has it":                           {&ProfileVersion{"osp-a", "v1.0.0"}, there, false, false},
		"a pool that has another":                      {&ProfileVersion{"osp-b", "v1.0.0"}, there, true, false},
		"a pool that has it since it was there":        {&ProfileVersion{"osp-a", "v1.0.0"}, gone, false, false},
		"a pool that has another, and it is long gone": {&ProfileVersion{"osp-b", "v1.0.0"}, gone, true, true},
		"a pool that could have it nowhere":            {nil, choice{}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var r result
			r.decideWithoutRendering(selection.Request{Name: "osp-a"}, c.now, c.was, gone)
			if refused := r.rejection != ""; refused != c.refused || r.before != c.before || refused == (r.unchanged != "") {
				t.Errorf("refused %q, at both %v, unchanged %q", r.rejection, r.before, r.unchanged)
			}
		})
	}
}
