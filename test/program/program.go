package program

import (
	"bytes"
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrUnavailable means that a program, such as the control plane, cannot be had on this machine: no
// go command, no sources, or modules that cannot be downloaded. Sources that do
// not compile are another error.
var ErrUnavailable = errors.New("it cannot be had on this machine")

// progressInterval is how often a build says that it still runs.
const progressInterval = 10 * time.Second

// KubernetesVersion is the version that the API server, and a kubelet of the same build, report: a
// build from modules has no stamp, and clients such as kubectl fail on the placeholder. It must
// equal the version in test/controlplane/go.mod.
const KubernetesVersion = "v1.36.3"

// ldflags stamp what is built of Kubernetes' modules.
const ldflags = "-ldflags=-s -w" +
	" -X k8s.io/component-base/version.gitVersion=" + KubernetesVersion +
	" -X k8s.io/client-go/pkg/version.gitVersion=" + KubernetesVersion

// buildEnv and the arguments are everything that a build depends on apart from sources and the Go
// release. GOFLAGS and GOWORK are reset so that a contributor's settings do not cause a second
// build.
var buildEnv = []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off"}

// Program is one that tests build from a module of its own.
type Program struct {
	// Name of the file, and of the folder in the cache.
	Name string
	// Sources is the module's folder below the root of this repository, Package what
	// is built there.
	Sources, Package string
	Args, Env        []string // of go build; Env is added to buildEnv
	// Minutes says how long that takes on two cores.
	Minutes string
}

// ControlPlane is what package cluster starts.
var ControlPlane = Program{
	Name: "controlplane", Sources: "test/controlplane", Package: ".", Minutes: "about 5 minutes",
	Args: []string{"-trimpath", "-tags=kcm", ldflags},
}

// Kubelet is Kubernetes' own, of the control plane's release.
var Kubelet = Program{
	Name: "kubelet", Sources: "test/bootnodes/kubelet", Package: ".", Minutes: "about 4 minutes",
	Args: []string{"-trimpath", ldflags},
}

// Containerd is the one that our profiles install.
var Containerd = Program{
	Name: "containerd", Sources: "test/bootnodes/containerd", Package: "github.com/containerd/containerd/v2/cmd/containerd", Minutes: "about a minute",
	Args: []string{"-trimpath", "-ldflags=-s -w"},
}

// Ignition writes the files of a Flatcar machine. It needs a C compiler and libblkid. Rehearsed
// machines have no SELinux policy, so files are not labeled.
var Ignition = Program{
	Name: "ignition", Sources: "test/bootnodes/ignition", Package: "github.com/coreos/ignition/v2/internal", Minutes: "about a minute",
	Args: []string{"-trimpath", "-ldflags=-s -w -X github.com/coreos/ignition/v2/internal/distro.selinuxRelabel=false"},
	Env:  []string{"CGO_ENABLED=1"},
}

// Kubectl is that of the commands in docs, and of "kubeone apply".
var Kubectl = Program{
	Name: "kubectl", Sources: "test/docs/kubectl", Package: ".", Minutes: "a minute",
	Args: []string{"-trimpath", "-ldflags=-s -w"},
}

// Envtest downloads kube-apiserver and etcd.
var Envtest = Program{
	Name: "envtest", Sources: "test/envtest", Package: ".", Minutes: "some seconds",
	Args: []string{"-trimpath", "-ldflags=-s -w"},
}

// Programs are all of them.
var Programs = []Program{ControlPlane, Kubelet, Containerd, Ignition, Kubectl, Envtest}

// Path returns the path of the program. If it does not exist it is built, which can take minutes
// the first time; during a build progress gets a line every ten seconds. Concurrent callers wait
// for one build.
//
// The binary is in the user's cache directory at osm-gitops/NAME/HASH; the hash covers sources,
// flags and the Go release. All of it can be deleted at any time.
func (p Program) Path(ctx context.Context, progress io.Writer) (string, error) {
	root, binary, err := p.location(ctx)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	dir := filepath.Dir(binary)
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
	if err := p.build(ctx, filepath.Join(root, p.Sources), binary, progress); err != nil {
		return "", err
	}
	return binary, nil
}

// IsBuilt reports whether Path returns at once.
func (p Program) IsBuilt(ctx context.Context) bool {
	_, binary, err := p.location(ctx)
	if err != nil {
		return false
	}
	_, err = os.Stat(binary)
	return err == nil
}

// location returns the root of this repository and the path of the binary, which may not exist.
func (p Program) location(ctx context.Context) (root, binary string, err error) {
	root, err = Root()
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	hash, err := p.hash(ctx, root)
	if err != nil {
		return "", "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return root, filepath.Join(cache, "osm-gitops", p.Name, hash, p.Name), nil
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

func (p Program) hash(ctx context.Context, root string) (string, error) {
	sources := filepath.Join(root, p.Sources)
	version, err := p.command(ctx, sources, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%w: running go version: %w", ErrUnavailable, err)
	}
	what := slices.Concat(p.Args, p.Env)
	if p.Package != "." {
		what = append(what, p.Package)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s%q%q\n", version, what, buildEnv)
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

func (p Program) build(ctx context.Context, sources, binary string, progress io.Writer) error {
	start := time.Now()
	done := make(chan struct{})
	defer close(done)
	var compiled packages
	fmt.Fprintf(progress, "program: building %s, %s on 2 cores the first time\n", p.Name, p.Minutes)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(progressInterval):
				fmt.Fprintf(progress, "program: building %s: %s, %s\n", p.Name, time.Since(start).Round(time.Second), &compiled)
			}
		}
	}()
	// Listing the packages downloads their modules. It fails if there is no network; the build
	// after it fails only if the code is wrong.
	out, err := p.command(ctx, sources, append(append([]string{"list", "-deps"}, p.tags()...), p.Package)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: fetching its modules: %w\n%s", ErrUnavailable, err, tail(out))
	}
	compiled.begin(bytes.Count(out, []byte("\n")))
	partial := binary + ".partial"
	build := p.command(ctx, sources, append(append([]string{"build", "-v"}, p.Args...), "-o", partial, p.Package)...)
	build.Stdout, build.Stderr = &compiled, &compiled
	if err := build.Run(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", p.Name, err, tail(compiled.printed()))
	}
	if err := os.Rename(partial, binary); err != nil {
		return err
	}
	fmt.Fprintf(progress, "program: built %s in %s: %s\n", p.Name, time.Since(start).Round(time.Second), binary)
	return nil
}

// packages counts what "go build -v" prints: a line for each package that it begins to compile, and
// its errors.
type packages struct {
	mu    sync.Mutex
	total int
	out   bytes.Buffer
}

func (p *packages) begin(total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = total
}

func (p *packages) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *packages) printed() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.out.Bytes())
}

// String says how far it is. Packages that Go's cache holds are not printed, so the count can stay
// below the total.
func (p *packages) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total == 0 {
		return "fetching modules"
	}
	return fmt.Sprintf("%d of at most %d packages compiled", bytes.Count(p.out.Bytes(), []byte("\n")), p.total)
}

// tags are those of Args that say which files belong to the program.
func (p Program) tags() []string {
	var tags []string
	for _, arg := range p.Args {
		if strings.HasPrefix(arg, "-tags=") {
			tags = append(tags, arg)
		}
	}
	return tags
}

// command is one of go, in a folder.
func (p Program) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(os.Environ(), []string{"GOGC=400"}, buildEnv, p.Env) // see hack/test
	cmd.WaitDelay = 5 * time.Second                                              // the compiler it started may hold its output open
	return cmd
}

// tail returns the end of a command's output, which has Go's error messages.
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
			fmt.Fprintf(progress, "program: waiting for another process that builds it: %s\n", time.Since(start).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for another process that builds it: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}
