package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

func mustRead(t testing.TB, d Directory) *Snapshot {
	t.Helper()
	s, err := d.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCleanWorkTreeIsLikeTheRemote(t *testing.T) {
	s, r := newServer(t), newRepo(t)
	r.commit("profiles/a.yaml", "a: 1\n", "x.txt", "x")
	r.commit("profiles/a.yaml", "a: 2\n", "profiles/team/b.yml", "b: 1\n")
	remote := mustFetch(t, newMirrors(t), Remote{URL: s.push(r, "repo.git"), Path: "profiles"})

	for name, d := range map[string]Directory{
		"the work tree, with a folder in it": {Root: r.Dir, Path: r.Dir, Sub: "profiles"},
		"a folder of the work tree":          {Root: r.Dir, Path: "profiles"},
		"below a higher root":                {Root: filepath.Dir(r.Dir), Path: filepath.Join(r.Dir, "profiles")},
		"with a cache":                       {Root: r.Dir, Path: "profiles", Lines: new(HistoryCache)},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got := mustRead(t, d)
				if diff := cmp.Diff(remote, got, snapshots, cmpopts.IgnoreFields(Snapshot{}, "Repository", "Reference")); diff != "" {
					t.Error(diff)
				}
				if data, err := got.Read(t.Context(), remote.Line[0].Changes[0].Blob); err != nil || string(data) != "a: 1\n" {
					t.Errorf("reading the first version: %q, %v", data, err)
				}
				if author, err := got.LastChange(t.Context(), got.Head, "profiles/a.yaml"); err != nil || author.Commit != got.Head {
					t.Errorf("the change is %v, %v", author, err)
				}
			}
		})
	}
	r.git("gc", "--quiet")
	if diff := cmp.Diff(remote, mustRead(t, Directory{Root: r.Dir, Path: "profiles"}), snapshots, cmpopts.IgnoreFields(Snapshot{}, "Repository", "Reference")); diff != "" {
		t.Errorf("after git gc: %s", diff)
	}
}

func TestDirtyWorkTree(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *repo)
		dirty  []string
	}{
		"an edited file":          {func(r *repo) { r.write("a.yaml", "a: edited\n") }, []string{"a.yaml"}},
		"a new file":              {func(r *repo) { r.write("c.yaml", "c: 1\n") }, []string{"c.yaml"}},
		"a new file, staged":      {func(r *repo) { r.write("c.yaml", "c: 1\n"); r.git("add", "c.yaml") }, []string{"c.yaml"}},
		"a file that went":        {func(r *repo) { r.write("b.yaml", "") }, nil},
		"a file that was renamed": {func(r *repo) { r.git("mv", "b.yaml", "c.yaml") }, []string{"c.yaml"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t)
			head := r.commit("a.yaml", "a: 1\n", "b.yaml", "b: 1\n")
			c.change(r)
			got := mustRead(t, Directory{Root: r.Dir})
			var dirty []string
			for _, f := range got.Files {
				if f.Dirty {
					dirty = append(dirty, f.Path)
				}
			}
			if diff := cmp.Diff(c.dirty, dirty); diff != "" {
				t.Errorf("dirty: %s", diff)
			}
			if !strings.HasPrefix(got.Revision, "sha256:") || got.Head != head || len(got.Line) != 1 {
				t.Errorf("got %+v", got)
			}
		})
	}
	t.Run("what is no profile does not count", func(t *testing.T) {
		r := newRepo(t)
		r.commit("a.yaml", "a: 1\n", "x.txt", "x")
		r.write("x.txt", "y")
		if got := mustRead(t, Directory{Root: r.Dir}); !strings.HasPrefix(got.Revision, "main@sha1:") {
			t.Errorf("got %s", got.Revision)
		}
	})
}

func TestPlainFolder(t *testing.T) {
	dir := t.TempDir()
	r := repoAt(t, dir)
	r.write("a.yaml", "a: 1\n")
	r.write("sub/b.yml", "b: 1\n")
	r.write(".hidden.yaml", "h: 1\n")
	r.write("big.yaml", strings.Repeat("x", filter.MaxFileBytes+1))
	got := mustRead(t, Directory{Root: dir})
	if diff := cmp.Diff([]string{"a.yaml", "sub/b.yml"}, paths(got.Files)); diff != "" {
		t.Error(diff)
	}
	if len(got.Rejected) != 1 || got.Rejected[0].Path != "big.yaml" {
		t.Errorf("refused: %+v", got.Rejected)
	}
	if got.Head != "" || got.Line != nil || !got.Files[0].Dirty || !strings.HasPrefix(got.Revision, "sha256:") {
		t.Errorf("got %+v", got)
	}
	if data, err := got.Read(t.Context(), got.Files[0].Blob); err != nil || string(data) != "a: 1\n" {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := got.Read(t.Context(), strings.Repeat("1", 40)); err == nil {
		t.Error("a blob was found that is not there")
	}
	_, err := got.LastChange(t.Context(), Commit(strings.Repeat("1", 40)), "a.yaml")
	wantError(t, err, ErrNotFound, "no history")
	again := mustRead(t, Directory{Root: dir})
	r.write("a.yaml", "a: 2\n")
	if changed := mustRead(t, Directory{Root: dir}); changed.Revision == got.Revision || again.Revision != got.Revision {
		t.Errorf("revisions %s, %s, %s", got.Revision, again.Revision, changed.Revision)
	}
}

// A mounted ConfigMap consists of links into a folder that the kubelet replaces.
func TestMountedConfigMap(t *testing.T) {
	dir := t.TempDir()
	r := repoAt(t, dir)
	r.write("..2026/a.yaml", "a: 1\n")
	gittest.Link(t, "..2026", filepath.Join(dir, "..data"))
	gittest.Link(t, "..data/a.yaml", filepath.Join(dir, "a.yaml"))
	got := mustRead(t, Directory{Root: dir})
	if len(got.Files) != 1 || got.Files[0].Path != "a.yaml" || string(got.Files[0].Data) != "a: 1\n" || len(got.Rejected) > 0 {
		t.Errorf("got %+v", got)
	}
}

// git-sync stores linked work trees and switches a symlink between them.
func TestLinkedWorkTree(t *testing.T) {
	root, r := t.TempDir(), newRepo(t)
	head := r.commit("profiles/a.yaml", "a: 1\n")
	git(t, root, "clone", "--quiet", "--bare", r.Dir, ".repo")
	git(t, filepath.Join(root, ".repo"), "worktree", "add", "--quiet", "--detach", filepath.Join(root, ".worktrees", string(head)))
	gittest.Link(t, filepath.Join(".worktrees", string(head)), filepath.Join(root, "current"))
	got := mustRead(t, Directory{Root: root, Path: filepath.Join(root, "current"), Sub: "profiles"})
	if got.Revision != "sha1:"+string(head) || len(got.Line) != 1 || got.Files[0].Dirty || got.Files[0].Path != "profiles/a.yaml" {
		t.Errorf("got %+v", got)
	}
}

// A shallow clone has no history.
func TestShallowClone(t *testing.T) {
	r := newRepo(t)
	r.commit("a.yaml", "a: 1\n")
	head := r.commit("a.yaml", "a: 2\n")
	for name, args := range map[string][]string{
		"shallow": {"--depth=1"},
		"partial": {"--filter=blob:none"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			r.git("config", "uploadpack.allowFilter", "true")
			git(t, root, append(append([]string{"clone", "--quiet"}, args...), "file://"+r.Dir, "clone")...)
			got := mustRead(t, Directory{Root: root, Path: "clone"})
			if got.Revision != "main@sha1:"+string(head) || got.Head != head || got.Line != nil || got.Files[0].Dirty {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestRepositoriesThatCannotServe(t *testing.T) {
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		says string
	}{
		"SHA-256": {func(t *testing.T, dir string) {
			git(t, dir, "init", "--quiet", "--object-format=sha256")
		}, "SHA-256"},
		"no commit yet": {func(t *testing.T, dir string) {
			git(t, dir, "init", "--quiet")
		}, "does not name a commit yet"},
		"borrowed objects": {func(t *testing.T, dir string) {
			r := newRepo(t)
			r.commit("a.yaml", "a: 1\n")
			git(t, dir, "clone", "--quiet", "--shared", r.Dir, "x")
			if err := os.Rename(filepath.Join(dir, "x", ".git"), filepath.Join(dir, ".git")); err != nil {
				t.Fatal(err)
			}
		}, "alternates"},
		"a repository outside of the root": {func(t *testing.T, dir string) {
			r := newRepo(t)
			r.commit("a.yaml", "a: 1\n")
			repoAt(t, dir).write(".git", "gitdir: "+filepath.Join(r.Dir, ".git")+"\n")
		}, "not below the root"},
		"a ref that is a path": {func(t *testing.T, dir string) { // security.md 4
			git(t, dir, "init", "--quiet")
			repoAt(t, dir).write(".git/HEAD", "ref: refs/heads/../../config\n")
		}, "HEAD"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, dir)
			repoAt(t, dir).write("b.yaml", "b: 1\n")
			got := mustRead(t, Directory{Root: dir})
			if got.Head != "" || len(got.Files) == 0 || !got.Files[0].Dirty {
				t.Errorf("got %+v", got)
			}
			if len(got.Rejected) == 0 || got.Rejected[0].Path != ".git" || !strings.Contains(got.Rejected[0].Reason, c.says) {
				t.Errorf("refused: %+v", got.Rejected)
			}
		})
	}
}

// security.md 3, 13: neither a path nor a link leads out of the root.
func TestDirectoryStaysBelowItsRoot(t *testing.T) {
	outside, root := t.TempDir(), t.TempDir()
	repoAt(t, outside).write("secret.yaml", canary)
	r := repoAt(t, root)
	r.write("in/a.yaml", "a: 1\n")
	gittest.Link(t, outside, filepath.Join(root, "link"))
	gittest.Link(t, filepath.Join(outside, "secret.yaml"), filepath.Join(root, "in", "link.yaml"))
	gittest.Link(t, "../in", filepath.Join(root, "in", "loop"))
	gittest.Link(t, outside, filepath.Join(root, "in", "folder"))
	if err := syscall.Mkfifo(filepath.Join(root, "in", "pipe.yaml"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../" + filepath.Base(outside), "in/../../" + filepath.Base(outside), outside, "/etc", "link", ".."} {
		_, err := Directory{Root: root, Path: path}.Read(t.Context())
		wantError(t, err, ErrInvalid, root)
	}
	for _, sub := range []string{"..", "a/../..", "/etc"} {
		_, err := Directory{Root: root, Path: "in", Sub: sub}.Read(t.Context())
		wantError(t, err, ErrInvalid)
	}
	_, err := Directory{Root: root, Path: "in", Sub: "folder"}.Read(t.Context())
	wantError(t, err, ErrInvalid)
	_, err = Directory{Root: root, Path: "nowhere"}.Read(t.Context())
	wantError(t, err, ErrNotFound)
	_, err = Directory{Path: "in"}.Read(t.Context())
	wantError(t, err, ErrInvalid, "--directory-root")

	got := mustRead(t, Directory{Root: root, Path: "in"})
	if diff := cmp.Diff([]string{"a.yaml"}, paths(got.Files)); diff != "" {
		t.Error(diff)
	}
	var refused []string
	for _, f := range got.Rejected {
		refused = append(refused, f.Path)
	}
	if diff := cmp.Diff([]string{"folder", "link.yaml", "loop", "pipe.yaml"}, refused); diff != "" {
		t.Error(diff)
	}
}

// Links in a work tree are rejected like those in a remote repository, and so is a repository
// inside it.
func TestWorkTreeRefusesLinksAndRepositories(t *testing.T) {
	r := newRepo(t)
	gittest.Link(t, "a.yaml", filepath.Join(r.Dir, "link.yaml"))
	r.write("a.yaml", "a: 1\n")
	r.write("nested/b.yaml", "b: 1\n")
	r.commit()
	git(t, filepath.Join(r.Dir, "nested"), "init", "--quiet")
	got := mustRead(t, Directory{Root: r.Dir})
	if diff := cmp.Diff([]string{"a.yaml"}, paths(got.Files)); diff != "" {
		t.Error(diff)
	}
	if len(got.Rejected) != 2 || got.Rejected[0].Path != "link.yaml" || got.Rejected[1].Path != "nested" {
		t.Errorf("refused: %+v", got.Rejected)
	}
}

// A folder with a repository of its own is rejected like a submodule of a remote: an empty
// result would look as if all profiles had been deleted.
func TestDirectoryDoesNotEnterAnotherRepository(t *testing.T) {
	root := t.TempDir()
	r := newRepo(t)
	r.commit("profiles/a.yaml", "a: 1\n")
	if err := os.Rename(r.Dir, filepath.Join(root, "outer")); err != nil {
		t.Fatal(err)
	}
	inner := newRepo(t)
	inner.commit("b.yaml", "b: 1\n")
	if err := os.Rename(inner.Dir, filepath.Join(root, "outer", "nested")); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"nested", "nested/deep"} {
		if err := os.MkdirAll(filepath.Join(root, "outer", sub), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := Directory{Root: root, Path: "outer", Sub: sub}.Read(t.Context())
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "a repository of its own") {
			t.Errorf("%s: got %v", sub, err)
		}
	}
}
