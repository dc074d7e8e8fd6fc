package render_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares with a file of testdata/sample; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "sample", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// The documents of the sample profile, byte for byte.
func TestGolden(t *testing.T) {
	out, err := render.NewEngine().Render(sampleInput(t))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "bootstrap.golden", string(out.Bootstrap))
	golden(t, "provisioning.golden", string(out.Provisioning))
}
