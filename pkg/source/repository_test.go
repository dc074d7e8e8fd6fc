package source

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// branching returns a repository with a merge, branches and tags.
func branching(t *testing.T) *repo {
	r := newRepo(t)
	r.commit("profiles/a.yaml", "one\n", "other.yaml", "x\n")
	r.git("tag", "light")
	r.commit("profiles/a.yaml", "two\n")
	r.git("tag", "--annotate", "--message=noted", "noted")
	r.git("tag", "--annotate", "--message=noted", "of-tag", "noted")
	r.git("checkout", "--quiet", "-b", "feature/x")
	r.commit("profiles/b.yaml", "branch\n")
	r.git("checkout", "--quiet", "main")
	r.commit("profiles/a.yaml", "three\n")
	r.git("merge", "--quiet", "--no-ff", "--message=merge", "feature/x")
	r.git("branch", "twin", "light")
	r.git("tag", "twin", "noted") // Git prefers the tag
	return r
}

// Every revision resolves to the same commit as with git, in every kind of repository.
func TestRepositoryResolvesAsGitDoes(t *testing.T) {
	r := branching(t)
	revisions := []string{
		"HEAD", "@", "main", "feature/x", "heads/main", "refs/heads/main", "light", "tags/light", "refs/tags/noted", "noted", "of-tag", "twin",
		"HEAD~1", "HEAD~", "HEAD~2", "HEAD^", "HEAD^2", "HEAD^2~1", "HEAD^^", "HEAD~0", "HEAD^0", "noted^{}", "noted^{commit}", "noted~1", "main^{}~1",
		r.git("rev-parse", "HEAD~1"), r.git("rev-parse", "--short", "HEAD~1"), strings.ToUpper(r.git("rev-parse", "HEAD~1")), r.git("rev-parse", "noted"),
	}
	var asked []string
	for _, revision := range revisions {
		asked = append(asked, revision+"^{commit}")
	}
	bare := filepath.Join(t.TempDir(), "bare.git")
	git(t, r.Dir, "clone", "--quiet", "--mirror", r.Dir, bare)
	packed := repoAt(t, filepath.Join(t.TempDir(), "clone"))
	git(t, r.Dir, "clone", "--quiet", r.Dir, packed.Dir)
	packed.git("gc", "--quiet")
	packed.git("branch", "feature/x", "origin/feature/x")
	packed.git("branch", "twin", "origin/twin")
	linked := filepath.Join(t.TempDir(), "linked")
	r.git("worktree", "add", "--quiet", "--detach", linked, "HEAD")
	for name, dir := range map[string]string{
		"loose": r.Dir, "a folder in it": filepath.Join(r.Dir, "profiles"), "bare": bare, "packed": packed.Dir, "a linked work tree": linked, "its .git": filepath.Join(r.Dir, ".git"),
	} {
		t.Run(name, func(t *testing.T) {
			commits := strings.Fields(git(t, dir, append([]string{"rev-parse"}, asked...)...))
			for i, revision := range revisions {
				want := commits[i]
				s, err := Repository{Dir: dir, Revision: revision, Path: "profiles"}.Read(t.Context())
				if err != nil {
					t.Errorf("%s: %v", revision, err)
					continue
				}
				if string(s.Head) != want || s.Revision != "sha1:"+want {
					t.Errorf("%s is %s (%s), Git says %s", revision, s.Head, s.Revision, want)
				}
			}
		})
	}
}

// Repository.Read and Mirrors.Fetch return the same content.
func TestRepositoryReadsWhatMirrorsFetch(t *testing.T) {
	r := branching(t)
	url := newServer(t).push(r, "osps.git")
	r.git("remote", "add", "origin", strings.Replace(url, "http://", "http://user:"+canary+"@", 1)+"/")
	r.write("profiles/a.yaml", "not committed\n")
	local, err := Repository{Dir: r.Dir, Path: "profiles"}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fetched := mustFetch(t, newMirrors(t), Remote{URL: url, Branch: "main", Path: "profiles"})
	for what, pair := range map[string][2]any{
		"repository": {fetched.Repository, local.Repository},
		"head":       {fetched.Head, local.Head},
		"files":      {fetched.Files, local.Files},
		"line":       {fetched.Line, local.Line},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	author, err := local.LastChange(t.Context(), local.Head, "profiles/b.yaml")
	if err != nil || string(author.Commit) != r.git("rev-parse", "feature/x") {
		t.Errorf("change %+v, err %v", author, err)
	}
	for origin, want := range map[string]string{
		"git@git.example.com:team/osps.git":          "git@git.example.com:team/osps.git",
		"ssh://git.example.com/team/osps.git/":       "ssh://git@git.example.com/team/osps.git",
		"ssh://git:" + canary + "@git.example.com/x": r.Dir,
		"/srv/osps.git":    r.Dir,
		"https://host/a?b": r.Dir,
		"https://" + canary + "@git.example.com/x.git": "https://git.example.com/x.git",
	} {
		r.git("remote", "set-url", "origin", origin)
		if local, err = (Repository{Dir: r.Dir}).Read(t.Context()); err != nil || local.Repository != want {
			t.Errorf("origin %s: repository %q, err %v", origin, local.Repository, err)
		}
	}
}

func TestRepositoryErrors(t *testing.T) {
	r := branching(t)
	empty := newRepo(t)
	plain := t.TempDir()
	for name, c := range map[string]struct {
		of   Repository
		kind error
		says []string
	}{
		"unknown":          {Repository{Dir: r.Dir, Revision: "mian"}, ErrNotFound, []string{`no branch, tag or commit "mian"; it has "feature/x", "light", "main", "noted", "of-tag", "twin"`}},
		"unknown id":       {Repository{Dir: r.Dir, Revision: strings.Repeat("a", 40)}, ErrNotFound, []string{"no branch, tag or commit"}},
		"unknown digits":   {Repository{Dir: r.Dir, Revision: "abcdef0"}, ErrNotFound, []string{"no branch, tag or commit"}},
		"a tree":           {Repository{Dir: r.Dir, Revision: r.git("rev-parse", "HEAD^{tree}")}, ErrInvalid, []string{"is a tree, but must be a commit"}},
		"beyond the root":  {Repository{Dir: r.Dir, Revision: "HEAD~99"}, ErrNotFound, []string{"does not exist"}},
		"no third parent":  {Repository{Dir: r.Dir, Revision: "HEAD^3"}, ErrNotFound, []string{"has 2 parents"}},
		"a reflog":         {Repository{Dir: r.Dir, Revision: "main@{1}"}, ErrInvalid, []string{"reflogs"}},
		"a range":          {Repository{Dir: r.Dir, Revision: "light..main"}, ErrInvalid, []string{"ranges"}},
		"a file":           {Repository{Dir: r.Dir, Revision: "HEAD:profiles"}, ErrInvalid, []string{"paths"}},
		"a type":           {Repository{Dir: r.Dir, Revision: "HEAD^{tree}"}, ErrInvalid, []string{"^{commit}"}},
		"no name":          {Repository{Dir: r.Dir, Revision: "a b"}, ErrInvalid, []string{"Git does not allow that name"}},
		"a huge number":    {Repository{Dir: r.Dir, Revision: "HEAD~99999999999999999999"}, ErrInvalid, []string{"too large"}},
		"text at the end":  {Repository{Dir: r.Dir, Revision: "HEAD~1x"}, ErrInvalid, []string{"only ~ and ^"}},
		"no commit yet":    {Repository{Dir: empty.Dir}, ErrNotFound, []string{"HEAD names a branch that does not exist: name a revision; it has no branch and no tag"}},
		"no repository":    {Repository{Dir: plain}, ErrNotFound, []string{"is a Git repository"}},
		"nothing":          {Repository{Dir: filepath.Join(plain, "x")}, ErrNotFound, []string{"it does not exist"}},
		"no such path":     {Repository{Dir: r.Dir, Path: "profile"}, ErrNotFound, []string{`path "profile" does not exist`}},
		"out of the tree":  {Repository{Dir: r.Dir, Path: "../x"}, ErrInvalid, nil},
		"a path of a file": {Repository{Dir: r.Dir, Path: "other.yaml"}, ErrInvalid, []string{"a file, but must be a folder"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.of.Read(t.Context())
			wantError(t, err, c.kind, c.says...)
		})
	}
}

func TestRepositoryThatIsShallow(t *testing.T) {
	r := branching(t)
	shallow := filepath.Join(t.TempDir(), "shallow")
	git(t, r.Dir, "clone", "--quiet", "--depth=1", "file://"+r.Dir, shallow)
	s, err := Repository{Dir: shallow, Path: "profiles"}.Read(t.Context())
	if err != nil || len(s.Files) != 2 || len(s.Line) != 0 {
		t.Errorf("%d files, %d steps, err %v", len(s.Files), len(s.Line), err)
	}
	_, err = Repository{Dir: shallow, Revision: "HEAD~1"}.Read(t.Context())
	wantError(t, err, ErrInvalid, "incomplete")
}

// Two commit ids can start with the same digits. Git then requires more of them.
func TestAbbreviationsThatAreAmbiguous(t *testing.T) {
	r := newRepo(t)
	tree := r.git("hash-object", "-t", "tree", "-w", os.DevNull)
	seen := map[string]gittest.Object{}
	for i := 0; ; i++ {
		if i == 5000 {
			t.Fatal("no two of 5000 commits begin with the same 4 digits")
		}
		commit := gittest.ObjectOf("commit", fmt.Sprintf("tree %s\nauthor Ada <ada@example.com> %d +0000\ncommitter Ben <ben@example.com> %[2]d +0000\n\nx\n", tree, i))
		digits := commit.ID()[:4]
		if other, ok := seen[digits]; ok {
			for _, o := range []gittest.Object{other, commit} {
				gitInput(t, r.Dir, strings.NewReader(o.Content), "hash-object", "-t", "commit", "-w", "--stdin")
			}
			r.git("update-ref", "refs/heads/main", commit.ID())
			_, err := Repository{Dir: r.Dir, Revision: digits}.Read(t.Context())
			wantError(t, err, ErrInvalid, "2 commits begin with "+digits+": write more digits")
			return
		}
		seen[digits] = commit
	}
}

func TestFetchOfARevision(t *testing.T) {
	r := branching(t)
	s := newServer(t)
	url := s.push(r, "osps.git")
	r.git("push", "--quiet", s.path("osps.git"), "--tags")
	m := newMirrors(t)
	for _, revision := range []string{"HEAD", "HEAD~1", "main^2", "feature/x", "light", "noted", "of-tag", "noted~1", "twin", r.git("rev-parse", "HEAD~1"), r.git("rev-parse", "HEAD") + "~1"} {
		want := r.git("rev-parse", revision+"^{commit}")
		for _, m := range []*Mirrors{m, newMirrors(t)} { // with all commits, and empty
			got := mustFetch(t, m, Remote{URL: url, Revision: revision, Path: "profiles"})
			if string(got.Head) != want || got.Revision != "sha1:"+want || len(got.Line) == 0 {
				t.Errorf("%s is %s, Git says %s", revision, got.Head, want)
			}
		}
	}
	for revision, says := range map[string]string{
		"mian":                          `has no branch, tag or commit "mian"; it has `,
		r.git("rev-parse", "HEAD")[:10]: "write all 40 digits",
		"main@{1}":                      "reflogs",
		"HEAD~50":                       "does not exist",
		strings.Repeat("0123456789", 4): "",
		strings.Repeat("deadbeef", 5):   "",
	} {
		_, err := m.Fetch(t.Context(), Remote{URL: url, Revision: revision})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", revision, err)
		}
	}
	git(t, s.path("osps.git"), "symbolic-ref", "HEAD", "refs/heads/gone")
	_, err := m.Fetch(t.Context(), Remote{URL: url, Revision: "HEAD"})
	wantError(t, err, ErrNotFound, "HEAD names a branch that does not exist: name a revision; it has ")
	_, err = m.Fetch(t.Context(), Remote{URL: url, Revision: "main", Branch: "main"})
	wantError(t, err, ErrInvalid, "set only one")
}
