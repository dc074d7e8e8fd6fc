package source

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/osm-gitops/osm-gitops/test/gittest"
)

// wantLine returns the first-parent history from git itself.
func wantLine(t testing.TB, dir, path string) []HistoryEntry {
	t.Helper()
	if path == "" {
		path = "."
	}
	out := git(t, dir, "log", "--first-parent", "--reverse", "--diff-merges=first-parent", "--no-renames",
		"--raw", "--no-abbrev", "--format=commit %H %ct", "main", "--", path)
	var steps []HistoryEntry
	for line := range strings.SplitSeq(out, "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0:
		case fields[0] == "commit":
			at, err := strconv.ParseInt(fields[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, HistoryEntry{Commit: Commit(fields[1]), CommittedAt: time.Unix(at, 0).UTC()})
		default: // :old-mode new-mode old-id new-id letter path
			if change, ok := wantChange(fields[0][1:], fields[1], fields[2], fields[3], fields[5]); ok {
				last := &steps[len(steps)-1]
				last.Changes = append(last.Changes, change)
			}
		}
	}
	steps = slices.DeleteFunc(steps, func(s HistoryEntry) bool { return len(s.Changes) == 0 })
	for _, s := range steps {
		slices.SortFunc(s.Changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	}
	return steps
}

// wantChange returns the change in a line of git's raw format, if it is of a profile file.
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
			h := gittest.NewHistory(seed, 700)
			name := fmt.Sprintf("repo%d.git", seed)
			commits := h.Load(t, s.path(name))
			following := newMirrors(t)
			for _, path := range []string{"", "profiles", "profiles/team"} {
				remote := Remote{URL: s.url(name), Path: path}
				for at := range 6 {
					mark := h.Main[(len(h.Main)-1)*(at+1)/6]
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

// fetchIfThere fetches, and accepts that the path does not exist yet.
func fetchIfThere(t *testing.T, m *Mirrors, r Remote) {
	t.Helper()
	if _, err := m.Fetch(t.Context(), r); err != nil && !strings.Contains(err.Error(), "does not exist") && !strings.Contains(err.Error(), "not followed") &&
		!strings.Contains(err.Error(), "not fetched") && !strings.Contains(err.Error(), "must be a folder") {
		t.Fatal(err)
	}
}

// checkFiles compares the files with those that git lists.
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

// checkChanges compares LastChange with git for several paths and commits.
func checkChanges(t *testing.T, h *gittest.History, commits []string, dir string, s *Snapshot) {
	t.Helper()
	reachable := strings.Fields(git(t, dir, "rev-list", "main"))
	none := 0
	for range 120 {
		c, path := Commit(reachable[h.Rand.IntN(len(reachable))]), h.SomePath()
		want := git(t, dir, "log", "-1", "--format=%H %an|%ae|%at|%s", string(c), "--", path)
		author, err := s.LastChange(t.Context(), c, path)
		var got string
		if err == nil {
			got = fmt.Sprintf("%s %s|%s|%d|%s", author.Commit, author.Name, author.Email, author.At.Unix(), author.Subject)
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
