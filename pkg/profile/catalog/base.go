package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
	"github.com/osm-gitops/osm-gitops/pkg/profile/version"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Base finds the base of an overlay as the overlays of a snapshot do: in its files, in
// their history, then among the built-in profiles. Its Path says where it is, see
// Document.FileOf. If it is not found, the error is a *MissingBaseError.
func (x *Indexer) Base(ctx context.Context, snap *source.Snapshot, from api.ProfileOverlayBase) (profile.Document, error) {
	if _, err := x.Catalog(ctx, snap); err != nil {
		return profile.Document{}, err
	}
	l := overlayResolver{x: x, walk: x.tip, snap: snap, stage: stage{dirty: true}}
	v, err := l.findBase(ctx, "", from)
	if err != nil {
		return profile.Document{}, err
	}
	return x.documentAtPath(ctx, snap, v, v.fileForMessage())
}

// ProfileInFile returns the profile with a name and digest that a file of a snapshot has, complete
// also if the file is an overlay. It returns false if the file has another content.
func (x *Indexer) ProfileInFile(ctx context.Context, snap *source.Snapshot, path, name, digest string) (profile.Document, bool, error) {
	i := slices.IndexFunc(snap.Files, func(f source.File) bool { return f.Path == path })
	if i < 0 {
		return profile.Document{}, false, nil
	}
	data, err := snap.Read(ctx, snap.Files[i].Blob)
	if err != nil {
		return profile.Document{}, false, fmt.Errorf("reading %s at %s: %w", path, shortCommit(snap.Head), err)
	}
	in, err := profile.DecodeFile(path, data)
	if err != nil {
		return profile.Document{}, false, err
	}
	docs := in.Profiles
	for _, o := range in.Overlays {
		if o.Name != name {
			continue
		}
		base, err := x.Base(ctx, snap, o.Spec.From)
		if err != nil {
			return profile.Document{}, false, fmt.Errorf("reading the base of %s: %w", path, err)
		}
		if d, err := overlay.Apply(o, base); err == nil {
			docs = append(docs, d)
		}
	}
	for _, d := range docs {
		if d.Name == name && d.Digest == digest {
			return d, true, nil
		}
	}
	return profile.Document{}, false, nil
}

// findBase finds the version that the overlay in a file starts from. For file "" there is no
// check of who can change the base.
func (l *overlayResolver) findBase(ctx context.Context, file string, from api.ProfileOverlayBase) (Version, error) {
	var found []Version
	if !from.Builtin {
		for _, v := range l.walk.findVersions(from, l.stage.dirty) {
			found = append(found, *l.walk.withCurrentPath(&v))
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
		return found[0], l.checkBaseSigners(file, from, found[0])
	}
	var others []string
	for _, v := range found {
		digest, err := l.digestOnceCommitted(ctx, v)
		if err != nil {
			return Version{}, err
		}
		if digest == from.Digest {
			return v, nil
		}
		others = append(others, fmt.Sprintf("%s (%s)", v.fileForMessage(), digest))
	}
	if len(others) > 0 {
		return Version{}, &overlay.MissingBaseError{Base: from, Instead: fmt.Sprintf("profile %q %s differs from spec.from.digest: found %s: set the digest of the intended one", from.Profile, from.Version, strings.Join(others, ", "))}
	}
	missing := &overlay.MissingBaseError{Base: from}
	for _, k := range l.walk.order[from.Profile] {
		if from.Builtin {
			break
		}
		missing.Available = append(missing.Available, version.TrimDirtySuffix(k.version))
	}
	builtins, err := l.x.BuiltinVersions(ctx, from.Profile)
	if err != nil {
		return Version{}, err
	}
	missing.Available = version.SortDescending(append(missing.Available, builtins...))
	missing.Available = missing.Available[:min(len(missing.Available), version.MaxProposed)]
	missing.Rejected = l.walk.rejectedFileWith(key{from.Profile, from.Version})
	return Version{}, missing
}

// digestOnceCommitted is the digest that a version has or, for an edited file, will have
// after the commit.
func (l *overlayResolver) digestOnceCommitted(ctx context.Context, v Version) (string, error) {
	if !v.dirty {
		return v.Digest, nil
	}
	doc, err := l.x.documentAtPath(ctx, l.snap, v, v.fileForMessage())
	if err != nil {
		return "", err
	}
	spec := *doc.Spec.DeepCopy()
	spec.Version = version.TrimDirtySuffix(spec.Version)
	return profile.Digest(spec), nil
}

// checkBaseSigners rejects a base that other signers can change than the overlay, unless a file that
// they cannot change has the same content.
func (l *overlayResolver) checkBaseSigners(file string, from api.ProfileOverlayBase, v Version) error {
	if l.x.CheckBase == nil || file == "" || v.Builtin {
		return nil
	}
	err := l.x.CheckBase(file, v.Path)
	allowed := func(path string) bool { return l.x.CheckBase(file, path) == nil }
	if err == nil || slices.ContainsFunc(l.walk.filesWith(v), allowed) {
		return nil
	}
	remedy := fmt.Sprintf("move %s to a path with the same signers, or set digest: %s under spec.from to use exactly this content", v.Path, v.Digest)
	if _, ok := l.x.builtins[key{from.Profile, from.Version}]; ok {
		remedy = fmt.Sprintf("set builtin: true under spec.from of %s to use the built-in profile, or %s", file, remedy)
	}
	return &overlay.MissingBaseError{Base: from, Instead: fmt.Sprintf("the base, profile %q %s, is in %s, which has other signers than %s: %v: %s", from.Profile, from.Version, v.fileForMessage(), file, err, remedy)}
}

// findVersions finds a version in the tree, then in the history. If files have uncommitted
// edits, these come first: their author is testing them.
func (walk *historyWalk) findVersions(from api.ProfileOverlayBase, dirty bool) []Version {
	var out []Version
	if dirty {
		for _, o := range walk.profilesNamed(from.Profile) {
			v, ok := walk.accepted[key{o.id.name, o.id.version}]
			if ok && v.dirty && !o.broken && version.TrimDirtySuffix(v.Version) == from.Version {
				out = append(out, v)
			}
		}
	}
	if v, ok := walk.accepted[key{from.Profile, from.Version}]; ok {
		out = append(out, v)
	}
	return out
}

// rejectedFileWith returns the rejected file in the tree that has a version.
func (walk *historyWalk) rejectedFileWith(k key) string {
	for _, path := range slices.Sorted(maps.Keys(walk.tree)) {
		n := walk.tree[path]
		if slices.Contains(n.reading.broken, k) || slices.ContainsFunc(n.reading.docs, func(id identity) bool { return id.name == k.name && id.version == k.version }) ||
			slices.ContainsFunc(n.reading.overlays, func(o profile.Overlay) bool { return keyOf(o) == k }) {
			return path
		}
	}
	return ""
}

// readBuiltinProfiles returns the built-in profiles, read once.
func (x *Indexer) readBuiltinProfiles(ctx context.Context) (map[key]profile.Document, error) {
	if x.builtins != nil || x.Builtin == nil {
		return x.builtins, nil
	}
	snap, err := x.Builtin.Read(ctx)
	if err != nil {
		return nil, err
	}
	docs := map[key]profile.Document{}
	for _, f := range snap.Files {
		in, err := profile.Decode("builtin:"+f.Path, f.Data)
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

// BuiltinVersions returns the built-in versions of a profile.
func (x *Indexer) BuiltinVersions(ctx context.Context, name string) ([]string, error) {
	docs, err := x.readBuiltinProfiles(ctx)
	var out []string
	for k := range docs {
		if k.name == name {
			out = append(out, k.version)
		}
	}
	return out, err
}

// builtinVersion finds a version among the built-in profiles.
func (x *Indexer) builtinVersion(ctx context.Context, from api.ProfileOverlayBase) (Version, bool, error) {
	docs, err := x.readBuiltinProfiles(ctx)
	d, ok := docs[key{from.Profile, from.Version}]
	return Version{Name: d.Name, Version: d.Spec.Version, Digest: d.Digest, Path: strings.TrimPrefix(d.Path, "builtin:"), Builtin: true}, ok, err
}
