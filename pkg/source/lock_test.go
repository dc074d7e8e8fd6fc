package source

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Two processes must not write to one mirror: the error of the second one names the first.
func TestLock(t *testing.T) {
	m := newMirrors(t)
	if os.Getenv("LOCK_DIR") != "" { // the other process
		m.Dir = os.Getenv("LOCK_DIR")
		release, err := m.Lock()
		wantError(t, err, ErrInvalid, m.Dir, "another process", os.Getenv("LOCK_HOLDER"), "a folder of its own")
		if release != nil {
			t.Error("it can be released all the same")
		}
		return
	}
	release, err := m.Lock()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLock$", "-test.v")
	other.Env = append(os.Environ(), "LOCK_DIR="+m.Dir, "LOCK_HOLDER="+strconv.Itoa(os.Getpid())+" on ")
	if out, err := other.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLock") {
		t.Errorf("%v\n%s", err, out)
	}
	release()
	if release, err = m.Lock(); err != nil {
		t.Fatalf("after the release: %v", err)
	}
	release()
	// The lock file is not a mirror, and Sweep does not delete it.
	if err := m.DeleteUnused(0); err != nil {
		t.Fatal(err)
	}
	if !pathExists(m.Dir + "/" + lockName) {
		t.Error("the lock was swept")
	}
}
