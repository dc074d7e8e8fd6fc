package history

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// visible is a history without what is ignored. What was ignored at a commit is
// decided by the IgnoreFiles of that commit, and by the patterns that the source
// has today: those of its spec have no history.
type visible struct {
	raw   int    // how many steps were taken
	last  Commit // that of the last one
	steps []Step

	// Nil as long as nothing was ever ignored: the steps are then the raw ones.
	state *visibleState
}

type visibleState struct {
	scope    filter.Scope
	read     filter.Reader
	tree     map[string]string // profile files: blob by path
	shown    map[string]string // those that are not ignored
	patterns map[string][]filter.Pattern
	rules    *filter.Rules
	cost     int
}

// follow brings it up to date with a raw line, which it may have to read anew.
func (v *visible) follow(ctx context.Context, s filter.Scope, read filter.Reader, raw []Step) error {
	if v.raw > len(raw) || v.raw > 0 && raw[v.raw-1].Commit != v.last {
		*v = visible{}
	}
	if v.state == nil {
		if s.Ignore == "" && !slices.ContainsFunc(raw[v.raw:], hasIgnoreFile) {
			v.steps = raw
			v.mark(raw)
			return nil
		}
		*v = visible{state: &visibleState{
			scope: s, tree: map[string]string{}, shown: map[string]string{},
			patterns: map[string][]filter.Pattern{}, rules: filter.NewRules(s, nil),
		}}
	}
	v.state.read = read
	for _, step := range raw[v.raw:] {
		changes, err := v.state.step(ctx, step)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			v.steps = append(v.steps, Step{Commit: step.Commit, CommittedAt: step.CommittedAt, Changes: changes})
		}
	}
	v.mark(raw)
	return nil
}

// weight is what it takes beside the raw line, in changes.
func (v *visible) weight() int {
	if v.state == nil {
		return 0 // the steps are the raw ones
	}
	return weigh(v.steps) + len(v.state.tree) + len(v.state.shown)
}

func (v *visible) mark(raw []Step) {
	if v.raw = len(raw); v.raw > 0 {
		v.last = raw[v.raw-1].Commit
	}
}

func hasIgnoreFile(s Step) bool {
	return slices.ContainsFunc(s.Changes, func(c Change) bool { return filter.IsIgnoreFile(c.Path) })
}

// step takes one step and returns what of it can be seen.
func (v *visibleState) step(ctx context.Context, step Step) ([]Change, error) {
	for _, c := range step.Changes {
		if !filter.IsIgnoreFile(c.Path) {
			if c.Blob == "" {
				delete(v.tree, c.Path)
			} else {
				v.tree[c.Path] = c.Blob
			}
			continue
		}
		delete(v.patterns, c.Path)
		if c.Blob == "" {
			continue
		}
		if len(v.patterns) == filter.MaxIgnoreFiles {
			continue // at Head it is refused by name
		}
		patterns, err := filter.ReadPatterns(ctx, v.read, filter.File{Path: c.Path, Blob: c.Blob})
		if err != nil && !errors.Is(err, fault.ErrInvalid) { // too big: at Head it is refused by name
			return nil, err
		}
		v.patterns[c.Path] = patterns
	}
	var out []Change
	if hasIgnoreFile(step) {
		v.cost += v.rules.Cost
		v.rules = filter.NewRules(v.scope, v.patterns)
		v.rules.Cost, v.cost = v.cost, 0
		out = v.compare()
	} else {
		for _, c := range step.Changes {
			if v.rules.Ignores(c.Path) {
				continue
			}
			out = append(out, c)
			if c.Blob == "" {
				delete(v.shown, c.Path)
			} else {
				v.shown[c.Path] = c.Blob
			}
		}
	}
	return out, v.rules.Check()
}

// compare looks at the whole tree anew: with other rules anything may have come or gone.
func (v *visibleState) compare() []Change {
	var out []Change
	for path, blob := range v.tree {
		ignored := v.rules.Ignores(path)
		switch was, shown := v.shown[path]; {
		case ignored && shown:
			delete(v.shown, path)
			out = append(out, Change{Path: path})
		case !ignored && was != blob:
			v.shown[path] = blob
			out = append(out, Change{Path: path, Blob: blob})
		}
	}
	for path := range v.shown {
		if _, there := v.tree[path]; !there {
			delete(v.shown, path)
			out = append(out, Change{Path: path})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}
