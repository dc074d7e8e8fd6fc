package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// startTimeout bounds the wait for the API server: 3 s are usual, but the machine can be busy
// compiling.
const startTimeout = 2 * time.Minute

// startAttempts bounds the retries when another process took the port that was
// found free a moment before.
const startAttempts = 3

// Options says how a control plane differs from the usual one.
type Options struct {
	// SeparateAPIServer runs the API server as a process of its own, so that
	// KillAPIServer can take it away. It comes back after half a second.
	SeparateAPIServer bool
	// Production lets the heaps grow and uses all processors. Without it heaps are bounded, which
	// saves CPU while they are small (one above the bound is collected all the time), and one
	// processor is used, outside of soaks.
	Production bool
	// Audit writes every request to AuditLog, at level Metadata.
	Audit bool
	// Port of the API server; 0 selects a free one. Set it to have the same URL after a second Run
	// on the same directory.
	Port int
	// APIServerArgs are added to the API server's command line.
	APIServerArgs []string
	// Controllers replaces the small set that kube-controller-manager runs.
	Controllers []string
	// Kinds are the plural names of the kinds that Start and Shared install; nil: all.
	Kinds []string
}

// MachineKinds are machine-controller's, for Options.Kinds.
var MachineKinds = []string{"machinedeployments", "machinesets", "machines"}

// Cluster is a running control plane.
type Cluster struct {
	// Config is the administrator's, without client-side rate limits.
	Config *rest.Config
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	// URL of the API server.
	URL string
	// Dir holds etcd's data, certificates and logs.
	Dir string
	// StartTime is how long it took until /readyz was green.
	StartTime time.Duration

	stop   func() // of a control plane that Run did not start
	pid    int
	exited chan struct{} // closed when the process has ended
	// access is what all clients share.
	access func() (client.Options, error)
}

// Run starts a control plane with its state in dir and returns when its API server is ready. In a
// directory of an earlier run it continues with that state. Progress reports a build, as with
// program.Program.Path. It runs until Stop, or until the calling process ends.
func Run(ctx context.Context, dir string, o Options, progress io.Writer) (*Cluster, error) {
	binary, err := program.ControlPlane.Path(ctx, progress)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		c, err := start(ctx, binary, dir, o)
		if err == nil || o.Port != 0 || attempt == startAttempts || !strings.Contains(err.Error(), "address already in use") {
			return c, err
		}
	}
}

// Attach is for a control plane that something else started, and that stop ends.
func Attach(config *rest.Config, kubeconfig, dir string, stop func()) *Cluster {
	c := &Cluster{Kubeconfig: kubeconfig, Dir: dir, stop: stop}
	c.use(config)
	return c
}

// Stop kills the control plane and waits until it has exited. Its directory remains with all
// written data: a killed process loses nothing that it passed to the kernel, and a graceful
// shutdown would wait for watches that never end.
func (c *Cluster) Stop() {
	if c.stop != nil {
		c.stop()
		return
	}
	select {
	case <-c.exited: // with its children; the process id can belong to another process now
	default:
		// The process leads a group of its own, which its children belong to.
		_ = syscall.Kill(-c.pid, syscall.SIGKILL)
		<-c.exited
	}
}

// AuditLog is the path of the audit log: one JSON object of kind audit.k8s.io/v1
// Event a line.
func (c *Cluster) AuditLog() string { return filepath.Join(c.Dir, "audit.log") }

// KillAPIServer kills the API server as a crash would. It needs
// Options.SeparateAPIServer, and comes back by itself.
func (c *Cluster) KillAPIServer() error {
	pid, err := c.APIServerPID()
	if err != nil {
		return fmt.Errorf("killing the API server: %w", err)
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

// APIServerPID is the process of the API server. It needs Options.SeparateAPIServer.
func (c *Cluster) APIServerPID() (int, error) {
	b, err := os.ReadFile(filepath.Join(c.Dir, "kube-apiserver.pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// StoragePID is the process of etcd, and of the API server without Options.SeparateAPIServer.
func (c *Cluster) StoragePID() int {
	return c.pid // it started the API server
}

// StopStorage lets etcd answer nothing, until it is resumed. It needs
// Options.SeparateAPIServer.
func (c *Cluster) StopStorage() (resume func() error, err error) {
	if err := syscall.Kill(c.StoragePID(), syscall.SIGSTOP); err != nil {
		return nil, fmt.Errorf("stopping etcd: %w", err)
	}
	return func() error { return syscall.Kill(c.StoragePID(), syscall.SIGCONT) }, nil
}

// Scheme knows the kinds of Kubernetes, CustomResourceDefinitions, our own kinds
// and machine-controller's, and what add puts on top.
func Scheme(add ...func(*k8sruntime.Scheme) error) (*k8sruntime.Scheme, error) {
	s := k8sruntime.NewScheme()
	ours := []func(*k8sruntime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		machines.AddToScheme, api.AddToScheme, osm.AddToScheme,
	}
	for _, f := range append(ours, add...) {
		if err := f(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// NewClient returns the administrator's client: it reads from the API server, not
// from a cache, and knows the kinds of Scheme.
func (c *Cluster) NewClient(add ...func(*k8sruntime.Scheme) error) (client.WithWatch, error) {
	o, err := c.access()
	if err != nil {
		return nil, err
	}
	if len(add) > 0 {
		if o.Scheme, err = Scheme(add...); err != nil {
			return nil, err
		}
	}
	return client.NewWithWatch(c.Config, o)
}

// newAccess makes what all clients of a control plane share: a scheme, connections, and the kinds
// that are served, so that a package with hundreds of clients does not discover those for each.
func newAccess(config *rest.Config) (client.Options, error) {
	var o client.Options
	var err error
	if o.Scheme, err = Scheme(); err != nil {
		return o, err
	}
	if o.HTTPClient, err = rest.HTTPClientFor(config); err != nil {
		return o, err
	}
	o.Mapper, err = apiutil.NewDynamicRESTMapper(config, o.HTTPClient)
	return o, err
}

func start(ctx context.Context, binary, dir string, o Options) (*Cluster, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "controlplane.log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	ready := filepath.Join(dir, "ready.json")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	cmd := exec.Command(binary, o.args(dir)...)
	cmd.Stdout, cmd.Stderr = log, log
	// Less CPU for the requests of a package: garbage is collected only when its heap, which is
	// small, has grown to the limit, goroutines begin with stacks of the size that handlers need,
	// instead of growing them in every request, and one of them runs at a time, because etcd and the
	// API server would wake each other's threads for every request otherwise (14 % of their CPU).
	// Soaks have all processors.
	cmd.Env = append(os.Environ(), "GODEBUG=adaptivestackstart=1")
	if !o.Production {
		cmd.Env = append(cmd.Env, "GOGC=off", "GOMEMLIMIT=1GiB")
		if os.Getenv("OSM_SOAK") != "1" {
			cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	c := &Cluster{Dir: dir, exited: make(chan struct{})}
	if c.pid, err = spawn(cmd, c.exited); err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	if err := c.await(ctx, ready); err != nil {
		c.Stop()
		out, _ := os.ReadFile(path) // a missing log only shortens the message
		return nil, fmt.Errorf("starting the control plane: %w\n%s", err, out[max(0, len(out)-4<<10):])
	}
	return c, nil
}

func (o Options) args(dir string) []string {
	args := []string{"-dir", dir, "-kcm"}
	if o.SeparateAPIServer {
		args = append(args, "-separate")
	}
	if o.Audit {
		args = append(args, "-audit")
	}
	if o.Port != 0 {
		args = append(args, "-port", strconv.Itoa(o.Port))
	}
	if len(o.APIServerArgs) > 0 {
		args = append(args, "-apiserver-args", strings.Join(o.APIServerArgs, " "))
	}
	if len(o.Controllers) > 0 {
		args = append(args, "-controllers", strings.Join(o.Controllers, ","))
	}
	return args
}

// spawn starts cmd from a thread that lives as long as the command: the kernel
// sends Pdeathsig when the starting thread ends, and Go ends threads at will.
func spawn(cmd *exec.Cmd, exited chan<- struct{}) (pid int, err error) {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the log has the reason of its exit
			close(exited)
		}
	}()
	if err := <-started; err != nil {
		return 0, err
	}
	return cmd.Process.Pid, nil
}

// await waits for the file that says the API server is ready and reads it.
func (c *Cluster) await(ctx context.Context, ready string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		b, err := os.ReadFile(ready)
		if err == nil {
			return c.read(b)
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		select {
		case <-c.exited:
			return errors.New("it ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("it was not ready in time: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *Cluster) read(ready []byte) error {
	var r struct {
		URL          string  `json:"url"`
		Kubeconfig   string  `json:"kubeconfig"`
		ReadySeconds float64 `json:"readySeconds"`
	}
	d := json.NewDecoder(bytes.NewReader(ready))
	if err := d.Decode(&r); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		return err
	}
	c.Kubeconfig = r.Kubeconfig
	c.use(config)
	c.StartTime = time.Duration(r.ReadySeconds * float64(time.Second))
	return nil
}

func (c *Cluster) use(config *rest.Config) {
	config.QPS = -1 // no limit
	c.Config, c.URL = config, strings.TrimSuffix(config.Host, "/")
	c.access = sync.OnceValues(func() (client.Options, error) { return newAccess(config) })
}
