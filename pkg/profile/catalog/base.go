package catalog

import (
	"context"
	"fmt"
	"slices"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
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
		if d, err := overlay.Resolve(o, base); err == nil {
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
