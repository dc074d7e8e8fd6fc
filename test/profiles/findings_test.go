package profiles_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/lint/matrix"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// TestFindings: there is nothing to say about our own profiles.
func TestFindings(t *testing.T) {
	for _, doc := range profiles(t) {
		for _, f := range matrix.Profile(doc, render.Provenance{}).Findings() {
			t.Error(f)
		}
	}
}

// TestSchemaPart: the part of cloud-init's schema that rendering carries is what that
// release of cloud-init has.
func TestSchemaPart(t *testing.T) {
	var part, whole struct {
		Defs map[string]any `json:"$defs"`
	}
	for path, into := range map[string]any{
		filepath.Join(root, "pkg/render/cloudinit_schema.json"):                                       &part,
		filepath.Join(cloudInit(t, "25.1.4"), "cloudinit/config/schemas/schema-cloud-config-v1.json"): &whole,
	} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if len(part.Defs) != 10 {
		t.Errorf("it has %d definitions, what documents have is in 10", len(part.Defs))
	}
	for name, got := range part.Defs {
		if diff := cmp.Diff(whole.Defs[name], got); diff != "" {
			t.Errorf("%s (-cloud-init +ours):\n%s", name, diff)
		}
	}
}
