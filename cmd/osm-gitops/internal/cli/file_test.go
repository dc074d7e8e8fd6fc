package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A replaced file retains its mode and a symlink to it, a file that cannot be written is
// unchanged, and no temporary file is left.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "real", "over.yaml"), filepath.Join(dir, "over.yaml")
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real/over.yaml", link); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(file) // keep the file open during the replacement
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := ReplaceFile(link, []byte("second, and longer")); err != nil {
		t.Fatal(err)
	}
	var was [32]byte
	if n, err := reader.Read(was[:]); err != nil || string(was[:n]) != "first" {
		t.Errorf("whoever reads it has %q, %v", was[:n], err)
	}
	if got, err := os.Readlink(link); err != nil || got != "real/over.yaml" {
		t.Errorf("the link leads to %q, %v", got, err)
	}
	holds(t, file, "second, and longer", 0o600)

	fresh := filepath.Join(dir, "new.yaml")
	if err := ReplaceFile(fresh, []byte("new")); err != nil {
		t.Fatal(err)
	}
	holds(t, fresh, "new", 0o644)

	missing := filepath.Join(dir, "missing", "new.yaml")
	if err := ReplaceFile(missing, []byte("x")); err == nil || err.Error() != "writing "+missing+": no such file or directory" {
		t.Errorf("a folder that is not there: %v", err)
	}
	if err := ReplaceFile(os.DevNull, []byte("x")); err != nil {
		t.Error(err)
	}
	for folder, want := range map[string]int{dir: 3, filepath.Dir(file): 1} {
		if there, err := os.ReadDir(folder); err != nil || len(there) != want {
			t.Errorf("%s holds %v, %v", folder, there, err)
		}
	}
}

func holds(t *testing.T, path, want string, mode fs.FileMode) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != want {
		t.Errorf("%s holds %q, %v; want %q", path, b, err, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
		t.Errorf("%s has mode %v, %v; want %v", path, info.Mode(), err, mode)
	}
}
