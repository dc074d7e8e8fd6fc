package history

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
)

// visibleHistory is a history without ignored files. The ignore files of a commit decide what was
// ignored at that commit, and so do the current patterns of the source: those of its spec
// have no history.
type visibleHistory struct {
	raw   int    // number of steps applied
	last  Commit // of the last step
	steps []Entry

	// Nil while nothing was ever ignored: the steps are then the raw ones.
	state *visibleState
}

type visibleState struct {
	scope    filter.Scope
	read     filter.Reader
	tree     map[string]string // profile files: blob by path
	shown    map[string]string // files that are not ignored
	patterns map[string][]filter.Pattern
	rules    *filter.Rules
	cost     int
}

// update extends the visible history to a raw one; it reads the whole history again if necessary.
func (v *visibleHistory) update(ctx context.Context, s filter.Scope, read filter.Reader, raw []Entry) error {
	// The history was rewritten, so the state is that of other commits.
	if v.raw > len(raw) || v.raw > 0 && raw[v.raw-1].Commit != v.last {
		*v = visibleHistory{}
	}
	if v.state == nil {
		if s.Ignore == "" && !slices.ContainsFunc(raw[v.raw:], changesIgnoreFile) {
			v.steps = raw
			v.recordRawEnd(raw)
			return nil
		}
		// No file was hidden so far, so nothing was recorded: begin again with the first commit.
		*v = visibleHistory{state: &visibleState{
			scope: s, tree: map[string]string{}, shown: map[string]string{},
			patterns: map[string][]filter.Pattern{}, rules: filter.NewRules(s, nil),
		}}
	}
	v.state.read = read
	for _, step := range raw[v.raw:] {
		changes, err := v.state.applyStep(ctx, step)
		if err != nil {
			return err
		}
		if len(changes) > 0 {
			v.steps = append(v.steps, Entry{Commit: step.Commit, CommittedAt: step.CommittedAt, Changes: changes})
		}
	}
	v.recordRawEnd(raw)
	return nil
}

// extraCacheWeight is its size in addition to the raw history, in changes.
func (v *visibleHistory) extraCacheWeight() int {
	if v.state == nil {
		return 0 // the steps are the raw ones
	}
	return cacheWeight(v.steps) + len(v.state.tree) + len(v.state.shown)
}

// recordRawEnd records up to which commit of the raw history the visible one is complete.
func (v *visibleHistory) recordRawEnd(raw []Entry) {
	if v.raw = len(raw); v.raw > 0 {
		v.last = raw[v.raw-1].Commit
	}
}

func changesIgnoreFile(s Entry) bool {
	return slices.ContainsFunc(s.Changes, func(c Change) bool { return filter.IsIgnoreFile(c.Path) })
}

// applyStep applies one step and returns the visible part of it.
func (v *visibleState) applyStep(ctx context.Context, applyStep Entry) ([]Change, error) {
	for _, c := range applyStep.Changes {
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
			continue // rejected by name at Head
		}
		patterns, err := filter.ReadPatterns(ctx, v.read, filter.File{Path: c.Path, Blob: c.Blob})
		if err != nil && !errors.Is(err, fault.ErrInvalid) { // too large: rejected by name at Head
			return nil, err
		}
		v.patterns[c.Path] = patterns
	}
	var out []Change
	if changesIgnoreFile(applyStep) {
		// The cost of earlier rules counts, too. Otherwise many ignore files would have no limit.
		v.cost += v.rules.Cost
		v.rules = filter.NewRules(v.scope, v.patterns)
		v.rules.Cost, v.cost = v.cost, 0
		out = v.compareVisibleFiles()
	} else {
		for _, c := range applyStep.Changes {
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
	return out, v.rules.CheckCost()
}

// compareVisibleFiles returns the changes of the visible files in the whole tree: other ignore
// rules can add or remove any file.
func (v *visibleState) compareVisibleFiles() []Change {
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
		if _, existed := v.tree[path]; !existed {
			delete(v.shown, path)
			out = append(out, Change{Path: path})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}
