package worktree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/fault"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectid"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/objectstore"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
)

// maxGitFileBytes bounds the files in .git that are read into memory: config, HEAD, and
// packed-refs, which then has about 100,000 references.
const maxGitFileBytes = 8 << 20 // 8 MiB

// Repository is a Git repository on this machine, bare or with a work tree.
type Repository struct {
	root    *os.Root
	top     string // folder that contains .git, relative to the root
	gitDir  string
	common  string // gitDir, or the Git directory that a linked work tree shares with others
	branch  string // "" if HEAD is detached
	head    plumbing.Hash
	partial bool // a shallow or partial clone, whose history is incomplete
	objects *objectstore.Objects
}

// CurrentObjects returns the objects of the repository.
func (t *Repository) CurrentObjects() *objectstore.Objects { return t.objects }

// HandleDamage adds the remedy to an error about damaged objects.
func (t *Repository) HandleDamage(err error) error { return addDamageRemedy(err) }

// addDamageRemedy replaces an error about damaged objects by one that names the remedy. It returns
// other errors unchanged.
func addDamageRemedy(err error) error {
	if fault.IsDamage(err) {
		return fault.New(fault.ErrInvalid, "its Git repository is incomplete or broken (%v); check it with git fsck", err)
	}
	return err
}

// findRepository searches for .git in a folder and those above it, below the root. If a
// repository exists and its history cannot be read, it returns nil and a refusal with the
// reason, and the folder is read as a plain folder.
func findRepository(root *os.Root, path string) (*Repository, *filter.RejectedEntry, error) {
	top, info, err := findDotGit(root, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return openWorktree(root, top, info)
}

// findDotGit searches for .git in a folder and those above it.
func findDotGit(root *os.Root, path string) (top string, info fs.FileInfo, err error) {
	for top = path; ; top = filepath.Dir(top) {
		info, err = root.Lstat(filepath.Join(top, ".git"))
		if !errors.Is(err, fs.ErrNotExist) || top == "." {
			return top, info, err
		}
	}
}

func openWorktree(root *os.Root, top string, info fs.FileInfo) (*Repository, *filter.RejectedEntry, error) {
	t := &Repository{root: root, top: top, gitDir: filepath.Join(top, ".git")}
	reason := t.locateGitDirsAndReadConfig(info)
	if reason == "" {
		var err error
		if t.head, t.branch, err = t.readHead(); err != nil {
			reason = "HEAD does not name a commit yet, or cannot be read"
		}
	}
	if reason == "" {
		var err error
		if reason, err = t.openObjects(); err != nil {
			return nil, nil, err
		}
	}
	if reason != "" {
		return nil, &filter.RejectedEntry{Path: ".git", Reason: reason + "; the files are read as those of a plain folder"}, nil
	}
	return t, nil, nil
}

// locateGitDirsAndReadConfig finds the Git directories of the repository and reads its config. It returns a
// reason if the repository cannot be read.
func (t *Repository) locateGitDirsAndReadConfig(info fs.FileInfo) (reason string) {
	if info.Mode().IsRegular() {
		dir, ok := readLink(t.root, t.gitDir, "gitdir: ", t.top)
		if !ok {
			return "the repository it points to is not below the root of directories"
		}
		t.gitDir = dir
	} else if !info.IsDir() {
		return "it is neither a folder nor a file"
	}
	t.common = t.gitDir
	if _, err := t.root.Lstat(filepath.Join(t.gitDir, "commondir")); err == nil {
		dir, ok := readLink(t.root, filepath.Join(t.gitDir, "commondir"), "", t.gitDir)
		if !ok {
			return "the repository it points to is not below the root of directories"
		}
		t.common = dir
	}
	return t.readConfig()
}

// openObjects opens the object database. The reason says why it cannot be read.
func (t *Repository) openObjects() (reason string, err error) {
	dir, err := t.root.OpenRoot(filepath.Join(t.common, "objects"))
	if err != nil {
		return "it has no folder of objects", nil //nolint:nilerr // the reason says it
	}
	if t.objects, err = objectstore.OpenObjects(dir); err != nil {
		dir.Close()
		if errors.Is(err, fs.ErrNotExist) {
			return "", errMoved // git gc replaced a pack
		}
		return "", addDamageRemedy(err)
	}
	return "", nil
}

// readLink reads a file that contains the path of a folder below the root.
func readLink(root *os.Root, file, prefix, relativeTo string) (string, bool) {
	data, err := readSmall(root, file)
	to, ok := strings.CutPrefix(strings.TrimSpace(string(data)), prefix)
	if err != nil || !ok || to == "" {
		return "", false
	}
	if filepath.IsAbs(to) {
		if to, err = filepath.EvalSymlinks(to); err != nil {
			return "", false
		}
		to, err = filepath.Rel(root.Name(), to)
	} else {
		to = filepath.Join(relativeTo, to)
	}
	return to, err == nil && filepath.IsLocal(to)
}

// Settings of a repository whose history this package cannot read completely.
var (
	sha256Format = regexp.MustCompile(`(?mi)^\s*objectformat\s*=\s*"?sha256`)
	refTables    = regexp.MustCompile(`(?mi)^\s*refstorage\s*=\s*"?reftable`)
	promisor     = regexp.MustCompile(`(?mi)^\s*(promisor|partialclone)\s*=`)
)

// readConfig returns a reason if this package cannot read the repository, and sets partial if
// the clone is shallow or partial.
func (t *Repository) readConfig() (reason string) {
	config, err := readSmall(t.root, filepath.Join(t.common, "config"))
	if err != nil {
		return "its config cannot be read"
	}
	if sha256Format.Match(config) {
		return "the repository uses SHA-256 object ids"
	}
	if refTables.Match(config) {
		return "the repository stores its references in reftables, which are not supported"
	}
	if alternates, err := readSmall(t.root, filepath.Join(t.common, "objects", "info", "alternates")); err == nil && len(alternates) > 0 {
		return "the repository borrows objects from another (objects/info/alternates)"
	}
	shallow, err := readSmall(t.root, filepath.Join(t.common, "shallow"))
	t.partial = promisor.Match(config) || err == nil && len(shallow) > 0
	return ""
}

var errNoHead = errors.New("HEAD cannot be resolved")

// readHead returns the commit at HEAD and the branch, "" if HEAD is detached.
func (t *Repository) readHead() (plumbing.Hash, string, error) {
	name := "HEAD"
	for range 5 { // git follows as many symbolic references
		data, err := readSmall(t.root, filepath.Join(t.gitDir, filepath.FromSlash(name)))
		// A linked work tree has its own HEAD, and shares the other references.
		if errors.Is(err, fs.ErrNotExist) {
			data, err = readSmall(t.root, filepath.Join(t.common, filepath.FromSlash(name)))
		}
		if errors.Is(err, fs.ErrNotExist) {
			var packed map[string]plumbing.Hash
			if packed, err = t.packedRefs(); err == nil && packed[name].IsZero() {
				err = errNoHead
			}
			data = []byte(packed[name].String())
		}
		if err != nil {
			return plumbing.ZeroHash, "", err
		}
		text := strings.TrimSpace(string(data))
		if objectid.IsValid(text) {
			branch := strings.TrimPrefix(name, revision.BranchPrefix)
			if name == "HEAD" {
				branch = ""
			}
			return plumbing.NewHash(text), branch, nil
		}
		to, ok := strings.CutPrefix(text, "ref: ")
		if !ok || !revision.ValidRefName(to) {
			return plumbing.ZeroHash, "", errNoHead
		}
		name = to
	}
	return plumbing.ZeroHash, "", errNoHead
}

// packedRefs reads the references in the file packed-refs.
func (t *Repository) packedRefs() (map[string]plumbing.Hash, error) {
	data, err := readSmall(t.root, filepath.Join(t.common, "packed-refs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	refs := map[string]plumbing.Hash{}
	for line := range strings.Lines(string(data)) {
		if id, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && objectid.IsValid(id) && revision.ValidRefName(name) {
			refs[name] = plumbing.NewHash(id)
		}
	}
	return refs, nil
}

func readSmall(root *os.Root, path string) ([]byte, error) {
	f, _, err := openRegular(root, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxGitFileBytes+1))
	if err == nil && len(data) > maxGitFileBytes {
		return nil, fault.New(fault.ErrInvalid, "%s has more than %d bytes", path, maxGitFileBytes)
	}
	return data, err
}

// committedBlobs returns the blobs of the profile files at HEAD that are not ignored there, by path.
func (t *Repository) committedBlobs(ctx context.Context, in filter.Scope) (map[string]string, error) {
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
	found, err := in.Select(ctx, t.objects.Content, l.Found, &l.Rejected)
	if err != nil {
		return nil, err
	}
	blobs := make(map[string]string, len(found))
	for _, f := range found {
		blobs[f.Path] = f.Blob
	}
	return blobs, nil
}
