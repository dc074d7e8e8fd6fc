package worktree

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/watch"
)

// Watch starts watching a directory: the folder of the profiles and all folders below it, the
// links in its path, and the commit that is checked out. It calls changed within a second of
// a change, from one goroutine, with a context that ends with Close. Every change after Watch
// has returned is reported. If the kernel refuses to watch or there are too many folders,
// changed is called every ten seconds instead.
func (d Directory) Watch(changed func(context.Context)) *watch.Watch {
	return d.watch(changed, watch.MaxFolders, watch.Poll)
}

func (d Directory) watch(changed func(context.Context), limit int, poll time.Duration) *watch.Watch {
	return watch.Start(func(scan *watch.Scan) {
		s := search{dir: d, scan: scan}
		s.watchProfilesAndGitState()
	}, changed, limit, poll)
}

// WatchFiles starts watching files, by their absolute paths, and the links in these. If folder is not
// empty, each profile file in it is watched, too. It calls changed as Watch does.
func WatchFiles(files []string, folder string, changed func(context.Context)) *watch.Watch {
	return watch.Start(func(scan *watch.Scan) {
		for _, file := range files {
			s := search{scan: scan}
			s.watchPath("/", "/", file)
		}
		if folder != "" {
			scan.WatchFolder(folder).All = true
		}
	}, changed, watch.MaxFolders, watch.Poll)
}

// search finds the folders of a directory to watch.
type search struct {
	dir   Directory
	scan  *watch.Scan
	links int // that were followed
}

// watchProfilesAndGitState watches the path to the folder of the profiles, the Git state and the folders
// of profiles.
func (s *search) watchProfilesAndGitState() {
	d := s.dir
	base, err := filepath.EvalSymlinks(d.Root)
	if err != nil {
		return
	}
	lexical, err := filepath.Rel(d.Root, d.Name())
	if err != nil || !filepath.IsLocal(lexical) {
		return
	}
	path, ok := s.watchPath(base, base, lexical)
	if !ok {
		return
	}
	s.watchGitState(base, path)
	if path, ok = s.watchPath(base, path, filepath.FromSlash(d.Sub)); ok {
		s.watchFolders(base, path, 0)
	}
}

// watchPath walks along a path from a folder, watches each name in the path and the targets of
// links, and returns where the path leads. It never leaves base.
func (s *search) watchPath(base, at, path string) (string, bool) {
	for _, name := range strings.Split(filepath.Clean(path), string(filepath.Separator)) {
		if name == "." || name == "" {
			continue
		}
		next := filepath.Join(at, name)
		// A link must not lead the watch out of the root.
		if rel, err := filepath.Rel(base, next); err != nil || !filepath.IsLocal(rel) {
			return "", false
		}
		if name != ".." {
			s.scan.WatchFolder(at).Names[name] = true
		}
		info, err := os.Lstat(next)
		if err != nil {
			return "", false
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at = next
			continue
		}
		const most = 40 // path_resolution(7): Linux follows as many links
		to, err := os.Readlink(next)
		if s.links++; err != nil || s.links > most {
			return "", false
		}
		from := at
		if filepath.IsAbs(to) {
			if to, err = filepath.Rel(base, to); err != nil {
				return "", false
			}
			from = base
		}
		var ok bool
		if at, ok = s.watchPath(base, from, to); !ok {
			return "", false
		}
	}
	return at, true
}

// watchGitState watches the files that determine the commit that is checked out.
func (s *search) watchGitState(base, path string) {
	root, err := os.OpenRoot(base)
	if err != nil {
		return
	}
	defer root.Close()
	rel, err := filepath.Rel(base, path)
	if err != nil {
		return
	}
	for top := rel; ; top = filepath.Dir(top) {
		s.scan.WatchFolder(filepath.Join(base, top)).Names[".git"] = true
		info, err := root.Lstat(filepath.Join(top, ".git"))
		if err != nil && top != "." {
			continue
		}
		if err != nil {
			return
		}
		t := &Repository{root: root, top: top, gitDir: filepath.Join(top, ".git")}
		if t.locateGitDirsAndReadConfig(info) != "" {
			return
		}
		s.scan.WatchFolder(filepath.Join(base, t.gitDir)).Names["HEAD"] = true
		common := filepath.Join(base, t.common)
		s.scan.WatchFolder(common).Names["packed-refs"] = true
		if _, branch, err := t.readHead(); err == nil && branch != "" {
			s.watchPath(base, common, filepath.FromSlash(revision.BranchPrefix+branch))
		}
		return
	}
}

// watchFolders watches a folder of profiles and the folders below it.
func (s *search) watchFolders(base, path string, depth int) {
	if s.scan.IsSlow() || depth > filter.MaxDepth {
		return
	}
	s.scan.WatchFolder(path).All = true // before listing it: an entry created later causes an event
	dir, err := os.Open(path)
	if err != nil {
		return
	}
	defer dir.Close()
	entries, err := dir.ReadDir(filter.MaxEntries)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") && e.Name() != filter.IgnoreFile {
			continue
		}
		switch {
		case e.IsDir():
			s.watchFolders(base, filepath.Join(path, e.Name()), depth+1)
		case e.Type()&os.ModeSymlink != 0 && filter.IsProfileOrIgnoreFile(e.Name()):
			s.links = 0
			s.watchPath(base, path, e.Name())
		}
	}
}
