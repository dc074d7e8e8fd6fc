// Package nodescripts_test runs the scripts of our profiles for real: with bash, curl, sed, tar and
// sha256sum, in a root directory and namespaces of their own, against TLS servers of the test.
// Programs that would change the machine or need a distribution (systemctl, apt-get, dnf,
// cloud-init, modprobe and so on) are stand-ins. It is the layer below a complete node with
// systemd: here a script can be killed at each of its commands, and a server can fail in every way,
// hundreds of times in a minute.
//
// Time runs faster in here: sleep returns at once and is recorded, and curl's time limits are sixty
// times shorter. A node is a temporary directory; its processes end with the test, also if the
// test is killed.
//
// node_test.go has the node, systemd_test.go its service manager, programs_test.go the stand-ins,
// cloud_test.go the servers. Start with TestFaults in faults_test.go.
package nodescripts_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	programs "github.com/osm-gitops/osm-gitops/test/program"
)

// standIn and boot are the paths of the programs of nodes, which TestMain builds.
var standIn, boot string

// unavailable says why nodes cannot be had here; nil if they can.
var unavailable error

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("nodescripts-of-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		fmt.Fprintln(os.Stderr, "nodescripts:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	standIn, boot = filepath.Join(dir, "standin"), filepath.Join(dir, "boot")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir, "./standin", "./boot")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "nodescripts: go build ./standin ./boot: %v\n%s", err, out)
		return 1
	}
	unavailable = probe()
	return m.Run()
}

// probe says what is missing here to make namespaces and mounts.
func probe() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("nodes need root: run the tests with sudo")
	}
	for _, tool := range realPrograms {
		if _, err := hostProgram(tool); err != nil {
			return fmt.Errorf("%w: install it", err)
		}
	}
	out, err := exec.Command("unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt").CombinedOutput()
	if err != nil {
		return fmt.Errorf("this machine lets nobody make namespaces and mounts: unshare: %w: %s", err, out)
	}
	return nil
}

// dependOnSources names what go build reads for these programs. go test notes nothing before the first
// test, so TestMain cannot do it.
var dependOnSources = sync.OnceValue(func() error { return programs.DependOn("test/nodescripts", "profiles") })

// needNodes skips a test if no node can be started, and fails it in CI.
func needNodes(t testing.TB) {
	t.Helper()
	if err := dependOnSources(); err != nil {
		t.Fatal(err)
	}
	if unavailable == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(unavailable)
	}
	fmt.Fprintf(os.Stderr, "nodescripts: SKIPPED %s: %v\n", t.Name(), unavailable)
	t.Skip(unavailable) // a machine that cannot run nodes; CI has failed above
}
