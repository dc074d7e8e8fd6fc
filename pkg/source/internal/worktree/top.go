package worktree

import (
	"os"
	"path/filepath"
)

// FindWorktree returns the top of the work tree that contains a folder, "" if there is none. The
// path of the folder must be absolute.
func FindWorktree(dir string) string {
	for top := dir; ; top = filepath.Dir(top) {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			return top
		}
		if top == filepath.Dir(top) {
			return ""
		}
	}
}
