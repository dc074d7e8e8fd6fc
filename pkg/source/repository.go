package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/transport"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/verification"
)

// Repository is a Git repository on this machine, bare or with a work tree, that is
// read at a revision. Its work tree is not looked at.
type Repository struct {
	// Dir is the repository, its work tree, or a folder in that.
	Dir string
	// Revision is a branch, a tag, a commit or something like HEAD~1; "" is HEAD.
	Revision string
	// Path is the folder of the profiles, relative to the root; "" is the root.
	Path string
	// Ignore holds patterns in gitignore's syntax, relative to Path, which come after
	// those of every IgnoreFile.
	Ignore string
}

// Read reads the snapshot at the revision. Its Repository is the URL of the remote
// origin, where that is one which Mirrors could fetch: what is read here then says
// of itself what the same commit says that was fetched from there. Errors are of
// the kinds ErrNotFound and ErrInvalid; any other is the context's, or this
// machine's disk.
func (r Repository) Read(ctx context.Context) (*Snapshot, error) {
	snapshot, err := r.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading %s of repository %s: %w", fault.Printable(fault.Shorten(r.revision())), r.Dir, err)
	}
	return snapshot, nil
}

func (r Repository) revision() string {
	if r.Revision == "" {
		return "HEAD"
	}
	return r.Revision
}

func (r Repository) read(ctx context.Context) (*Snapshot, error) {
	parts, err := filter.SplitPath(r.Path)
	if err != nil {
		return nil, err
	}
	spec, err := revision.Parse(r.revision())
	if err != nil {
		return nil, err
	}
	full, err := absolute(r.Dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot("/")
	if err != nil {
		return nil, err
	}
	defer root.Close()
	tree, err := openRepository(root, strings.TrimPrefix(filepath.ToSlash(full), "/"))
	if err != nil {
		return nil, err
	}
	head, err := tree.resolve(ctx, root, spec)
	if err != nil {
		return nil, explainTree(err)
	}
	snapshot, err := tree.snapshot(ctx, head, filter.Scope{Parts: parts, Ignore: r.Ignore})
	if err != nil {
		return nil, explainTree(err)
	}
	if snapshot.Repository = tree.origin(root); snapshot.Repository == "" {
		snapshot.Repository = full
	}
	return snapshot, nil
}

// absolute returns the path of a folder without symlinks.
func absolute(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	full, err = filepath.EvalSymlinks(full)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.ErrNotFound, "it does not exist")
	}
	if err != nil {
		return "", fault.New(fault.ErrInvalid, "it cannot be opened: %v", err)
	}
	return full, nil
}

// openRepository opens a bare repository, else the one whose work tree a folder
// belongs to.
func openRepository(root *os.Root, dir string) (*workTree, error) {
	tree, info, err := findRepository(root, path.Clean(dir))
	if err != nil {
		return nil, err
	}
	reason := tree.locate(root, info)
	if reason == "" {
		reason, err = tree.open(root)
	}
	if errors.Is(err, errMoved) {
		return nil, fault.New(fault.ErrInvalid, "it changes while it is read: wait until git gc has ended")
	}
	if err == nil && reason != "" {
		err = fault.New(fault.ErrInvalid, "it cannot be read: %s", reason)
	}
	return tree, err
}

func findRepository(root *os.Root, dir string) (*workTree, fs.FileInfo, error) {
	if info, err := root.Lstat(dir); err == nil && isBare(root, dir) {
		return &workTree{top: dir, gitDir: dir}, info, nil
	}
	for top := dir; ; top = path.Dir(top) {
		gitDir := path.Join(top, ".git")
		info, err := root.Lstat(gitDir)
		if err == nil {
			return &workTree{top: top, gitDir: gitDir}, info, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fault.New(fault.ErrInvalid, "it cannot be opened: %v", err)
		}
		if top == "." {
			return nil, nil, fault.New(fault.ErrNotFound, "neither it nor a folder above it is a Git repository")
		}
	}
}

// isBare tells a repository by what git tells it.
func isBare(root *os.Root, dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if info, err := root.Lstat(path.Join(dir, name)); err != nil || info.IsDir() != (name != "HEAD") {
			return false
		}
	}
	return true
}

// resolve finds the commit that a revision means.
func (t *workTree) resolve(ctx context.Context, root *os.Root, spec revision.Spec) (plumbing.Hash, error) {
	refs, err := t.references(ctx, root)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return spec.Resolve(ctx, t.objects, refs)
}

// references lists what names a commit: HEAD, branches, tags, remotes' branches.
func (t *workTree) references(ctx context.Context, root *os.Root) (map[string]plumbing.Hash, error) {
	refs := map[string]plumbing.Hash{}
	packed, err := readSmall(root, path.Join(t.common, "packed-refs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(packed)) {
		if id, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && objectstore.IsObjectID(id) && revision.ValidName(name) {
			refs[name] = plumbing.NewHash(id)
		}
	}
	loose, err := root.OpenRoot(path.Join(t.common, "refs"))
	if err != nil {
		return nil, fault.New(fault.ErrInvalid, "its references cannot be read: %v", err)
	}
	defer loose.Close()
	symbolic, entries := map[string]string{}, 0
	err = fs.WalkDir(loose.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if entries++; entries > filter.MaxEntries {
			return fault.New(fault.ErrInvalid, "it has more than %d references", filter.MaxEntries)
		}
		if err = errors.Join(err, ctx.Err()); err != nil || !d.Type().IsRegular() || !revision.ValidName("refs/"+name) {
			return err
		}
		data, err := readSmall(loose, name)
		text := strings.TrimSpace(string(data))
		if to, ok := strings.CutPrefix(text, "ref: "); ok {
			symbolic["refs/"+name] = to
		} else if objectstore.IsObjectID(text) {
			refs["refs/"+name] = plumbing.NewHash(text)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for name, to := range symbolic {
		if id := refs[to]; !id.IsZero() {
			refs[name] = id
		}
	}
	if head, _, err := t.readHead(root); err == nil {
		refs["HEAD"] = head
	}
	return refs, nil
}

// snapshot reads what is at a commit.
func (t *workTree) snapshot(ctx context.Context, head plumbing.Hash, in filter.Scope) (*Snapshot, error) {
	c, err := t.objects.Commit(ctx, head)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Revision: revision.Format("", head), Head: Commit(head.String()), objects: t, verified: new(verification.Cache), scope: in}
	if s.Files, s.Refused, err = t.objects.Files(ctx, c.Tree, in); err != nil {
		return nil, err
	}
	if !t.partial {
		s.Line, err = new(Lines).Of(ctx, t.objects, "", head, in)
	}
	return s, err
}

var (
	originSection = regexp.MustCompile(`(?m)^\s*\[\s*remote\s+"origin"\s*\]([^\[]*)`)
	urlKey        = regexp.MustCompile(`(?mi)^\s*url\s*=\s*(\S+)\s*$`)
)

// origin is the URL of the remote origin without user-info, "" where there is none
// or where it is none to fetch from.
func (t *workTree) origin(root *os.Root) string {
	config, err := readSmall(root, path.Join(t.common, "config"))
	if err != nil {
		return ""
	}
	section := originSection.FindSubmatch(config)
	if section == nil {
		return ""
	}
	value := urlKey.FindSubmatch(section[1])
	if value == nil {
		return ""
	}
	return transport.CleanURL(string(value[1]))
}
