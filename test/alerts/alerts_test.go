// Package alerts_test runs the tests of the module rules, which reads the alerts of
// deploy/monitoring with Prometheus' library.
package alerts_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/program"
)

func TestRules(t *testing.T) {
	if err := program.DependOn("test/alerts/rules", "deploy/monitoring", "docs/metrics.md"); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = "rules"
		// The settings of a contributor make no second build.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
		return cmd.CombinedOutput()
	}
	if out, err := command("list", "-test", "-deps", "./..."); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Skipf("Prometheus' library cannot be had on this machine: %v\n%s", err, out)
	}
	if out, err := command("test", "-trimpath", "-vet=off", "-ldflags=-s -w", "-count=1", "./..."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
