package catalog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/profile/overlay"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/profiletest"
)

const (
	basePath = "profiles/base.yaml"
	overPath = "profiles/over.yaml"
)

// The versions of overlays are found in the history as those of profiles are: by who
// follows every push and by who starts at the end. COMMITn is the nth commit.
func TestCatalogueOfOverlays(t *testing.T) {
	type push struct {
		change  map[string]*string
		current []string // "name version commit path from"
		refused []string
	}
	base := "osp-base v1.0.0 COMMIT0 " + basePath
	for name, pushes := range map[string][]push{
		"an overlay and its base, in one commit and in later ones": {
			{change: map[string]*string{basePath: profiletest.BaseAt("v1.0.0"), overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-base", "v1.0.0", "a")}, current: []string{base, "osp-over v2.0.0 COMMIT0 " + overPath + " osp-base v1.0.0"}},
			{change: map[string]*string{overPath: profiletest.OverlayAt("osp-over", "v2.1.0", "osp-base", "v1.0.0", "b")}, current: []string{base, "osp-over v2.1.0 COMMIT1 " + overPath + " osp-base v1.0.0"}},
		},
		"a newer base changes no overlay; its old version is in the history": {
			{change: map[string]*string{basePath: profiletest.BaseAt("v1.0.0"), overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-base", "v1.0.0", "a")}, current: []string{base, "osp-over v2.0.0 COMMIT0 " + overPath + " osp-base v1.0.0"}},
			{change: map[string]*string{basePath: profiletest.BaseAt("v1.1.0")}, current: []string{"osp-base v1.1.0 COMMIT1 " + basePath, "osp-over v2.0.0 COMMIT0 " + overPath + " osp-base v1.0.0"}},
			{change: map[string]*string{overPath: profiletest.OverlayAt("osp-over", "v2.0.1", "osp-base", "v1.0.0", "b")}, current: []string{"osp-base v1.1.0 COMMIT1 " + basePath, "osp-over v2.0.1 COMMIT2 " + overPath + " osp-base v1.0.0"}},
			{change: map[string]*string{basePath: nil}, current: []string{"osp-over v2.0.1 COMMIT2 " + overPath + " osp-base v1.0.0"}},
		},
		"a base that comes later brings the overlay": {
			{change: map[string]*string{overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-base", "v1.0.0", "a")}, refused: []string{overPath + `:7: spec.from: there is no profile "osp-base" v1.0.0, neither in the repository or its history nor built in, nor any other version of it`}},
			{change: map[string]*string{basePath: profiletest.BaseAt("v1.1.0")}, current: []string{"osp-base v1.1.0 COMMIT1 " + basePath}, refused: []string{"available: v1.1.0: name one of them"}},
			{change: map[string]*string{basePath: profiletest.BaseAt("v1.0.0")}, current: []string{"osp-base v1.0.0 COMMIT2 " + basePath, "osp-over v2.0.0 COMMIT2 " + overPath + " osp-base v1.0.0"}},
		},
		"another base without another version is refused, and the old one stays": {
			{change: map[string]*string{basePath: profiletest.BaseAt("v1.0.0"), overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-base", "v1.0.0", "a")}, current: []string{base, "osp-over v2.0.0 COMMIT0 " + overPath + " osp-base v1.0.0"}},
			{change: map[string]*string{basePath: profiletest.BaseAt("v1.1.0"), overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-base", "v1.1.0", "a")}, current: []string{"osp-base v1.1.0 COMMIT1 " + basePath, "osp-over v2.0.0 COMMIT0 " + overPath + " osp-base v1.0.0"}, refused: []string{overPath + `:6: spec.version: the content of profile "osp-over" changed at COMMIT1, but its version is still v2.0.0`}},
		},
		"what cannot be applied stands for what it held": {
			{change: map[string]*string{basePath: profiletest.BaseAt("v1.0.0"), overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-base", "v1.0.0", "a")}, current: []string{base, "osp-over v2.0.0 COMMIT0 " + overPath + " osp-base v1.0.0"}},
			{change: map[string]*string{overPath: text(strings.Replace(*profiletest.OverlayAt("osp-over", "v2.1.0", "osp-base", "v1.0.0", "a"), "hello:", "nobody:", 1))}, current: []string{base, "osp-over v2.0.0 COMMIT0 " + overPath + " osp-base v1.0.0"}, refused: []string{overPath + `:8: spec.bootstrapConfig.templates.replace[nobody]: there is no template "nobody"`}},
			{change: map[string]*string{overPath: profiletest.OverlayAt("osp-over", "v2.1.0", "osp-base", "v1.0.0", "c")}, current: []string{base, "osp-over v2.1.0 COMMIT2 " + overPath + " osp-base v1.0.0"}},
		},
		"built-in profiles come last, and one of the tree with the same name and version is other content": {
			{change: map[string]*string{overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-builtin", "v1.0.0", "a")}, current: []string{"osp-over v2.0.0 COMMIT0 " + overPath + " osp-builtin v1.0.0 builtin"}},
			{
				change:  map[string]*string{basePath: text(strings.NewReplacer("osp-base", "osp-builtin", "version = 2", "mine").Replace(profiletest.Base))},
				current: []string{"osp-builtin v1.0.0 COMMIT1 " + basePath, "osp-over v2.0.0 COMMIT0 " + overPath + " osp-builtin v1.0.0 builtin"},
				refused: []string{overPath + `:6: spec.version: the content of profile "osp-over" changed at COMMIT1`},
			},
		},
		"overlays on one another, whatever the order of their files": {
			{change: map[string]*string{basePath: profiletest.BaseAt("v1.0.0"), "profiles/a.yaml": profiletest.OverlayAt("osp-top", "v3.0.0", "osp-over", "v2.0.0", "top"), overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-base", "v1.0.0", "a")}, current: []string{base, "osp-over v2.0.0 COMMIT0 " + overPath + " osp-base v1.0.0", "osp-top v3.0.0 COMMIT0 profiles/a.yaml osp-over v2.0.0"}},
		},
		"a circle is refused, and who starts from one waits": {
			{
				change: map[string]*string{overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-top", "v3.0.0", "a"), "profiles/a.yaml": profiletest.OverlayAt("osp-top", "v3.0.0", "osp-over", "v2.0.0", "b"), "profiles/z.yaml": profiletest.OverlayAt("osp-z", "v1.0.0", "osp-top", "v3.0.0", "c")},
				refused: []string{
					`profiles/a.yaml:7: spec.from: forms a cycle: "osp-top" v3.0.0 (profiles/a.yaml:7) starts from "osp-over" v2.0.0 (profiles/over.yaml:7) starts from "osp-top" v3.0.0 (profiles/a.yaml:7): let one of them start from another profile`,
					overPath + ":7: spec.from: forms a cycle",
					`profiles/z.yaml:7: spec.from: the base, profile "osp-top" v3.0.0, is rejected: fix profiles/a.yaml first`,
				},
			},
		},
		"an overlay takes the place of a copy": {
			{change: map[string]*string{basePath: profiletest.BaseAt("v1.0.0"), overPath: text(strings.NewReplacer("osp-base", "osp-over").Replace(profiletest.Base))}, current: []string{base, "osp-over v1.0.0 COMMIT0 " + overPath}},
			{change: map[string]*string{overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-over", "v1.0.0", "a")}, current: []string{base, "osp-over v2.0.0 COMMIT1 " + overPath + " osp-over v1.0.0"}},
		},
		"an overlay and a profile of one name and version: neither is applied": {
			{
				change:  map[string]*string{basePath: profiletest.BaseAt("v1.0.0"), "profiles/copy.yaml": text(strings.NewReplacer("osp-base", "osp-over", "v1.0.0", "v2.0.0").Replace(profiletest.Base)), overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-base", "v1.0.0", "a")},
				current: []string{base}, refused: []string{"is also in " + overPath, "is also in profiles/copy.yaml"},
			},
		},
		"a mistake that only the whole has is where its text is": {
			{
				change:  map[string]*string{basePath: profiletest.BaseAt("v1.0.0"), overPath: text(strings.Replace(*profiletest.OverlayAt("osp-over", "v2.0.0", "osp-base", "v1.0.0", "a"), "replace: {hello: a}", "remove: [hello]", 1))},
				current: []string{base}, refused: []string{basePath + `:16: spec.bootstrapConfig.templates[bye]: needs hello; this text is in the base of profile "osp-over" v2.0.0, ` + overPath + ":7"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			repo, h := newRepository(t), newHistory(0)
			follower := &Indexer{Check: needsHello, Builtin: profiletest.Builtins()}
			for i, p := range pushes {
				h.out.Reset()
				h.head = h.commit("main", h.head, 0, p.change)
				repo.importStream(h.out.String())
				commits := strings.NewReplacer(numbered(strings.Split(repo.git("rev-list", "--reverse", "main"), "\n"))...)
				for who, cat := range map[string]*Catalog{"follower": repo.catalogue(follower), "starter": repo.freshCatalogue(&Indexer{Check: needsHello, Builtin: profiletest.Builtins()})} {
					var current []string
					for _, v := range cat.Current {
						current = append(current, commits.Replace(shown(v)))
					}
					if diff := cmp.Diff(p.current, current); diff != "" {
						t.Errorf("push %d, %s: current -want +got\n%s", i, who, diff)
					}
					if len(cat.Rejected) != len(p.refused) {
						t.Errorf("push %d, %s: refused %v, want %d", i, who, cat.Rejected, len(p.refused))
						continue
					}
					for j, r := range cat.Rejected {
						if got := commits.Replace(r.Error()); !strings.Contains(got, p.refused[j]) {
							t.Errorf("push %d, %s: refusal\n%v\ndoes not say\n%s", i, who, got, p.refused[j])
						}
					}
				}
			}
		})
	}
}

// needsHello is a check that only a whole profile can fail.
func needsHello(d profile.Document) error {
	if _, ok := d.Spec.BootstrapConfig.Templates["hello"]; ok {
		return nil
	}
	const field = "spec.bootstrapConfig.templates[bye]"
	return &strictyaml.Problem{Path: d.FileOf(field), Line: d.Line(field), Field: field, Err: errors.New("needs hello")}
}

// numbered replaces commits by their numbers, the abbreviated ones too.
func numbered(commits []string) []string {
	var out []string
	for n, c := range commits {
		name := fmt.Sprintf("COMMIT%d", n)
		out = append(out, c, name, c[:12], name)
	}
	return out
}

func shown(v Version) string {
	s := fmt.Sprintf("%s %s %s %s", v.Name, v.Version, v.Commit, v.Path)
	if v.From != nil {
		s += fmt.Sprintf(" %s %s", v.From.Name, v.From.Version)
		if v.From.Builtin {
			s += " builtin"
		}
	}
	return s
}

// Overlays lie on one another up to a bound.
func TestOverlaysOnOverlays(t *testing.T) {
	change := map[string]*string{basePath: profiletest.BaseAt("v1.0.0")}
	name, version := "osp-base", "v1.0.0"
	for i := 1; i <= overlay.MaxChain+1; i++ {
		next := fmt.Sprintf("osp-layer-%d", i)
		change["profiles/"+next+".yaml"] = profiletest.OverlayAt(next, "v1.0.0", name, version, fmt.Sprint("layer", i))
		name = next
	}
	repo, h := newRepository(t), newHistory(0)
	h.commit("main", 0, 0, change)
	repo.importStream(h.out.String())
	cat := repo.catalogue(&Indexer{})
	if len(cat.Current) != 1+overlay.MaxChain || len(cat.Rejected) != 1 || !strings.Contains(cat.Rejected[0].Error(), "osp-layer-9.yaml:7: spec.from: is the 9th overlay in a chain of overlays, and 8 are allowed") {
		t.Errorf("%d current, refused %v", len(cat.Current), cat.Rejected)
	}
}

// In a folder without Git, and in a work tree with edits, the base is what the file
// says now, and the overlay on it has a version of its own for each content.
func TestOverlaysInDirectories(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("base.yaml", profiletest.Base)
	write("over.yaml", *profiletest.OverlayAt("osp-over", "v2.0.0", "osp-base", "v1.0.0", "a"))
	seen := map[string]bool{}
	for _, edit := range []string{"one", "uno"} {
		write("base.yaml", strings.Replace(profiletest.Base, "            one\n", "            "+edit+"\n", 1))
		snap, err := source.Directory{Root: "/", Path: dir}.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ix := &Indexer{Check: needsHello}
		cat, err := ix.Catalog(t.Context(), snap)
		if err != nil || len(cat.Rejected) > 0 || len(cat.Current) != 2 {
			t.Fatalf("%d current, refused %v, error %v", len(cat.Current), cat.Rejected, err)
		}
		v := cat.Current[1]
		doc, err := ix.Document(t.Context(), snap, v)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(v.Version, "v2.0.0-dirty.") || seen[v.Version] || doc.Digest != v.Digest || doc.Spec.Version != v.Version {
			t.Errorf("version %s, of the document %s", v.Version, doc.Spec.Version)
		}
		seen[v.Version] = true
		if got := doc.Spec.BootstrapConfig; got.Templates["hello"] != "a" || got.Files[0].Content.Inline.Data != edit+"\ntwo\n" {
			t.Errorf("after %q: %+v", edit, got)
		}
		if got := doc.FileOf("spec.osName"); got != "base.yaml" {
			t.Errorf("the base is in %q", got)
		}
	}
}

// An old base is named by its commit, because its file has other content now; a built-in
// one is marked. The lines are those of that content.
func TestWhereABaseIs(t *testing.T) {
	repo, h := newRepository(t), newHistory(0)
	h.head = h.commit("main", 0, 0, map[string]*string{basePath: profiletest.BaseAt("v1.0.0"), overPath: profiletest.OverlayAt("osp-over", "v2.0.0", "osp-base", "v1.0.0", "a"), "profiles/b.yaml": profiletest.OverlayAt("osp-b", "v1.0.0", "osp-builtin", "v1.0.0", "b")})
	h.head = h.commit("main", h.head, 0, map[string]*string{basePath: text("# moved\n" + *profiletest.BaseAt("v1.1.0"))})
	repo.importStream(h.out.String())
	ix := &Indexer{Builtin: profiletest.Builtins()}
	snap := repo.fetch(repo.mirrors)
	cat, err := ix.Catalog(t.Context(), snap)
	if err != nil || len(cat.Current) != 3 {
		t.Fatal(cat, err)
	}
	first := repo.git("rev-list", "--max-parents=0", "main")[:12]
	for i, want := range map[int]string{0: "builtin:shipped/osp-builtin.yaml", 2: first + ":" + basePath} {
		doc, err := ix.Document(t.Context(), snap, cat.Current[i])
		if err != nil {
			t.Fatal(err)
		}
		const field = "spec.bootstrapConfig.templates[bye]"
		if doc.FileOf(field) != want || doc.Line(field) != 16 {
			t.Errorf("%s: the base is %s:%d, want %s:16", doc.Name, doc.FileOf(field), doc.Line(field), want)
		}
	}
}

// An overlay gets the base that it names, even if other files have that name and version,
// and a file that other signers can change is not a base of a guarded overlay
// (security.md 38).
func TestBasesThatOthersMayChange(t *testing.T) {
	shadow := strings.NewReplacer("osp-base", "osp-builtin", "version = 2", "evil").Replace(profiletest.Base)
	shipped := profile.Digest(decodeOne(t, strings.ReplaceAll(profiletest.Base, "osp-base", "osp-builtin")).Spec)
	mine := profile.Digest(decodeOne(t, shadow).Spec)
	guard := func(overlay, base string) error {
		if strings.HasPrefix(overlay, "profiles/prod/") && !strings.HasPrefix(base, "profiles/prod/") {
			return errors.New("only ops may change that")
		}
		return nil
	}
	for name, c := range map[string]struct {
		overlay, base string // paths
		from          string
		want, says    string
	}{
		"a shadow beside is refused":             {overlay: "profiles/prod/over.yaml", base: "profiles/dev/x.yaml", says: `profiles/prod/over.yaml:7: spec.from: the base, profile "osp-builtin" v1.0.0, is in profiles/dev/x.yaml, which has other signers than profiles/prod/over.yaml: only ops may change that: set builtin: true under spec.from of profiles/prod/over.yaml`},
		"the built-in one, by name":              {overlay: "profiles/prod/over.yaml", base: "profiles/dev/x.yaml", from: "builtin: true", want: shipped},
		"the built-in one, by digest":            {overlay: "profiles/prod/over.yaml", base: "profiles/dev/x.yaml", from: "digest: " + shipped, want: shipped},
		"the file, by digest":                    {overlay: "profiles/prod/over.yaml", base: "profiles/dev/x.yaml", from: "digest: " + mine, want: mine},
		"a digest that nothing has":              {overlay: "profiles/prod/over.yaml", base: "profiles/dev/x.yaml", from: "digest: v1:sha256:" + strings.Repeat("0", 64), says: "differs from spec.from.digest: found profiles/dev/x.yaml (" + mine + "), builtin:shipped/osp-builtin.yaml (" + shipped + ")"},
		"both, and they are not the same":        {overlay: "profiles/prod/over.yaml", base: "profiles/dev/x.yaml", from: "builtin: true, digest: " + mine, says: "differs from spec.from.digest: found builtin:shipped/osp-builtin.yaml (" + shipped + ")"},
		"a file that is guarded as the overlay":  {overlay: "profiles/prod/over.yaml", base: "profiles/prod/x.yaml", want: mine},
		"an overlay that is not guarded":         {overlay: "profiles/dev/over.yaml", base: "profiles/prod/x.yaml", want: mine},
		"the built-in one, where no file has it": {overlay: "profiles/prod/over.yaml", want: shipped},
		"something that is no digest":            {overlay: "profiles/prod/over.yaml", from: "digest: sha256:abc", says: "spec.from.digest"},
	} {
		t.Run(name, func(t *testing.T) {
			push, repo := pushes(t)
			content := *profiletest.OverlayAt("osp-over", "v2.0.0", "osp-builtin", "v1.0.0", "a")
			if c.from != "" {
				content = strings.Replace(content, "version: v1.0.0", "version: v1.0.0, "+c.from, 1)
				if !strings.Contains(content, c.from) {
					t.Fatalf("not written: %s", content)
				}
			}
			push(map[string]*string{c.overlay: &content})
			if c.base != "" {
				push(map[string]*string{c.base: &shadow, c.overlay: text(strings.Replace(content, "v2.0.0", "v2.1.0", 1))})
			}
			cat := repo.catalogue(&Indexer{Check: needsHello, Builtin: profiletest.Builtins(), CheckBase: guard})
			var got string
			for _, v := range cat.Current {
				if v.Name == "osp-over" && (c.base == "" || v.Version == "v2.1.0") && v.From != nil {
					got = v.From.Digest
				}
			}
			var said strings.Builder
			for _, r := range cat.Rejected {
				said.WriteString(r.Error() + "\n")
			}
			if got != c.want || !strings.Contains(said.String(), c.says) || c.says == "" && said.Len() > 0 {
				t.Errorf("the base is %q, want %q, and refused is %s", got, c.want, said.String())
			}
		})
	}
}

// For a rejected file the content of an earlier commit remains current, with a message.
func TestVersionsAtHead(t *testing.T) {
	push, repo := pushes(t)
	push(map[string]*string{basePath: profiletest.BaseAt("v1.0.0")})
	push(map[string]*string{basePath: text(strings.Replace(*profiletest.BaseAt("v1.0.0"), "version v1.0.0", "other", 1))})
	cat := repo.catalogue(&Indexer{})
	if len(cat.Current) != 1 || cat.Current[0].AtHead || cat.Current[0].CurrentPath != basePath || len(cat.Rejected) != 1 {
		t.Errorf("current is %+v, refused %v", cat.Current, cat.Rejected)
	}
	push(map[string]*string{basePath: profiletest.BaseAt("v1.0.0")})
	if cat = repo.catalogue(&Indexer{}); !cat.Current[0].AtHead {
		t.Errorf("current is %+v", cat.Current)
	}
}

// So many files are rejected that the list is truncated: a file of the history that is
// not listed can still exist, and is not treated as removed (security.md 32).
func TestFilesBeyondTheLimits(t *testing.T) {
	push, repo := pushes(t)
	push(map[string]*string{basePath: profiletest.BaseAt("v1.0.0")})
	for more, want := range map[bool]int{false: 0, true: 1} {
		snap := *repo.fetch(repo.mirrors)
		snap.Files, snap.Rejected = nil, []source.RejectedEntry{{Path: "profiles/a.yaml", Reason: "too many files"}}
		if more {
			snap.Rejected = append(snap.Rejected, source.RejectedEntry{Path: source.MoreRejected, Reason: "and 1 more"})
		}
		cat, err := (&Indexer{}).Catalog(t.Context(), &snap)
		if err != nil || len(cat.Current) != want {
			t.Errorf("cut off %v: current is %+v, %v", more, cat.Current, err)
		}
	}
}

// pushes is a repository to which commits are pushed one by one.
func pushes(t *testing.T) (push func(map[string]*string), repo *repository) {
	t.Helper()
	repo, h := newRepository(t), newHistory(0)
	return func(change map[string]*string) {
		h.out.Reset()
		h.head = h.commit("main", h.head, 0, change)
		repo.importStream(h.out.String())
	}, repo
}

func decodeOne(t *testing.T, data string) profile.Document {
	t.Helper()
	in, err := profile.DecodeFile("x.yaml", []byte(data))
	if err != nil || len(in.Profiles) != 1 {
		t.Fatalf("%d profiles, %v", len(in.Profiles), err)
	}
	return in.Profiles[0]
}
