// Package image_test runs the tests of the module tools/image, which builds the images.
package image_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

func TestImages(t *testing.T) {
	if err := cluster.DependOn("tools/image", "cmd", "pkg", "profiles", "go.mod"); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = "../../tools/image"
		// The settings of a contributor make no second build.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
		return cmd.CombinedOutput()
	}
	if out, err := command("list", "-test", "-deps", "./..."); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Skipf("ko's library cannot be had on this machine: %v\n%s", err, out)
	}
	if out, err := command("test", "-count=1", "./..."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
