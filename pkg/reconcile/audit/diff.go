package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notes"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// maxFileDiff bounds what is shown of one file, in bytes.
const maxFileDiff = 1 << 20 // 1 MiB

// Diff is what differs between two generations of a pool on a node, rendered with
// placeholders for credentials.
type Diff struct {
	// From and To are the versions, "osp-ubuntu v1.8.0".
	From string `json:"from"`
	To   string `json:"to"`
	// Files that differ, those of the bootstrap stage first, each in the order in which
	// a node gets them.
	Files []FileDiff `json:"files,omitempty"`
}

// FileDiff is a file that differs.
type FileDiff struct {
	// Stage is bootstrap or provisioning.
	Stage string `json:"stage"`
	// Path on the node; that of rest is none.
	Path string `json:"path"`
	// Change is added, removed or changed.
	Change string `json:"change"`
	// OldMode and NewMode are the permission bits in octal, where they differ.
	OldMode string `json:"oldMode,omitempty"`
	NewMode string `json:"newMode,omitempty"`
	// Diff is unified; empty where the modes alone differ.
	Diff string `json:"diff,omitempty"`
}

// rest is what a stage has beside files.
const rest = "(units, modules and ssh keys)"

// Diff renders the configuration of a trail, and the one that its pool has now.
func (c Clusters) Diff(ctx context.Context, t *Trail) (*Diff, error) {
	pool, ok := cutPool(t.Pool)
	switch {
	case t.Behind == nil:
		return nil, errors.New("there is nothing to compare: ask about a node, a machine with one, or a Secret")
	case !ok || t.InputDigest == "":
		return nil, errors.New("there is nothing to compare: the configuration is not known")
	case t.Behind.InputDigest == "":
		return nil, fmt.Errorf("there is nothing to compare with: pool %s has no configuration of this controller now", t.Pool)
	}
	d := &Diff{From: t.Profile + " " + t.Version, To: t.Behind.Current}
	if t.InputDigest == t.Behind.InputDigest {
		return d, nil
	}
	before, err := c.Generation(ctx, pool, t.InputDigest)
	if err != nil {
		return nil, fmt.Errorf("rendering %s again: %w", d.From, err)
	}
	after, err := c.Generation(ctx, pool, t.Behind.InputDigest)
	if err != nil {
		return nil, fmt.Errorf("rendering %s again: %w", d.To, err)
	}
	d.Files, err = Compare(before, after, nil)
	return d, err
}

// Compare renders two inputs, which have to hold placeholders, and returns the files that
// differ. Mask is given the whole text of each before it is compared, for whoever hides
// what profiles should not hold: of a difference alone it cannot be told. Nil hides nothing.
func Compare(before, after render.Input, mask func(string) string) ([]FileDiff, error) {
	engine := render.NewEngine()
	was, err := stagesOf(engine, before)
	if err != nil {
		return nil, err
	}
	is, err := stagesOf(engine, after)
	if err != nil {
		return nil, err
	}
	var out []FileDiff
	for i := range was {
		out = append(out, was[i].compare(is[i], mask)...)
	}
	return out, nil
}

// stage is what one document puts on a node.
type stage struct {
	name  string
	order []string
	files map[string]render.NodeFile
}

func stagesOf(engine *render.Engine, in render.Input) ([2]stage, error) {
	var out [2]stage
	rendered, err := engine.Render(in)
	if err != nil {
		return out, err
	}
	node, err := engine.Node(in)
	if err != nil {
		return out, err
	}
	for i, s := range []struct {
		name   string
		files  []render.NodeFile
		config osm.OSCConfig
	}{
		{"bootstrap", node.Bootstrap.Files, rendered.OSC.BootstrapConfig},
		{"provisioning", node.Provisioning.Files, rendered.OSC.ProvisioningConfig},
	} {
		out[i] = stage{name: s.name, files: map[string]render.NodeFile{}}
		s.config.Files = nil
		text, err := yaml.Marshal(s.config)
		if err != nil {
			return out, fmt.Errorf("encoding the %s stage: %w", s.name, err)
		}
		for _, f := range append(s.files, render.NodeFile{Path: rest, Content: string(text)}) {
			if _, ok := out[i].files[f.Path]; !ok {
				out[i].order = append(out[i].order, f.Path)
			}
			out[i].files[f.Path] = f // the last one stays
		}
	}
	return out, nil
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
	path := clean(was.Path)
	d := FileDiff{Stage: s.name, Path: path, Change: change}
	if change == "changed" && was.Mode != is.Mode {
		d.OldMode, d.NewMode = fmt.Sprintf("%04o", was.Mode), fmt.Sprintf("%04o", is.Mode)
	}
	text := diff.Diff("before", []byte(was.Content), "after", []byte(is.Content))
	if _, hunks, ok := bytes.Cut(text, []byte("+++ after\n")); ok {
		d.Diff = notes.Shorten(notes.Printable(string(hunks)), maxFileDiff) // security.md 28
	}
	return d
}
