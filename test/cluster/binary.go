package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// ErrUnavailable means that the control plane cannot be had on this machine: no
// go command, no sources, or modules that cannot be downloaded. Sources that do
// not compile are another error.
var ErrUnavailable = errors.New("no control plane on this machine")

// progressInterval is how often a build says that it still runs.
const progressInterval = 10 * time.Second

// kubernetesVersion is what the API server says it is: a build from modules has no
// stamp of its own, and clients such as kubectl fail on the text in its place. It
// follows test/controlplane/go.mod.
const kubernetesVersion = "v1.36.3"

// buildArgs and buildEnv are all that the binary depends on beside its sources
// and the Go release. GOFLAGS and GOWORK are emptied so that a contributor's own
// settings make no second binary.
var (
	buildArgs = []string{"-trimpath", "-tags=kcm", "-ldflags=-s -w" +
		" -X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
		" -X k8s.io/client-go/pkg/version.gitVersion=" + kubernetesVersion}
	buildEnv = []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off"}
)

// Binary returns the path of the control plane's program. It is built where it
// is missing, which takes minutes the first time; progress gets a line every ten
// seconds then, and nothing otherwise. Processes that ask at the same time wait
// for one build.
//
// The binary lies in the user's cache directory under
// osm-gitops/controlplane/HASH, the hash being over sources, flags and Go
// release. All of that may be deleted at any time.
func Binary(ctx context.Context, progress io.Writer) (string, error) {
	root, err := Root()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	sources := filepath.Join(root, "test", "controlplane")
	hash, err := hashOf(ctx, sources)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	dir := filepath.Join(cache, "osm-gitops", "controlplane", hash)
	binary := filepath.Join(dir, "controlplane")
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(ctx, filepath.Join(dir, "lock"), progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(binary); err == nil { // built while we waited
		return binary, nil
	}
	if err := build(ctx, sources, binary, progress); err != nil {
		return "", err
	}
	return binary, nil
}

// Root returns the root of this repository, looked for from the working
// directory upwards.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no directory above %s holds test/controlplane", start)
		}
	}
}

func hashOf(ctx context.Context, sources string) (string, error) {
	version, err := command(ctx, sources, "go", "version").Output()
	if err != nil {
		return "", fmt.Errorf("%w: running go version: %w", ErrUnavailable, err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s%q%q\n", version, buildArgs, buildEnv)
	files := []string{filepath.Join(sources, "go.mod"), filepath.Join(sources, "go.sum")}
	code, err := filepath.Glob(filepath.Join(sources, "*.go"))
	if err != nil {
		return "", err
	}
	for _, path := range append(files, code...) { // Glob sorts
		b, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", filepath.Base(path), len(b), b)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

func build(ctx context.Context, sources, binary string, progress io.Writer) error {
	start := time.Now()
	done := make(chan struct{})
	defer close(done)
	fmt.Fprintln(progress, "cluster: building the control plane for tests, about 5 minutes on 2 cores the first time")
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(progressInterval):
				fmt.Fprintf(progress, "cluster: building the control plane for tests: %s\n", time.Since(start).Round(time.Second))
			}
		}
	}()
	// Listing the packages downloads their modules. It fails where the network is
	// missing, the build after it only where something is wrong with the code.
	if out, err := command(ctx, sources, "go", "list", "-deps", "-tags=kcm", ".").CombinedOutput(); err != nil {
		return fmt.Errorf("%w: fetching its modules: %w\n%s", ErrUnavailable, err, tail(out))
	}
	partial := binary + ".partial"
	args := append(append([]string{"build"}, buildArgs...), "-o", partial, ".")
	if out, err := command(ctx, sources, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("building the control plane: %w\n%s", err, tail(out))
	}
	if err := os.Rename(partial, binary); err != nil {
		return err
	}
	fmt.Fprintf(progress, "cluster: built the control plane in %s: %s\n", time.Since(start).Round(time.Second), binary)
	return nil
}

func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), buildEnv...)
	cmd.WaitDelay = 5 * time.Second // the compiler it started may hold its output open
	return cmd
}

// tail keeps the end of a command's output, where Go says what is wrong.
func tail(out []byte) string {
	const keep = 4 << 10 // bytes
	if len(out) > keep {
		out = out[len(out)-keep:]
	}
	return strings.TrimSpace(string(out))
}

// lock takes an exclusive lock on a file, which the kernel gives back when the
// process ends, and returns the function that releases it.
func lock(ctx context.Context, path string, progress io.Writer) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	start, said := time.Now(), time.Now()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
		}
		if time.Since(said) >= progressInterval {
			said = time.Now()
			fmt.Fprintf(progress, "cluster: waiting for another process that builds the control plane: %s\n", time.Since(start).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for another process that builds the control plane: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
