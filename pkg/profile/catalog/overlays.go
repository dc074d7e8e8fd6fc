package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// overlaid is the result of one overlay in a file.
type overlaid struct {
	id       identity // digest "" if it cannot be resolved
	base     *Version
	problems []*strictyaml.Problem
}

func (o overlaid) good() bool { return o.id.digest != "" }

// isUnresolved reports whether it was not resolved yet.
func (o overlaid) isUnresolved() bool { return !o.good() && len(o.problems) == 0 }

// rejections converts the problems of an overlay in a file to one Rejection each.
func (o overlaid) rejections(path string, overlay profile.Overlay, changed source.Commit) []*Rejection {
	var out []*Rejection
	for _, p := range o.problems {
		r := &Rejection{Problem: *p, Profile: overlay.Name, Version: overlay.Spec.Version, Commit: changed}
		if r.Path == "" {
			r.Path = path
		} else if r.Path != path {
			r.Overlay = path
			r.Err = fmt.Errorf("%w; this text is in the base of profile %q %s, %s:%d", p.Err, overlay.Name, overlay.Spec.Version, path, overlay.Line("spec.from"))
		}
		out = append(out, r)
	}
	return out
}

// fileForMessage returns the file of a version for messages.
func (v Version) fileForMessage() string {
	switch {
	case v.Builtin:
		return "builtin:" + v.Path
	case v.CurrentPath != "" || v.Commit == "":
		return v.Path
	}
	return shortCommit(v.Commit) + ":" + v.Path
}

// withCurrentPath returns a base with its path in the tree, if its file is unchanged there.
func (walk *historyWalk) withCurrentPath(v *Version) *Version {
	if v == nil {
		return nil
	}
	out := *v
	out.From = walk.withCurrentPath(v.From)
	out.CurrentPath = ""
	out.AtHead = false
	if n := walk.tree[v.Path]; n != nil && n.blob == v.blob {
		out.CurrentPath, out.AtHead = v.Path, true
	}
	return &out
}

// stage is the step of the history at which overlays are resolved.
type stage struct {
	commit source.Commit
	at     time.Time
	dirty  bool
}

// overlayPosition is one overlay of the tree.
type overlayPosition struct {
	path  string
	index int
}

// overlayResolver resolves the overlays of a tree at one step.
type overlayResolver struct {
	x       *Indexer
	walk    *historyWalk
	snap    *source.Snapshot
	stage   stage
	touched map[string]bool

	overlays map[key][]overlayPosition // overlays by resulting profile
	done     map[overlayPosition]bool
	open     []overlayPosition // being resolved, each based on the next
	circles  map[overlayPosition]string
}

// resolveOverlays resolves the overlays of the tree again, each after its base: their files can
// have changed, or their bases can have been added. It adds to touched the names whose
// overlay has a new result.
func (x *Indexer) resolveOverlays(ctx context.Context, walk *historyWalk, snap *source.Snapshot, at stage, touched map[string]bool) error {
	l := &overlayResolver{
		x: x, walk: walk, snap: snap, stage: at, touched: touched,
		overlays: map[key][]overlayPosition{}, done: map[overlayPosition]bool{}, circles: map[overlayPosition]string{},
	}
	var all []overlayPosition
	for path, n := range walk.tree {
		for i, o := range n.reading.overlays {
			all = append(all, overlayPosition{path, i})
			l.overlays[keyOf(o)] = append(l.overlays[keyOf(o)], overlayPosition{path, i})
		}
	}
	slices.SortFunc(all, func(a, b overlayPosition) int {
		return strings.Compare(fmt.Sprintf("%s\x00%04d", a.path, a.index), fmt.Sprintf("%s\x00%04d", b.path, b.index))
	})
	for _, p := range all {
		if err := l.resolve(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// resolve resolves one overlay, if it is not yet resolved.
func (l *overlayResolver) resolve(ctx context.Context, p overlayPosition) error {
	if l.done[p] {
		return nil
	}
	if i := slices.Index(l.open, p); i >= 0 {
		l.recordCycle(l.open[i:])
		return nil
	}
	l.open = append(l.open, p)
	o := l.walk.tree[p.path].reading.overlays[p.index]
	var below []overlayPosition
	if !o.Spec.From.Builtin {
		below = l.overlays[key{o.Spec.From.Profile, o.Spec.From.Version}]
	}
	for _, other := range below {
		if err := l.resolve(ctx, other); err != nil {
			return err
		}
	}
	l.open = l.open[:len(l.open)-1]
	l.done[p] = true
	now, same, err := l.applyOverlay(ctx, p, o)
	if err != nil {
		return fmt.Errorf("resolving %s: %w", p.path, err)
	}
	if !same {
		l.storeResult(p, now)
	}
	return nil
}

// recordCycle records a cycle of overlays that start from one another.
func (l *overlayResolver) recordCycle(of []overlayPosition) {
	var names []string
	for _, p := range append(slices.Clone(of), of[0]) {
		o := l.walk.tree[p.path].reading.overlays[p.index]
		names = append(names, fmt.Sprintf("%q %s (%s:%d)", o.Name, o.Spec.Version, p.path, o.Line("spec.from")))
	}
	for _, p := range of {
		l.circles[p] = strings.Join(names, " starts from ")
	}
}

// applyOverlay returns the result of an overlay, and whether it is unchanged since the step before.
func (l *overlayResolver) applyOverlay(ctx context.Context, p overlayPosition, o profile.Overlay) (now overlaid, unchanged bool, err error) {
	wrong := func(field string, err error) (overlaid, bool, error) {
		return overlaid{problems: []*strictyaml.Problem{{Line: o.Line(field), Field: field, Err: err}}}, false, nil
	}
	if round := l.circles[p]; round != "" {
		return wrong("spec.from", fmt.Errorf("forms a cycle: %s: let one of them start from another profile", round))
	}
	base, err := l.findBase(ctx, p.path, o.Spec.From)
	if _, ok := errors.AsType[*overlay.MissingBaseError](err); ok {
		return wrong("spec.from", err)
	}
	if err != nil {
		return overlaid{}, false, err
	}
	if base.overlayDepth() >= overlay.MaxChain {
		return wrong("spec.from", fmt.Errorf("is the %dth overlay in a chain of overlays, and %d are allowed: start from a complete profile", base.overlayDepth()+1, overlay.MaxChain))
	}
	n := l.walk.tree[p.path]
	// With the same base, the result is the same.
	if had := n.overlays[p.index]; had.base != nil && had.base.same(base) {
		return had, true, nil
	}
	made, err := l.x.resolveLayer(ctx, l.snap, layer{blob: n.blob, overlay: o, base: base, dirty: n.reading.dirty || base.dirty})
	if err != nil {
		return overlaid{}, false, err
	}
	return overlaid{id: made.id, base: &base, problems: made.problems}, false, nil
}

// overlayDepth is the number of overlays in a version's chain.
func (v *Version) overlayDepth() int {
	n := 0
	for ; v.From != nil; v = v.From {
		n++
	}
	return n
}

// same reports whether two versions are equal as bases, including lines.
func (v *Version) same(w Version) bool {
	return v.Digest == w.Digest && v.blob == w.blob && v.fileForMessage() == w.fileForMessage()
}

// storeResult stores the new result of an overlay in a copy of its file's tree entry, which other
// states share. A valid result is accepted; for an invalid one, the last valid one is kept in
// before and the first problem in broken. It adds the name to touched if the result is new.
func (l *overlayResolver) storeResult(p overlayPosition, now overlaid) {
	n := *l.walk.tree[p.path]
	had, o := n.overlays[p.index], n.reading.overlays[p.index]
	if had.base == nil || now.base == nil || had.id != now.id {
		l.touched[o.Name] = true
	}
	n.overlays = slices.Clone(n.overlays)
	n.overlays[p.index] = now
	if !now.good() && had.good() { // it had a result before its base became unavailable
		n.before = append(slices.DeleteFunc(slices.Clone(n.before), func(id identity) bool { return id.name == o.Name }), had.id)
	}
	l.walk.tree[p.path] = &n
	if !now.good() {
		first := *now.problems[0]
		first.Path = cmp.Or(first.Path, p.path)
		l.walk.broken[keyOf(o)] = &Rejection{Problem: first, Profile: o.Name, Version: o.Spec.Version, Commit: l.stage.commit}
		return
	}
	l.walk.recordFirstSeen(now.id, origin{
		commit: l.stage.commit, at: l.stage.at, path: p.path, blob: n.blob, from: now.base,
		dirty: n.reading.dirty || now.base.dirty,
	})
	l.walk.acceptValid(l.walk.profilesNamed(o.Name))
}

// layer is one overlay on one base.
type layer struct {
	blob    string
	overlay profile.Overlay
	base    Version
	dirty   bool
}

// resolution is the result of a layer.
type resolution struct {
	id       identity
	problems []*strictyaml.Problem
}

// resolveLayer resolves and checks a layer once.
func (x *Indexer) resolveLayer(ctx context.Context, snap *source.Snapshot, l layer) (resolution, error) {
	id := fmt.Sprintf("%s %s %s on %s %s %s %v", l.blob, l.overlay.Name, l.overlay.Spec.Version, l.base.Digest, l.base.blob, l.base.fileForMessage(), l.dirty)
	if r, ok := x.resolved[id]; ok {
		return r, nil
	}
	base, err := x.documentAtPath(ctx, snap, l.base, l.base.fileForMessage())
	if err != nil {
		return resolution{}, err
	}
	doc, err := overlay.Apply(l.overlay, base)
	r := resolution{problems: strictyaml.Problems(err)}
	if err == nil && x.Check != nil {
		r.problems = problemsFromCheck(x.Check(doc))
	}
	if len(r.problems) == 0 {
		if l.dirty {
			doc = doc.AsDirty()
		}
		r.id = identity{doc.Name, doc.Spec.Version, doc.Digest}
	}
	if x.resolved == nil {
		x.resolved = map[string]resolution{}
	}
	x.resolved[id] = r
	return r, nil
}
