package profiles_test

import (
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/profiles"
)

// TestVersions reads this repository like a ProfileSource: a profile with changed content has a new
// version. Otherwise all clusters that follow this repository would reject it.
func TestVersions(t *testing.T) {
	for path, want := range map[string]int{"profiles": 6, "examples/repository/profiles": 3, "examples/overlays": 1} {
		t.Run(path, func(t *testing.T) {
			snap, err := source.Repository{Dir: "..", Path: path}.Read(t.Context())
			if err != nil {
				t.Skipf("SKIP: the history of this repository cannot be read: %v", err)
			}
			if len(snap.Line) == 0 {
				t.Skip("SKIP: this is a shallow clone, or no repository: its history is not known")
			}
			ix := catalog.Indexer{Builtin: &source.Embedded{FS: profiles.FS(), Repository: profiles.Repository, Path: profiles.Path}}
			cat, err := ix.Catalog(t.Context(), snap)
			if err != nil {
				t.Fatal(err)
			}
			for _, refusal := range cat.Rejected {
				t.Errorf("%v", refusal)
			}
			if len(cat.Current) < want {
				t.Errorf("%d profiles are current, want all of this folder", len(cat.Current))
			}
		})
	}
}
