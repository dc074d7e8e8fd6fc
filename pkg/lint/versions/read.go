package versions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// ReadBase reads the base from the repository that contains paths, without a checkout. paths are
// the files and folders to lint; of the base, Read reads the nearest folder that contains all
// of them. index has the check and the built-in profiles of the program that reads the profiles
// later: a profile that the program would reject has no version, and overlays have the same
// result as there. The caller sets Documents.
func ReadBase(ctx context.Context, index *catalog.Indexer, paths []string, revision string) (Comparison, error) {
	where, err := locateRepository(paths)
	if err != nil {
		return Comparison{}, fmt.Errorf("reading base %q: %w", revision, err)
	}
	base := source.Repository{Dir: where.top, Revision: revision, Path: where.folder}
	snap, err := base.Read(ctx)
	if errors.Is(err, source.ErrNotFound) && where.folder != "" {
		// The folder can be new. Reading with everything ignored shows whether the revision
		// exists.
		empty := source.Repository{Dir: where.top, Revision: revision, Ignore: "*"}
		if _, other := empty.Read(ctx); other == nil {
			snap, err = empty.Read(ctx)
		}
	}
	if err != nil {
		return Comparison{}, fmt.Errorf("reading base %q: %w", revision, err)
	}
	catalogue, err := index.Catalog(ctx, snap)
	if err != nil {
		return Comparison{}, fmt.Errorf("indexing base %q: %w", revision, err)
	}
	c := Comparison{
		Revision: revision, Base: catalogue, Partial: len(snap.Line) == 0 && len(snap.Files) > 0,
		Covered: where.covers, Broken: func(string) bool { return false }, Name: where.displayPath,
	}
	c.Merged, err = newHeadContainsCheck(ctx, where, snap)
	return c, err
}

// newHeadContainsCheck returns a function that reports whether a commit of the base is in the history of
// HEAD. Without history it reports true for all, because it cannot detect a branch that is
// behind.
func newHeadContainsCheck(ctx context.Context, where location, base *source.Snapshot) (func(source.Commit) bool, error) {
	all := func(source.Commit) bool { return true }
	if len(base.Line) == 0 {
		return all, nil
	}
	head, err := source.Repository{Dir: where.top, Ignore: "*"}.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading HEAD, to see how far it has followed the base: %w", err)
	}
	known := map[source.Commit]bool{}
	return func(commit source.Commit) bool {
		if commit == "" {
			return true
		}
		is, ok := known[commit]
		if !ok {
			// Commits count as merged after a merge of the base into the branch, and if the
			// branch started from them. An error counts as merged too: a superfluous finding is
			// better than a missing one.
			contains, err := head.Contains(ctx, commit)
			is = contains || err != nil
			known[commit] = is
		}
		return is
	}, nil
}

// location is the repository of the paths, and their place in it.
type location struct {
	top            string   // the repository's folder
	folder         string   // in it, with forward slashes, the nearest that holds all paths; "" is the top
	paths          []string // in it, with forward slashes
	requestedPaths []string // as the user wrote them
}

// locateRepository returns the one repository of the paths, and the nearest folder that holds them
// all.
func locateRepository(paths []string) (location, error) {
	var l location
	for _, p := range paths {
		top, ok, err := lint.RepositoryOf(p)
		if err != nil {
			return l, err
		}
		if !ok {
			return l, fmt.Errorf("%s is in no Git repository", p)
		}
		if l.top != "" && top != l.top {
			return l, fmt.Errorf("%s and %s are in different repositories: lint them one by one", paths[0], p)
		}
		l.top = top
		full, err := filepath.Abs(p)
		if err != nil {
			return l, err
		}
		rel, err := filepath.Rel(top, full)
		if err != nil {
			return l, err
		}
		rel = filepath.ToSlash(rel)
		folder := rel
		if info, err := os.Stat(full); err == nil && !info.IsDir() {
			folder = path.Dir(rel)
		}
		if len(l.paths) == 0 {
			l.folder = folder
		}
		for l.folder != "." && folder != l.folder && !strings.HasPrefix(folder, l.folder+"/") {
			l.folder = path.Dir(l.folder)
		}
		l.paths, l.requestedPaths = append(l.paths, rel), append(l.requestedPaths, p)
	}
	if l.folder == "." {
		l.folder = ""
	}
	return l, nil
}

func (l location) covers(name string) bool { return l.pathIndex(name) >= 0 }

// pathIndex returns the index of the path that contains a file, and -1 if none does.
func (l location) pathIndex(name string) int {
	for i, p := range l.paths {
		if p == "." || name == p || strings.HasPrefix(name, p+"/") {
			return i
		}
	}
	return -1
}

// displayPath returns a file's path in findings: the path that the user wrote, and the rest below it.
func (l location) displayPath(file string) string {
	i := l.pathIndex(file)
	if i < 0 {
		return filepath.Join(l.top, filepath.FromSlash(file))
	}
	rest := strings.TrimPrefix(file, l.paths[i])
	if l.paths[i] == "." {
		rest = file
	}
	return filepath.Join(l.requestedPaths[i], filepath.FromSlash(rest))
}
