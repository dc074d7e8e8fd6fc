package catalog

import (
	"testing"
	"testing/fstest"

	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// Built-in profiles have no commit, and still the version that their file says.
func TestCatalogueOfBuiltIns(t *testing.T) {
	files := fstest.MapFS{
		"osp-a.yaml": {Data: []byte(*profileFile("osp-a", "v1.0.0", "x"))},
		"osp-b.yaml": {Data: []byte(*profileFile("osp-b", "v1.2.0", "x"))},
		"osp-c.yaml": {Data: []byte("spec: [\n")},
	}
	snap, err := source.Embedded{FS: files, Path: "profiles"}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ix Indexer
	for range 2 { // a second look remembers nothing wrong
		c, err := ix.Catalog(t.Context(), snap)
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Current) != 2 || len(c.Rejected) != 1 || c.Rejected[0].Path != "profiles/osp-c.yaml" {
			t.Fatalf("current %v, refused %v", c.Current, c.Rejected)
		}
		v := c.Current[1]
		if v.Name != "osp-b" || v.Version != "v1.2.0" || v.Path != "profiles/osp-b.yaml" || v.CurrentPath != v.Path || v.Commit != "" || v.SelectedBy != "" {
			t.Errorf("got %+v", v)
		}
		doc, err := ix.Document(t.Context(), snap, v)
		if err != nil || doc.Spec.Version != "v1.2.0" || doc.Digest != v.Digest {
			t.Errorf("document %s %s (err %v), want digest %s", doc.Spec.Version, doc.Digest, err, v.Digest)
		}
		if author, err := ChangeOf(t.Context(), snap, v); err != nil || author.Commit != "" {
			t.Errorf("change %+v, err %v", author, err)
		}
	}
}
