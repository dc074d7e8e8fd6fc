package worktree

import (
	"os"
	"path/filepath"
)

// TopOf returns the top of the work tree that a folder is in, "" where it is in none.
// The folder is absolute.
func TopOf(dir string) string {
	for top := dir; ; top = filepath.Dir(top) {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			return top
		}
		if top == filepath.Dir(top) {
			return ""
		}
	}
}
