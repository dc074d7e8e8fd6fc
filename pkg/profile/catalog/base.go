package catalog

import (
	"context"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Base finds the base of an overlay as the overlays of a snapshot do: in its files, in
// their history, then among the built-in profiles. Its Path says where it is, see
// Document.FileOf. If it is not found, the error is a *MissingBaseError.
func (x *Indexer) Base(ctx context.Context, snap *source.Snapshot, from api.ProfileOverlayBase) (profile.Document, error) {
	if _, err := x.Catalog(ctx, snap); err != nil {
		return profile.Document{}, err
	}
	l := overlayResolver{x: x, ln: x.tip, snap: snap, stage: stage{dirty: true}}
	v, err := l.findBase(ctx, "", from)
	if err != nil {
		return profile.Document{}, err
	}
	return x.documentAtPath(ctx, snap, v, v.fileForMessage())
}
