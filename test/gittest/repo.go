package gittest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Repo is a work tree made by the real git.
type Repo struct {
	T   testing.TB
	Dir string
}

// New returns an empty work tree.
func New(t testing.TB) *Repo {
	t.Helper()
	r := &Repo{T: t, Dir: t.TempDir()}
	r.Git("init", "--quiet", "--initial-branch=main")
	return r
}

// Git runs the real git in the work tree.
func (r *Repo) Git(args ...string) string {
	r.T.Helper()
	return Git(r.T, r.Dir, args...)
}

// Git runs the real git.
func Git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return Input(t, dir, nil, args...)
}

// Input runs the real git with an input.
func Input(t testing.TB, dir string, stdin io.Reader, args ...string) string {
	t.Helper()
	cmd := Command(t.Context(), dir, args...)
	cmd.Stdin = stdin
	return Run(t, cmd)
}

// Run runs a command of git.
func Run(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := Output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// program is the path of git, which tests of histories run thousands of times.
var program = sync.OnceValue(func() string {
	path, err := exec.LookPath("git")
	if err != nil {
		return "git" // to run it says what is wrong
	}
	return path
})

// Command is the real git in a folder, without the configuration of the user and the machine. Ada is
// the author, and Ben commits.
func Command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program(), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull,
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Ben", "GIT_COMMITTER_EMAIL=ben@example.com",
		// No look for maintenance after each commit: it is a fifth of the CPU of making histories.
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=maintenance.auto", "GIT_CONFIG_VALUE_0=false",
		"GIT_TEMPLATE_DIR=") // no copies of the sample hooks: they are a third of git init
	return cmd
}

// By makes one person the author and the committer of a command.
func By(cmd *exec.Cmd, name, email string) *exec.Cmd {
	cmd.Env = append(cmd.Env, "GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+email, "GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+email)
	return cmd
}

// Output runs a command of git and returns what it prints, to the byte. The error has what git says of it.
func Output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.Output()
	if err != nil {
		var said []byte
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			said = exit.Stderr
		}
		return "", fmt.Errorf("git %.200q: %w\n%s", cmd.Args[1:], err, said)
	}
	return string(out), nil
}

// Write puts a file into the work tree; "" removes it.
func (r *Repo) Write(path, content string) {
	r.T.Helper()
	full := filepath.Join(r.Dir, path)
	if content == "" {
		if err := os.Remove(full); err != nil {
			r.T.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		r.T.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		r.T.Fatal(err)
	}
}

// Commit commits files, given as path, content, path, content, and returns the commit.
func (r *Repo) Commit(files ...string) string {
	r.T.Helper()
	for i := 0; i+1 < len(files); i += 2 {
		r.Write(files[i], files[i+1])
	}
	r.Git("add", "--all")
	r.Git("commit", "--quiet", "--allow-empty", "--message=change")
	return r.Head()
}

// Head returns the commit that is checked out.
func (r *Repo) Head() string {
	r.T.Helper()
	// After a commit it is in the branch's file. Reading it saves a third of Commit's starts of git.
	git := filepath.Join(r.Dir, ".git")
	if head, err := os.ReadFile(filepath.Join(git, "HEAD")); err == nil {
		if id, err := os.ReadFile(filepath.Join(git, strings.TrimSpace(strings.TrimPrefix(string(head), "ref: ")))); err == nil {
			return strings.TrimSpace(string(id))
		}
	}
	return r.Git("rev-parse", "HEAD")
}

// Push makes all references below one, such as refs/heads, those of a bare repository on the same
// disk, as git push --force does. It links all objects, also unreachable ones, as git clone does
// there, and copies the files of references: git push starts nine processes. References must not be packed.
func (r *Repo) Push(bare, below string) {
	r.T.Helper()
	r.copyTo(bare, "objects", os.Link)
	r.copyTo(bare, below, replaceFile)
}

// copyTo brings every file below a folder of .git to a bare repository.
func (r *Repo) copyTo(bare, folder string, bring func(from, to string) error) {
	r.T.Helper()
	git := filepath.Join(r.Dir, ".git")
	err := filepath.WalkDir(filepath.Join(git, folder), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(bare, strings.TrimPrefix(path, git))
		if d.IsDir() {
			err = os.Mkdir(to, 0o755)
		} else {
			err = bring(path, to)
		}
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	})
	if err != nil {
		r.T.Fatal(err)
	}
}

// replaceFile replaces a reference at once, as git does.
func replaceFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to+".lock", content, 0o644); err != nil {
		return err
	}
	return os.Rename(to+".lock", to)
}

// Link makes a symlink.
func Link(t testing.TB, to, at string) {
	t.Helper()
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}
