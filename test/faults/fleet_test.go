package faults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/program"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// patience bounds every wait. A test that reaches it fails, so it is generous.
const patience = 3 * time.Minute

// soak is whether the long runs are asked for.
var soak = os.Getenv("OSM_SOAK") == "1"

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // of the observer's cache, whose API server is killed
	code := cluster.Main(m, cluster.Options{SeparateAPIServer: true})
	if built.path != "" {
		_ = os.RemoveAll(filepath.Dir(built.path))
	}
	os.Exit(code)
}

// built is the controller, for TestMain to remove.
var built struct {
	sync.Once
	path string
	err  error
}

// build builds the controller, once.
func (f *fleet) build() string {
	f.t.Helper()
	built.Do(func() {
		var dir string
		if dir, built.err = os.MkdirTemp("", "osm-gitops-faults-"); built.err == nil {
			built.path = filepath.Join(dir, "osm-gitops")
			built.err = program.Controller(f.t.Context(), built.path)
		}
	})
	f.must(built.err)
	return built.path
}

// fleet is a number of pools, and the controllers that reconcile them.
type fleet struct {
	t         *testing.T
	cluster   *cluster.Cluster
	client    client.WithWatch
	binary    string
	gate      *gate
	log       string
	flags     []string
	repo      *testenv.Repository
	seen      *observer
	namespace string // of the pools
	profile   string
	pools     []string
	release   int // of the profile
	revision  int // of the pools' templates
	running   *testenv.Process
	starts    int
}

func newFleet(t *testing.T, pools int) *fleet {
	t.Helper()
	f := &fleet{t: t, cluster: cluster.Shared(t), revision: 1, profile: strings.ToLower("osp-" + strings.ReplaceAll(t.Name(), "/", "-"))}
	f.client = f.cluster.Client(t)
	f.binary = f.build()
	f.must(install(t.Context(), f.cluster))
	f.namespace = f.cluster.Namespace(t)
	dir := t.TempDir()
	f.log = filepath.Join(dir, "controller.log")
	f.gate = newGate(t, f.cluster.Config)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	f.must(testenv.Kubeconfig(t.Context(), f.cluster, kubeconfig, f.gate.URL, f.gate.ca()))
	var err error
	f.repo, err = testenv.NewRepository(t.Context(), filepath.Join(dir, "repository"))
	f.must(err)
	f.flags = []string{
		"controller", "--kubeconfig", kubeconfig, "--namespace", metav1.NamespaceSystem, "--leader-elect=false",
		"--health-probe-address", "0", "--metrics-address", "0", "--webhook-address", "0", "--disable-default-osps",
		"--kubernetes-ca-bundle", f.caFile(dir),
		"--directory-root", f.repo.Dir,
	}
	for i := range pools {
		f.pools = append(f.pools, fmt.Sprintf("pool-%03d", i))
	}
	f.seen = f.observe()
	t.Cleanup(f.end)
	f.push()
	f.must(f.client.Create(t.Context(), &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: f.profile},
		Spec: api.ProfileSourceSpec{
			Directory: &api.DirectorySource{Path: f.repo.Current()},
			// Short, because a push can happen between a controller's first reconciliation and its watch.
			Interval: metav1.Duration{Duration: 2 * time.Second}, RetryInterval: metav1.Duration{Duration: 2 * time.Second},
		},
	}))
	return f
}

// install prepares the control plane once for all tests.
func install(ctx context.Context, c *cluster.Cluster) error {
	err := testenv.Install(ctx, c)
	if err != nil && strings.Contains(err.Error(), "already exists") {
		return nil
	}
	return err
}

// caFile writes the CA for the nodes' documents: the gate has another one than the cluster.
func (f *fleet) caFile(dir string) string {
	path := filepath.Join(dir, "ca.crt")
	f.must(os.WriteFile(path, f.cluster.Config.CAData, 0o600))
	return path
}

func (f *fleet) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// start starts a controller, or starts it again.
func (f *fleet) start(flags ...string) *testenv.Process {
	f.t.Helper()
	f.starts++
	cache := filepath.Join(filepath.Dir(f.log), fmt.Sprintf("mirrors-%d", f.starts)) // replicas do not share one
	p, err := testenv.Start(f.log, f.binary, append(append(f.flags, "--cache-dir", cache), flags...)...)
	f.must(err)
	f.running = p
	return p
}

// push commits the next version of the profile.
func (f *fleet) push() {
	f.t.Helper()
	f.release++
	made := "# made for {{ .KubeVersion }} by " + f.version() // so that documents say it
	_, err := f.repo.Push(f.t.Context(), map[string]string{"profile.yaml": testenv.Profile(f.profile, f.version(), made, made)})
	f.must(err)
}

func (f *fleet) version() string { return fmt.Sprintf("v1.0.%d", f.release) }

// kubelet is the kubelet of a revision of a template.
func kubelet(revision int) string { return fmt.Sprintf("1.35.%d", revision) }

// create creates all pools, several in parallel, and retries while the API server does not answer.
func (f *fleet) create() {
	f.t.Helper()
	f.each(func(ctx context.Context, pool string) error {
		md := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": machines.GroupVersion.String(), "kind": "MachineDeployment",
			"metadata": map[string]any{"namespace": f.namespace, "name": pool, "annotations": map[string]any{
				api.AnnotationOSP: f.profile, api.AnnotationMDRevision: "1",
			}},
			"spec": map[string]any{
				"replicas": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"pool": pool}},
				"template": map[string]any{
					"metadata": map[string]any{"labels": map[string]any{"pool": pool}},
					"spec": map[string]any{
						"versions": map[string]any{"kubelet": kubelet(1)},
						"providerSpec": map[string]any{"value": map[string]any{
							"cloudProvider": "hetzner", "cloudProviderSpec": map[string]any{}, "operatingSystem": "ubuntu", "sshPublicKeys": []any{},
						}},
					},
				},
			},
		}}
		return testenv.Until(ctx, patience, "the pool is made", func() error {
			// An interrupted request can have been executed.
			return client.IgnoreAlreadyExists(f.client.Create(ctx, md.DeepCopy()))
		})
	})
}

// upgrade changes every template, and then the revision, as machine-controller does.
func (f *fleet) upgrade() {
	f.t.Helper()
	f.revision++
	f.each(func(ctx context.Context, pool string) error {
		for _, patch := range []string{
			`{"spec":{"template":{"spec":{"versions":{"kubelet":"` + kubelet(f.revision) + `"}}}}}`,
			fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, api.AnnotationMDRevision, f.revision),
		} {
			if err := f.patch(ctx, pool, patch); err != nil {
				return err
			}
		}
		return nil
	})
}

// patch merges into a pool, and retries while the API server does not answer.
func (f *fleet) patch(ctx context.Context, pool, patch string) error {
	md := &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: pool}}
	return testenv.Until(ctx, patience, "the pool is patched", func() error {
		return f.client.Patch(ctx, md, client.RawPatch(types.MergePatchType, []byte(patch)))
	})
}

// each does something with all pools.
func (f *fleet) each(do func(ctx context.Context, pool string) error) {
	f.t.Helper()
	const together = 10
	work := make(chan string)
	var all sync.WaitGroup
	for range together {
		all.Go(func() {
			for pool := range work {
				if err := do(f.t.Context(), pool); err != nil {
					f.t.Errorf("%s: %v", pool, err)
				}
			}
		})
	}
	for _, pool := range f.pools {
		work <- pool
	}
	close(work)
	all.Wait()
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// killAPIServer kills the API server after it has recovered from the previous kill.
func (f *fleet) killAPIServer() {
	f.t.Helper()
	f.must(testenv.Until(f.t.Context(), patience, "the API server runs, to be killed", f.cluster.KillAPIServer))
}

// end removes the pools, and looks for what is left of them.
func (f *fleet) end() {
	if f.t.Failed() {
		text, _ := os.ReadFile(f.log) // a missing log only shortens the message
		f.t.Logf("the controller's log:\n%s", text[max(0, len(text)-8000):])
	}
	f.seen.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.t.Context()), 2*patience)
	defer cancel()
	f.gate.disarm()
	if f.running == nil || ended(f.running) {
		f.start()
	}
	if err := testenv.Until(ctx, patience, "the pools are deleted", func() error {
		return f.client.DeleteAllOf(ctx, &machines.MachineDeployment{}, client.InNamespace(f.namespace))
	}); err != nil {
		f.t.Error(err)
	}
	if err := testenv.Until(ctx, patience, "nothing is left of the pools", func() error { return f.leftovers(ctx) }); err != nil {
		f.t.Error(err)
	}
	f.running.Stop()
	for _, obj := range []client.Object{
		&api.ProfileSource{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: f.profile}},
	} {
		_ = f.client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		if err := client.IgnoreNotFound(f.client.Delete(ctx, obj)); err != nil {
			f.t.Error(err)
		}
	}
}

func ended(p *testenv.Process) bool {
	select {
	case <-p.Exited:
		return true
	default:
		return false
	}
}

// leftovers names an object that was made for a pool of this fleet.
func (f *fleet) leftovers(ctx context.Context) error {
	lists := []client.ObjectList{
		&machines.MachineDeploymentList{}, &osm.OperatingSystemConfigList{}, &corev1.SecretList{},
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
	}
	for _, list := range lists {
		if err := f.client.List(ctx, list); err != nil {
			return err
		}
		err := eachItem(list, func(obj client.Object) error {
			if obj.GetNamespace() == f.namespace && !strings.HasPrefix(obj.GetName(), "default") {
				if _, ok := obj.(*machines.MachineDeployment); ok {
					return fmt.Errorf("pool %s", obj.GetName())
				}
			}
			if strings.HasPrefix(obj.GetAnnotations()[api.AnnotationPool], f.namespace+"/") {
				return fmt.Errorf("%T %s/%s", obj, obj.GetNamespace(), obj.GetName())
			}
			return nil
		})
		if err != nil {
			return errors.Join(errors.New("left is"), err)
		}
	}
	return nil
}
