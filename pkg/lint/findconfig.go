package lint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// RepositoryOf returns the repository folder of a path, the nearest parent that contains
// .git; false if there is none.
func RepositoryOf(path string) (string, bool, error) {
	at, err := filepath.Abs(path)
	if err != nil {
		return "", false, err
	}
	for ; ; at = filepath.Dir(at) {
		_, err := os.Lstat(filepath.Join(at, ".git"))
		switch {
		case err == nil:
			return at, true, nil
		// The path can be that of a file.
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return "", false, fmt.Errorf("finding the repository of %s: %w", path, err)
		case at == filepath.Dir(at):
			return "", false, nil
		}
	}
}

// FindConfig searches the folder of a path and its parents, up to the root of the repository,
// and returns the nearest file, or "". Outside a repository it searches only the folder
// itself: files in its parents can belong to other users.
func FindConfig(path string) (string, error) {
	folder, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		folder = filepath.Dir(folder)
	}
	top, ok, err := RepositoryOf(folder)
	if err != nil {
		return "", err
	}
	if !ok {
		top = folder
	}
	for at := folder; ; at = filepath.Dir(at) {
		file := filepath.Join(at, ConfigName)
		switch _, err := os.Lstat(file); {
		case err == nil:
			return file, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("finding %s: %w", ConfigName, err)
		}
		if at == top || at == filepath.Dir(at) {
			return "", nil
		}
	}
}

// ReadConfig reads a file for ParseConfig.
func ReadConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return b, nil
}
