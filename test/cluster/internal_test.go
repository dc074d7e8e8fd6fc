package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestUnavailable runs a test of this binary without a control plane.
func TestUnavailable(t *testing.T) {
	for name, tc := range map[string]struct{ ci, want string }{
		"is skipped, and says why": {"", "--- SKIP: TestApply"},
		"fails in CI":              {"true", "--- FAIL: TestApply"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestApply$", "-test.v")
			cmd.Env = append(os.Environ(), "OSM_SKIP_CONTROLPLANE=1", "CI="+tc.ci)
			out, err := cmd.CombinedOutput()
			if (err != nil) != (tc.ci == "true") || !strings.Contains(string(out), tc.want) || !strings.Contains(string(out), "OSM_SKIP_CONTROLPLANE") {
				t.Errorf("got %v and:\n%s", err, out)
			}
			if tc.ci == "" && !strings.Contains(string(out), "cluster: SKIPPED TestApply") {
				t.Errorf("the skip is not loud:\n%s", out)
			}
		})
	}
}

func TestSweep(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	abandoned := func(name string, age time.Duration) *os.File {
		if err := os.Mkdir(filepath.Join(tmp, name), 0o700); err != nil {
			t.Fatal(err)
		}
		owner, err := os.Create(filepath.Join(tmp, name, "owner"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { owner.Close() })
		then := time.Now().Add(-age)
		if err := os.Chtimes(owner.Name(), then, then); err != nil {
			t.Fatal(err)
		}
		return owner
	}
	abandoned(statePattern+"killed", time.Hour)
	abandoned(statePattern+"young", 0)
	abandoned("somebody-elses", time.Hour)
	owner := abandoned(statePattern+"running", time.Hour)
	if err := syscall.Flock(int(owner.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}

	dir, remove, err := stateDir()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Base(dir), statePattern + "running", statePattern + "young", "somebody-elses"}
	if got := names(t, tmp); !slices.Equal(got, sorted(want)) {
		t.Errorf("left are %q, want %q", got, sorted(want))
	}
	remove()
	if got := names(t, tmp); slices.Contains(got, filepath.Base(dir)) {
		t.Errorf("%s is still there", dir)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}
