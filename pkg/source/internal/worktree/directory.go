package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
)

// Directory is a folder on this machine: a Git work tree or a plain folder. Package source
// documents the fields.
type Directory struct {
	Root   string
	Path   string
	Sub    string
	Ignore string
}

// State is the content of a directory or a repository.
type State struct {
	Files    []filter.File
	Rejected []filter.RejectedEntry
	// Dirty is true if the files differ from those at Head.
	Dirty bool

	// Repository is nil without Git. The fields below are then zero.
	Repository *Repository
	Head       history.Commit
	Branch     string          // "" if HEAD is detached
	Line       []history.Entry // empty if the clone is shallow or partial
}

// Read reads the current state of the folder. The lines cache its history between reads.
func (d Directory) Read(ctx context.Context, lines *history.Cache) (State, error) {
	const attempts = 3 // a user can commit or switch branches during a read
	for attempt := 1; ; attempt++ {
		state, err := d.readOnce(ctx, lines)
		if errors.Is(err, errMoved) && attempt < attempts {
			continue
		}
		if err != nil {
			return State{}, fmt.Errorf("reading directory %s: %w", d.Name(), err)
		}
		return state, nil
	}
}

// ReadFiles reads the current profile files of the folder, without history.
func (d Directory) ReadFiles(ctx context.Context) ([]filter.File, []filter.RejectedEntry, error) {
	files, rejected, err := d.readFiles(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("reading directory %s: %w", d.Name(), err)
	}
	return files, rejected, nil
}

func (d Directory) readFiles(ctx context.Context) ([]filter.File, []filter.RejectedEntry, error) {
	sub, err := filter.SplitPath(d.Sub)
	if err != nil {
		return nil, nil, err
	}
	root, path, err := d.openRoot()
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	repo, refusal, err := findRepository(root, path)
	if err != nil {
		return nil, nil, err
	}
	w := folderWalk{root: root, top: filepath.Join(path, filepath.Join(sub...)), followFiles: repo == nil && refusal == nil}
	return w.readFiles(ctx, filter.Scope{Ignore: d.Ignore})
}

// errMoved is returned if files or the repository changed during a read.
var errMoved = errors.New("it changes while it is read: write files outside it and rename them into place")

// Name returns the folder's path as configured.
func (d Directory) Name() string {
	if filepath.IsAbs(d.Path) {
		return filepath.Clean(d.Path)
	}
	return filepath.Join(d.Root, d.Path)
}

func (d Directory) readOnce(ctx context.Context, lines *history.Cache) (State, error) {
	sub, err := filter.SplitPath(d.Sub)
	if err != nil {
		return State{}, err
	}
	root, path, err := d.openRoot()
	if err != nil {
		return State{}, err
	}
	defer root.Close()
	repo, refusal, err := findRepository(root, path)
	if err != nil {
		return State{}, err
	}
	if repo == nil {
		return d.readPlain(ctx, root, path, sub, refusal)
	}
	return d.readWorktree(ctx, repo, filter.Scope{Parts: append(relativeParts(repo.top, path), sub...), Ignore: d.Ignore}, lines)
}

// openRoot returns the root and the folder's path below it, without symlinks. If a link is
// replaced during the read, as git-sync does, all files still come from its old target.
func (d Directory) openRoot() (*os.Root, string, error) {
	if d.Root == "" {
		return nil, "", fault.New(fault.ErrInvalid, "reading directories is disabled: set --directory-root")
	}
	base, err := filepath.EvalSymlinks(d.Root)
	if err != nil {
		return nil, "", fmt.Errorf("opening the root of directories: %w", err)
	}
	lexical, err := filepath.Rel(d.Root, d.Name())
	if err != nil || !filepath.IsLocal(lexical) {
		return nil, "", fault.New(fault.ErrInvalid, "it is not below %s", d.Root)
	}
	full, err := filepath.EvalSymlinks(filepath.Join(base, lexical))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fault.New(fault.ErrNotFound, "it does not exist")
	}
	if err != nil {
		return nil, "", fault.New(fault.ErrInvalid, "it cannot be opened: %v", err)
	}
	path, err := filepath.Rel(base, full)
	if err != nil || !filepath.IsLocal(path) {
		return nil, "", fault.New(fault.ErrInvalid, "a symlink leads out of %s", d.Root)
	}
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, "", fmt.Errorf("opening the root of directories: %w", err)
	}
	return root, path, nil
}

// readPlain reads a folder without Git: every file is dirty. A symlink to a file is followed
// if the file is below the root, because the files of a mounted ConfigMap are symlinks.
func (d Directory) readPlain(ctx context.Context, root *os.Root, path string, sub []string, refusal *filter.RejectedEntry) (State, error) {
	w := folderWalk{root: root, top: path, followFiles: true}
	files, rejected, err := w.readFiles(ctx, filter.Scope{Parts: sub, Ignore: d.Ignore})
	if err != nil {
		return State{}, err
	}
	for i := range files {
		files[i].Dirty = true
	}
	if refusal != nil {
		rejected = append([]filter.RejectedEntry{*refusal}, rejected...)
	}
	return State{Files: files, Rejected: rejected, Dirty: true}, nil
}

func (d Directory) readWorktree(ctx context.Context, repo *Repository, in filter.Scope, lines *history.Cache) (State, error) {
	w := folderWalk{root: repo.root, top: repo.top}
	files, rejected, err := w.readFiles(ctx, in)
	if err != nil {
		return State{}, err
	}
	committed, err := repo.committedBlobs(ctx, in)
	if err != nil {
		return State{}, addDamageRemedy(err)
	}
	state := State{Files: files, Rejected: rejected, Repository: repo, Head: history.Commit(repo.head.String()), Branch: repo.branch}
	for i, f := range files {
		files[i].Dirty = committed[f.Path] != f.Blob
		state.Dirty = state.Dirty || files[i].Dirty
	}
	for path := range committed {
		state.Dirty = state.Dirty || !w.wasFound(path)
	}
	if !repo.partial {
		if state.Line, err = lines.FirstParentHistory(ctx, repo.objects, repo.branch, repo.head, in); err != nil {
			return State{}, addDamageRemedy(err)
		}
	}
	// Check HEAD again: a checkout during the read mixes files of two commits.
	if head, _, err := repo.readHead(); err != nil || head != repo.head {
		return State{}, errMoved
	}
	return state, nil
}

// relativeParts returns the parts of a folder's path relative to a folder above it.
func relativeParts(top, path string) []string {
	rel, err := filepath.Rel(top, path)
	if err != nil || rel == "." {
		return nil
	}
	return strings.Split(filepath.ToSlash(rel), "/")
}
