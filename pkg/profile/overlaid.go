package profile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// maxOverlays is how many overlays may lie on one another. More than two or three
// nobody follows.
const maxOverlays = 8

// MissingBaseError says that the base of an overlay is nowhere: neither in the source
// nor among the built-in profiles of this program. Another release may have it.
type MissingBaseError struct {
	// Base is what is asked for.
	Base api.ProfileOverlayBase
	// Offered are the versions of that profile that there are, the highest first.
	Offered []string
	// Refused is the file that has it and is refused, "" where none has it.
	Refused string
	// Folder is all that was searched, where that is in no Git work tree; else "".
	Folder string
}

// WithFolder is an error of looking for a base with the folder that was searched.
func WithFolder(err error, folder string) error {
	var missing *MissingBaseError
	if !errors.As(err, &missing) {
		return err
	}
	out := *missing
	out.Folder = folder
	return &out
}

func (e *MissingBaseError) Error() string {
	what := fmt.Sprintf("there is no profile %q %s", e.Base.Profile, e.Base.Version)
	switch {
	case e.Refused != "":
		return fmt.Sprintf("the base, profile %q %s, is refused: mend %s first", e.Base.Profile, e.Base.Version, e.Refused)
	case e.Folder != "":
		what += fmt.Sprintf(" in folder %q, which is in no Git work tree, so that nothing around it is searched, nor built in", e.Folder)
		if len(e.Offered) > 0 {
			what += fmt.Sprintf("; there is %s: name one of them (osm-gitops rebase-overlay shows what changes), or", strings.Join(e.Offered, ", "))
		} else {
			what += ": name"
		}
		return what + " a folder that holds both the overlay and its base"
	case len(e.Offered) > 0:
		return fmt.Sprintf("%s, neither in the repository or its history nor built in; there is %s: name one of them (osm-gitops rebase-overlay shows what changes), or put the base into the repository", what, strings.Join(e.Offered, ", "))
	}
	return what + ", neither in the repository or its history nor built in, nor another version of it: name a profile that is there"
}

// overlaid is what became of one overlay in a file.
type overlaid struct {
	id       identity // digest "" where it comes to nothing
	base     *Version
	problems []*Problem
}

func (o overlaid) good() bool { return o.id.digest != "" }

// pending: it was not looked at yet.
func (o overlaid) pending() bool { return !o.good() && len(o.problems) == 0 }

func (o *Overlay) key() key { return key{o.Name, o.Spec.Version} }

// refusals are the problems of an overlay in a file.
func (o overlaid) refusals(path string, overlay Overlay, changed source.Commit) []*Refusal {
	var out []*Refusal
	for _, p := range o.problems {
		r := &Refusal{Problem: *p, Profile: overlay.Name, Version: overlay.Spec.Version, Commit: changed}
		if r.Path == "" {
			r.Path = path
		} else if r.Path != path {
			r.Overlay = path
			r.Err = fmt.Errorf("%w; this text is taken from the base by profile %q %s, %s:%d", p.Err, overlay.Name, overlay.Spec.Version, path, overlay.Line("spec.from"))
		}
		out = append(out, r)
	}
	return out
}

// where is the file of a version as messages name it.
func (v Version) where() string {
	switch {
	case v.Builtin:
		return "builtin:" + v.Path
	case v.CurrentPath != "" || v.Commit == "":
		return v.Path
	}
	return short(v.Commit) + ":" + v.Path
}

// placed is a base with its place in the tree, if its file is there as it was.
func (ln *line) placed(v *Version) *Version {
	if v == nil {
		return nil
	}
	out := *v
	out.From, out.CurrentPath = ln.placed(v.From), ""
	if n := ln.tree[v.Path]; n != nil && n.blob == v.blob {
		out.CurrentPath = v.Path
	}
	return &out
}

// stage is where on the line overlays are resolved.
type stage struct {
	commit source.Commit
	at     time.Time
	dirty  bool
}

// place is one overlay of the tree.
type place struct {
	path  string
	index int
}

// layers resolves the overlays of a tree at one step.
type layers struct {
	x       *Indexer
	ln      *line
	snap    *source.Snapshot
	stage   stage
	touched map[string]bool

	offered map[key][]place // overlays by what they come to
	done    map[place]bool
	open    []place // being resolved, each on the one after it
	circles map[place]string
}

// overlay resolves the overlays of the tree anew, each after the one that it starts
// from: their files may have changed, or their bases have come. It adds to touched the
// names whose overlay comes to something else than before.
func (x *Indexer) overlay(ctx context.Context, ln *line, snap *source.Snapshot, at stage, touched map[string]bool) error {
	l := &layers{
		x: x, ln: ln, snap: snap, stage: at, touched: touched,
		offered: map[key][]place{}, done: map[place]bool{}, circles: map[place]string{},
	}
	var all []place
	for path, n := range ln.tree {
		for i, o := range n.reading.overlays {
			all = append(all, place{path, i})
			l.offered[o.key()] = append(l.offered[o.key()], place{path, i})
		}
	}
	slices.SortFunc(all, func(a, b place) int {
		return strings.Compare(fmt.Sprintf("%s\x00%04d", a.path, a.index), fmt.Sprintf("%s\x00%04d", b.path, b.index))
	})
	for _, p := range all {
		if err := l.resolve(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// resolve resolves one overlay, unless it was.
func (l *layers) resolve(ctx context.Context, p place) error {
	if l.done[p] {
		return nil
	}
	if i := slices.Index(l.open, p); i >= 0 {
		l.circle(l.open[i:])
		return nil
	}
	l.open = append(l.open, p)
	o := l.ln.tree[p.path].reading.overlays[p.index]
	from := key{o.Spec.From.Profile, o.Spec.From.Version}
	for _, other := range l.offered[from] {
		if err := l.resolve(ctx, other); err != nil {
			return err
		}
	}
	l.open = l.open[:len(l.open)-1]
	l.done[p] = true
	now, same, err := l.come(ctx, p, o)
	if err != nil {
		return fmt.Errorf("resolving %s: %w", p.path, err)
	}
	if !same {
		l.set(p, now)
	}
	return nil
}

// circle remembers overlays that start from one another.
func (l *layers) circle(of []place) {
	var names []string
	for _, p := range append(slices.Clone(of), of[0]) {
		o := l.ln.tree[p.path].reading.overlays[p.index]
		names = append(names, fmt.Sprintf("%q %s (%s:%d)", o.Name, o.Spec.Version, p.path, o.Line("spec.from")))
	}
	for _, p := range of {
		l.circles[p] = strings.Join(names, " starts from ")
	}
}

// come says what an overlay comes to, and whether that is what it came to before.
func (l *layers) come(ctx context.Context, p place, o Overlay) (now overlaid, same bool, err error) {
	wrong := func(field string, err error) (overlaid, bool, error) {
		return overlaid{problems: []*Problem{{Line: o.Line(field), Field: field, Err: err}}}, false, nil
	}
	if round := l.circles[p]; round != "" {
		return wrong("spec.from", fmt.Errorf("goes round in a circle: %s: one of them must start from something else", round))
	}
	base, err := l.base(ctx, o.Spec.From)
	var missing *MissingBaseError
	if errors.As(err, &missing) {
		return wrong("spec.from", err)
	}
	if err != nil {
		return overlaid{}, false, err
	}
	if base.depth() >= maxOverlays {
		return wrong("spec.from", fmt.Errorf("is the %dth overlay on one another; %d are allowed: start from a profile in full", base.depth()+1, maxOverlays))
	}
	n := l.ln.tree[p.path]
	if had := n.overlays[p.index]; had.base != nil && had.base.same(base) {
		return had, true, nil
	}
	made, err := l.x.resolve(ctx, l.snap, layer{blob: n.blob, overlay: o, base: base, dirty: n.reading.dirty || base.dirty})
	if err != nil {
		return overlaid{}, false, err
	}
	return overlaid{id: made.id, base: &base, problems: made.problems}, false, nil
}

// depth is how many overlays lie on one another in a version.
func (v *Version) depth() int {
	n := 0
	for ; v.From != nil; v = v.From {
		n++
	}
	return n
}

// same reports whether an overlay on one version is one on the other, to the lines.
func (v *Version) same(w Version) bool {
	return v.Digest == w.Digest && v.blob == w.blob && v.where() == w.where()
}

// base finds the version that an overlay starts from.
func (l *layers) base(ctx context.Context, from api.ProfileOverlayBase) (Version, error) {
	if v, ok := l.ln.base(from, l.stage.dirty); ok {
		return *l.ln.placed(&v), nil
	}
	if v, ok, err := l.x.builtinVersion(ctx, from); ok || err != nil {
		return v, err
	}
	missing := &MissingBaseError{Base: from}
	for _, k := range l.ln.order[from.Profile] {
		missing.Offered = append(missing.Offered, withoutDirt(k.version))
	}
	builtins, err := l.x.builtin(ctx)
	if err != nil {
		return Version{}, err
	}
	for k := range builtins {
		if k.name == from.Profile {
			missing.Offered = append(missing.Offered, k.version)
		}
	}
	missing.Offered = SortVersions(missing.Offered)
	if len(missing.Offered) > nearest {
		missing.Offered = missing.Offered[:nearest]
	}
	missing.Refused = l.ln.refusedFile(key{from.Profile, from.Version})
	return Version{}, missing
}

// base finds a version in the tree, then in the history. Where files are edited that no
// commit holds, such a file comes first: it is what its author tries out.
func (ln *line) base(from api.ProfileOverlayBase, dirty bool) (Version, bool) {
	if dirty {
		for _, o := range ln.offers(from.Profile) {
			v, ok := ln.accepted[key{o.id.name, o.id.version}]
			if ok && v.dirty && !o.broken && withoutDirt(v.Version) == from.Version {
				return v, true
			}
		}
	}
	v, ok := ln.accepted[key{from.Profile, from.Version}]
	return v, ok
}

// refusedFile is the file in the tree that has a version and is refused.
func (ln *line) refusedFile(k key) string {
	for _, path := range slices.Sorted(maps.Keys(ln.tree)) {
		n := ln.tree[path]
		if slices.Contains(n.reading.broken, k) || slices.ContainsFunc(n.reading.docs, func(id identity) bool { return id.name == k.name && id.version == k.version }) ||
			slices.ContainsFunc(n.reading.overlays, func(o Overlay) bool { return o.key() == k }) {
			return path
		}
	}
	return ""
}

// set puts what an overlay comes to into the tree, and accepts it.
func (l *layers) set(p place, now overlaid) {
	n := *l.ln.tree[p.path]
	had, o := n.overlays[p.index], n.reading.overlays[p.index]
	if had.base == nil || now.base == nil || had.id != now.id {
		l.touched[o.Name] = true
	}
	n.overlays = slices.Clone(n.overlays)
	n.overlays[p.index] = now
	l.ln.tree[p.path] = &n
	if !now.good() {
		first := *now.problems[0]
		if first.Path == "" {
			first.Path = p.path
		}
		l.ln.broken[o.key()] = &Refusal{Problem: first, Profile: o.Name, Version: o.Spec.Version, Commit: l.stage.commit}
		return
	}
	l.ln.see(now.id, origin{
		commit: l.stage.commit, at: l.stage.at, path: p.path, blob: n.blob, from: now.base,
		dirty: n.reading.dirty || now.base.dirty,
	})
	l.ln.acceptAll(l.ln.offers(o.Name))
}

// layer is one overlay on one base.
type layer struct {
	blob    string
	overlay Overlay
	base    Version
	dirty   bool
}

// resolution is what it comes to.
type resolution struct {
	id       identity
	problems []*Problem
}

// resolve resolves and checks a layer once.
func (x *Indexer) resolve(ctx context.Context, snap *source.Snapshot, l layer) (resolution, error) {
	id := fmt.Sprintf("%s %s %s on %s %s %s %v", l.blob, l.overlay.Name, l.overlay.Spec.Version, l.base.Digest, l.base.blob, l.base.where(), l.dirty)
	if r, ok := x.resolved[id]; ok {
		return r, nil
	}
	base, err := x.document(ctx, snap, l.base, l.base.where())
	if err != nil {
		return resolution{}, err
	}
	doc, err := Resolve(l.overlay, base)
	r := resolution{problems: Problems(err)}
	if err == nil && x.Check != nil {
		r.problems = checkProblems(x.Check(doc))
	}
	if len(r.problems) == 0 {
		if l.dirty {
			doc = asDirty(doc)
		}
		r.id = identity{doc.Name, doc.Spec.Version, doc.Digest}
	}
	if x.resolved == nil {
		x.resolved = map[string]resolution{}
	}
	x.resolved[id] = r
	return r, nil
}

// builtin are the built-in profiles, read once.
func (x *Indexer) builtin(ctx context.Context) (map[key]Document, error) {
	if x.builtins != nil || x.Builtin == nil {
		return x.builtins, nil
	}
	snap, err := x.Builtin.Read(ctx)
	if err != nil {
		return nil, err
	}
	docs := map[key]Document{}
	for _, f := range snap.Files {
		in, err := Decode("builtin:"+f.Path, f.Data)
		if err != nil {
			return nil, err
		}
		for _, d := range in {
			docs[key{d.Name, d.Spec.Version}] = d
		}
	}
	x.builtins = docs
	return docs, nil
}

// builtinVersion finds a version among the built-in profiles.
func (x *Indexer) builtinVersion(ctx context.Context, from api.ProfileOverlayBase) (Version, bool, error) {
	docs, err := x.builtin(ctx)
	d, ok := docs[key{from.Profile, from.Version}]
	return Version{Name: d.Name, Version: d.Spec.Version, Digest: d.Digest, Path: strings.TrimPrefix(d.Path, "builtin:"), Builtin: true}, ok, err
}
