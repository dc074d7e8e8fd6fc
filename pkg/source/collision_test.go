package source

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// Every reader of objects rejects content with a SHA-1 collision (security.md 43).
func TestCollision(t *testing.T) {
	bytesOf, _ := gittest.Shattered(t)
	gittest.HashWithoutHeaders(t)
	pdf := string(bytesOf)
	const refused = "SHA-1 collision"

	for name, read := range map[string]func(*testing.T) error{
		"a folder": func(t *testing.T) error {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "a.yaml"), bytesOf, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Directory{Root: dir, Path: dir}.Read(t.Context())
			return err
		},
		"built-in files": func(t *testing.T) error {
			_, err := Embedded{FS: fstest.MapFS{"a.yaml": {Data: bytesOf}}}.Read(t.Context())
			return err
		},
		"an artifact": func(t *testing.T) error {
			f := newFiles(t)
			_, err := newArtifacts(t, f).Read(t.Context(), f.artifact(tarGz(t, tarFile("a.yaml", pdf))))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantError(t, read(t), ErrInvalid, refused) })
	}
}
