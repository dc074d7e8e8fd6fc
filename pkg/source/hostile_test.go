package source

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// security.md 1: nothing is sent to the server of a submodule.
func TestSubmodule(t *testing.T) {
	foreign, s, r := newServer(t), newServer(t), newRepo(t)
	r.write(".gitmodules", fmt.Sprintf("[submodule \"x\"]\n\tpath = profiles/x\n\turl = %s\n", foreign.url("x.git")))
	r.write("profiles/a.yaml", "a: 1\n")
	r.git("add", "--all")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+id1+",profiles/x")
	r.git("update-index", "--add", "--cacheinfo", "160000,"+id1+",profiles/y.yaml")
	r.git("commit", "--quiet", "--message=submodules")
	var got *Snapshot
	requests, _ := foreign.cost(func() {
		got = mustFetch(t, newMirrors(t), Remote{URL: s.push(r, "repo.git"), Path: "profiles", Auth: secret})
	})
	if requests != 0 {
		t.Errorf("the submodule's server got %d requests", requests)
	}
	if diff := cmp.Diff([]string{"profiles/a.yaml"}, paths(got.Files)); diff != "" {
		t.Error(diff)
	}
	if len(got.Rejected) != 2 || got.Rejected[0].Path != "profiles/x" || got.Rejected[1].Path != "profiles/y.yaml" || !strings.Contains(got.Rejected[0].Reason, "submodule") {
		t.Errorf("refused: %+v", got.Rejected)
	}
	_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: s.url("repo.git"), Path: "profiles/x"})
	wantError(t, err, ErrInvalid, "submodule")
}

// rawTree writes a tree that git itself would not write. Entries are mode and name, then an id.
func rawTree(t *testing.T, dir string, entries ...string) string {
	t.Helper()
	var tree bytes.Buffer
	for i := 0; i < len(entries); i += 2 {
		id, err := hex.DecodeString(entries[i+1])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&tree, "%s\x00%s", entries[i], id)
	}
	return gitInput(t, dir, &tree, "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
}

// rawCommit sets main of a bare repository to a new commit of a tree.
func rawCommit(t *testing.T, dir, tree string) {
	t.Helper()
	commit := fmt.Sprintf("tree %s\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx\n", tree)
	id := gitInput(t, dir, strings.NewReader(commit), "hash-object", "-w", "-t", "commit", "--literally", "--stdin")
	git(t, dir, "update-ref", "refs/heads/main", id)
}

func rawRepo(t *testing.T, s *server) (dir string, blob func(string) string) {
	t.Helper()
	dir = s.path("repo.git")
	git(t, s.git.Root(), "init", "--quiet", "--bare", "--initial-branch=main", dir)
	return dir, func(content string) string {
		return gitInput(t, dir, strings.NewReader(content), "hash-object", "-w", "--stdin")
	}
}

// security.md 3, 11: only regular files with ordinary names are read, and all others are
// reported.
func TestOddEntries(t *testing.T) {
	s := newServer(t)
	dir, blob := rawRepo(t, s)
	yaml := blob("a: 1\n")
	passwd, dotgit, loop := blob("/etc/passwd"), blob("../.git/config"), blob("loop.yaml")
	sub := rawTree(t, dir, "100644 s.yaml", yaml)
	rawCommit(t, dir, rawTree(t, dir,
		"100644 .. ", yaml,
		"100644 ..", yaml,
		"40000 .GIT", sub,
		"40000 .git", sub,
		"40000 .github", sub,
		"100644 .hidden.yaml", yaml,
		"100755 a.yaml", yaml,
		"120000 b.yaml", passwd,
		"100644 big.yaml", blob(strings.Repeat("x", filter.MaxFileBytes+1)),
		"100644 bidi\u202egnp.yaml", yaml,
		"100644 back\\slash.yaml", yaml,
		"100644 bell\a.yaml", yaml,
		"120000 dotgit", dotgit,
		"100664 group.yaml", yaml,
		"40000 git~1", sub,
		"120000 loop.yaml", loop,
		"100644 not-utf8\xff.yaml", yaml,
		"100644 not-utf8\xff.txt", yaml,
		"100644 notes.txt", yaml,
		"10644 pipe.yaml", yaml,
		"100644 stream.yaml:x.yaml", yaml,
		"40000 sub", sub,
		"40000 sub/x", sub,
	))
	got := mustFetch(t, newMirrors(t), Remote{URL: s.url("repo.git")})
	if diff := cmp.Diff([]string{"a.yaml", "group.yaml", "sub/s.yaml"}, paths(got.Files)); diff != "" {
		t.Error(diff)
	}
	refused := map[string]string{}
	for _, r := range got.Rejected {
		refused[r.Path], _, _ = strings.Cut(r.Reason, ":")
	}
	want := map[string]string{
		"..": "odd name", ".GIT": "odd name", ".git": "odd name", "b.yaml": "symlink", "big.yaml": "too big",
		`bidi\u202egnp.yaml`: "odd name", `back\\slash.yaml`: "odd name", `bell\a.yaml`: "odd name", "dotgit": "symlink",
		"git~1": "odd name", "loop.yaml": "symlink", `not-utf8\xff.yaml`: "odd name", "pipe.yaml": "mode 10644 is not a mode of Git",
		"stream.yaml:x.yaml": "odd name", "sub/x": "odd name",
	}
	if diff := cmp.Diff(want, refused); diff != "" {
		t.Error(diff)
	}
	for _, step := range got.Line { // the history has the same rules, except for sizes
		for _, c := range step.Changes {
			if _, bad := want[c.Path]; bad && c.Path != "big.yaml" {
				t.Errorf("the line names %q", c.Path)
			}
			if _, err := got.Read(t.Context(), c.Blob); c.Path == "big.yaml" {
				wantError(t, err, ErrInvalid, "at most")
			}
		}
	}
	_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: s.url("repo.git"), Path: "dotgit"})
	wantError(t, err, ErrInvalid, "symlink")
}

func TestMalformedObjects(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, dir, blob string) (tree string){
		"a name twice": func(t *testing.T, dir, blob string) string {
			return rawTree(t, dir, "100644 a.yaml", blob, "100644 a.yaml", blob)
		},
		"a tree that ends early": func(t *testing.T, dir, _ string) string {
			return gitInput(t, dir, strings.NewReader("100644 a.yaml\x00abc"), "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
		},
		"a folder that is a file": func(t *testing.T, dir, blob string) string {
			return rawTree(t, dir, "40000 a", blob)
		},
		"a file that is a folder": func(t *testing.T, dir, blob string) string {
			return rawTree(t, dir, "100644 a.yaml", rawTree(t, dir, "100644 a.yaml", blob))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			dir, blob := rawRepo(t, s)
			tree := make(t, dir, blob("a: 1\n"))
			commit := gittest.ObjectOf("commit", fmt.Sprintf("tree %s\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\nx\n", tree))
			p := gittest.NewPack(commit, readObject(t, dir, tree), gittest.ObjectOf("blob", "a: 1\n"))
			if name == "a file that is a folder" {
				p.Add(readObject(t, dir, rawTree(t, dir, "100644 a.yaml", blob("a: 1\n"))))
			}
			_, err := fetchPack(t, commit.ID(), p.Bytes())
			wantError(t, err, ErrInvalid)
		})
	}
}

// security.md 6: a small pack can contain nested folders, each ten times in the next.
func TestTreeBomb(t *testing.T) {
	s := newServer(t)
	dir, blob := rawRepo(t, s)
	tree := rawTree(t, dir, "100644 a.yaml", blob("a: 1\n"))
	for range 10 {
		var entries []string
		for i := range 10 {
			entries = append(entries, fmt.Sprintf("40000 %d", i), tree)
		}
		tree = rawTree(t, dir, entries...)
	}
	rawCommit(t, dir, tree)
	_, err := newMirrors(t).Fetch(t.Context(), Remote{URL: s.url("repo.git")})
	wantError(t, err, ErrInvalid, "entries")
}

func TestTooMany(t *testing.T) {
	s := newServer(t)
	dir, blob := rawRepo(t, s)
	yaml := blob("a: 1\n")
	var entries []string
	for i := range filter.MaxFiles + filter.MaxRefusals + 5 {
		entries = append(entries, fmt.Sprintf("100644 %05d.yaml", i), yaml)
	}
	deep := rawTree(t, dir, "100644 a.yaml", yaml)
	for range filter.MaxDepth + 1 {
		deep = rawTree(t, dir, "40000 d", deep)
	}
	rawCommit(t, dir, rawTree(t, dir, append(entries, "40000 deep", deep)...))
	got := mustFetch(t, newMirrors(t), Remote{URL: s.url("repo.git")})
	if len(got.Files) != filter.MaxFiles || got.Files[filter.MaxFiles-1].Path != "01999.yaml" {
		t.Errorf("%d files", len(got.Files))
	}
	if n := len(got.Rejected); n != filter.MaxRefusals+1 || got.Rejected[n-1].Reason != "and 6 more" {
		t.Errorf("%d refused, at last %+v", n, got.Rejected[n-1])
	}
}

func TestParseCommit(t *testing.T) {
	if c, err := ParseCommit(id1); err != nil || string(c) != id1 {
		t.Errorf("got %q, %v", c, err)
	}
	for _, s := range []string{"", "main", id1[1:], id1 + "1", strings.ToUpper("abcdefabcdefabcdefabcdefabcdefabcdefabcd"), strings.Repeat("g", 40)} {
		_, err := ParseCommit(s)
		wantError(t, err, ErrInvalid)
	}
}
