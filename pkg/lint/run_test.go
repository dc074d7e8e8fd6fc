package lint

import (
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Where something holds is said by the fewest dimensions, be it the first one that says
// nothing or the last.
func TestWhere(t *testing.T) {
	dims := []matrix.Dimension{
		{Name: matrix.Provider, Values: []matrix.Value{{Name: "aws"}, {Name: "gce"}}},
		{Name: matrix.Kubelet, Values: []matrix.Value{{Name: "1.35"}, {Name: "1.36"}}},
	}
	rows := [][]int{{0, 0}, {0, 1}, {1, 0}} // no gce with kubelet 1.36
	for want, holds := range map[string]map[int]bool{
		"kubelet 1.36":      {1: true},
		"gce":               {2: true},
		"aws, kubelet 1.35": {0: true},
		"aws":               {0: true, 1: true},
		"":                  {0: true, 1: true, 2: true},
	} {
		r := &profileRun{dims: dims, rows: rows}
		if got := r.describeRows(holds); got != want {
			t.Errorf("of rows %v got %q, want %q", holds, got, want)
		}
	}
}

// A text that only some rows have records every one of these rows, including the first.
func TestRowsOfText(t *testing.T) {
	r := &profileRun{contents: map[[32]byte]*textHit{}}
	text := Text{Field: "spec.x", Content: []byte("a")}
	for _, row := range []int{-1, 0, 1} {
		r.addText(text, row)
	}
	if got := r.sortedContents()[0].rows; len(r.contents) != 1 || len(got) != 2 || !got[0] || !got[1] {
		t.Errorf("got the rows %v", got)
	}
}

// What cloud-init's schema has against a document is a finding for the rows that have it,
// except of Flatcar, which does not run cloud-init.
func TestDocumentsAreHeldToTheSchema(t *testing.T) {
	bad := render.InspectedStage{Document: []byte("#cloud-config\nruncmd: 1\n")}
	for system, want := range map[osm.OperatingSystem]int{osm.OperatingSystemUbuntu: 1, osm.OperatingSystemFlatcar: 0} {
		doc := profile.Document{Path: "x.yaml"}
		doc.Spec.OSName = system
		r := &profileRun{doc: doc, rows: make([][]int, 2), hits: map[string]*hit{}, checked: map[[32]byte][]Finding{}}
		for row := range r.rows {
			r.checkCloudInitSchema(render.Input{Profile: matrix.Profile(doc, render.Provenance{})}, "bootstrap", bad, row)
		}
		found := r.renderFindings()
		if len(found) != want {
			t.Errorf("%s: found %+v, want %d findings", system, found, want)
		}
		for _, f := range found {
			if f.Rule != RuleCloudInit || f.Where != "" || f.Field != "spec.bootstrapConfig.modules.runcmd" {
				t.Errorf("found %+v", f)
			}
		}
	}
}
