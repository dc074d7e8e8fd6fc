package gittest

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
)

// History is a made-up repository: a seeded sequence of what people do to a branch,
// written for git fast-import.
type History struct {
	Rand  *rand.Rand
	out   bytes.Buffer
	trees []tree // by mark; the first is empty
	Main  []int  // marks of the first-parent line
}

// tree is the content of a commit: "<mode> <content>" by path.
type tree map[string]string

// NewHistory makes a history of at least n commits.
func NewHistory(seed uint64, n int) *History {
	h := &History{Rand: rand.New(rand.NewPCG(seed, seed)), trees: []tree{{}}}
	h.land(h.record(tree{"README.md": "100644 hello", "profiles/a.yaml": "100644 a"}))
	for len(h.trees) < n {
		switch h.Rand.IntN(10) {
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

func (h *History) head() int     { return h.Main[len(h.Main)-1] }
func (h *History) tip() tree     { return h.trees[h.head()] }
func (h *History) land(mark int) { h.Main = append(h.Main, mark) }

// record writes a commit with the tree and the parents, and returns its mark.
func (h *History) record(to tree, parents ...int) int {
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
func (h *History) edit(t tree) tree {
	t = maps.Clone(t)
	for range 1 + h.Rand.IntN(3) {
		path := h.SomePath()
		switch h.Rand.IntN(12) {
		case 0, 1:
			delete(t, path)
		case 2:
			h.put(t, path, "100755 "+h.smallContent())
		case 3:
			h.put(t, path, "120000 a.yaml")
		case 4:
			h.put(t, path, "160000 x")
		case 5: // the mode alone
			if content, ok := strings.CutPrefix(t[path], "100644 "); ok {
				t[path] = "100755 " + content
			}
		default:
			h.put(t, path, "100644 "+h.smallContent())
		}
	}
	return t
}

// put writes a file and removes anything in its way: folders become files and files folders.
func (h *History) put(t tree, path, content string) {
	for other := range maps.Clone(t) {
		if strings.HasPrefix(other, path+"/") || strings.HasPrefix(path, other+"/") {
			delete(t, other)
		}
	}
	t[path] = content
}

// SomePath returns one of the paths that the history changes.
func (h *History) SomePath() string {
	return h.pick("profiles/a.yaml", "profiles/b.yaml", "profiles/c.yml", "profiles/d.yaml",
		"profiles/team/a.yaml", "profiles/team/b.yaml", "profiles/team/deep/e.yaml", "profiles/team",
		"profiles/README.md", "profiles/.hidden.yaml", "profiles/.github/w.yaml", "profiles/team.yaml",
		"README.md", "src/x.go", "src/y.go", "src/deep/z.yaml", ".github/ci.yaml", "top.yaml")
}

func (h *History) pick(from ...string) string { return from[h.Rand.IntN(len(from))] }

// smallContent is one of few contents, so that files become equal, and what they were before.
func (h *History) smallContent() string { return strconv.Itoa(h.Rand.IntN(20)) }

// branch makes one to four commits next to the line and returns the last one and its starting point.
func (h *History) branch() (base, last int) {
	base = h.Main[max(0, len(h.Main)-1-h.Rand.IntN(6))]
	last = base
	for range 1 + h.Rand.IntN(4) {
		last = h.record(h.edit(h.trees[last]), last)
	}
	return base, last
}

// combine is a merge of a branch into the tip, in which the branch wins conflicts.
func (h *History) combine(base, last int) tree {
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
func (h *History) merge() {
	base, last := h.branch()
	t := h.combine(base, last)
	switch h.Rand.IntN(6) {
	case 0:
		t = h.tip()
	case 1:
		t = h.trees[last]
	case 2:
		t = h.edit(t)
	}
	parents := []int{h.head(), last}
	if h.Rand.IntN(10) == 0 { // what `git pull` leaves: the line goes on in the branch
		slices.Reverse(parents)
	}
	h.land(h.record(t, parents...))
}

func (h *History) octopus() {
	base1, last1 := h.branch()
	_, last2 := h.branch()
	t := h.combine(base1, last1)
	if h.Rand.IntN(2) == 0 {
		t = maps.Clone(h.trees[last2])
	}
	h.land(h.record(t, h.head(), last1, last2))
}

// revert brings one path or everything back to what it was.
func (h *History) revert() {
	old := h.trees[h.Main[h.Rand.IntN(len(h.Main))]]
	if h.Rand.IntN(3) == 0 {
		h.land(h.record(old, h.head()))
		return
	}
	t, path := maps.Clone(h.tip()), h.SomePath()
	delete(t, path)
	if content, ok := old[path]; ok {
		h.put(t, path, content)
	}
	h.land(h.record(t, h.head()))
}

func (h *History) rename(t tree) tree {
	t = maps.Clone(t)
	from, to := h.SomePath(), h.SomePath()
	if content, ok := t[from]; ok {
		delete(t, from)
		h.put(t, to, content)
	}
	return t
}

// Load writes the history into a bare repository and returns the commit of each mark.
func (h *History) Load(t testing.TB, dir string) []string {
	t.Helper()
	Git(t, filepath.Dir(dir), "init", "--quiet", "--bare", "--initial-branch=main", dir)
	marks := filepath.Join(t.TempDir(), "marks")
	Input(t, dir, bytes.NewReader(h.out.Bytes()), "fast-import", "--quiet", "--export-marks="+marks)
	Git(t, dir, "update-ref", "-d", "refs/heads/all")
	data, err := os.ReadFile(marks)
	if err != nil {
		t.Fatal(err)
	}
	commits := make([]string, len(h.trees))
	for line := range strings.Lines(string(data)) {
		var mark int
		var id string
		if _, err := fmt.Sscanf(line, ":%d %s", &mark, &id); err != nil {
			t.Fatal(err)
		}
		commits[mark] = id
	}
	return commits
}

// LongHistory makes a repository of n commits in which 300 source files and 30
// profiles change, and returns its head.
func LongHistory(b *testing.B, dir string, n int) string {
	b.Helper()
	var out bytes.Buffer
	for i := range n {
		fmt.Fprintf(&out, "commit refs/heads/main\nmark :%d\ncommitter Ben <ben@example.com> %d +0000\ndata 6\nchange\n", i+1, 1_600_000_000+i*60)
		path := fmt.Sprintf("src/%d/%d.go", i%20, i%300)
		if i%10 == 0 {
			path = fmt.Sprintf("profiles/%d.yaml", i/10%30)
		}
		content := fmt.Sprintf("content: %d\n", i)
		fmt.Fprintf(&out, "M 100644 inline %s\ndata %d\n%s\n", path, len(content), content)
	}
	Git(b, b.TempDir(), "init", "--quiet", "--bare", "--initial-branch=main", dir)
	Input(b, dir, &out, "fast-import", "--quiet")
	Git(b, dir, "gc", "--quiet")
	return Git(b, dir, "rev-parse", "main")
}
