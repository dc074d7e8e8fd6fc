package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// statePattern names the temporary directories with the state of tests' control planes.
const statePattern = "osm-gitops-cluster-"

// deadlineReserve is what is left of a test's time, to say what it waited for.
const deadlineReserve = 5 * time.Second

// shared is the control plane of a test binary. It is the one piece of state of
// this package: TestMain owns the end of a test binary, and has no other way to
// hand something to its tests.
var shared struct {
	sync.Mutex
	main    bool // Main was called
	options Options
	cluster *Cluster
	err     error
	release func()
}

// Main runs the tests of a package, for TestMain, and stops the control plane
// that Shared started for them, if any asked for one. Before that each of atEnd may look
// at it, and fail the tests.
func Main(m *testing.M, o Options, atEnd ...func(c *Cluster, code int) error) int {
	shared.Lock()
	shared.main, shared.options = true, o
	shared.Unlock()
	defer func() {
		shared.Lock()
		defer shared.Unlock()
		if shared.release != nil {
			shared.release()
		}
	}()
	code := m.Run()
	if shared.cluster == nil {
		return code
	}
	for _, look := range atEnd {
		if err := look(shared.cluster, code); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// Shared returns the one control plane of this test binary, with the kinds of
// Options installed. The first test that asks starts it.
// TestMain must call Main.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.main {
		t.Fatal("cluster.Shared needs func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{})) }")
	}
	if shared.cluster == nil && shared.err == nil {
		shared.cluster, shared.release, shared.err = begin(t, shared.options)
	}
	if shared.err != nil {
		unavailable(t, shared.err)
	}
	return shared.cluster
}

// Start gives a test a control plane of its own, with the kinds of Options installed. It
// ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, release, err := begin(t, o)
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(release)
	return c
}

// Namespace makes a namespace for one test. After the test the pools, sources, profiles and
// machines in it are deleted, so that controllers of later tests do not find them. The namespace
// itself stays until the control plane ends: deleting one takes a list and a delete of every
// resource there is, again and again while an object in it has a finalizer.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	cl := c.Client(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := cl.Create(t.Context(), ns); err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := empty(ctx, cl, ns.Name); err != nil {
			t.Logf("emptying namespace %s: %v", ns.Name, err)
		}
	})
	return ns.Name
}

// empty deletes the objects in a namespace that controllers reconcile, even if a finalizer waits
// for a controller that has ended.
func empty(ctx context.Context, cl client.Client, namespace string) error {
	kinds := []schema.GroupVersionKind{
		machines.GroupVersion.WithKind("MachineDeployment"),
		machines.GroupVersion.WithKind("MachineSet"),
		machines.GroupVersion.WithKind("Machine"),
		api.GroupVersion.WithKind("ProfileSource"),
		osm.GroupVersion.WithKind("OperatingSystemProfile"),
		osm.GroupVersion.WithKind("OperatingSystemConfig"),
	}
	for _, kind := range kinds {
		// Metadata alone: tests also write what our types cannot decode.
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		if err := cl.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			obj := &list.Items[i]
			obj.SetGroupVersionKind(kind)
			if len(obj.Finalizers) > 0 {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				if err := client.IgnoreNotFound(cl.Patch(ctx, obj, patch)); err != nil {
					return err
				}
			}
			if err := client.IgnoreNotFound(cl.Delete(ctx, obj)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Client is NewClient for tests.
func (c *Cluster) Client(t testing.TB, add ...func(*k8sruntime.Scheme) error) client.WithWatch {
	t.Helper()
	cl, err := c.NewClient(add...)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return cl
}

// begin starts a control plane in a temporary directory, installs the kinds, and
// returns the function that removes both.
func begin(t testing.TB, o Options) (*Cluster, func(), error) {
	if os.Getenv("OSM_SKIP_CONTROLPLANE") == "1" {
		return nil, nil, fmt.Errorf("%w: OSM_SKIP_CONTROLPLANE=1", program.ErrUnavailable)
	}
	ctx, cancel := untilDeadline(t)
	defer cancel()
	dir, remove, err := stateDir()
	if err != nil {
		return nil, nil, err
	}
	c, err := Run(ctx, dir, o, os.Stderr)
	if err != nil {
		remove()
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w\nthe tests' -timeout ran out; run them again: the build continues", err)
		}
		return nil, nil, err
	}
	release := func() { c.Stop(); remove() }
	if err := c.Install(ctx, o.Kinds...); err != nil {
		release()
		return nil, nil, err
	}
	return c, release, nil
}

// unavailable skips the test if this machine cannot run a control plane, and fails it for any other
// error, and always in CI.
func unavailable(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, program.ErrUnavailable) || os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "cluster: SKIPPED %s: %v\n", t.Name(), err)
	t.Skip(err)
}

func untilDeadline(t testing.TB) (context.Context, context.CancelFunc) {
	// Not the test's own context: that of the first test to ask ends before the
	// others have had their turn, but a build serves them all.
	ctx := context.WithoutCancel(t.Context())
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := d.Deadline(); ok {
			return context.WithDeadline(ctx, end.Add(-deadlineReserve))
		}
	}
	return context.WithCancel(ctx)
}

// stateDir makes a temporary directory, and removes those whose process was
// killed before it could: a directory belongs to a living process as long as its
// file "owner" is locked.
func stateDir() (dir string, remove func(), err error) {
	sweep()
	if dir, err = os.MkdirTemp("", statePattern); err != nil {
		return "", nil, err
	}
	owner, err := os.OpenFile(filepath.Join(dir, "owner"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", nil, err
	}
	if err := syscall.Flock(int(owner.Fd()), syscall.LOCK_EX); err != nil {
		return "", nil, err
	}
	return dir, func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "cluster:", err)
		}
		owner.Close()
	}, nil
}

func sweep() {
	entries, err := os.ReadDir(os.TempDir())
	if err != nil {
		return // then nothing can be made there either, which says why
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), statePattern) {
			continue
		}
		dir := filepath.Join(os.TempDir(), e.Name())
		owner, err := os.OpenFile(filepath.Join(dir, "owner"), os.O_RDWR, 0o600)
		if err != nil {
			continue // not ours
		}
		info, err := owner.Stat()
		young := err != nil || time.Since(info.ModTime()) < time.Minute // its creator can be about to lock it
		if !young && syscall.Flock(int(owner.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir) // another process can be deleting it as well
		}
		owner.Close()
	}
}
