package profiles_test

import (
	"os"
	"os/exec"
	"testing"
)

// tool returns the path of a third-party program. If it is not installed the test is skipped, and
// fails in CI, because a check that did not run proves nothing.
func tool(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "there is no %s: install Debian's package %s, or run hack/prerequisites as root", name, pkg)
	}
	return path
}

// missing skips a test for something that this machine lacks, or fails it in CI.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf("NOT CHECKED: "+format, args...)
}
