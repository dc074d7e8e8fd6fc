package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
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
	write(osp("osp-a", "v1.0.0", "echo one"))
	directory := func(path string) func(map[string]any) {
		return func(spec map[string]any) {
			delete(spec, "git")
			spec["interval"] = "700h"
			spec["directory"] = map[string]any{"path": path}
		}
	}
	s.source(directory(filepath.Join(root, "team")))
	s.start()
	s.refused(api.ReasonAccessDenied, "--directory-root")
	s.stop()
	s.start("--directory-root", root)
	s.pool("pool-a", "osp-a")
	version := func() string { return s.inventory()["osp-a"] }
	s.eventually("the profile", func() error { return prefixed(version(), "v1.0.0-dirty.") })
	first := version()
	s.served("pool-a", first)

	write(osp("osp-a", "v1.0.0", "echo two"))
	s.eventually("the edited profile", func() error {
		if version() == first {
			return fmt.Errorf("it is still %s", first)
		}
		return prefixed(version(), "v1.0.0-dirty.")
	})
	second := version()
	s.served("pool-a", second)

	write("spec: [\n")
	s.refused(api.ReasonProfilesInvalid, "profiles/a.yaml:1: is no YAML")
	if version() != second {
		t.Errorf("a broken file took the profile away: %q", version())
	}
	s.source(directory("/etc"))
	s.refused(api.ReasonSourceInvalid, "/etc")
}

func prefixed(s, prefix string) error {
	if !strings.HasPrefix(s, prefix) {
		return fmt.Errorf("it is %q", s)
	}
	return nil
}
