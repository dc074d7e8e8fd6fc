package source

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/filter"
	"github.com/osm-gitops/osm-gitops/pkg/source/internal/revision"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// gitSays lists the files that git does not ignore. It uses the ignore files by their own
// name, and extra patterns on its command line.
func gitSays(t *testing.T, r *repo, extra []string) []string {
	t.Helper()
	args := []string{"ls-files", "-z", "--others", "--exclude-per-directory=" + IgnoreFile}
	for _, p := range extra {
		args = append(args, "--exclude="+p)
	}
	var out []string
	for name := range strings.SplitSeq(r.git(args...), "\x00") {
		if strings.HasSuffix(name, ".yaml") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Patterns match the same files as with git.
func TestIgnoreIsGits(t *testing.T) {
	tree := []string{
		"a.yaml", "b.yaml", "ab.yaml", "x1.yaml", "a b.yaml", "[a].yaml", "#a.yaml", "!a.yaml", "a/a.yaml", "a/b/a.yaml", "a/x/a/b.yaml",
		"a/x/y/b.yaml", "b/a.yaml", "b/a/a.yaml", "b/keep.yaml", "x/y/z/a.yaml", "x/y/z/keep.yaml", "x/z.yaml", "z/a.d/b.yaml", "ä.yaml", "trail .yaml/b.yaml",
	}
	r := newRepo(t)
	for _, name := range tree {
		r.write(name, "a: 1\n")
	}
	check := func(t *testing.T, rules map[string]string, extra []string) {
		t.Helper()
		for folder, text := range rules {
			r.write(filepath.Join(folder, IgnoreFile), text)
			defer r.write(filepath.Join(folder, IgnoreFile), "")
		}
		want := gitSays(t, r, extra)
		got := mustRead(t, Directory{Root: r.Dir, Ignore: strings.Join(extra, "\n")})
		if diff := cmp.Diff(want, paths(got.Files), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("rules %q and %q (-git +ours):\n%s", rules, extra, diff)
		}
	}
	for _, text := range []string{
		"a.yaml", "/a.yaml", "a", "a/", "/a/", "b/a.yaml", "*.yaml", "a*", "?.yaml", "[ab].yaml", "[!a].yaml", "[^a].yaml", "[a-b]*", "[[:digit:]]*", "x[[:digit:]].yaml",
		"**/a/b.yaml", "a/**", "/**", "**", "**/", "a/**/b.yaml", "**/z/*", "x/**/*.yaml", "a**b.yaml", "x/**z/*", "a/*/b.yaml", "*/a.yaml", "/*/*/a.yaml",
		"\\#a.yaml", "#a.yaml", "\\!a.yaml", "!a.yaml", "a\\ b.yaml", "a.yaml   ", "trail\\ .yaml/", "\\[a].yaml", "[[]a].yaml", "[]a]*", "a.yaml\r\nb.yaml\r", "\ufeffa.yaml",
		"*\n!*/\n!keep.yaml", "*\n!keep.yaml", "b/\n!b/keep.yaml", "b/*\n!b/keep.yaml", "/", "//a", "!", "a\\", "[a", "[a-", "[[:no:]]*", "[[:digit:", "***/b.yaml", "ä.yaml", "?.yaml", "a.d", "*.d/", "x/y", "y/z",
		"[b-a]*", "[a-]*", "[\\a]*", "[!]a]*", "*a*b*", "*/*/*", "**/**", "x/**/", "*?",
	} {
		t.Run(text, func(t *testing.T) { check(t, map[string]string{"": text + "\n"}, nil) })
	}
	t.Run("of folders, and of the source", func(t *testing.T) {
		check(t, map[string]string{"": "a.yaml\n", "a": "!a.yaml\n", "x/y": "/z/a.yaml\n"}, nil)
		check(t, map[string]string{"": "*.yaml\n", "a": "!b/\n!*.yaml\n"}, []string{"a/b"})
		check(t, map[string]string{"a": "*.yaml\n"}, []string{"!b.yaml", "x/"})
	})
	t.Run("by chance", func(t *testing.T) {
		random := rand.New(rand.NewPCG(4, 2)) //nolint:gosec // must be reproducible
		parts := []string{"a", "b", "x", "y", "z", "*", "**", "?", "/", "/", "[ab]", "[!x]", ".yaml", "*.yaml", "keep", "\\a", "!"}
		pick := func() string {
			var b strings.Builder
			for range 1 + random.IntN(5) {
				b.WriteString(parts[random.IntN(len(parts))])
			}
			return b.String()
		}
		for range 150 {
			rules := map[string]string{}
			for _, folder := range []string{"", "a", "x/y"} {
				for range random.IntN(3) {
					rules[folder] += pick() + "\n"
				}
			}
			check(t, rules, []string{pick()})
		}
	})
}

// Ignore rules apply to every kind of source, and each commit of a history to its own rules.
func TestIgnore(t *testing.T) {
	s, r, m := newServer(t), newRepo(t), newMirrors(t)
	first := r.commit("p/a.yaml", "a: 1\n", "p/draft/b.yaml", "b: 1\n", "p/draft/link.yaml", "x")
	second := r.commit("p/.osmignore", "draft/\n", "p/a.yaml", "a: 2\n")
	r.commit("p/draft/b.yaml", "b: 2\n") // ignored
	fourth := r.commit("p/.osmignore", "draft/link.yaml\n")
	url := s.push(r, "repo.git")
	remote := Remote{URL: url, Path: "p"}
	got := mustFetch(t, m, remote)
	if diff := cmp.Diff([]string{"p/a.yaml", "p/draft/b.yaml"}, paths(got.Files)); diff != "" {
		t.Error(diff)
	}
	type step struct {
		CommitInfo Commit
		changes    string
	}
	steps := func(s *Snapshot) (out []step) {
		for _, st := range s.Line {
			var names []string
			for _, c := range st.Changes {
				name := c.Path
				if c.Blob == "" {
					name = "-" + name
				}
				names = append(names, name)
			}
			out = append(out, step{st.Commit, strings.Join(names, " ")})
		}
		return out
	}
	want := []step{
		{first, "p/a.yaml p/draft/b.yaml p/draft/link.yaml"},
		{second, "p/a.yaml -p/draft/b.yaml -p/draft/link.yaml"},
		{fourth, "p/draft/b.yaml"},
	}
	same := cmp.AllowUnexported(step{})
	if diff := cmp.Diff(want, steps(got), same); diff != "" {
		t.Errorf("the history: %s", diff)
	}

	t.Run("other rules of the source, at the same commit", func(t *testing.T) {
		remote.Ignore = "/a.yaml\n!draft/\n!link.yaml\n"
		got := mustFetch(t, m, remote)
		if diff := cmp.Diff([]string{"p/draft/b.yaml", "p/draft/link.yaml"}, paths(got.Files)); diff != "" {
			t.Error(diff)
		}
		if len(got.Line) != 2 || got.Line[0].Commit != first || len(got.Line[1].Changes) != 1 {
			t.Errorf("the history is %v", steps(got))
		}
		remote.Ignore = ""
		if diff := cmp.Diff(want, steps(mustFetch(t, m, remote)), same); diff != "" {
			t.Errorf("without them again: %s", diff)
		}
	})
	t.Run("the same from a work tree, a local repository, a history read anew", func(t *testing.T) {
		for name, got := range map[string]*Snapshot{
			"work tree":  mustRead(t, Directory{Root: r.Dir, Sub: "p"}),
			"repository": must(Repository{Dir: r.Dir, Path: "p"}.Read(t.Context())),
			"anew":       mustFetch(t, newMirrors(t), remote),
		} {
			if diff := cmp.Diff(want, steps(got), same); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if len(got.Files) != 2 {
				t.Errorf("%s: %v", name, paths(got.Files))
			}
		}
	})
	t.Run("a history that goes on", func(t *testing.T) {
		fifth := r.commit("p/draft/.osmignore", "*\n")
		s.push(r, "repo.git")
		got := mustFetch(t, m, remote)
		if diff := cmp.Diff(append(slices.Clone(want), step{fifth, "-p/draft/b.yaml"}), steps(got), same); diff != "" {
			t.Error(diff)
		}
	})
}

func must(s *Snapshot, err error) *Snapshot {
	if err != nil {
		panic(err)
	}
	return s
}

// An edit of an ignored file changes nothing. An edit of the rules makes those files dirty
// that it affects.
func TestIgnoreAndDirt(t *testing.T) {
	r := newRepo(t)
	head := r.commit(".osmignore", "draft/\n", "a.yaml", "a: 1\n", "draft/b.yaml", "b: 1\n")
	clean := revision.Format("main", plumbingHash(head))
	r.write("draft/b.yaml", "b: 2\n")
	r.write("draft/c.yaml", "c: 1\n")
	r.write(".osmignore", "draft/\nelse.yaml\n")
	if got := mustRead(t, Directory{Root: r.Dir}); got.Revision != clean || len(got.Files) != 1 {
		t.Errorf("got %s %v, want %s", got.Revision, paths(got.Files), clean)
	}
	r.write(".osmignore", "draft/b.yaml\n")
	got := mustRead(t, Directory{Root: r.Dir})
	if !strings.HasPrefix(got.Revision, "sha256:") || !slices.Equal(paths(got.Files), []string{"a.yaml", "draft/c.yaml"}) || got.Files[0].Dirty || !got.Files[1].Dirty {
		t.Errorf("got %+v", got)
	}
}

// An ignored file neither counts for a limit nor is rejected.
func TestIgnoreFreesLimits(t *testing.T) {
	r := newRepo(t)
	for i := range filter.MaxFiles + 10 {
		r.write(fmt.Sprintf("bulk/%04d.yaml", i), "a: 1\n")
	}
	r.write("profile.yaml", "a: 1\n")
	gittest.Link(t, "/etc/passwd", filepath.Join(r.Dir, "bulk", "link.yaml"))
	r.commit()
	for name, read := range map[string]func(ignore string) *Snapshot{
		"directory":  func(ignore string) *Snapshot { return mustRead(t, Directory{Root: r.Dir, Ignore: ignore}) },
		"repository": func(ignore string) *Snapshot { return must(Repository{Dir: r.Dir, Ignore: ignore}.Read(t.Context())) },
	} {
		if got := read(""); len(got.Files) != filter.MaxFiles || len(got.Rejected) != 12 {
			t.Errorf("%s: %d files, %d refused", name, len(got.Files), len(got.Rejected))
		}
		if got := read("bulk/"); !slices.Equal(paths(got.Files), []string{"profile.yaml"}) || len(got.Rejected) > 0 {
			t.Errorf("%s: %v, refused %v", name, paths(got.Files), got.Rejected)
		}
	}
}

// In a mounted ConfigMap the file with the rules is a link.
func TestIgnoreInConfigMap(t *testing.T) {
	dir := t.TempDir()
	r := repoAt(t, dir)
	r.write("..2026/a.yaml", "a: 1\n")
	r.write("..2026/b.yaml", "a: 1\n")
	r.write("..2026/.osmignore", "b.*\n")
	gittest.Link(t, "..2026", filepath.Join(dir, "..data"))
	for _, name := range []string{"a.yaml", "b.yaml", ".osmignore"} {
		gittest.Link(t, "..data/"+name, filepath.Join(dir, name))
	}
	if got := mustRead(t, Directory{Root: dir}); !slices.Equal(paths(got.Files), []string{"a.yaml"}) || len(got.Rejected) > 0 {
		t.Errorf("got %v, refused %v", paths(got.Files), got.Rejected)
	}
}

// Invalid and hostile rules are reported, and their cost is bounded: security.md 11, 13.
func TestHostileRules(t *testing.T) {
	r := newRepo(t)
	r.write("a.yaml", "a: 1\n")
	r.write(".osmignore", strings.Repeat("x\n", filter.MaxIgnoreBytes))
	r.commit()
	for name, got := range map[string]*Snapshot{
		"directory": mustRead(t, Directory{Root: r.Dir}), "repository": must(Repository{Dir: r.Dir}.Read(t.Context())),
	} {
		if len(got.Files) != 1 || len(got.Rejected) != 1 || got.Rejected[0].Path != ".osmignore" || !strings.Contains(got.Rejected[0].Reason, "too big") {
			t.Errorf("%s: too big: %v, refused %v", name, paths(got.Files), got.Rejected)
		}
	}
	r.write(".osmignore", "")
	gittest.Link(t, "/etc/passwd", filepath.Join(r.Dir, ".osmignore"))
	r.commit()
	for name, got := range map[string]*Snapshot{
		"directory": mustRead(t, Directory{Root: r.Dir}), "repository": must(Repository{Dir: r.Dir}.Read(t.Context())),
	} {
		if len(got.Files) != 1 || len(got.Rejected) != 1 || !strings.Contains(got.Rejected[0].Reason, "symlink") {
			t.Errorf("%s: a link: %v, refused %v", name, paths(got.Files), got.Rejected)
		}
	}
	if err := os.Remove(filepath.Join(r.Dir, ".osmignore")); err != nil {
		t.Fatal(err)
	}

	t.Run("a cost that is counted", func(t *testing.T) {
		for i := range 1500 {
			r.write(fmt.Sprintf("%04d.yaml", i), "a: 1\n")
		}
		_, err := Directory{Root: r.Dir, Ignore: strings.Repeat("b\n", filter.MaxIgnoreCost/1500+1)}.Read(t.Context())
		wantError(t, err, ErrInvalid, "comparisons")
	})
}
