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

// RepositoryOf returns the folder of the repository that a path is in, the nearest one that
// holds .git; false where there is none.
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
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return "", false, fmt.Errorf("looking for the repository of %s: %w", path, err)
		case at == filepath.Dir(at):
			return "", false, nil
		}
	}
}

// FindConfig looks for the file: in the folder of a path and in those above it, up to the
// repository's. The nearest is taken. Outside a repository only the folder itself is
// looked at: what lies further up belongs to somebody else. "" is none.
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
			return "", fmt.Errorf("looking for %s: %w", ConfigName, err)
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
