package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Controller builds osm-gitops as "make build" does, with a version and a commit for tests, and copies
// it to a path. In a soak it gets the race detector, with which it takes some five times the CPU. It is
// linked once for all tests and the demo, in the user's cache, which takes seconds of a processor. Its
// sources become inputs of the test.
//
// If OSM_CONTROLLER is the path of one that hack/test has built, that is copied: to find out that
// nothing is to be built takes the go command most of a second of a processor.
func Controller(ctx context.Context, path string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	if err := DependOn("cmd", "pkg", "profiles", "deploy", "go.mod"); err != nil {
		return err
	}
	soak := os.Getenv("OSM_SOAK") == "1"
	if built := os.Getenv("OSM_CONTROLLER"); built != "" && !soak {
		return copyProgram(ctx, built, path)
	}
	built := filepath.Join(cache, "osm-gitops", "controller")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false")
	cgo, link := "0", "-s -w -X main.version=v0.0.0-test -X main.commit=3f2a9c1"
	if soak {
		cgo = "1" // the race detector needs it
		built += "-race"
		// Static, as without it: the Pods of tests have no libraries.
		cmd.Args, link = append(cmd.Args, "-race", "-tags=netgo,osusergo"), link+" -linkmode=external -extldflags=-static"
	}
	cmd.Args = append(cmd.Args, "-ldflags="+link)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	cmd.Args = append(cmd.Args, "-o", filepath.Join(built, "osm-gitops"), "./cmd/osm-gitops")
	cmd.Dir = root
	if err := os.MkdirAll(built, 0o755); err != nil {
		return err
	}
	// Other packages, or another tree, may build at the same time.
	unlock, err := lock(ctx, filepath.Join(built, "lock"), os.Stderr)
	if err != nil {
		return err
	}
	defer unlock()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the controller: %w\n%s", err, out)
	}
	return copyProgram(ctx, filepath.Join(built, "osm-gitops"), path)
}

func copyProgram(ctx context.Context, from, to string) error {
	// Not by this process: a child that it forks meanwhile would have the file open for writing, which
	// then cannot be executed (https://go.dev/issue/22315).
	if out, err := exec.CommandContext(ctx, "cp", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the controller: %w\n%s", err, out)
	}
	return nil
}
