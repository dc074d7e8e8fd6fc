package source

import (
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/source/internal/history"
	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

func TestVerifyRange(t *testing.T) {
	ada, eve := newPerson(t, "ada@example.com"), newPerson(t, "eve@example.com")
	s := newSeen(t)
	s.commit("a.yaml", "unsigned, long ago\n")
	since := s.commitAs(ada, "a.yaml", "1\n")
	d := VerificationPolicy{Keys: allow(t, ada), Head: true, Range: true}
	s.good(d, ada.name) // without Since, older commits are not checked
	d.Since = since
	s.good(d, ada.name)
	s.commitAs(ada, "a.yaml", "2\n")
	s.commitAs(ada, "b.yaml", "2\n")
	s.good(d, ada.name)

	t.Run("a merge stands for its side", func(t *testing.T) {
		s.git("checkout", "--quiet", "-b", "side")
		s.commit("c.yaml", "unsigned\n")
		s.git("checkout", "--quiet", "main")
		s.as(ada, "merge", "--quiet", "--no-ff", "--message=merge", "side")
		s.good(d, ada.name)
	})
	t.Run("a bad commit under a good one", func(t *testing.T) {
		before := s.head()
		bad := s.commitAs(eve, "a.yaml", "evil\n")
		s.git("-c", "core.editor=true", "revert", "--no-commit", "HEAD")
		s.commitAs(ada)
		s.good(VerificationPolicy{Keys: d.Keys, Head: true}, ada.name)
		s.bad(d, signature.OfUnknownKey, "commit "+string(bad), "push a history without it, reverting it does not help")
		unsigned := s.commit("a.yaml", "more\n")
		s.commitAs(ada)
		s.bad(d, signature.OfUnknownKey, string(bad), string(unsigned)) // all bad commits, the oldest first
		s.git("reset", "--quiet", "--hard", string(before))
		s.good(d, ada.name)
	})
	t.Run("many", func(t *testing.T) {
		before := s.head()
		for range 15 {
			s.commit()
		}
		s.commitAs(ada)
		s.bad(d, signature.Missing, "and 5 more")
		s.git("reset", "--quiet", "--hard", string(before))
	})
	t.Run("a force-push: from the merge base", func(t *testing.T) {
		d.Since = s.commitAs(ada, "a.yaml", "3\n")
		s.good(d, ada.name) // the mirror has it
		s.git("reset", "--quiet", "--hard", "HEAD~1")
		s.commitAs(ada, "a.yaml", "4\n")
		s.good(d, ada.name)
		bad := s.commit("a.yaml", "5\n")
		s.commitAs(ada, "a.yaml", "6\n")
		s.bad(d, signature.Missing, string(bad))
		s.git("reset", "--quiet", "--hard", "HEAD~2")
		s.good(d, ada.name)
	})
	t.Run("a branch that takes the place of main", func(t *testing.T) {
		was := s.head()
		d.Since = was
		s.git("checkout", "--quiet", "-b", "other", "HEAD~2")
		bad := s.commit("d.yaml", "1\n")
		s.as(ada, "merge", "--quiet", "--no-ff", "--message=merge", string(was))
		s.git("branch", "--force", "main")
		s.bad(d, signature.Missing, string(bad)) // it descends from main, but not by first parents
		s.git("branch", "--force", "main", string(was))
		s.git("checkout", "--quiet", "main")
	})
	t.Run("a lost mirror, and a commit that is gone", func(t *testing.T) {
		d.Since = s.commitAs(ada, "a.yaml", "7\n")
		s.good(d, ada.name)
		s.git("reset", "--quiet", "--hard", "HEAD~1")
		s.commitAs(ada, "a.yaml", "8\n")
		s.m = newMirrors(t)
		s.bad(d, RangeUnknown, "commit "+string(d.Since), "is neither in this history nor in the mirror")
		if found, err := s.fetch().Contains(t.Context(), d.Since); found || err != nil {
			t.Errorf("it is in the history: %v, %v", found, err)
		}
	})
}

func TestVerifyPaths(t *testing.T) {
	dev, ops := newPerson(t, "dev@example.com"), newPerson(t, "ops@example.com")
	s := newSeen(t)
	d := VerificationPolicy{Keys: allow(t, dev, ops), Head: true, Paths: []PathPolicy{
		{Glob: "prod/**", Principals: []string{ops.name}},
		{Glob: "**/*.yaml", Principals: []string{ops.name, dev.name}},
	}}
	s.commitAs(ops, "prod/a.yaml", "1\n", "test/a.yaml", "1\n")
	s.good(d, ops.name)
	s.commitAs(dev, "test/a.yaml", "2\n")
	s.good(d, dev.name) // without Since: ops was the last to change prod
	d.Since = s.head()
	s.good(d, dev.name)

	reset := func(t *testing.T) {
		t.Helper()
		s.git("reset", "--quiet", "--hard", string(d.Since))
		s.good(d, dev.name)
	}
	for name, change := range map[string]func(){
		"an edit":            func() { s.commitAs(dev, "prod/a.yaml", "2\n") },
		"a new file":         func() { s.commitAs(dev, "prod/sub/b.yml", "1\n") },
		"one that is hidden": func() { s.commitAs(dev, "prod/.osmignore", "*\n") },
		"a removal":          func() { s.git("rm", "--quiet", "prod/a.yaml"); s.commitAs(dev) },
		"a move out of it":   func() { s.git("mv", "prod/a.yaml", "test/b.yaml"); s.commitAs(dev) },
		"a mode": func() {
			s.git("update-index", "--chmod=+x", "prod/a.yaml")
			s.as(dev, "commit", "--quiet", "--message=x")
		},
		"a folder that becomes a file": func() {
			s.git("rm", "--quiet", "-r", "prod")
			s.commitAs(dev, "prod", "x")
		},
		"a merge": func() {
			s.git("checkout", "--quiet", "-b", "side")
			s.commitAs(ops, "prod/a.yaml", "side\n")
			s.git("checkout", "--quiet", "main")
			s.as(dev, "merge", "--quiet", "--no-ff", "--message=merge", "side")
			s.git("branch", "--quiet", "-D", "side")
		},
		"below a commit of ops": func() {
			s.commitAs(dev, "prod/a.yaml", "2\n")
			s.commitAs(ops, "test/a.yaml", "3\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			change()
			s.bad(d, NotAllowed, `changes "prod`, "is signed by dev@example.com, ssh SHA256:", `paths that match "prod/**" can be changed only by ops@example.com`)
			reset(t)
		})
	}
	t.Run("what ops may", func(t *testing.T) {
		s.commitAs(ops, "prod/a.yaml", "2\n")
		s.commitAs(dev, "test/a.yaml", "3\n")
		s.good(d, dev.name)
		reset(t)
	})
	t.Run("unsigned, and nothing that is guarded", func(t *testing.T) {
		s.commit("README.md", "hello\n")
		s.commitAs(dev, "test/a.yaml", "3\n")
		s.good(d, dev.name)
		reset(t)
	})
	t.Run("unsigned", func(t *testing.T) {
		s.commit("test/a.yaml", "3\n")
		s.commitAs(dev, "README.md", "3\n")
		s.bad(d, signature.Missing, `changes "test/a.yaml": it is not signed`)
		reset(t)
	})
	t.Run("a force-push that sets back what others changed", func(t *testing.T) {
		was := d.Since
		d.Since = s.commitAs(ops, "prod/a.yaml", "newer, and safer\n")
		s.good(d, ops.name)
		s.git("reset", "--quiet", "--hard", "HEAD~1")
		s.commitAs(dev, "test/a.yaml", "3\n")
		s.bad(d, NotAllowed, `changes "prod/a.yaml" (set back from commit `+string(d.Since)+")", "can be changed only by ops@example.com")
		s.commitAs(ops, "test/a.yaml", "4\n") // ops is allowed to restore it
		s.good(d, ops.name)
		d.Since = was
		reset(t)
	})
	t.Run("a new cluster believes nothing that an old one refuses", func(t *testing.T) {
		since := d.Since
		evil := s.commitAs(dev, "prod/a.yaml", "2\n")
		s.commitAs(ops, "test/a.yaml", "3\n")
		d.Since = ""
		s.bad(d, NotAllowed, "commit "+string(evil), `was the last to change "prod/a.yaml"`, "commit it again")
		s.commitAs(ops, "prod/a.yaml", "3\n")
		s.good(d, ops.name)
		d.Since = since
		reset(t)
	})
}

// Content remains verified if the key that signed it expires, but not if the key is removed.
func TestVerifyPathsOfFormerColleagues(t *testing.T) {
	ada, ben := newPerson(t, "ada@example.com"), newPerson(t, "ben@example.com")
	s := newSeen(t)
	t.Setenv("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z")
	s.commitAs(ada, "prod/a.yaml", "1\n")
	t.Setenv("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
	s.commitAs(ben, "README.md", "1\n")
	d := VerificationPolicy{Head: true, Paths: []PathPolicy{{Glob: "prod/**", Principals: []string{ada.name, ben.name}}}}
	former := ada
	former.name += ` valid-before="20210101"`
	d.Keys = allow(t, former, ben)
	s.good(d, ben.name)
	d.Keys = allow(t, ben)
	s.bad(d, signature.OfUnknownKey, `was the last to change "prod/a.yaml"`)
	// An expired key cannot sign new commits, even if they claim an earlier time.
	d.Keys = allow(t, former, ben)
	d.Since = s.head()
	t.Setenv("GIT_COMMITTER_DATE", "2020-06-01T00:00:00Z")
	s.commitAs(ada, "prod/a.yaml", "2\n")
	s.commitAs(ben, "README.md", "2\n")
	s.bad(d, signature.OfExpiredKey, "is not valid now")
}

func TestGlobs(t *testing.T) {
	for glob, c := range map[string]struct{ yes, no []string }{
		"prod/**":         {[]string{"prod", "prod/a", "prod/a/b/c.yaml", "prod/.x/y"}, []string{"production/a", "a/prod/b", "Prod/a"}},
		"**/prod/*.yaml":  {[]string{"prod/a.yaml", "x/y/prod/a.yaml"}, []string{"prod/a/b.yaml", "prod/a.yml"}},
		"*.yaml":          {[]string{"a.yaml"}, []string{"b/a.yaml"}},
		"{prod,stage}/**": {[]string{"prod/a", "stage/b/c"}, []string{"dev/a"}},
		"**":              {[]string{"a", "a/b", ".x"}, nil},
		"team-[ab]/?.yml": {[]string{"team-a/x.yml"}, []string{"team-c/x.yml", "team-a/xy.yml"}},
	} {
		p := PathPolicy{Glob: glob}
		if err := p.CheckGlob(); err != nil {
			t.Error(err)
		}
		for want, paths := range map[bool][]string{true: c.yes, false: c.no} {
			for _, path := range paths {
				if p.Matches(path) != want {
					t.Errorf("%q matches %q: %v", glob, path, !want)
				}
			}
		}
	}
	for glob, says := range map[string]string{
		"/prod/**": "never matches", "./prod/*": "never matches", "prod/": `write "prod/**"`, "a//b": "never matches", "../x": "never matches", "a/../b": "never matches", "[a": "malformed", "": "never matches",
	} {
		if err := (PathPolicy{Glob: glob}).CheckGlob(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", glob, err)
		}
	}
}

func TestContains(t *testing.T) {
	s := newSeen(t)
	root := s.commit("a.yaml", "1\n")
	s.git("checkout", "--quiet", "-b", "side")
	side := s.commit("b.yaml", "1\n")
	s.git("checkout", "--quiet", "main")
	s.commit("a.yaml", "2\n")
	s.git("merge", "--quiet", "--no-ff", "--message=merge", "side")
	s.git("branch", "elsewhere", string(root))
	s.git("checkout", "--quiet", "elsewhere")
	elsewhere := s.commit("c.yaml", "1\n")
	s.git("checkout", "--quiet", "main")
	head := s.head()
	snap := s.fetch()
	mustFetch(t, s.m, Remote{URL: s.remote.URL, Branch: "elsewhere"})
	for c, want := range map[Commit]bool{root: true, side: true, head: true, elsewhere: false, Commit(strings.Repeat("ab", 20)): false, "": false} {
		if got, err := snap.Contains(t.Context(), c); err != nil || got != want {
			t.Errorf("%s: %v, %v", c, got, err)
		}
	}
	// The changes between whole trees, as git reports them.
	s.git("rm", "--quiet", "b.yaml")
	s.commit("deep/er/x.txt", "1\n", "a.yaml", "3\n")
	o := s.fetch().objects.CurrentObjects()
	tree := func(rev string) string { return s.git("rev-parse", rev+"^{tree}") }
	for _, pair := range [][2]string{{"HEAD~1", "HEAD"}, {string(root), "HEAD"}, {"HEAD", "HEAD"}, {"elsewhere", "HEAD"}} {
		found, err := (&history.Comparison{Objects: o, Tops: []string{""}, MaxEntries: history.MaxLineEntries}).CompareTrees(t.Context(), objectHash(tree(pair[0])), objectHash(tree(pair[1])))
		var got []string
		for _, c := range found {
			got = append(got, c.Path)
		}
		want := strings.Fields(s.git("diff-tree", "-r", "--name-only", "--no-renames", tree(pair[0]), tree(pair[1])))
		if diff := cmp.Diff(strings.Join(want, " "), strings.Join(got, " ")); err != nil || diff != "" {
			t.Errorf("%v: %v %s", pair, err, diff)
		}
	}
}

func objectHash(id string) plumbing.Hash { return plumbing.NewHash(id) }

// Verifying the same commit again costs one lookup, with any number of keys.
func BenchmarkVerifyUnchanged(b *testing.B) {
	ada := newPerson(b, "ada@example.com")
	s := newSeen(b)
	d := VerificationPolicy{Keys: allow(b, ada), Head: true, Range: true, Since: s.commitAs(ada, "a.yaml", "1\n"), Now: time.Now()}
	s.commitAs(ada, "a.yaml", "2\n")
	snap := s.fetch()
	for b.Loop() {
		if _, err := snap.Verify(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
}

// The commits of a range are each verified once.
func BenchmarkVerifyRange(b *testing.B) {
	ada := newPerson(b, "ada@example.com")
	s := newSeen(b)
	since := s.commitAs(ada, "a.yaml", "1\n")
	const commits = 100
	for i := range commits {
		s.commitAs(ada, "a.yaml", strings.Repeat("x\n", i))
	}
	snap := s.fetch()
	for b.Loop() {
		d := VerificationPolicy{Keys: allow(b, ada), Head: true, Range: true, Since: since, Now: time.Now(), Paths: []PathPolicy{{Glob: "**", Principals: []string{ada.name}}}}
		if _, err := snap.Verify(b.Context(), d); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/commits, "µs/commit")
}
