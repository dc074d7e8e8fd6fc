package source

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// history is a made-up repository: a seeded sequence of what people do to a branch,
// written for git fast-import.
type testHistory struct {
	rand  *rand.Rand
	out   bytes.Buffer
	trees []tree // by mark; the first is empty
	main  []int  // marks of the first-parent line
}

// tree is the content of a commit: "<mode> <content>" by path.
type tree map[string]string

// newHistory makes a history of at least n commits.
func newHistory(seed uint64, n int) *testHistory {
	h := &testHistory{rand: rand.New(rand.NewPCG(seed, seed)), trees: []tree{{}}}
	h.land(h.record(tree{"README.md": "100644 hello", "profiles/a.yaml": "100644 a"}))
	for len(h.trees) < n {
		switch h.rand.IntN(10) {
		case 0, 1, 2, 3:
			h.land(h.record(h.edit(h.tip()), h.head()))
		case 4, 5:
			h.merge()
		case 6:
			h.land(h.record(h.combine(h.branch()), h.head())) // a squash merge
		case 7:
			h.revert()
		case 8:
			h.octopus()
		case 9:
			h.land(h.record(h.rename(h.tip()), h.head()))
		}
	}
	final := maps.Clone(h.tip()) // the folders must exist where the test reads them
	final["profiles/team/z.yaml"] = "100644 z"
	h.land(h.record(final, h.head()))
	return h
}

func (h *testHistory) head() int     { return h.main[len(h.main)-1] }
func (h *testHistory) tip() tree     { return h.trees[h.head()] }
func (h *testHistory) land(mark int) { h.main = append(h.main, mark) }

// record writes a commit with the tree and the parents, and returns its mark.
func (h *testHistory) record(to tree, parents ...int) int {
	mark := len(h.trees)
	h.trees = append(h.trees, to)
	at := 1_700_000_000 + 60*mark
	fmt.Fprintf(&h.out, "commit refs/heads/all\nmark :%d\nauthor Ada %d <ada@example.com> %d +0200\ncommitter Ben <ben@example.com> %d +0000\ndata 6\nchange\n",
		mark, mark%7, at-5, at)
	from := tree{}
	if len(parents) > 0 {
		from = h.trees[parents[0]]
		fmt.Fprintf(&h.out, "from :%d\n", parents[0])
	}
	for _, p := range parents[min(1, len(parents)):] {
		fmt.Fprintf(&h.out, "merge :%d\n", p)
	}
	for _, path := range slices.Sorted(maps.Keys(from)) {
		if _, kept := to[path]; !kept {
			fmt.Fprintf(&h.out, "D %s\n", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(to)) {
		if from[path] == to[path] {
			continue
		}
		mode, content, _ := strings.Cut(to[path], " ")
		if mode == "160000" {
			fmt.Fprintf(&h.out, "M 160000 %040x %s\n", len(content)+1, path)
			continue
		}
		fmt.Fprintf(&h.out, "M %s inline %s\ndata %d\n%s\n", mode, path, len(content), content)
	}
	return mark
}

// edit changes one to three things somewhere.
func (h *testHistory) edit(t tree) tree {
	t = maps.Clone(t)
	for range 1 + h.rand.IntN(3) {
		path := h.somePath()
		switch h.rand.IntN(12) {
		case 0, 1:
			delete(t, path)
		case 2:
			h.put(t, path, "100755 "+h.word())
		case 3:
			h.put(t, path, "120000 a.yaml")
		case 4:
			h.put(t, path, "160000 x")
		case 5: // the mode alone
			if content, ok := strings.CutPrefix(t[path], "100644 "); ok {
				t[path] = "100755 " + content
			}
		default:
			h.put(t, path, "100644 "+h.word())
		}
	}
	return t
}

// put places a file, taking away what stands in its way: folders become files and
// the other way round.
func (h *testHistory) put(t tree, path, content string) {
	for other := range maps.Clone(t) {
		if strings.HasPrefix(other, path+"/") || strings.HasPrefix(path, other+"/") {
			delete(t, other)
		}
	}
	t[path] = content
}

func (h *testHistory) somePath() string {
	return h.pick("profiles/a.yaml", "profiles/b.yaml", "profiles/c.yml", "profiles/d.yaml",
		"profiles/team/a.yaml", "profiles/team/b.yaml", "profiles/team/deep/e.yaml", "profiles/team",
		"profiles/README.md", "profiles/.hidden.yaml", "profiles/.github/w.yaml", "profiles/team.yaml",
		"README.md", "src/x.go", "src/y.go", "src/deep/z.yaml", ".github/ci.yaml", "top.yaml")
}

func (h *testHistory) pick(from ...string) string { return from[h.rand.IntN(len(from))] }

// word is one of few contents, so that files become equal, and what they were before.
func (h *testHistory) word() string { return strconv.Itoa(h.rand.IntN(20)) }

// branch makes one to four commits beside the line and returns the last and where it began.
func (h *testHistory) branch() (base, last int) {
	base = h.main[max(0, len(h.main)-1-h.rand.IntN(6))]
	last = base
	for range 1 + h.rand.IntN(4) {
		last = h.record(h.edit(h.trees[last]), last)
	}
	return base, last
}

// combine is a merge of a branch into the tip, in which the branch wins conflicts.
func (h *testHistory) combine(base, last int) tree {
	t := maps.Clone(h.tip())
	for path := range h.trees[base] {
		if _, kept := h.trees[last][path]; !kept {
			delete(t, path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(h.trees[last])) {
		if content := h.trees[last][path]; h.trees[base][path] != content {
			h.put(t, path, content)
		}
	}
	return t
}

// merge is git merge --no-ff, sometimes with ours, with theirs, or with changes of its own.
func (h *testHistory) merge() {
	base, last := h.branch()
	t := h.combine(base, last)
	switch h.rand.IntN(6) {
	case 0:
		t = h.tip()
	case 1:
		t = h.trees[last]
	case 2:
		t = h.edit(t)
	}
	parents := []int{h.head(), last}
	if h.rand.IntN(10) == 0 { // what `git pull` leaves: the line goes on in the branch
		slices.Reverse(parents)
	}
	h.land(h.record(t, parents...))
}

func (h *testHistory) octopus() {
	base1, last1 := h.branch()
	_, last2 := h.branch()
	t := h.combine(base1, last1)
	if h.rand.IntN(2) == 0 {
		t = maps.Clone(h.trees[last2])
	}
	h.land(h.record(t, h.head(), last1, last2))
}

// revert brings one path or everything back to what it was.
func (h *testHistory) revert() {
	old := h.trees[h.main[h.rand.IntN(len(h.main))]]
	if h.rand.IntN(3) == 0 {
		h.land(h.record(old, h.head()))
		return
	}
	t, path := maps.Clone(h.tip()), h.somePath()
	delete(t, path)
	if content, ok := old[path]; ok {
		h.put(t, path, content)
	}
	h.land(h.record(t, h.head()))
}

func (h *testHistory) rename(t tree) tree {
	t = maps.Clone(t)
	from, to := h.somePath(), h.somePath()
	if content, ok := t[from]; ok {
		delete(t, from)
		h.put(t, to, content)
	}
	return t
}

// load writes the history into a bare repository and returns the commit of each mark.
func (h *testHistory) load(t testing.TB, dir string) []Commit {
	t.Helper()
	git(t, filepath.Dir(dir), "init", "--quiet", "--bare", "--initial-branch=main", dir)
	marks := filepath.Join(t.TempDir(), "marks")
	gitInput(t, dir, bytes.NewReader(h.out.Bytes()), "fast-import", "--quiet", "--export-marks="+marks)
	git(t, dir, "update-ref", "-d", "refs/heads/all")
	data, err := os.ReadFile(marks)
	if err != nil {
		t.Fatal(err)
	}
	commits := make([]Commit, len(h.trees))
	for line := range strings.Lines(string(data)) {
		var mark int
		var id string
		if _, err := fmt.Sscanf(line, ":%d %s", &mark, &id); err != nil {
			t.Fatal(err)
		}
		commits[mark] = Commit(id)
	}
	return commits
}

// wantLine is the line as git itself tells it.
func wantLine(t testing.TB, dir, path string) []Step {
	t.Helper()
	if path == "" {
		path = "."
	}
	out := git(t, dir, "log", "--first-parent", "--reverse", "--diff-merges=first-parent", "--no-renames",
		"--raw", "--no-abbrev", "--format=commit %H %ct", "main", "--", path)
	var steps []Step
	for line := range strings.SplitSeq(out, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "commit":
			at, err := strconv.ParseInt(fields[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, Step{Commit: Commit(fields[1]), CommittedAt: time.Unix(at, 0).UTC()})
		default: // :oldmode newmode oldid newid letter path
			if change, ok := wantChange(fields[0][1:], fields[1], fields[2], fields[3], fields[5]); ok {
				last := &steps[len(steps)-1]
				last.Changes = append(last.Changes, change)
			}
		}
	}
	steps = slices.DeleteFunc(steps, func(s Step) bool { return len(s.Changes) == 0 })
	for _, s := range steps {
		slices.SortFunc(s.Changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	}
	return steps
}

// wantChange is one line of git's raw format, seen by what is a profile file.
func wantChange(oldMode, newMode, oldID, newID, path string) (Change, bool) {
	if !strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, ".yml") || strings.HasPrefix(path, ".") || strings.Contains(path, "/.") {
		return Change{}, false
	}
	if !strings.HasPrefix(oldMode, "100") {
		oldID = ""
	}
	if !strings.HasPrefix(newMode, "100") {
		newID = ""
	}
	return Change{Path: path, Blob: newID}, oldID != newID
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			h := newHistory(seed, 700)
			name := fmt.Sprintf("repo%d.git", seed)
			commits := h.load(t, s.path(name))
			following := newMirrors(t)
			for _, path := range []string{"", "profiles", "profiles/team"} {
				remote := Remote{URL: s.url(name), Path: path}
				for at := range 6 {
					mark := h.main[(len(h.main)-1)*(at+1)/6]
					git(t, s.path(name), "update-ref", "refs/heads/main", string(commits[mark]))
					fetchIfThere(t, following, remote)
				}
				got := mustFetch(t, newMirrors(t), remote)
				if diff := cmp.Diff(wantLine(t, s.path(name), path), got.Line, snapshots); diff != "" {
					t.Errorf("path %q: the line differs from git's (-git +ours):\n%s", path, diff)
				}
				if diff := cmp.Diff(got, mustFetch(t, following, remote), snapshots); diff != "" {
					t.Errorf("path %q: whoever follows sees another history than who starts today:\n%s", path, diff)
				}
				checkFiles(t, s.path(name), path, got)
			}
			checkChanges(t, h, commits, s.path(name), mustFetch(t, following, Remote{URL: s.url(name)}))
		})
	}
}

// fetchIfThere fetches, where the path is not yet a folder, too.
func fetchIfThere(t *testing.T, m *Mirrors, r Remote) {
	t.Helper()
	if _, err := m.Fetch(t.Context(), r); err != nil && !strings.Contains(err.Error(), "does not exist") && !strings.Contains(err.Error(), "not followed") &&
		!strings.Contains(err.Error(), "not fetched") && !strings.Contains(err.Error(), "a folder belongs") {
		t.Fatal(err)
	}
}

// checkFiles compares the files with what git lists.
func checkFiles(t *testing.T, dir, path string, got *Snapshot) {
	t.Helper()
	var want []string
	args := []string{"ls-tree", "-r", "main"}
	if path != "" {
		args = append(args, path+"/")
	}
	for line := range strings.SplitSeq(git(t, dir, args...), "\n") {
		f := strings.Fields(line) // mode kind id path
		if _, ok := wantChange("000000", f[0], "", f[2], f[3]); ok {
			want = append(want, f[3]+" "+f[2])
		}
	}
	var have []string
	for _, f := range got.Files {
		have = append(have, f.Path+" "+f.Blob)
	}
	slices.Sort(want)
	slices.Sort(have)
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("path %q: %s", path, diff)
	}
}

// checkChanges asks git and us who changed some path at some commit.
func checkChanges(t *testing.T, h *testHistory, commits []Commit, dir string, s *Snapshot) {
	t.Helper()
	reachable := strings.Fields(git(t, dir, "rev-list", "main"))
	none := 0
	for range 120 {
		c, path := Commit(reachable[h.rand.IntN(len(reachable))]), h.somePath()
		want := git(t, dir, "log", "-1", "--format=%H %an|%ae|%at", string(c), "--", path)
		author, err := s.ChangeOf(t.Context(), c, path)
		var got string
		if err == nil {
			got = fmt.Sprintf("%s %s|%s|%d", author.Commit, author.Name, author.Email, author.At.Unix())
		} else {
			none++
			wantError(t, err, ErrNotFound, path)
		}
		if got != want {
			t.Errorf("the change of %s at %s is %q, git says %q", path, c, got, want)
		}
	}
	if none > 60 {
		t.Errorf("%d of 120 samples show nothing", none)
	}
}
