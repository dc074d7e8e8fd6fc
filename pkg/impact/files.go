package impact

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
	"github.com/osm-gitops/osm-gitops/pkg/runnerlog"
)

// maxFileDiff bounds the shown difference of one file, in bytes.
const maxFileDiff = 1 << 20 // 1 MiB

// FileDiff is the difference of a file.
type FileDiff struct {
	// Stage is bootstrap or provisioning.
	Stage string `json:"stage"`
	// Path on the node, or rest.
	Path string `json:"path"`
	// Change is added, removed or changed.
	Change string `json:"change"`
	// OldMode and NewMode are the permission bits in octal, if they differ.
	OldMode string `json:"oldMode,omitempty"`
	NewMode string `json:"newMode,omitempty"`
	// Mode of a file that was added or removed.
	Mode string `json:"mode,omitempty"`
	// Diff is a unified diff; empty if only the modes differ.
	Diff string `json:"diff,omitempty"`
}

// otherContent stands for the parts of a stage other than files.
const otherContent = "(units, modules and ssh keys)"

// Rendering is the content that both stages write to a node.
type Rendering struct{ stages [2]stage }

// stage is the content that one document writes to a node.
type stage struct {
	name  string
	order []string
	files map[string]render.NodeFile
}

// NewRendering renders an input with placeholders for a comparison.
func NewRendering(engine *render.Engine, in render.Input) (*Rendering, error) {
	out, err := engine.Render(in)
	if err != nil {
		return nil, err
	}
	return renderStages(engine, in, out, nil)
}

// renderStages splits a rendering into its parts. Neutral, if it is not nil, is applied to
// texts before they are compared.
func renderStages(engine *render.Engine, in render.Input, out *render.Output, neutral *strings.Replacer) (*Rendering, error) {
	node, err := engine.RenderNode(in)
	if err != nil {
		return nil, err
	}
	r := &Rendering{}
	for i, s := range []struct {
		name   string
		files  []render.NodeFile
		config osm.OSCConfig
	}{
		{"bootstrap", node.Bootstrap.Files, out.OSC.BootstrapConfig},
		{"provisioning", node.Provisioning.Files, out.OSC.ProvisioningConfig},
	} {
		r.stages[i] = stage{name: s.name, files: map[string]render.NodeFile{}}
		s.config.Files = nil
		text, err := runnerlog.YAML(s.config)
		if err != nil {
			return nil, fmt.Errorf("encoding the %s stage: %w", s.name, err)
		}
		for _, f := range append(s.files, render.NodeFile{Path: otherContent, Content: string(text)}) {
			if f.Path == manifest.Path {
				f.Content = manifestFiles.ReplaceAllString(f.Content, "")
			}
			if neutral != nil {
				f.Content = neutral.Replace(f.Content)
			}
			if _, ok := r.stages[i].files[f.Path]; !ok {
				r.stages[i].order = append(r.stages[i].order, f.Path)
			}
			r.stages[i].files[f.Path] = f // the last file with a path wins
		}
	}
	return r, nil
}

// manifestFiles are the lines of a manifest about files, which are compared themselves.
var manifestFiles = regexp.MustCompile(`(?m)^file .*\n`)

// Compare returns the files that differ, the bootstrap stage first, each in the order in
// which a node gets them. Mask is applied to the complete text of each file before the
// comparison, to hide secrets that profiles should not contain; it could not detect them in
// a difference. A nil mask hides nothing.
func (r *Rendering) Compare(after *Rendering, mask func(string) string) []FileDiff {
	var out []FileDiff
	for i := range r.stages {
		out = append(out, r.stages[i].compare(after.stages[i], mask)...)
	}
	return out
}

// compare lists the files that differ.
func (s stage) compare(with stage, mask func(string) string) []FileDiff {
	var out []FileDiff
	add := func(change string, was, is render.NodeFile) {
		if mask != nil {
			was.Content, is.Content = mask(was.Content), mask(is.Content)
		}
		out = append(out, s.fileDiff(change, was, is))
	}
	for _, path := range s.order {
		was := s.files[path]
		is, ok := with.files[path]
		switch {
		case !ok:
			add("removed", was, render.NodeFile{Path: path})
		case was.Content != is.Content || was.Mode != is.Mode:
			add("changed", was, is)
		}
	}
	for _, path := range with.order {
		if _, ok := s.files[path]; !ok {
			add("added", render.NodeFile{Path: path}, with.files[path])
		}
	}
	return out
}

func (s stage) fileDiff(change string, was, is render.NodeFile) FileDiff {
	d := FileDiff{Stage: s.name, Path: redact.PrintableLine(was.Path), Change: change}
	if change == "changed" && was.Mode != is.Mode {
		d.OldMode, d.NewMode = fmt.Sprintf("%04o", was.Mode), fmt.Sprintf("%04o", is.Mode)
	}
	if change != "changed" && was.Path != otherContent {
		d.Mode = fmt.Sprintf("%04o", was.Mode|is.Mode) // one of them is zero
	}
	text := diff.Diff("before", []byte(was.Content), "after", []byte(is.Content))
	if _, hunks, ok := bytes.Cut(text, []byte("+++ after\n")); ok {
		d.Diff = redact.Shorten(redact.RemoveControlChars(string(hunks)), maxFileDiff) // security.md 28
	}
	return d
}
