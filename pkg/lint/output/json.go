package output

import (
	"encoding/json"
	"io"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// document is the output of "-o json". Fields are never removed or renamed.
type document struct {
	// Version of osm-gitops.
	Version string `json:"version"`
	// Summary counts findings by severity: error, warning, note.
	Summary map[lint.Severity]int `json:"summary"`
	*lint.Report
}

func writeJSON(w io.Writer, run Run) error {
	r := *run.Report
	if r.Findings == nil {
		r.Findings = []lint.Finding{}
	}
	return encode(w, document{Version: run.Version, Summary: counted(&r), Report: &r})
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(runnerlog.JSON(w))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
