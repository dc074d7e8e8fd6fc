package catalog

import (
	"fmt"
	"maps"
	"math/rand"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/gittestserver"
	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/source"
	"github.com/osm-gitops/osm-gitops/test/gittest"
	"github.com/osm-gitops/osm-gitops/test/profiletest"
)

// The catalogue must find what a script around the real git finds, on histories
// with merges, squashes, renames, removals and reverts to earlier versions; and
// the same whether the source followed every push or starts at the end.
func TestCatalogueAgreesWithGit(t *testing.T) {
	for _, c := range []struct {
		seed    int64
		commits int
	}{{1, 2000}, {2, 300}, {3, 300}} {
		if testing.Short() && c.seed != 2 {
			continue // it takes most of the time of this package
		}
		t.Run(fmt.Sprintf("seed %d, %d commits", c.seed, c.commits), func(t *testing.T) {
			repo := newRepository(t)
			h := newHistory(c.seed)
			follower := &Indexer{}
			var followed *Catalog
			const pushes = 12
			for push := 1; push <= pushes; push++ {
				repo.importStream(h.grow(c.commits * push / pushes))
				followed = repo.catalogue(follower)
			}
			today := &Indexer{}
			fresh := repo.freshCatalogue(today)
			if diff := cmp.Diff(followed, fresh, cmp.AllowUnexported(Version{})); diff != "" {
				t.Fatalf("who followed every push and who starts today differ:\n%s", diff)
			}
			repo.compareWithScript(fresh)
		})
	}
}

type repository struct {
	t        *testing.T
	dir, url string
	mirrors  *source.Mirrors
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	server, err := gittestserver.NewTempGitServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(server.Root()) })
	if err := server.StartHTTP(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.StopHTTP)
	dir := filepath.Join(server.Root(), "osps.git")
	repo := &repository{t: t, dir: dir, url: server.HTTPAddress() + "/osps.git", mirrors: newMirrors(t)}
	gittest.Git(t, server.Root(), "init", "--quiet", "--bare", "--initial-branch=main", dir)
	return repo
}

func newMirrors(t *testing.T) *source.Mirrors {
	return &source.Mirrors{Dir: t.TempDir(), AllowInsecure: true, AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

func (r *repository) git(args ...string) string { r.t.Helper(); return r.gitInput("", args...) }

func (r *repository) gitInput(input string, args ...string) string {
	r.t.Helper()
	cmd := gittest.Command(r.t.Context(), r.dir, args...)
	cmd.Stdin = strings.NewReader(input)
	out, err := gittest.Output(cmd)
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSuffix(out, "\n")
}

func (r *repository) importStream(stream string) {
	r.t.Helper()
	r.gitInput(stream, "fast-import", "--quiet", "--force", "--import-marks-if-exists=marks", "--export-marks=marks")
}

func (r *repository) catalogue(x *Indexer) *Catalog { return r.catalogueBy(r.mirrors, x) }

func (r *repository) freshCatalogue(x *Indexer) *Catalog { return r.catalogueBy(newMirrors(r.t), x) }

func (r *repository) catalogueBy(m *source.Mirrors, x *Indexer) *Catalog {
	r.t.Helper()
	snap := r.fetch(m)
	cat, err := x.Catalog(r.t.Context(), snap)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, v := range cat.Current {
		if _, err := x.Document(r.t.Context(), snap, v); err != nil {
			r.t.Fatal(err)
		}
	}
	return cat
}

func (r *repository) fetch(m *source.Mirrors) *source.Snapshot {
	r.t.Helper()
	snap, err := m.Fetch(r.t.Context(), source.Remote{URL: r.url, Branch: "main", Path: "profiles", Timeout: time.Minute})
	if err != nil {
		r.t.Fatal(err)
	}
	return snap
}

// held is a profile in a file of some commit, as the script sees it.
type held struct{ path, name, version, digest string }

// compareWithScript does with git's own commands what design.md 3.2 defines.
func (r *repository) compareWithScript(cat *Catalog) {
	r.t.Helper()
	first := map[string]string{}      // name version digest -> "commit path"
	selected := map[string]string{}   // name -> "version digest" at the commit before
	selectedBy := map[string]string{} // name -> commit
	commits, trees := r.trees()
	for _, commit := range commits {
		tree := trees[commit]
		for _, h := range tree {
			id := h.name + " " + h.version + " " + h.digest
			if first[id] == "" {
				first[id] = commit + " " + h.path
			}
		}
		now := selectFrom(tree)
		for name, choice := range now {
			if selected[name] != choice {
				selectedBy[name] = commit
			}
		}
		selected = now
	}
	if len(selected) != len(cat.Current) {
		r.t.Errorf("the script finds %d current profiles, the catalogue %d", len(selected), len(cat.Current))
	}
	snap := r.fetch(r.mirrors)
	for _, v := range cat.Current {
		want := selected[v.Name] + " " + selectedBy[v.Name] + " " + first[v.Name+" "+selected[v.Name]]
		got := strings.Join([]string{v.Version, v.Digest, string(v.SelectedBy), string(v.Commit), v.Path}, " ")
		if got != want {
			r.t.Errorf("%s:\n got %s\nwant %s", v.Name, got, want)
		}
	}
	checked := 0
	for _, versions := range cat.History {
		for _, v := range versions {
			if got, want := string(v.Commit)+" "+v.Path, first[v.Name+" "+v.Version+" "+v.Digest]; got != want {
				r.t.Errorf("%s %s: commit and path %s, want %s", v.Name, v.Version, got, want)
			}
			author, err := snap.LastChange(r.t.Context(), v.Commit, v.Path)
			if err != nil {
				r.t.Fatal(err)
			}
			if checked++; checked <= 200 {
				if want := r.git("log", "-1", "--format=%H %an", string(v.Commit), "--", v.Path); string(author.Commit)+" "+author.Name != want {
					r.t.Errorf("%s %s: change %s %s, want %s", v.Name, v.Version, author.Commit, author.Name, want)
				}
			}
		}
	}
	if checked < 50 {
		r.t.Errorf("only %d versions in this history: it shows nothing", checked)
	}
}

// trees returns the commits of the first-parent line, oldest first, and the profiles in each, in
// the order of paths. One git lists all trees: a start for each takes longer than what is tested.
func (r *repository) trees() (commits []string, trees map[string][]held) {
	r.t.Helper()
	var folders strings.Builder // of a tree that has the tree of each commit as a folder
	for line := range strings.SplitSeq(r.git("log", "--first-parent", "--reverse", "--format=%H %T", "main"), "\n") {
		commit, tree, _ := strings.Cut(line, " ")
		commits = append(commits, commit)
		fmt.Fprintf(&folders, "040000 tree %s\t%s\n", tree, commit)
	}
	type file struct{ commit, path, blob string }
	var files []file
	blobs := map[string]bool{}
	for line := range strings.SplitSeq(r.git("ls-tree", "-r", r.gitInput(folders.String(), "mktree")), "\n") {
		meta, path, _ := strings.Cut(line, "\t")
		commit, path, _ := strings.Cut(path, "/")
		if strings.HasPrefix(path, "profiles/") {
			f := file{commit, path, strings.Fields(meta)[2]}
			files, blobs[f.blob] = append(files, f), true
		}
	}
	decoded := r.decode(slices.Sorted(maps.Keys(blobs)))
	trees = map[string][]held{}
	for _, f := range files {
		for _, h := range decoded[f.blob] {
			h.path = f.path
			trees[f.commit] = append(trees[f.commit], h)
		}
	}
	return commits, trees
}

// decode returns the profiles in each blob.
func (r *repository) decode(blobs []string) map[string][]held {
	r.t.Helper()
	decoded := map[string][]held{}
	// Of each blob: "<id> blob <size>", a line break, the content, a line break.
	out := r.gitInput(strings.Join(blobs, "\n"), "cat-file", "--batch") + "\n"
	for _, blob := range blobs {
		header, rest, _ := strings.Cut(out, "\n")
		size, err := strconv.Atoi(strings.TrimPrefix(header, blob+" blob "))
		if err != nil {
			r.t.Fatal(err)
		}
		docs, err := profile.Decode(blob, []byte(rest[:size]))
		if err != nil {
			r.t.Fatal(err)
		}
		for _, d := range docs {
			decoded[blob] = append(decoded[blob], held{name: d.Name, version: d.Spec.Version, digest: d.Digest})
		}
		out = rest[size+1:]
	}
	return decoded
}

// selectFrom says which version a tree makes current: the highest release, or of
// a profile that has only pre-releases the highest of those.
func selectFrom(tree []held) map[string]string {
	best := map[string]held{}
	for _, h := range tree {
		b, ok := best[h.name]
		if !ok || rank(h.version) > rank(b.version) {
			best[h.name] = h
		}
	}
	out := map[string]string{}
	for name, h := range best {
		out[name] = h.version + " " + h.digest
	}
	return out
}

// rank orders the versions that newHistory makes: v1.<n>.0 and v1.<n>.0-rc.1.
func rank(version string) int {
	var n int
	rest, pre := strings.CutSuffix(strings.TrimPrefix(version, "v1."), ".0-rc.1")
	if _, err := fmt.Sscanf(strings.TrimSuffix(rest, ".0"), "%d", &n); err != nil {
		panic(err)
	}
	if !pre {
		n += 1_000_000
	}
	return n
}

// history makes a random history as a stream for git fast-import.
type history struct {
	rand    *rand.Rand
	out     strings.Builder
	mark    int
	head    int
	clock   int64
	tree    map[string]string // path -> content
	names   []string
	minor   map[string]int      // last version used
	old     map[string][]string // contents by profile, for reverts
	commits int
}

func newHistory(seed int64) *history {
	return &history{
		rand: rand.New(rand.NewSource(seed)), clock: 1_700_000_000,
		tree: map[string]string{}, minor: map[string]int{}, old: map[string][]string{},
	}
}

// grow adds commits until there are n, and returns the stream of the new ones.
func (h *history) grow(n int) string {
	h.out.Reset()
	for h.commits < n {
		switch k := h.rand.Intn(10); {
		case k < 2 && h.head != 0:
			h.merge()
		default:
			h.head = h.commit("main", h.head, 0, h.edit(h.tree))
		}
	}
	return h.out.String()
}

// merge creates a branch of one to three commits, with occasional commits on main, and
// merges it.
func (h *history) merge() {
	base := cloneMap(h.tree)
	side, sideTree := h.head, cloneMap(h.tree)
	for range 1 + h.rand.Intn(3) {
		side = h.commit("side", side, 0, h.edit(sideTree))
	}
	if h.rand.Intn(2) == 0 { // an unrelated commit on main meanwhile
		h.head = h.commit("main", h.head, 0, map[string]*string{"README.md": text(fmt.Sprint(h.mark))})
	}
	change := map[string]*string{}
	for path := range base {
		if _, ok := sideTree[path]; !ok {
			change[path] = nil
		}
	}
	for path, content := range sideTree {
		if base[path] != content {
			change[path] = text(content)
		}
	}
	h.tree = sideTree
	if h.rand.Intn(3) == 0 {
		side = 0 // a squash: the content without the history
	}
	h.head = h.commit("main", h.head, side, change)
}

// edit changes a tree and returns the change.
func (h *history) edit(tree map[string]string) map[string]*string {
	paths := sortedPaths(tree)
	if len(paths) == 0 || len(h.names) < 8 && h.rand.Intn(20) == 0 {
		name := fmt.Sprintf("osp-%c", 'a'+len(h.names))
		h.names = append(h.names, name)
		return h.put(tree, "profiles/"+name+".yaml", h.next(name))
	}
	path := paths[h.rand.Intn(len(paths))]
	name := nameIn(tree[path])
	switch h.rand.Intn(10) {
	case 0, 1: // different content
		return map[string]*string{"docs/notes.txt": text(fmt.Sprint(h.mark))}
	case 2: // a rename without a change of content
		to := fmt.Sprintf("profiles/team-%d/%s-%d.yaml", h.rand.Intn(3), name, h.mark)
		change := h.put(tree, to, tree[path])
		delete(tree, path)
		change[path] = nil
		return change
	case 3: // back to an earlier version, in place of all others
		olds := h.old[name]
		content := olds[h.rand.Intn(len(olds))]
		change := map[string]*string{}
		for _, p := range paths {
			if nameIn(tree[p]) == name {
				delete(tree, p)
				change[p] = nil
			}
		}
		tree[path] = content
		change[path] = text(content)
		return change
	case 4: // another version in another file
		return h.put(tree, fmt.Sprintf("profiles/%s-%d.yaml", name, h.mark), h.next(name))
	case 5: // away, perhaps to come back by a revert
		if len(paths) > 3 {
			delete(tree, path)
			return map[string]*string{path: nil}
		}
	}
	return h.put(tree, path, h.next(name)) // the usual: a new version in place
}

func (h *history) put(tree map[string]string, path, content string) map[string]*string {
	tree[path] = content
	return map[string]*string{path: text(content)}
}

// next makes the next version of a profile; some are pre-releases.
func (h *history) next(name string) string {
	h.minor[name]++
	version := fmt.Sprintf("v1.%d.0", h.minor[name])
	if h.rand.Intn(6) == 0 {
		version += "-rc.1"
	}
	content := strings.NewReplacer("osp-test", name, "v1.0.0", version, "echo hello", fmt.Sprint("echo ", h.rand.Int())).Replace(profiletest.Small)
	h.old[name] = append(h.old[name], content)
	return content
}

func (h *history) commit(ref string, from, merge int, change map[string]*string) int {
	h.mark++
	h.commits++
	h.clock += int64(h.rand.Intn(100)) // several commits may share a second
	who := fmt.Sprintf("Author %d <a%d@example.com> %d +0000", h.mark%7, h.mark%7, h.clock)
	fmt.Fprintf(&h.out, "commit refs/heads/%s\nmark :%d\nauthor %s\ncommitter %s\ndata 2\nc\n", ref, h.mark, who, who)
	if from != 0 {
		fmt.Fprintf(&h.out, "from :%d\n", from)
	}
	if merge != 0 {
		fmt.Fprintf(&h.out, "merge :%d\n", merge)
	}
	for _, path := range sortedPaths(change) {
		if content := change[path]; content == nil {
			fmt.Fprintf(&h.out, "D %s\n", path)
		} else {
			fmt.Fprintf(&h.out, "M 100644 inline %s\ndata %d\n%s\n", path, len(*content), *content)
		}
	}
	h.out.WriteString("\n")
	return h.mark
}

func nameIn(content string) string {
	_, rest, _ := strings.Cut(content, "  name: ")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

func text(s string) *string { return &s }

func cloneMap(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func sortedPaths[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
