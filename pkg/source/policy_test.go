package source

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/source/signature"
)

// guarded is a repository with a path policy: only ops can change profiles/prod, and dev all
// other files. Former is a member of ops whose key has expired, future one whose key is not
// valid yet. It is at the commit that was applied last.
type guarded struct {
	*seen
	dev, ops, former, future person
	applied                  Commit
	demand                   VerificationPolicy
}

const (
	longAgo = "2020-03-01T00:00:00Z" // when the key of former was valid
	lately  = "2025-03-01T00:00:00Z"
)

func newGuarded(t *testing.T) *guarded {
	g := &guarded{seen: newSeen(t), dev: newPerson(t, "dev@example.com"), ops: newPerson(t, "ops@example.com"), former: newPerson(t, "former@example.com"), future: newPerson(t, "future@example.com")}
	g.remote.Path = "profiles"
	former, future := g.former, g.future
	former.name += ` valid-before="20210101"`
	future.name += ` valid-after="20980101"`
	g.demand = VerificationPolicy{
		Keys: allow(t, g.dev, g.ops, former, future), Head: true, Range: true,
		Paths: []PathPolicy{{Glob: "profiles/prod/**", Principals: []string{g.ops.name, former.name[:len(g.former.name)], g.future.name}}},
		Now:   time.Now(),
	}
	g.at(longAgo)
	g.commitAs(g.former, "profiles/prod/a.yaml", "first\n", "profiles/prod/former.yaml", "1\n", "profiles/prod/gone.yaml", "1\n", "profiles/test/a.yaml", "1\n")
	g.at(lately)
	g.commitAs(g.ops, "profiles/prod/hidden.yaml", "1\n", "profiles/prod/sub/b.yaml", "1\n", "profiles/.osmignore", "/prod/hidden.yaml\n")
	g.git("rm", "--quiet", "profiles/prod/gone.yaml")
	g.commitAs(g.ops)
	g.git("checkout", "--quiet", "-b", "draft")
	g.commitAs(g.ops, "profiles/prod/a.yaml", "draft\n")
	g.git("checkout", "--quiet", "main")
	g.commitAs(g.ops, "profiles/prod/a.yaml", "reviewed\n")
	g.at("")
	g.applied = g.commitAs(g.dev, "profiles/test/a.yaml", "2\n")
	return g
}

// copy returns the same with a repository and a server of its own. To sign the commits again takes
// longer than what is tested.
func (g *guarded) copy(t *testing.T) *guarded {
	c := *g
	c.demand.Now = time.Now()
	c.seen = &seen{repo: repoAt(t, t.TempDir()), server: newServer(t), m: newMirrors(t), remote: g.remote}
	if err := os.CopyFS(c.Dir, os.DirFS(g.Dir)); err != nil {
		t.Fatal(err)
	}
	c.at("")
	return &c
}

// at sets the time in the commits that follow.
func (g *guarded) at(when string) {
	g.T.Helper()
	if when == "" {
		when = time.Now().UTC().Format(time.RFC3339)
	}
	if err := os.Setenv("GIT_COMMITTER_DATE", when); err != nil {
		g.T.Fatal(err)
	}
}

// both verifies the head for an existing cluster, which has applied a commit, and for a new
// cluster.
func (g *guarded) both() map[string]error {
	g.T.Helper()
	known, first := g.demand, g.demand
	known.Since = g.applied
	out := map[string]error{}
	_, out["existing cluster"] = g.verify(known)
	_, out["new cluster"] = g.verify(first)
	return out
}

// mergeOnto creates a merge with the tree of a branch, which is its first parent, and main as
// its second parent. Main is fast-forwarded to it.
func (g *guarded) mergeOnto(branch string) {
	g.T.Helper()
	was := g.git("rev-parse", "main")
	g.git("checkout", "--quiet", "--detach", branch)
	g.as(g.dev, "merge", "--quiet", "--no-ff", "--strategy=ours", "--message=Merge branch 'main'", was)
	g.git("checkout", "--quiet", "-B", "main")
}

// A change that only ops can make is rejected from any other signer and in any form, and a new
// cluster rejects the same commits as an existing one (security.md 31, 32, 33).
func TestPathPolicyOnExistingAndNewClusters(t *testing.T) {
	t.Setenv("GIT_COMMITTER_DATE", lately)
	original := newGuarded(t)
	for name, attack := range map[string]func(g *guarded){
		"an edit":    func(g *guarded) { g.commitAs(g.dev, "profiles/prod/a.yaml", "evil\n") },
		"a new file": func(g *guarded) { g.commitAs(g.dev, "profiles/prod/new.yaml", "evil\n") },
		"no profile": func(g *guarded) { g.commitAs(g.dev, "profiles/prod/README.md", "evil\n") },
		"a removal":  func(g *guarded) { g.git("rm", "--quiet", "profiles/prod/a.yaml"); g.commitAs(g.dev) },
		"a removal of all": func(g *guarded) {
			g.git("rm", "--quiet", "-r", "profiles/prod")
			g.commitAs(g.dev)
		},
		"a file again that ops removed": func(g *guarded) { g.commitAs(g.dev, "profiles/prod/gone.yaml", "1\n") },
		"a move out":                    func(g *guarded) { g.git("mv", "profiles/prod/a.yaml", "profiles/test/b.yaml"); g.commitAs(g.dev) },
		"a mode": func(g *guarded) {
			g.git("update-index", "--chmod=+x", "profiles/prod/a.yaml")
			g.as(g.dev, "commit", "--quiet", "--message=x")
			g.git("reset", "--quiet", "--hard")
		},
		"a file in place of the folder": func(g *guarded) {
			g.git("rm", "--quiet", "-r", "profiles/prod")
			g.commitAs(g.dev, "profiles/prod", "x")
		},
		"a merge": func(g *guarded) {
			g.git("checkout", "--quiet", "-b", "side")
			g.commitAs(g.ops, "profiles/prod/a.yaml", "side\n")
			g.git("checkout", "--quiet", "main")
			g.as(g.dev, "merge", "--quiet", "--no-ff", "--message=merge", "side")
		},
		"an ignore file above that hides a file":   func(g *guarded) { g.commitAs(g.dev, "profiles/.osmignore", "/prod/hidden.yaml\n/prod/a.yaml\n") },
		"an ignore file above that hides a folder": func(g *guarded) { g.commitAs(g.dev, "profiles/.osmignore", "/prod/\n") },
		"an ignore file above that shows a file":   func(g *guarded) { g.commitAs(g.dev, "profiles/.osmignore", "# nothing\n") },
		"an ignore file above that goes":           func(g *guarded) { g.git("rm", "--quiet", "profiles/.osmignore"); g.commitAs(g.dev) },
		"an ignore file above that becomes a link": func(g *guarded) {
			g.git("rm", "--quiet", "profiles/.osmignore")
			if err := os.Symlink("prod", g.Dir+"/profiles/.osmignore"); err != nil {
				g.T.Fatal(err)
			}
			g.commitAs(g.dev)
		},
		"an ignore file inside":                func(g *guarded) { g.commitAs(g.dev, "profiles/prod/.osmignore", "a.yaml\n") },
		"an ignore file inside without effect": func(g *guarded) { g.commitAs(g.dev, "profiles/prod/.osmignore", "# nothing\n") },
		"a draft as the first parent of main":  func(g *guarded) { g.mergeOnto("draft") },
		"an old commit as the first parent":    func(g *guarded) { g.mergeOnto("main~2") },
		"the first commit as the first parent": func(g *guarded) { g.mergeOnto("main~4") },
		"a draft, and a branch that takes back what ops did": func(g *guarded) {
			g.commitAs(g.dev, "profiles/prod/a.yaml", "draft\n")
			g.mergeOnto("draft")
		},
		"a draft as the first parent twice": func(g *guarded) { g.mergeOnto("draft"); g.mergeOnto("draft") },
		"a draft, and a branch that takes back what ops hid": func(g *guarded) {
			g.commitAs(g.ops, "profiles/.osmignore", "/prod/hidden.yaml\n/prod/sub/\n")
			g.applied = g.head()
			g.commitAs(g.dev, "profiles/prod/a.yaml", "draft\n", "profiles/.osmignore", "/prod/hidden.yaml\n")
			g.mergeOnto("draft")
		},
		"a key that has ended, and an old date": func(g *guarded) { g.at(longAgo); g.commitAs(g.former, "profiles/prod/a.yaml", "evil\n") },
		"the same on top of another old date": func(g *guarded) {
			g.at(longAgo)
			g.commitAs(g.dev, "x", "y")
			g.commitAs(g.former, "profiles/prod/a.yaml", "evil\n")
		},
		"a key that is not valid yet, and a date": func(g *guarded) { g.at("2098-03-01T00:00:00Z"); g.commitAs(g.future, "profiles/prod/a.yaml", "evil\n") },
		"no signature": func(g *guarded) { g.commit("profiles/prod/a.yaml", "evil\n") },
	} {
		t.Run(name, func(t *testing.T) {
			g := original.copy(t)
			for cluster, err := range g.both() {
				if err != nil {
					t.Fatalf("before the attack: %s: %v", cluster, err)
				}
			}
			attack(g)
			for range 2 { // the second time below a commit that is allowed
				for cluster, err := range g.both() {
					var bad *UnverifiedError
					if !errors.As(err, &bad) {
						t.Errorf("%s: got %v, want it refused", cluster, err)
					}
				}
				g.at("")
				g.commitAs(g.dev, "profiles/test/a.yaml", "3\n")
			}
		})
	}
}

// Allowed changes are accepted by existing and new clusters.
func TestPathPolicyLetsThrough(t *testing.T) {
	t.Setenv("GIT_COMMITTER_DATE", lately)
	original := newGuarded(t)
	merge := func(g *guarded, p person, branch string) {
		g.git("checkout", "--quiet", "main")
		g.as(p, "merge", "--quiet", "--no-ff", "--message=Merge pull request", branch)
	}
	for name, change := range map[string]func(g *guarded){
		"nothing":               func(*guarded) {},
		"an edit by ops":        func(g *guarded) { g.commitAs(g.ops, "profiles/prod/a.yaml", "new\n") },
		"a removal by ops":      func(g *guarded) { g.git("rm", "--quiet", "profiles/prod/a.yaml"); g.commitAs(g.ops) },
		"an ignore file by ops": func(g *guarded) { g.commitAs(g.ops, "profiles/.osmignore", "/prod/\n") },
		"an ignore file of other things": func(g *guarded) {
			g.commitAs(g.dev, "profiles/test/.osmignore", "*\n", "profiles/.osmignore", "/prod/hidden.yaml\n/test/x.yaml\n")
		},
		"an ignore file above the path": func(g *guarded) { g.commitAs(g.dev, ".osmignore", "*\n") },
		"a branch that is older than the last change of ops": func(g *guarded) {
			g.git("checkout", "--quiet", "-b", "side", "main~3")
			g.commitAs(g.dev, "profiles/test/b.yaml", "1\n")
			merge(g, g.dev, "side")
		},
		"a branch that main was merged into": func(g *guarded) {
			g.git("checkout", "--quiet", "-b", "side", "main~3")
			g.commitAs(g.dev, "profiles/test/b.yaml", "1\n")
			g.as(g.dev, "merge", "--quiet", "--no-ff", "--message=update", "main~1")
			g.git("checkout", "--quiet", "main")
			g.commitAs(g.ops, "profiles/prod/a.yaml", "newer\n")
			merge(g, g.dev, "side")
		},
		"a branch that undid what it did": func(g *guarded) {
			g.git("checkout", "--quiet", "-b", "side")
			g.commitAs(g.dev, "profiles/prod/a.yaml", "mistake\n")
			g.commitAs(g.dev, "profiles/prod/a.yaml", "reviewed\n")
			merge(g, g.dev, "side")
		},
		"a branch that was squashed before it is merged": func(g *guarded) {
			g.git("checkout", "--quiet", "-b", "side")
			g.commitAs(g.ops, "profiles/prod/a.yaml", "side 1\n")
			g.commitAs(g.ops, "profiles/prod/a.yaml", "side 2\n")
			g.git("checkout", "--quiet", "main")
			g.commitAs(g.ops, "profiles/prod/a.yaml", "side 2\n")
			merge(g, g.dev, "side")
		},
		"a branch of ops that ops merges": func(g *guarded) {
			g.git("checkout", "--quiet", "-b", "side")
			g.commitAs(g.ops, "profiles/prod/a.yaml", "side\n")
			merge(g, g.ops, "side")
		},
		"a clock that is hours behind": func(g *guarded) {
			g.at(longAgo)
			g.git("checkout", "--quiet", "--orphan", "other")
			g.commitAs(g.former, "profiles/prod/a.yaml", "1\n")
			g.at("2020-02-29T06:00:00Z")
			g.commitAs(g.former, "profiles/prod/a.yaml", "2\n")
			g.at("")
			g.applied = g.commitAs(g.dev, "profiles/test/a.yaml", "2\n")
			g.git("branch", "--quiet", "--force", "main")
			g.git("checkout", "--quiet", "main")
		},
		"no signature where none is needed": func(g *guarded) {
			g.demand.Range = false
			g.commit("README.md", "x\n")
			g.commitAs(g.dev, "profiles/test/a.yaml", "3\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := original.copy(t)
			change(g)
			for cluster, err := range g.both() {
				if err != nil {
					t.Errorf("%s: %v", cluster, err)
				}
			}
		})
	}
}

// A cluster that has applied a commit detects a merge that bypasses it, even if the history
// alone does not show which parent was followed (security.md 31).
func TestDraftOfWhatIsThereAsFirstParent(t *testing.T) {
	t.Setenv("GIT_COMMITTER_DATE", lately)
	g := newGuarded(t)
	g.git("checkout", "--quiet", "-b", "wip", "main~1")
	g.commitAs(g.ops, "profiles/prod/a.yaml", "not reviewed\n")
	g.mergeOnto("wip")
	g.demand.Since = g.applied
	g.bad(g.demand, NotAllowed, `changes "profiles/prod/a.yaml" (set back from commit `+string(g.applied)+")", "signed by dev@example.com", "push a first-parent history that contains it")
	snap := g.fetch()
	if on, err := snap.FirstParentsContain(t.Context(), g.applied); err != nil || on {
		t.Errorf("the merge continues what was applied: %v, %v", on, err)
	}
	if in, err := snap.Contains(t.Context(), g.applied); err != nil || !in {
		t.Errorf("what was applied is not in the history: %v, %v", in, err)
	}
	g.git("checkout", "--quiet", "main")
	g.git("reset", "--quiet", "--hard", string(g.applied))
	g.as(g.ops, "merge", "--quiet", "--no-ff", "--message=Merge branch 'wip'", "wip")
	g.good(g.demand, g.ops.name)
	if on, err := g.fetch().FirstParentsContain(t.Context(), g.applied); err != nil || !on {
		t.Errorf("a merge into main does not continue it: %v, %v", on, err)
	}
}

// For a new cluster, a revert by an allowed signer corrects an earlier change.
func TestPathPolicyJudgesTheLastChangeOnly(t *testing.T) {
	t.Setenv("GIT_COMMITTER_DATE", lately)
	g := newGuarded(t)
	stranger := newPerson(t, "stranger@example.com")
	g.demand.Range, g.demand.Since = false, ""
	g.commitAs(stranger, "profiles/prod/a.yaml", "evil\n", "profiles/prod/b.yaml", "evil\n", "profiles/.osmignore", "/prod/\n")
	g.git("rm", "--quiet", "profiles/prod/b.yaml")
	g.commitAs(g.dev)
	g.bad(g.demand, signature.OfUnknownKey, `was the last to change "profiles/prod/a.yaml"`, `was the last to change "profiles/prod/b.yaml" and is signed by dev@example.com`, "commit it again")
	// Ops confirms the removal by adding the file again and deleting it.
	g.commitAs(g.ops, "profiles/prod/b.yaml", "x\n", "profiles/prod/a.yaml", "good\n", "profiles/.osmignore", "/prod/hidden.yaml\n")
	g.git("rm", "--quiet", "profiles/prod/b.yaml")
	g.commitAs(g.ops)
	g.good(g.demand, g.ops.name)
}

// A signature is rejected if its key has expired and the commit claims to be older than one
// that it follows (security.md 33).
func TestBackdatedSignatures(t *testing.T) {
	t.Setenv("GIT_COMMITTER_DATE", lately)
	g := newGuarded(t)
	g.at(longAgo)
	forged := g.commitAs(g.former, "profiles/prod/a.yaml", "evil\n")
	var bad *signature.Error
	if who, err := g.fetch().SignatureOf(t.Context(), forged, g.demand.Keys); !errors.As(err, &bad) || bad.Reason != signature.OfExpiredKey {
		t.Errorf("the backdated commit is signed by %v, %v", who, err)
	}
	root := Commit(g.git("rev-list", "--max-parents=0", "main"))
	if who, err := g.fetch().SignatureOf(t.Context(), root, g.demand.Keys); err != nil || who.Signer != g.former.name {
		t.Errorf("the old commit is signed by %v, %v", who, err)
	}
}
