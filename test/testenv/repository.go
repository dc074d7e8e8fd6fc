package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Repository is a Git repository with a link that points to a checkout of its newest commit, in the
// layout of git-sync.
type Repository struct {
	// Dir is the folder that the controller can read: its --directory-root.
	Dir    string
	pushes int
}

// NewRepository makes an empty one below a folder, which must not exist.
func NewRepository(ctx context.Context, dir string) (*Repository, error) {
	r := &Repository{Dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	_, err := r.git(ctx, "init", "--quiet", "--initial-branch=main", r.work())
	return r, err
}

func (r *Repository) work() string { return filepath.Join(r.Dir, "work") }

// Current is the link to the newest commit's files: the path of a ProfileSource's
// directory.
func (r *Repository) Current() string { return filepath.Join(r.Dir, "current") }

// Push commits files, by name, and lets the link point to the new commit, which it
// returns.
func (r *Repository) Push(ctx context.Context, files map[string]string) (commit string, err error) {
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(r.work(), name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	r.pushes++
	clone := filepath.Join(r.Dir, fmt.Sprintf("clone-%d", r.pushes))
	for _, args := range [][]string{
		{"-C", r.work(), "add", "."},
		{"-C", r.work(), "commit", "--quiet", "--allow-empty", fmt.Sprintf("--message=push %d", r.pushes)},
		{"clone", "--quiet", r.work(), clone},
	} {
		if _, err := r.git(ctx, args...); err != nil {
			return "", err
		}
	}
	next := filepath.Join(r.Dir, "next")
	if err := os.Symlink(clone, next); err != nil {
		return "", err
	}
	if commit, err = r.git(ctx, "-C", clone, "rev-parse", "HEAD"); err != nil {
		return "", err
	}
	return commit, os.Rename(next, r.Current())
}

func (r *Repository) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = r.Dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ben", "GIT_COMMITTER_EMAIL=ben@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
