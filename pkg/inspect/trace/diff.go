package trace

import (
	"context"
	"errors"
	"fmt"

	"github.com/osm-gitops/osm-gitops/pkg/impact"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

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
type FileDiff = impact.FileDiff

// DiffWithCurrent renders the configuration of a trail, and the one that its pool has now.
func (c Clusters) DiffWithCurrent(ctx context.Context, t *Result) (*Diff, error) {
	pool, ok := lineage.ParsePool(t.Pool)
	switch {
	case t.Behind == nil:
		return nil, errors.New("there is nothing to compare: name a node, a machine with a node, or a Secret")
	case !ok || t.InputDigest == "":
		return nil, errors.New("there is nothing to compare: the configuration is unknown")
	case t.Behind.InputDigest == "":
		return nil, fmt.Errorf("there is nothing to compare with: pool %s has no configuration of this controller now", t.Pool)
	}
	d := &Diff{From: t.Profile + " " + t.Version, To: t.Behind.Current}
	if t.InputDigest == t.Behind.InputDigest {
		return d, nil
	}
	before, err := c.ReadGenerationInput(ctx, pool, t.InputDigest)
	if err != nil {
		return nil, fmt.Errorf("rendering %s again: %w", d.From, err)
	}
	after, err := c.ReadGenerationInput(ctx, pool, t.Behind.InputDigest)
	if err != nil {
		return nil, fmt.Errorf("rendering %s again: %w", d.To, err)
	}
	d.Files, err = Compare(before, after, nil)
	return d, err
}

// Compare renders two inputs, which must have placeholders, and returns the files that differ. If
// mask is not nil, it gets the complete text of each side before the comparison and hides secrets
// that a profile should not contain: they cannot be recognized in a difference alone.
func Compare(before, after render.Input, mask func(string) string) ([]FileDiff, error) {
	engine := render.NewEngine()
	was, err := impact.NewRendering(engine, before)
	if err != nil {
		return nil, err
	}
	is, err := impact.NewRendering(engine, after)
	if err != nil {
		return nil, err
	}
	return was.Compare(is, mask), nil
}
