package catalog

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/profiletest"
)

// version returns a profile's file at a version, with a text that is its content.
func profileFile(name, version, content string) *string {
	return text(strings.NewReplacer("osp-test", name, "v1.0.0", version, "echo hello", "echo "+content).Replace(profiletest.Small))
}

func TestCatalogueOfBadCommits(t *testing.T) {
	type push struct {
		change  map[string]*string
		current []string // "name version" of what is current afterwards
		refused []string // what each refusal says, in order
	}
	const a, b = "profiles/a.yaml", "profiles/b.yaml"
	broken := text("spec: [\n")
	for name, pushes := range map[string][]push{
		"a broken file stands for what it held, and heals": {
			{change: map[string]*string{a: profileFile("a", "v1.0.0", "x"), b: profileFile("b", "v1.0.0", "x")}, current: []string{"a v1.0.0", "b v1.0.0"}},
			{change: map[string]*string{a: broken, b: profileFile("b", "v1.1.0", "y")}, current: []string{"a v1.0.0", "b v1.1.0"}, refused: []string{"profiles/a.yaml:1: invalid YAML"}},
			{change: map[string]*string{a: profileFile("a", "v1.1.0", "y")}, current: []string{"a v1.1.0", "b v1.1.0"}},
		},
		"a file that was broken from the start offers nothing": {
			{change: map[string]*string{a: broken}, refused: []string{"profiles/a.yaml:1"}},
		},
		"content changed without its version": {
			{change: map[string]*string{a: profileFile("a", "v1.0.0", "x")}, current: []string{"a v1.0.0"}},
			{change: map[string]*string{a: profileFile("a", "v1.0.0", "edited")}, current: []string{"a v1.0.0"}, refused: []string{"profiles/a.yaml:8: spec.version: the content of profile \"a\" changed at COMMIT1, but its version is still v1.0.0, which has the content of COMMIT0: give it a new version"}},
			{change: map[string]*string{a: profileFile("a", "v1.0.1", "edited")}, current: []string{"a v1.0.1"}},
		},
		"an old version's content under its number again is no change": {
			{change: map[string]*string{a: profileFile("a", "v1.0.0", "x")}, current: []string{"a v1.0.0"}},
			{change: map[string]*string{a: profileFile("a", "v1.1.0", "y")}, current: []string{"a v1.1.0"}},
			{change: map[string]*string{a: profileFile("a", "v1.0.0", "z")}, current: []string{"a v1.0.0"}, refused: []string{"changed at COMMIT2"}},
			{change: map[string]*string{a: profileFile("a", "v1.0.0", "x")}, current: []string{"a v1.0.0"}},
		},
		"a version that never was accepted may be mended under its number": {
			{change: map[string]*string{a: profileFile("a", "v1.0.0", "x")}, current: []string{"a v1.0.0"}},
			{change: map[string]*string{a: profileFile("a", "v1.1.0", "forbidden word")}, current: []string{"a v1.0.0"}, refused: []string{"profiles/a.yaml:14: spec.bootstrapConfig.templates[hello]: says forbidden"}},
			{change: map[string]*string{a: profileFile("a", "v1.1.0", "mended")}, current: []string{"a v1.1.0"}},
		},
		"two files with one profile and version": {
			{change: map[string]*string{a: profileFile("a", "v1.0.0", "x")}, current: []string{"a v1.0.0"}},
			{change: map[string]*string{b: profileFile("a", "v1.0.0", "x")}, current: []string{"a v1.0.0"}, refused: []string{"profiles/a.yaml:8: spec.version: profile \"a\" v1.0.0 is also in profiles/b.yaml", "profiles/b.yaml:8: spec.version: profile \"a\" v1.0.0 is also in profiles/a.yaml"}},
			{change: map[string]*string{a: nil}, current: []string{"a v1.0.0"}},
		},
		"two files with one new version: neither is applied": {
			{change: map[string]*string{a: profileFile("a", "v1.0.0", "x"), b: profileFile("a", "v1.0.0", "y")}, refused: []string{"is also in profiles/b.yaml", "is also in profiles/a.yaml"}},
		},
		"of several versions the highest release is current": {
			{change: map[string]*string{a: profileFile("a", "v1.9.0", "x"), b: profileFile("a", "v1.10.0", "y"), "profiles/c.yaml": profileFile("a", "v2.0.0-rc.1", "z")}, current: []string{"a v1.10.0"}},
			{change: map[string]*string{b: nil}, current: []string{"a v1.9.0"}},
			{change: map[string]*string{a: nil}, current: []string{"a v2.0.0-rc.1"}},
			{change: map[string]*string{"profiles/c.yaml": nil, "profiles/.keep": text("x")}},
		},
		"the highest version breaks beside a lower one": {
			{change: map[string]*string{a: profileFile("a", "v1.0.0", "x"), b: profileFile("a", "v1.1.0", "y")}, current: []string{"a v1.1.0"}},
			{change: map[string]*string{b: broken}, current: []string{"a v1.1.0"}, refused: []string{"profiles/b.yaml:1"}},
		},
		"one file alone is current, also backwards": {
			{change: map[string]*string{a: profileFile("a", "v1.1.0", "y")}, current: []string{"a v1.1.0"}},
			{change: map[string]*string{a: profileFile("a", "v1.0.0", "x")}, current: []string{"a v1.0.0"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(d profile.Document) error {
				if strings.Contains(d.Spec.BootstrapConfig.Templates["hello"], "forbidden") {
					const field = "spec.bootstrapConfig.templates[hello]"
					return &strictyaml.Problem{Path: d.Path, Line: d.Line(field), Field: field, Err: errors.New("says forbidden")}
				}
				return nil
			}
			repo, h := newRepository(t), newHistory(0)
			follower := &Indexer{Check: check}
			for i, p := range pushes {
				h.out.Reset()
				h.head = h.commit("main", h.head, 0, p.change)
				repo.importStream(h.out.String())
				want := p.refused
				for n, commit := range strings.Split(repo.git("rev-list", "--reverse", "main"), "\n") {
					for j := range want {
						want[j] = strings.ReplaceAll(want[j], "COMMIT"+string(rune('0'+n)), commit[:12])
					}
				}
				for who, cat := range map[string]*Catalog{"follower": repo.catalogue(follower), "starter": repo.freshCatalogue(&Indexer{Check: check})} {
					var current []string
					for _, v := range cat.Current {
						current = append(current, v.Name+" "+v.Version)
					}
					if diff := cmp.Diff(p.current, current); diff != "" {
						t.Errorf("push %d, %s: current\n%s", i, who, diff)
					}
					if len(cat.Rejected) != len(want) {
						t.Errorf("push %d, %s: refused %v, want %d", i, who, cat.Rejected, len(want))
						continue
					}
					for j, r := range cat.Rejected {
						if !strings.Contains(r.Error(), want[j]) {
							t.Errorf("push %d, %s: refusal\n%v\ndoes not say\n%s", i, who, r, want[j])
						}
						if r.Commit == "" {
							t.Errorf("push %d, %s: refusal %v names no commit", i, who, r)
						}
					}
				}
			}
		})
	}
}

// A shallow clone has one commit: it is the commit of all versions, and no version is
// edited.
func TestCatalogueWithoutHistory(t *testing.T) {
	const head = source.Commit("0123456789012345678901234567890123456789")
	data := []byte(*profileFile("a", "v1.0.0", "x"))
	edited := []byte(*profileFile("b", "v1.0.0", "x"))
	snap := &source.Snapshot{Head: head, Files: []source.File{
		{Path: "a.yaml", Blob: "1111111111111111111111111111111111111111", Data: data},
		{Path: "b.yaml", Blob: "2222222222222222222222222222222222222222", Data: edited, Dirty: true},
	}}
	for range 2 { // the second time nothing is remembered wrongly
		x := &Indexer{}
		cat, err := x.Catalog(t.Context(), snap)
		if err != nil {
			t.Fatal(err)
		}
		if len(cat.Rejected) != 0 || len(cat.Current) != 2 {
			t.Fatalf("got %+v", cat)
		}
		a, b := cat.Current[0], cat.Current[1]
		if a.Version != "v1.0.0" || a.Commit != head || a.SelectedBy != head {
			t.Errorf("got %+v", a)
		}
		if !strings.HasPrefix(b.Version, "v1.0.0-dirty.") || b.Commit != "" {
			t.Errorf("got %+v", b)
		}
		for _, v := range cat.Current {
			if _, err := x.Document(t.Context(), snap, v); err != nil {
				t.Error(err)
			}
		}
		if again, err := x.Catalog(t.Context(), snap); err != nil || len(again.Current) != 2 {
			t.Errorf("again: %+v, %v", again, err)
		}
	}
}

// Versions in earlier commits that cannot be read today are separate from current
// problems, and from problems that were fixed.
func TestCatalogueOfTheUnreadablePast(t *testing.T) {
	const a, b = "profiles/a.yaml", "profiles/b.yaml"
	check := func(d profile.Document) error {
		if strings.Contains(d.Spec.BootstrapConfig.Templates["hello"], "forbidden") {
			return errors.New("says forbidden")
		}
		return nil
	}
	unknownField := strings.Replace(*profileFile("a", "v1.1.0", "x"), "spec:", "spec:\n  formerField: true", 1)
	repo, h := newRepository(t), newHistory(0)
	follower := &Indexer{Check: check}
	var cat *Catalog
	for _, change := range []map[string]*string{
		{a: profileFile("a", "v1.0.0", "forbidden")},
		{a: text(unknownField), b: profileFile("b", "v1.0.0", "forbidden")},
		{a: profileFile("a", "v1.2.0", "forbidden")},
		{a: profileFile("a", "v1.2.0", "mended")},
		{b: text("spec: [\n")},
		{a: profileFile("a", "v1.3.0", "x"), "profiles/c.yaml": profileFile("a", "v1.2.5", "x"), b: profileFile("b", "v1.1.0", "forbidden")},
	} {
		h.out.Reset()
		h.head = h.commit("main", h.head, 0, change)
		repo.importStream(h.out.String())
		cat = repo.catalogue(follower)
	}
	if diff := cmp.Diff(cat, repo.freshCatalogue(&Indexer{Check: check}), cmp.AllowUnexported(Version{}), cmp.Comparer(func(x, y error) bool { return x.Error() == y.Error() })); diff != "" {
		t.Errorf("who followed every push and who starts today differ:\n%s", diff)
	}
	var skipped []string
	for _, r := range cat.Skipped {
		skipped = append(skipped, r.Profile+" "+r.Version+" "+r.Path)
	}
	if diff := cmp.Diff([]string{"a v1.0.0 " + a, "a v1.1.0 " + a, "b v1.0.0 " + b}, skipped); diff != "" {
		t.Error(diff)
	}
	var history []string
	for _, v := range cat.History["a"] {
		history = append(history, v.Version+" "+v.CurrentPath)
	}
	if diff := cmp.Diff([]string{"v1.2.0 ", "v1.3.0 " + a, "v1.2.5 profiles/c.yaml"}, history); diff != "" {
		t.Error(diff)
	}
}
