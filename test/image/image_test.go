// Package image_test runs the tests of the module tools/image, which builds the images.
package image_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/osm-gitops/osm-gitops/test/program"
)

// The images that ko builds, for two platforms, are only checked in a soak and before a release:
// ko's library has 500 packages, and the program is compiled again for each platform. The base
// image is checked in every run.
func TestImages(t *testing.T) {
	if err := program.DependOn("tools/image", "cmd", "pkg", "profiles", "go.mod"); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = "../../tools/image"
		// The settings of a contributor make no second build.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
		return cmd.CombinedOutput()
	}
	packages := "./base"
	if os.Getenv("OSM_SOAK") == "1" {
		packages = "./..."
	}
	if out, err := command("list", "-test", "-deps", packages); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Skipf("what makes images cannot be had on this machine: %v\n%s", err, out)
	}
	if out, err := command("test", "-trimpath", "-timeout", "1h", "-count=1", packages); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
