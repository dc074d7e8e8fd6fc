package output

import (
	"encoding/json"
	"io"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// document is the output of "-o json" and "-o yaml". Fields are never removed or renamed.
type document struct {
	// Version of osm-gitops.
	Version string `json:"version"`
	// Summary counts findings by severity: error, warning, note.
	Summary map[lint.Severity]int `json:"summary"`
	*lint.Report
}

func documentOf(run Run) document {
	r := *run.Report
	if r.Findings == nil {
		r.Findings = []lint.Finding{}
	}
	return document{Version: run.Version, Summary: countBySeverity(&r), Report: &r}
}

func writeJSON(w io.Writer, run Run) error { return encodeJSON(w, documentOf(run)) }

func writeYAML(w io.Writer, run Run) error {
	text, err := runnerlog.YAML(documentOf(run))
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

func encodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(runnerlog.JSON(w))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
