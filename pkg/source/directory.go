package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/verification"
)

// Directory is a folder on this machine: a Git work tree, whose .git is only read,
// or a plain folder.
type Directory struct {
	// Root is what nothing may lead out of: no "..", no symlink.
	Root string
	// Path is the folder, absolute or relative to Root. The work tree may begin above
	// it, but not above Root.
	Path string
	// Sub is the folder of the profiles in it; "" is the folder itself.
	Sub string
	// Ignore holds patterns in gitignore's syntax, relative to Sub, which come after
	// those of every IgnoreFile.
	Ignore string
	// Lines keeps the history between reads; nil walks it each time.
	Lines *Lines
}

// Read reads the snapshot of the folder as it is now. In a work tree each file is
// compared with the commit at HEAD byte by byte: where Git converts line ends or
// filters, a file counts as dirty. Errors are of the kinds ErrNotFound and
// ErrInvalid; any other is the context's, or this machine's disk.
func (d Directory) Read(ctx context.Context) (*Snapshot, error) {
	const attempts = 3 // somebody may commit or switch branches while we read
	for attempt := 1; ; attempt++ {
		snapshot, err := d.read(ctx)
		if errors.Is(err, errMoved) && attempt < attempts {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading directory %s: %w", d.name(), err)
		}
		return snapshot, nil
	}
}

// ReadFiles reads the profile files of the folder as they are now and no history,
// so that it opens no object of a repository. Paths are relative to the folder, or to
// Sub in it. Errors are those of Read.
func (d Directory) ReadFiles(ctx context.Context) ([]File, []Refusal, error) {
	files, refused, err := d.readFiles(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("reading directory %s: %w", d.name(), err)
	}
	return files, refused, nil
}

func (d Directory) readFiles(ctx context.Context) ([]File, []Refusal, error) {
	sub, err := filter.SplitPath(d.Sub)
	if err != nil {
		return nil, nil, err
	}
	root, path, err := d.open()
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	tree, refusal, err := findWorkTree(root, path)
	if err != nil {
		return nil, nil, err
	}
	w := folderWalk{root: root, top: filepath.Join(path, filepath.Join(sub...)), followFiles: tree == nil && refusal == nil}
	if err := w.walk(ctx, filter.Scope{Ignore: d.Ignore}); err != nil {
		return nil, nil, err
	}
	return w.read(ctx)
}

// errMoved: files or the repository are others than when reading began.
var errMoved = errors.New("it changes while it is read: write files beside it and rename them into place")

// name is the folder's path as it was given.
func (d Directory) name() string {
	if filepath.IsAbs(d.Path) {
		return filepath.Clean(d.Path)
	}
	return filepath.Join(d.Root, d.Path)
}

func (d Directory) read(ctx context.Context) (*Snapshot, error) {
	sub, err := filter.SplitPath(d.Sub)
	if err != nil {
		return nil, err
	}
	root, path, err := d.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	tree, refusal, err := findWorkTree(root, path)
	if err != nil {
		return nil, err
	}
	if tree == nil {
		return d.readPlain(ctx, root, path, sub, refusal)
	}
	return d.readWorkTree(ctx, root, tree, path, sub)
}

// open returns the root and the folder's path below it, without symlinks: where a
// link is swapped under us (as git-sync does), all is read from where it led.
func (d Directory) open() (*os.Root, string, error) {
	if d.Root == "" {
		return nil, "", fault.New(fault.ErrInvalid, "no directory may be read: set --directory-root")
	}
	base, err := filepath.EvalSymlinks(d.Root)
	if err != nil {
		return nil, "", fmt.Errorf("opening the root of directories: %w", err)
	}
	lexical, err := filepath.Rel(d.Root, d.name())
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

// readPlain reads a folder without Git: every file is dirty. A file that is a
// symlink is read when it stays below the root, as a mounted ConfigMap needs it.
func (d Directory) readPlain(ctx context.Context, root *os.Root, path string, sub []string, refusal *Refusal) (*Snapshot, error) {
	w := folderWalk{root: root, top: path, followFiles: true}
	if err := w.walk(ctx, filter.Scope{Parts: sub, Ignore: d.Ignore}); err != nil {
		return nil, err
	}
	files, refused, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	for i := range files {
		files[i].Dirty = true
	}
	if refusal != nil {
		refused = append([]Refusal{*refusal}, refused...)
	}
	return &Snapshot{Revision: digest(files), Repository: d.name(), Files: files, Refused: refused}, nil
}

func (d Directory) readWorkTree(ctx context.Context, root *os.Root, tree *workTree, path string, sub []string) (*Snapshot, error) {
	in := filter.Scope{Parts: append(below(tree.top, path), sub...), Ignore: d.Ignore}
	w := folderWalk{root: root, top: tree.top}
	if err := w.walk(ctx, in); err != nil {
		return nil, err
	}
	files, refused, err := w.read(ctx)
	if err != nil {
		return nil, err
	}
	committed, err := tree.committed(ctx, in)
	if err != nil {
		return nil, explainTree(err)
	}
	dirty := false
	for i, f := range files {
		files[i].Dirty = committed[f.Path] != f.Blob
		dirty = dirty || files[i].Dirty
	}
	for path := range committed {
		dirty = dirty || !w.has(path)
	}
	snapshot := &Snapshot{
		Revision:   revision.Format(tree.branch, tree.head),
		Repository: d.name(),
		Head:       Commit(tree.head.String()),
		Files:      files,
		Refused:    refused,
		objects:    tree,
		verified:   new(verification.Cache),
	}
	if dirty {
		snapshot.Revision = digest(files)
	}
	if !tree.partial {
		lines := d.Lines
		if lines == nil {
			lines = new(Lines)
		}
		if snapshot.Line, err = lines.Of(ctx, tree.objects, tree.branch, tree.head, in); err != nil {
			return nil, explainTree(err)
		}
	}
	if head, _, err := tree.readHead(root); err != nil || head != tree.head {
		return nil, errMoved
	}
	return snapshot, nil
}

// below is the path of a folder relative to one above it.
func below(top, path string) []string {
	rel, err := filepath.Rel(top, path)
	if err != nil || rel == "." {
		return nil
	}
	return strings.Split(filepath.ToSlash(rel), "/")
}

// digest is the revision of files that no commit holds.
func digest(files []File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s\x00%x\n", f.Path, sha256.Sum256(f.Data))
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}

// explainTree words what is wrong with a work tree's repository.
func explainTree(err error) error {
	if fault.IsDamage(err) {
		return fault.New(fault.ErrInvalid, "its Git repository is incomplete or broken (%v); check it with git fsck", err)
	}
	return err
}

// committed lists the profile files at HEAD that are not ignored there: blob by path.
func (t *workTree) committed(ctx context.Context, in filter.Scope) (map[string]string, error) {
	c, err := t.objects.Commit(ctx, t.head)
	if err != nil {
		return nil, err
	}
	top, err := t.objects.Find(ctx, c.Tree, in.Parts)
	if err != nil || top.Mode&filter.ModeKind != filter.ModeFolder {
		return nil, err
	}
	l := objectstore.Listing{Objects: t.objects}
	if err := l.Walk(ctx, top.ID, in.Path(), 0); err != nil {
		return nil, err
	}
	found, err := in.Keep(ctx, t.objects.Content, l.Found, &l.Refused)
	if err != nil {
		return nil, err
	}
	blobs := make(map[string]string, len(found))
	for _, f := range found {
		blobs[f.Path] = f.Blob
	}
	return blobs, nil
}

// Reader implements database.
func (t *workTree) Reader() *objectstore.Objects { return t.objects }

// Explain implements database.
func (t *workTree) Explain(err error) error { return explainTree(err) }

// workTree is the repository of a folder.
type workTree struct {
	top     string // where .git is, relative to the root
	gitDir  string
	common  string // gitDir, or where that of a linked work tree keeps what it shares
	branch  string // "" when HEAD is detached
	head    plumbing.Hash
	partial bool // a shallow or partial clone: what is there is no history
	objects *objectstore.Objects
}
