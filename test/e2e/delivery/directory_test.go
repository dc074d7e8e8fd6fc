package delivery

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// A directory is watched, so its interval need not come; an edit needs no new version, because the
// edited file's version carries its content's digest.
func TestDirectory(t *testing.T) {
	s := newSystem(t)
	root := t.TempDir()
	file := filepath.Join(root, "team", "profiles", "a.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(e2e.OSP("osp-a", "v1.0.0", "echo one"))
	directory := func(path string) func(map[string]any) {
		return func(spec map[string]any) {
			delete(spec, "git")
			spec["interval"] = "700h"
			spec["directory"] = map[string]any{"path": path}
		}
	}
	s.Source(directory(filepath.Join(root, "team")))
	s.Start()
	s.WaitRejected(api.ReasonAccessDenied, "--directory-root")
	s.Stop()
	s.Start("--directory-root", root)
	s.Pool("pool-a", "osp-a")
	version := func() string { return s.Inventory()["osp-a"] }
	s.Eventually("the profile", func() error { return prefixed(version(), "v1.0.0-dirty.") })
	first := version()
	s.Served("pool-a", first)

	write(e2e.OSP("osp-a", "v1.0.0", "echo two"))
	s.Eventually("the edited profile", func() error {
		if version() == first {
			return fmt.Errorf("it is still %s", first)
		}
		return prefixed(version(), "v1.0.0-dirty.")
	})
	second := version()
	s.Served("pool-a", second)

	write("spec: [\n")
	s.WaitRejected(api.ReasonProfilesInvalid, "profiles/a.yaml:1: invalid YAML")
	if version() != second {
		t.Errorf("a broken file took the profile away: %q", version())
	}
	s.Source(directory("/etc"))
	s.WaitRejected(api.ReasonSourceInvalid, "/etc")
}

func prefixed(s, prefix string) error {
	if !strings.HasPrefix(s, prefix) {
		return fmt.Errorf("it is %q", s)
	}
	return nil
}
