// Package bootnodes_test boots machines from what the controller writes for them: the
// real systemd, cloud-init and apt of a Debian image, or the real Ignition, and the real
// API server. In a soak containerd and the kubelet are those that our profiles ask for;
// from a commit to a Node that is Ready, nothing is played then but the cloud, the
// publishers of downloads and the kernel's settings. Otherwise ./standin asks the API
// server for what a kubelet asks, and runs no pod either.
//
// All of it happens in namespaces that end with the tests, also when those are killed:
// the test binary starts itself again as process 1 of a namespace of processes, with its
// own network, mounts and /run. That network is the cloud's. A machine has another, which
// is joined to it, and a file system in memory on top of an image (hack/node-root).
//
// Start with TestProfiles in profiles_test.go; TestFaults is in troubles_test.go, so that
// go test runs it later. machine_test.go boots a machine, systems_test.go says what each
// profile's is like, cloud_test.go is what it can reach, publishers_test.go and
// packages_test.go are what it downloads, checks_test.go and tree_test.go say what it
// must be like in the end.
package bootnodes_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// soak is whether the long runs are asked for.
var soak = os.Getenv("OSM_SOAK") == "1"

// Environment of the process inside: what the one outside has made ready.
const (
	insideEnv     = "OSM_REHEARSAL_INSIDE" // the process id of the one outside
	kubeletEnv    = "OSM_REHEARSAL_KUBELET"
	containerdEnv = "OSM_REHEARSAL_CONTAINERD"
	ignitionEnv   = "OSM_REHEARSAL_IGNITION"
	controllerEnv = "OSM_REHEARSAL_CONTROLLER"
	rootEnv       = "OSM_REHEARSAL_ROOT_" // and the image's name
	// What hack/rehearse is asked for; the profile inside is a folder.
	yourProfileEnv = "OSM_REHEARSE_PROFILE"
	yourPoolEnv    = "OSM_REHEARSE_POOL"
)

// images are the releases of Debian that are used in place of Ubuntu's.
var images = []string{"bookworm", "trixie"}

// unavailable says why no machine can be had here; nil if it can.
var unavailable error

func TestMain(m *testing.M) {
	flag.Parse()
	log.SetLogger(logr.Discard())
	if os.Getenv(insideEnv) != "" {
		os.Exit(inside(m))
	}
	os.Exit(outside(m))
}

// outside makes everything ready that needs this machine's network, and runs the tests
// in namespaces of their own.
func outside(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // TestMain has no test
	defer stop()
	if unavailable = probe(ctx); unavailable != nil {
		return m.Run()
	}
	sweep()
	defer sweep()
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", ours, os.Getpid()))
	if err != nil {
		fmt.Fprintln(os.Stderr, "rehearsal:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	env, err := prepare(ctx, dir)
	if err == nil {
		err = bringYours(dir)
	}
	if err != nil {
		// A host that can run machines but lacks what they need gets the reason.
		fmt.Fprintln(os.Stderr, "rehearsal:", err)
		if !errors.Is(err, program.ErrUnavailable) || os.Getenv("CI") == "true" {
			return 1
		}
		unavailable = err
		return m.Run()
	}
	return enter(ctx, env)
}

// probe asks hack/probe whether this machine can do it, and whether it is to.
func probe(ctx context.Context) error {
	if os.Getenv("OSM_SKIP_CONTROLPLANE") == "1" {
		return errors.New("OSM_SKIP_CONTROLPLANE=1")
	}
	cmd := exec.CommandContext(ctx, "../../hack/probe", "nodes")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s (%w)", bytes.TrimSpace(said.Bytes()), err)
	}
	return nil
}

// need skips a test if no machine can be started. This cannot hide a failure in CI: a host that
// can run machines but lacks what they need has failed before.
func need(t *testing.T) {
	t.Helper()
	if unavailable == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "rehearsal: SKIPPED %s: %v\n", t.Name(), unavailable)
	t.Skip(unavailable)
}

// prepare builds what is missing: images, kubelet, containerd, the control plane and the
// controller. It returns environment variables with their paths.
func prepare(ctx context.Context, dir string) ([]string, error) {
	var env []string
	var mu sync.Mutex
	say := func(key, value string) {
		mu.Lock()
		defer mu.Unlock()
		env = append(env, key+"="+value)
	}
	var problems []error
	var all sync.WaitGroup
	do := func(key string, make func() (string, error)) {
		all.Go(func() {
			value, err := make()
			say(key, value)
			mu.Lock()
			defer mu.Unlock()
			problems = append(problems, err)
		})
	}
	for _, image := range images {
		do(rootEnv+image, func() (string, error) { return imageFolder(ctx, image) })
	}
	do(controllerEnv, func() (string, error) {
		path := filepath.Join(dir, "osm-gitops")
		return path, program.Controller(ctx, path)
	})
	do(ignitionEnv, func() (string, error) { return program.Ignition.Path(ctx, os.Stderr) })
	// One after the other: they share many packages.
	do(kubeletEnv, func() (string, error) {
		if _, err := program.ControlPlane.Path(ctx, os.Stderr); err != nil {
			return "", err
		}
		if soak {
			return program.Kubelet.Path(ctx, os.Stderr)
		}
		return standIn(ctx, filepath.Join(dir, "kubelet"))
	})
	if soak {
		do(rootEnv+vmImage, func() (string, error) { return imageFolder(ctx, vmImage) })
		do(containerdEnv, func() (string, error) { return program.Containerd.Path(ctx, os.Stderr) })
	}
	all.Wait()
	return env, errors.Join(problems...)
}

// standIn builds the program that replaces the kubelet outside a soak.
func standIn(ctx context.Context, path string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", path, "./standin")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./standin: %w\n%s", err, out)
	}
	return path, nil
}

// imageFolder returns the folder of an image. hack/test builds images before the tests, because
// building would count against their timeout.
func imageFolder(ctx context.Context, name string) (string, error) {
	cmd := exec.CommandContext(ctx, "../../hack/node-root", "--built", name)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", program.ErrUnavailable, bytes.TrimSpace(said.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// enter runs this program again in namespaces of its own, as process 1, and ends with it.
func enter(ctx context.Context, env []string) int {
	runtime.LockOSThread() // Pdeathsig is sent when the starting thread ends
	defer runtime.UnlockOSThread()
	var args []string
	for _, arg := range os.Args[1:] {
		// Files that the inner process opens must not enter go test's cache.
		if !strings.HasPrefix(arg, "-test.testlogfile=") {
			args = append(args, arg)
		}
	}
	if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-test.parallel=") }) {
		args = append(args, fmt.Sprintf("-test.parallel=%d", runtime.NumCPU()+1)) // machines wait for most of their time
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), append(env, fmt.Sprintf("%s=%d", insideEnv, os.Getpid()))...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		// Unshared after the start: Go makes the mounts private then.
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(1, exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rehearsal: entering namespaces:", err)
		return 1
	}
	return 0
}

// inside runs the tests in namespaces that contain only this process.
func inside(m *testing.M) int {
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "rehearsal: setting up namespaces:", err)
		return 1
	}
	return cluster.Main(m, cluster.Options{
		// As on any cluster with machine-controller.
		APIServerArgs: []string{"--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction"},
	})
}

// furnish gives the namespaces a /proc and a /run of their own, memory for the machines'
// file systems, and the addresses of the cloud.
func furnish() error {
	for _, m := range []struct{ kind, target, options string }{
		{"proc", "/proc", ""},
		{"tmpfs", "/run", "mode=755"},
	} {
		if err := syscall.Mount(m.kind, m.target, m.kind, 0, m.options); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	for _, dir := range []string{"/run/lock", machinesDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// A kubelet reserves gibibytes of its disk; what is not written takes no memory.
	if err := syscall.Mount("tmpfs", machinesDir, "tmpfs", 0, "mode=755,size=16g"); err != nil {
		return fmt.Errorf("mounting %s: %w", machinesDir, err)
	}
	return ip("link set lo up", "addr add "+apiAddress+"/32 dev lo", "addr add "+publishersAddress+"/32 dev lo")
}

// ip runs ip commands.
func ip(commands ...string) error {
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, out)
		}
	}
	return nil
}
