package comparison

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// Bounds of comparisons. A profile has a few hundred lines.
const (
	maxDiffFiles = 100
	maxDiffLines = 2000 // of a document
	maxDiffWidth = 400  // bytes of a line
)

// FileDiff is the difference of one document.
type FileDiff struct {
	Name    string `json:"name"`            // stage and file on the node; "settings" for other values
	Change  string `json:"change"`          // Added, Removed or Changed
	Added   int    `json:"added"`           // lines
	Removed int    `json:"removed"`         // lines
	Hunks   []Hunk `json:"hunks"`           // differing lines, with context
	Modes   string `json:"modes,omitempty"` // permissions before and after, if different
	Cut     bool   `json:"cut,omitempty"`   // more differs than is shown
}

// Hunk is a run of lines.
type Hunk struct {
	From  int    `json:"from"`  // line in the older file
	To    int    `json:"to"`    // line in the newer one
	Lines []Line `json:"lines"` // in order
}

// Line is a line of a diff.
type Line struct {
	Mark string `json:"mark"` // "+", "-" or " "
	Text string `json:"text"` // without credentials, at most 400 bytes
}

// document is a named text.
type document struct{ name, text string }

// profileDocuments splits a profile into the parts that people edit: the files of each
// stage with their templates, units, and the rest as YAML.
func profileDocuments(spec osm.OperatingSystemProfileSpec) []document {
	var out []document
	spec = *spec.DeepCopy()
	for _, stage := range []struct {
		name string
		*osm.OSPConfig
	}{{"bootstrap", &spec.BootstrapConfig}, {"provisioning", &spec.ProvisioningConfig}} {
		out = append(out, fileDocuments(stage.name, stage.Files, stage.Units)...)
		out = append(out, templateDocuments(stage.name, stage.Templates)...)
		for i := range stage.SupportedContainerRuntimes {
			r := &stage.SupportedContainerRuntimes[i]
			out = append(out, fileDocuments(stage.name+" "+string(r.Name), r.Files, nil)...)
			out = append(out, templateDocuments(stage.name+" "+string(r.Name), r.Templates)...)
		}
		stage.SupportedContainerRuntimes = nil
		stage.Files = nil
		stage.Units = nil
		stage.Templates = nil
	}
	for i := range out {
		out[i].text = redact.Mask(out[i].text)
	}
	return append(out, document{"settings", redact.Mask(yamlOf(spec))})
}

func fileDocuments(stage string, files []osm.File, units []osm.Unit) []document {
	var out []document
	for _, f := range files {
		data := ""
		if f.Content.Inline != nil {
			data = f.Content.Inline.Data
		}
		out = append(out, document{fmt.Sprintf("%s %s (%d)", stage, redact.PrintableLine(f.Path), f.Permissions), data})
	}
	for _, u := range units {
		out = append(out, document{stage + " unit " + redact.PrintableLine(u.Name), yamlOf(u)})
	}
	return out
}

func templateDocuments(stage string, templates map[string]string) []document {
	var out []document
	for name, data := range templates {
		out = append(out, document{stage + " template " + redact.PrintableLine(name), data})
	}
	slices.SortFunc(out, func(a, b document) int { return strings.Compare(a.name, b.name) })
	return out
}

func yamlOf(v any) string {
	b, err := runnerlog.YAML(v)
	if err != nil {
		return "" // our own types can always be encoded
	}
	return string(b)
}

// diffOf compares two lists of documents by name, in the order of the newer list.
func diffOf(before, after []document) []FileDiff {
	out := []FileDiff{}
	had := map[string]string{}
	for _, d := range before {
		had[d.name] = d.text
	}
	has := map[string]bool{}
	add := func(name, change, was, is string) {
		if len(out) == maxDiffFiles {
			out[maxDiffFiles-1].Cut = true
			return
		}
		out = append(out, fileDiff(name, change, was, is))
	}
	for _, d := range after {
		has[d.name] = true
		was, ok := had[d.name]
		switch {
		case !ok:
			add(d.name, "Added", "", d.text)
		case was != d.text:
			add(d.name, "Changed", was, d.text)
		}
	}
	for _, d := range before {
		if !has[d.name] {
			add(d.name, "Removed", d.text, "")
		}
	}
	return out
}

func fileDiff(name, change, was, is string) FileDiff {
	before, cutBefore := truncateLines(was)
	after, cutAfter := truncateLines(is)
	d := FileDiff{Name: name, Change: change, Cut: cutBefore || cutAfter}
	d.parseUnified(string(diff.Diff("before", before, "after", after)))
	return d
}

// convertFileDiffs converts the files that differ between two renderings.
func convertFileDiffs(files []trace.FileDiff) []FileDiff {
	out := []FileDiff{}
	for _, f := range files[:min(len(files), maxDiffFiles)] {
		d := FileDiff{Name: f.Stage + " " + redact.PrintableLine(f.Path), Change: changes[f.Change], Cut: len(out) == maxDiffFiles-1 && len(files) > maxDiffFiles}
		d.parseUnified(f.Diff)
		if f.OldMode != f.NewMode {
			d.Modes = f.OldMode + " → " + f.NewMode
		}
		out = append(out, d)
	}
	return out
}

// changes maps the names of trace.FileDiff.
var changes = map[string]string{"added": "Added", "removed": "Removed", "changed": "Changed"}

// hunkHead matches the first line of a hunk in a unified diff.
var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@`)

// parseUnified parses a unified diff.
func (d *FileDiff) parseUnified(unified string) {
	d.Hunks = []Hunk{}
	lines := 0
	for line := range strings.SplitSeq(strings.TrimSuffix(unified, "\n"), "\n") {
		if m := hunkHead.FindStringSubmatch(line); m != nil {
			from, _ := strconv.Atoi(m[1]) // the expression matches digits only
			to, _ := strconv.Atoi(m[2])
			d.Hunks = append(d.Hunks, Hunk{From: from, To: to})
			continue
		}
		if len(d.Hunks) == 0 || line == "" || strings.HasPrefix(line, "\\") {
			continue // names of files, or a missing newline at the end
		}
		switch line[0] {
		case '+':
			d.Added++
		case '-':
			d.Removed++
		}
		if lines++; lines > maxDiffLines {
			d.Cut = true
			continue
		}
		h := &d.Hunks[len(d.Hunks)-1]
		h.Lines = append(h.Lines, Line{line[:1], printable(redact.Mask(line[1:]))})
	}
}

// truncateLines truncates a text to the size that is compared.
func truncateLines(s string) (text []byte, cut bool) {
	lines := strings.SplitAfterN(s, "\n", maxDiffLines+1)
	if len(lines) > maxDiffLines {
		return []byte(strings.Join(lines[:maxDiffLines], "")), lines[maxDiffLines] != ""
	}
	return []byte(s), false
}

// printable makes a line of a file safe to show; tabs become spaces.
func printable(line string) string {
	return redact.Shorten(redact.RemoveControlChars(strings.ReplaceAll(line, "\t", "    ")), maxDiffWidth)
}
