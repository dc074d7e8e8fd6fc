package docs_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
)

// verifySession shows `osm-gitops verify` on a snapshot and a clone: with unchanged objects, or with
// an edited configuration.
func verifySession(t *testing.T, program string, edited bool) string {
	t.Helper()
	dir := t.TempDir()
	clone := filepath.Join(dir, "osps")
	if err := os.Mkdir(clone, 0o700); err != nil {
		t.Fatal(err)
	}
	e := clusterfixture.New(t)
	repo := e.NewRepo(clone)
	repo.Push(0, "echo one")
	e.Pool("workers")
	first := e.Serve("workers", 0, clusterfixture.At(10))
	e.Write("workers", e.Join("workers", "workers-7c9f-x2x4k", clusterfixture.At(20), clusterfixture.Says(first)))
	if edited {
		osc := clusterfixture.Get[*osm.OperatingSystemConfig](e, "workers-kube-system-config")
		osc.Spec.BootstrapConfig.Files[0].Content.Inline.Data = "#!/bin/sh\necho two\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "audit.jsonl"), e.Dump(), 0o600); err != nil {
		t.Fatal(err)
	}
	args := "verify node/workers-7c9f-x2x4k --from audit.jsonl --repo osps"
	cmd := exec.CommandContext(t.Context(), program, strings.Fields(args)...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); (err != nil) != edited {
		t.Fatalf("osm-gitops %s: %v\n%s", args, err, out.Bytes())
	}
	return fmt.Sprintf("```\n$ osm-gitops %s\n%s```\n", args, out.Bytes())
}

// TestEngines: the page names the releases of every engine.
func TestEngines(t *testing.T) {
	releases, _ := render.EngineReleases(render.EngineVersion)
	if want := fmt.Sprintf("| `%s` | %s |", render.EngineVersion, releases); releases == "" || !strings.Contains(string(read(t, "verify.md")), want) {
		t.Errorf("verify.md does not name the releases of engine %s", render.EngineVersion)
	}
}
