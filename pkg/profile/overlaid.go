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

// maxOverlays is the maximum length of a chain of overlays. Chains of more than two or
// three are hard to follow.
const maxOverlays = 8

// MissingBaseError reports that the base of an overlay was not found: neither in the
// source nor among the built-in profiles of this program (another release can have it).
// It also reports a base whose content differs from the named digest, or that must not be
// used.
type MissingBaseError struct {
	// Base is the requested base.
	Base api.ProfileOverlayBase
	// Available are the existing versions of that profile, highest first.
	Available []string
	// Rejected is the rejected file that has it, "" if there is none.
	Rejected string
	// Folder is the only folder that was searched, if it is not in a Git work tree; else
	// "".
	Folder string
	// Instead says what was found and why it is not used, "" if nothing was found.
	Instead string
}

// WithFolder adds the folder that was searched to a MissingBaseError.
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
	case e.Instead != "":
		return e.Instead
	case e.Rejected != "":
		return fmt.Sprintf("the base, profile %q %s, is rejected: fix %s first", e.Base.Profile, e.Base.Version, e.Rejected)
	case e.Folder != "":
		what += fmt.Sprintf(" in folder %q (not in a Git work tree, so nothing else is searched), nor built in", e.Folder)
		if len(e.Available) > 0 {
			what += fmt.Sprintf("; available: %s: name one of them (osm-gitops rebase-overlay shows what changes), or", strings.Join(e.Available, ", "))
		} else {
			what += ":"
		}
		return what + " name a folder that has both the overlay and its base"
	case e.Base.Builtin && len(e.Available) > 0:
		return fmt.Sprintf("%s built in, which spec.from.builtin requires; available: %s: name one of them (osm-gitops rebase-overlay shows what changes), or add the base to the repository and remove builtin", what, strings.Join(e.Available, ", "))
	case e.Base.Builtin:
		return what + " built in, which spec.from.builtin requires: name a built-in version, or remove builtin"
	case len(e.Available) > 0:
		return fmt.Sprintf("%s, neither in the repository or its history nor built in; available: %s: name one of them (osm-gitops rebase-overlay shows what changes), or add the base to the repository", what, strings.Join(e.Available, ", "))
	}
	return what + ", neither in the repository or its history nor built in, nor any other version of it: name an existing profile"
}

// overlaid is the result of one overlay in a file.
type overlaid struct {
	id       identity // digest "" if it cannot be resolved
	base     *Version
	problems []*Problem
}

func (o overlaid) good() bool { return o.id.digest != "" }

// pending reports whether it was not resolved yet.
func (o overlaid) pending() bool { return !o.good() && len(o.problems) == 0 }

func (o *Overlay) key() key { return key{o.Name, o.Spec.Version} }

// refusals converts the problems of an overlay in a file.
func (o overlaid) refusals(path string, overlay Overlay, changed source.Commit) []*Rejection {
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

// where returns the file of a version for messages.
func (v Version) where() string {
	switch {
	case v.Builtin:
		return "builtin:" + v.Path
	case v.CurrentPath != "" || v.Commit == "":
		return v.Path
	}
	return short(v.Commit) + ":" + v.Path
}

// placed returns a base with its path in the tree, if its file is unchanged there.
func (ln *historyWalk) placed(v *Version) *Version {
	if v == nil {
		return nil
	}
	out := *v
	out.From, out.CurrentPath, out.AtHead = ln.placed(v.From), "", false
	if n := ln.tree[v.Path]; n != nil && n.blob == v.blob {
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

// layers resolves the overlays of a tree at one step.
type layers struct {
	x       *Indexer
	ln      *historyWalk
	snap    *source.Snapshot
	stage   stage
	touched map[string]bool

	overlays map[key][]overlayPosition // overlays by resulting profile
	done     map[overlayPosition]bool
	open     []overlayPosition // being resolved, each based on the next
	circles  map[overlayPosition]string
}

// overlay resolves the overlays of the tree again, each after its base: their files can
// have changed, or their bases can have been added. It adds to touched the names whose
// overlay has a new result.
func (x *Indexer) overlay(ctx context.Context, ln *historyWalk, snap *source.Snapshot, at stage, touched map[string]bool) error {
	l := &layers{
		x: x, ln: ln, snap: snap, stage: at, touched: touched,
		overlays: map[key][]overlayPosition{}, done: map[overlayPosition]bool{}, circles: map[overlayPosition]string{},
	}
	var all []overlayPosition
	for path, n := range ln.tree {
		for i, o := range n.reading.overlays {
			all = append(all, overlayPosition{path, i})
			l.overlays[o.key()] = append(l.overlays[o.key()], overlayPosition{path, i})
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
func (l *layers) resolve(ctx context.Context, p overlayPosition) error {
	if l.done[p] {
		return nil
	}
	if i := slices.Index(l.open, p); i >= 0 {
		l.circle(l.open[i:])
		return nil
	}
	l.open = append(l.open, p)
	o := l.ln.tree[p.path].reading.overlays[p.index]
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
	now, same, err := l.come(ctx, p, o)
	if err != nil {
		return fmt.Errorf("resolving %s: %w", p.path, err)
	}
	if !same {
		l.set(p, now)
	}
	return nil
}

// circle records overlays that start from one another.
func (l *layers) circle(of []overlayPosition) {
	var names []string
	for _, p := range append(slices.Clone(of), of[0]) {
		o := l.ln.tree[p.path].reading.overlays[p.index]
		names = append(names, fmt.Sprintf("%q %s (%s:%d)", o.Name, o.Spec.Version, p.path, o.Line("spec.from")))
	}
	for _, p := range of {
		l.circles[p] = strings.Join(names, " starts from ")
	}
}

// come returns the result of an overlay, and whether it is the same as before.
func (l *layers) come(ctx context.Context, p overlayPosition, o Overlay) (now overlaid, same bool, err error) {
	wrong := func(field string, err error) (overlaid, bool, error) {
		return overlaid{problems: []*Problem{{Line: o.Line(field), Field: field, Err: err}}}, false, nil
	}
	if round := l.circles[p]; round != "" {
		return wrong("spec.from", fmt.Errorf("forms a cycle: %s: let one of them start from another profile", round))
	}
	base, err := l.base(ctx, p.path, o.Spec.From)
	var missing *MissingBaseError
	if errors.As(err, &missing) {
		return wrong("spec.from", err)
	}
	if err != nil {
		return overlaid{}, false, err
	}
	if base.depth() >= maxOverlays {
		return wrong("spec.from", fmt.Errorf("is the %dth overlay in a chain of overlays, and %d are allowed: start from a complete profile", base.depth()+1, maxOverlays))
	}
	n := l.ln.tree[p.path]
	// With the same base, the result is the same.
	if had := n.overlays[p.index]; had.base != nil && had.base.same(base) {
		return had, true, nil
	}
	made, err := l.x.resolve(ctx, l.snap, layer{blob: n.blob, overlay: o, base: base, dirty: n.reading.dirty || base.dirty})
	if err != nil {
		return overlaid{}, false, err
	}
	return overlaid{id: made.id, base: &base, problems: made.problems}, false, nil
}

// depth is the number of overlays in a version's chain.
func (v *Version) depth() int {
	n := 0
	for ; v.From != nil; v = v.From {
		n++
	}
	return n
}

// same reports whether two versions are equal as bases, including lines.
func (v *Version) same(w Version) bool {
	return v.Digest == w.Digest && v.blob == w.blob && v.where() == w.where()
}

// base finds the version that the overlay in a file starts from. For file "" there is no
// check of who can change the base.
func (l *layers) base(ctx context.Context, overlay string, from api.ProfileOverlayBase) (Version, error) {
	var found []Version
	if !from.Builtin {
		for _, v := range l.ln.bases(from, l.stage.dirty) {
			found = append(found, *l.ln.placed(&v))
		}
	}
	v, ok, err := l.x.builtinVersion(ctx, from)
	if err != nil {
		return Version{}, err
	}
	if ok {
		found = append(found, v)
	}
	// Profiles of the repository come before built-in ones.
	if from.Digest == "" && len(found) > 0 {
		return found[0], l.checkBase(overlay, from, found[0])
	}
	var others []string
	for _, v := range found {
		digest, err := l.committedDigest(ctx, v)
		if err != nil {
			return Version{}, err
		}
		if digest == from.Digest {
			return v, nil
		}
		others = append(others, fmt.Sprintf("%s (%s)", v.where(), digest))
	}
	if len(others) > 0 {
		return Version{}, &MissingBaseError{Base: from, Instead: fmt.Sprintf("profile %q %s differs from spec.from.digest: found %s: set the digest of the intended one", from.Profile, from.Version, strings.Join(others, ", "))}
	}
	missing := &MissingBaseError{Base: from}
	for _, k := range l.ln.order[from.Profile] {
		if from.Builtin {
			break
		}
		missing.Available = append(missing.Available, withoutDirt(k.version))
	}
	builtins, err := l.x.builtin(ctx)
	if err != nil {
		return Version{}, err
	}
	for k := range builtins {
		if k.name == from.Profile {
			missing.Available = append(missing.Available, k.version)
		}
	}
	missing.Available = SortVersions(missing.Available)
	if len(missing.Available) > nearest {
		missing.Available = missing.Available[:nearest]
	}
	missing.Rejected = l.ln.rejectedFileWith(key{from.Profile, from.Version})
	return Version{}, missing
}

// committedDigest is the digest that a version has or, for an edited file, will have
// after the commit.
func (l *layers) committedDigest(ctx context.Context, v Version) (string, error) {
	if !v.dirty {
		return v.Digest, nil
	}
	doc, err := l.x.document(ctx, l.snap, v, v.where())
	if err != nil {
		return "", err
	}
	spec := *doc.Spec.DeepCopy()
	spec.Version = withoutDirt(spec.Version)
	return Digest(spec), nil
}

// checkBase rejects a base that other signers can change than the overlay, unless a file that
// they cannot change has the same content.
func (l *layers) checkBase(overlay string, from api.ProfileOverlayBase, v Version) error {
	if l.x.CheckBase == nil || overlay == "" || v.Builtin {
		return nil
	}
	err := l.x.CheckBase(overlay, v.Path)
	for _, path := range l.ln.filesWith(v) {
		if err == nil {
			return nil
		}
		if l.x.CheckBase(overlay, path) == nil {
			err = nil
		}
	}
	if err == nil {
		return nil
	}
	remedy := fmt.Sprintf("move %s to a path with the same signers, or set digest: %s under spec.from to use exactly this content", v.Path, v.Digest)
	if _, ok := l.x.builtins[key{from.Profile, from.Version}]; ok {
		remedy = fmt.Sprintf("set builtin: true under spec.from of %s to use the built-in profile, or %s", overlay, remedy)
	}
	return &MissingBaseError{Base: from, Instead: fmt.Sprintf("the base, profile %q %s, is in %s, which has other signers than %s: %v: %s", from.Profile, from.Version, v.where(), overlay, err, remedy)}
}

// bases finds a version in the tree, then in the history. If files have uncommitted
// edits, these come first: their author is testing them.
func (ln *historyWalk) bases(from api.ProfileOverlayBase, dirty bool) []Version {
	var out []Version
	if dirty {
		for _, o := range ln.profilesNamed(from.Profile) {
			v, ok := ln.accepted[key{o.id.name, o.id.version}]
			if ok && v.dirty && !o.broken && withoutDirt(v.Version) == from.Version {
				out = append(out, v)
			}
		}
	}
	if v, ok := ln.accepted[key{from.Profile, from.Version}]; ok {
		out = append(out, v)
	}
	return out
}

// rejectedFileWith returns the rejected file in the tree that has a version.
func (ln *historyWalk) rejectedFileWith(k key) string {
	for _, path := range slices.Sorted(maps.Keys(ln.tree)) {
		n := ln.tree[path]
		if slices.Contains(n.reading.broken, k) || slices.ContainsFunc(n.reading.docs, func(id identity) bool { return id.name == k.name && id.version == k.version }) ||
			slices.ContainsFunc(n.reading.overlays, func(o Overlay) bool { return o.key() == k }) {
			return path
		}
	}
	return ""
}

// set stores the result of an overlay in the tree, and accepts it.
func (l *layers) set(p overlayPosition, now overlaid) {
	n := *l.ln.tree[p.path]
	had, o := n.overlays[p.index], n.reading.overlays[p.index]
	if had.base == nil || now.base == nil || had.id != now.id {
		l.touched[o.Name] = true
	}
	n.overlays = slices.Clone(n.overlays)
	n.overlays[p.index] = now
	if !now.good() && had.good() { // it had a result before its base became unavailable
		n.before = append(slices.DeleteFunc(slices.Clone(n.before), func(id identity) bool { return id.name == o.Name }), had.id)
	}
	l.ln.tree[p.path] = &n
	if !now.good() {
		first := *now.problems[0]
		if first.Path == "" {
			first.Path = p.path
		}
		l.ln.broken[o.key()] = &Rejection{Problem: first, Profile: o.Name, Version: o.Spec.Version, Commit: l.stage.commit}
		return
	}
	l.ln.see(now.id, origin{
		commit: l.stage.commit, at: l.stage.at, path: p.path, blob: n.blob, from: now.base,
		dirty: n.reading.dirty || now.base.dirty,
	})
	l.ln.acceptAll(l.ln.profilesNamed(o.Name))
}

// layer is one overlay on one base.
type layer struct {
	blob    string
	overlay Overlay
	base    Version
	dirty   bool
}

// resolution is the result of a layer.
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

// builtin returns the built-in profiles, read once.
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
