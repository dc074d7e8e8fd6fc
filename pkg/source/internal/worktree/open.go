package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/location"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
)

// resolveDir returns the path of a folder without symlinks.
func resolveDir(dir string) (string, error) {
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

// Open opens the bare repository in a folder, or the repository whose work tree contains the
// folder. Path is the folder without symlinks. Without an error the caller calls Close.
func Open(dir string) (t *Repository, path string, err error) {
	if path, err = resolveDir(dir); err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot("/")
	if err != nil {
		return nil, "", err
	}
	t, err = openContaining(root, strings.TrimPrefix(filepath.ToSlash(path), "/"))
	if err != nil {
		root.Close()
		return nil, "", err
	}
	return t, path, nil
}

// Close releases the root. The objects that a snapshot refers to remain readable.
func (t *Repository) Close() { t.root.Close() }

// openContaining opens the repository of Open below a root.
func openContaining(root *os.Root, dir string) (*Repository, error) {
	tree, info, err := findContaining(root, path.Clean(dir))
	if err != nil {
		return nil, err
	}
	reason := tree.locateGitDirsAndReadConfig(info)
	if reason == "" {
		reason, err = tree.openObjects()
	}
	if errors.Is(err, errMoved) {
		return nil, fault.New(fault.ErrInvalid, "it changes while it is read: wait until git gc has ended")
	}
	if err == nil && reason != "" {
		err = fault.New(fault.ErrInvalid, "it cannot be read: %s", reason)
	}
	return tree, err
}

func findContaining(root *os.Root, dir string) (*Repository, fs.FileInfo, error) {
	if info, err := root.Lstat(dir); err == nil && isBare(root, dir) {
		return &Repository{root: root, top: dir, gitDir: dir}, info, nil
	}
	top, info, err := findDotGit(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fault.New(fault.ErrNotFound, "neither it nor a folder above it is a Git repository")
	}
	if err != nil {
		return nil, nil, fault.New(fault.ErrInvalid, "it cannot be opened: %v", err)
	}
	return &Repository{root: root, top: top, gitDir: path.Join(top, ".git")}, info, nil
}

// isBare reports whether a folder is a Git directory, by the entries that git requires.
func isBare(root *os.Root, dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if info, err := root.Lstat(path.Join(dir, name)); err != nil || info.IsDir() != (name != "HEAD") {
			return false
		}
	}
	return true
}

// resolve returns the commit of a revision.
func (t *Repository) resolve(ctx context.Context, spec revision.Spec) (plumbing.Hash, error) {
	refs, err := t.references(ctx)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return spec.Resolve(ctx, t.objects, refs)
}

// references returns the commits of HEAD, branches, tags and remote-tracking branches by
// their full names.
func (t *Repository) references(ctx context.Context) (map[string]plumbing.Hash, error) {
	refs, err := t.packedRefs()
	if err != nil {
		return nil, err
	}
	loose, err := t.root.OpenRoot(path.Join(t.common, "refs"))
	if err != nil {
		return nil, fault.New(fault.ErrInvalid, "its references cannot be read: %v", err)
	}
	defer loose.Close()
	symbolic, entries := map[string]string{}, 0
	err = fs.WalkDir(loose.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if entries++; entries > filter.MaxEntries {
			return fault.New(fault.ErrInvalid, "it has more than %d references", filter.MaxEntries)
		}
		if err = errors.Join(err, ctx.Err()); err != nil || !d.Type().IsRegular() || !revision.ValidRefName("refs/"+name) {
			return err
		}
		data, err := readSmall(loose, name)
		text := strings.TrimSpace(string(data))
		if to, ok := strings.CutPrefix(text, "ref: "); ok {
			symbolic["refs/"+name] = to
		} else if objectid.IsValid(text) {
			refs["refs/"+name] = plumbing.NewHash(text)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	// A symbolic reference can name one that was read after it.
	for name, to := range symbolic {
		if id := refs[to]; !id.IsZero() {
			refs[name] = id
		}
	}
	if head, _, err := t.readHead(); err == nil {
		refs["HEAD"] = head
	}
	return refs, nil
}

// Read reads the files and the history at the commit of a revision.
func (t *Repository) Read(ctx context.Context, spec revision.Spec, in filter.Scope) (State, error) {
	head, err := t.resolve(ctx, spec)
	if err != nil {
		return State{}, addDamageRemedy(err)
	}
	state, err := t.readStateAt(ctx, head, in)
	return state, addDamageRemedy(err)
}

func (t *Repository) readStateAt(ctx context.Context, head plumbing.Hash, in filter.Scope) (State, error) {
	c, err := t.objects.Commit(ctx, head)
	if err != nil {
		return State{}, err
	}
	state := State{Repository: t, Head: history.Commit(head.String())}
	if state.Files, state.Rejected, err = t.objects.Files(ctx, c.Tree, in); err != nil {
		return State{}, err
	}
	if !t.partial {
		state.Line, err = new(history.Cache).FirstParentHistory(ctx, t.objects, "", head, in)
	}
	return state, err
}

var (
	originSection = regexp.MustCompile(`(?m)^\s*\[\s*remote\s+"origin"\s*\]([^\[]*)`)
	urlKey        = regexp.MustCompile(`(?mi)^\s*url\s*=\s*(\S+)\s*$`)
)

// Origin returns the URL of the remote origin without user-info, "" if there is no such
// remote or its URL is not one to fetch from.
func (t *Repository) Origin() string {
	config, err := readSmall(t.root, path.Join(t.common, "config"))
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
	return location.CanonicalURL(string(value[1]))
}
