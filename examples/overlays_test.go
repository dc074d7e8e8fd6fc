package examples_test

import (
	"path/filepath"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/profile/rebase"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	builtin "github.com/osm-gitops/osm-gitops/profiles"
)

// TestOverlays: an overlay is the built-in profile with one file more, passes every
// check, and starts from the version that is built in now.
func TestOverlays(t *testing.T) {
	dir, err := filepath.Abs("overlays")
	if err != nil {
		t.Fatal(err)
	}
	// The folder alone: the history of this repository has other versions of the base.
	snap, err := source.Directory{Root: dir, Path: dir}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shipped := &source.Embedded{FS: builtin.FS(), Repository: builtin.Repository, Path: builtin.Path}
	ix := catalog.Indexer{Builtin: shipped}
	cat, err := ix.Catalog(t.Context(), snap)
	if err != nil || len(cat.Current) == 0 || len(cat.Rejected) > 0 {
		t.Fatalf("%d overlays, refused %v (osm-gitops rebase-overlay --write mends a base that has moved), error %v", len(cat.Current), cat.Rejected, err)
	}
	for _, f := range snap.Files {
		in, err := profile.DecodeFile(f.Path, f.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range in.Overlays {
			if _, outdated, err := rebase.CheckOutdated(t.Context(), &ix, snap, o); err != nil || outdated {
				t.Errorf("%s starts from an old version (osm-gitops rebase-overlay --write corrects that), error %v", f.Path, err)
			}
		}
	}
	for _, v := range cat.Current {
		doc, err := ix.Document(t.Context(), snap, v)
		if err != nil {
			t.Fatal(err)
		}
		if err := render.NewEngine().Check(render.Profile{Spec: doc.Spec, Digest: doc.Digest, File: doc.Path, Lines: doc.Line, FileOf: doc.FileOf}); err != nil {
			t.Errorf("%s: %v", doc.Path, err)
		}
		from, err := ix.Document(t.Context(), snap, *v.From)
		if err != nil {
			t.Fatal(err)
		}
		was, now := from.Spec.ProvisioningConfig.Files, doc.Spec.ProvisioningConfig.Files
		if len(now) != len(was)+1 || now[len(was)].Path != "/etc/motd" {
			t.Errorf("%s: %d files, its base has %d", doc.Path, len(now), len(was))
		}
	}
}
