package delivery

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/e2e"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// flux builds the controllers of Flux and runs them with an administrator's rights. It
// returns where source-controller serves artifacts.
func (s *system) flux() (address string) {
	s.T.Helper()
	dir := s.T.TempDir()
	address, err := testenv.FreeAddress()
	s.Must(err)
	storage := filepath.Join(dir, "storage")
	s.Must(os.Mkdir(storage, 0o700))
	for name, flags := range map[string][]string{
		"source-controller":    {"--storage-path", storage, "--storage-addr", address, "--storage-adv-addr", address},
		"kustomize-controller": {"--requeue-dependency", "2s"},
	} {
		program := filepath.Join(dir, name)
		build := exec.CommandContext(s.T.Context(), "go", "build", "-trimpath", "-o", program, "github.com/fluxcd/"+name)
		build.Dir = e2e.RepoPath("test/flux/controllers")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			s.T.Fatalf("building %s: %v\n%s", name, err, out)
		}
		log := filepath.Join(dir, name+".log")
		p, err := testenv.Start(log, "env", append([]string{"KUBECONFIG=" + s.Cluster.Kubeconfig, "RUNTIME_NAMESPACE=flux-system", "TMPDIR=" + dir, program,
			"--metrics-addr", "0", "--health-addr", "127.0.0.1:0", "--log-level", "debug"}, flags...)...)
		s.Must(err)
		s.T.Cleanup(func() {
			p.Stop()
			if s.T.Failed() {
				said, _ := os.ReadFile(log)
				s.T.Logf("%s:\n%s", name, e2e.Tail(string(said), 4000))
			}
		})
	}
	return address
}

// conditionOf waits until an object says something of itself.
func (s *system) conditionOf(cl client.Client, kind schema.GroupVersionKind, ns, name, condition, status string, says ...string) {
	s.T.Helper()
	s.Eventually(fmt.Sprintf("%s %s to be %s=%s", kind.Kind, name, condition, status), func() error {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		if err := cl.Get(s.T.Context(), client.ObjectKey{Namespace: ns, Name: name}, u); err != nil {
			return err
		}
		if err := conditionIs(u, condition, status); err != nil {
			return err
		}
		if text := fmt.Sprint(u.Object["status"]); !e2e.ContainsAll(text, says) {
			return errors.New(text)
		}
		return nil
	})
}

// example returns a document of examples/flux, changed.
func (s *system) example(file, kind, name string, change func(spec map[string]any)) map[string]any {
	s.T.Helper()
	b, err := os.ReadFile(e2e.RepoPath("examples/flux/" + file))
	s.Must(err)
	for part := range strings.SplitSeq(string(b), "\n---\n") {
		u := &unstructured.Unstructured{}
		s.Must(yaml.Unmarshal([]byte(part), &u.Object))
		if u.GetKind() == kind && u.GetName() == name {
			spec, _ := u.Object["spec"].(map[string]any)
			change(spec)
			return u.Object
		}
	}
	s.T.Fatalf("examples/flux/%s has no %s %s", file, kind, name)
	return nil
}

// The complete path with Flux's own controllers and its example: a push to Git, source-controller
// fetches it, a ProfileSource follows, and a pool's Secret names the revision.
// kustomize-controller waits for the ProfileSource and for the machines of a pool, and the objects
// that it applies name their origin.
func TestFluxControllers(t *testing.T) {
	if os.Getenv("OSM_SOAK") != "1" {
		t.Skip("Flux's controllers take eight minutes of a processor to build: make soak runs this")
	}
	s := newSystem(t)
	s.Must(s.Cluster.Apply(t.Context(), e2e.RepoPath("test/flux/crds"), e2e.RepoPath("pkg/reconcile/profilesource/testdata/flux"), e2e.RepoPath("deploy/appliers.yaml")))
	s.Apply(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "flux-system"}})
	cl := s.Cluster.Client(t)
	artifacts := s.flux()
	fleet := e2e.NewGitServer(t)
	local := func(url string) func(spec map[string]any) {
		return func(spec map[string]any) { spec["url"], spec["interval"] = url, "2s" }
	}
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	fleet.Push(map[string]string{"direct.yaml": e2e.OSP("osp-direct", "v1.0.0", "echo one")})
	s.applier(cl, s.example("source.yaml", "GitRepository", "osps", local(s.Git.URL)))
	s.applier(cl, s.example("source.yaml", "GitRepository", "fleet", local(fleet.URL)))
	s.Start("--artifact-hosts", artifacts)

	kustomization := schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}
	inCluster := func(path string) func(spec map[string]any) {
		return func(spec map[string]any) {
			spec["path"], spec["interval"], spec["retryInterval"], spec["targetNamespace"] = path, "3s", "2s", e2e.Namespace
			delete(spec, "dependsOn")
		}
	}
	// The Kustomization of profiles waits for a ProfileSource that is not there yet.
	s.applier(cl, s.example("kustomizations.yaml", "Kustomization", "osm-profiles", inCluster("./profiles")))
	s.Pool("pool-direct", "osp-direct")
	head := "main@sha1:" + fleet.Run("rev-parse", "HEAD")
	s.came("pool-direct", "v1.0.0", head)
	if got := s.applied("osp-direct", "Kustomization flux-system/osm-profiles"); got[api.AnnotationRepository] != fleet.URL || got[api.AnnotationPath] != "profiles/" {
		t.Errorf("it says %v", got)
	}
	s.conditionOf(cl, kustomization, "flux-system", "osm-profiles", "Reconciling", "True")

	s.ApplyYAML(s.text(s.example("profilesource.yaml", "ProfileSource", "platform", func(map[string]any) {})))
	s.conditionOf(cl, kustomization, "flux-system", "osm-profiles", "Ready", "True")
	s.Pool("pool-a", "osp-a")
	s.came("pool-a", "v1.0.0", "main@sha1:"+first)
	second := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	s.came("pool-a", "v1.1.0", "main@sha1:"+second)

	// A commit that touches another file, then one that touches the profile.
	before, _, err := s.Secrets("pool-direct")
	s.Must(err)
	fleet.Push(map[string]string{"other.yaml": e2e.OSP("osp-other", "v1.0.0", "echo other")})
	other := "main@sha1:" + fleet.Run("rev-parse", "HEAD")
	s.Eventually("Flux to apply the next commit", func() error {
		var o osm.OperatingSystemProfile
		if err := s.Get(e2e.Namespace, "osp-other", &o); err != nil || o.Annotations[api.AnnotationCommit] != other {
			return fmt.Errorf("it says %v (%w)", o.Annotations, err)
		}
		return nil
	})
	fleet.Push(map[string]string{"direct.yaml": e2e.OSP("osp-direct", "v1.1.0", "echo two")})
	s.came("pool-direct", "v1.1.0", "main@sha1:"+fleet.Run("rev-parse", "HEAD"))
	if a := before.Annotations[api.AnnotationCommit]; a != head {
		t.Errorf("before, it was %q", a)
	}

	// Machines are waited for by the expressions of the example.
	s.Pool("pool-md", "osp-a")
	md := s.MachineDeployment("pool-md")
	fleet.Push(map[string]string{"pools/pool.yaml": s.text(map[string]any{
		"apiVersion": machines.GroupVersion.String(), "kind": "MachineDeployment",
		"metadata": map[string]any{"name": md.Name, "namespace": md.Namespace, "annotations": map[string]any{"from": "git"}},
	})})
	s.applier(cl, s.example("kustomizations.yaml", "Kustomization", "osm-pools", func(spec map[string]any) {
		inCluster("./profiles/pools")(spec)
		delete(spec, "targetNamespace")
	}))
	s.Status(&machines.MachineDeployment{}, "pool-md", `{"observedGeneration":1,"replicas":1,"updatedReplicas":1}`)
	s.conditionOf(cl, kustomization, "flux-system", "osm-pools", "Reconciling", "True", "pool-md")
	s.Status(&machines.MachineDeployment{}, "pool-md", `{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":1}`)
	s.conditionOf(cl, kustomization, "flux-system", "osm-pools", "Ready", "True")
	s.fluxInstalls(cl, kustomization)
}

// fluxInstalls installs osm-gitops by Flux with its example: all of deploy/ at a tag, with a custom
// image. The example's other objects wait until the controller runs.
func (s *system) fluxInstalls(cl client.Client, kustomization schema.GroupVersionKind) {
	s.T.Helper()
	mirror := e2e.NewGitServer(s.T)
	b, err := os.ReadFile(e2e.RepoPath("deploy/kustomization.yaml"))
	s.Must(err)
	var k struct{ Resources []string }
	s.Must(yaml.Unmarshal(b, &k))
	files := map[string]string{"deploy/kustomization.yaml": string(b)}
	for _, name := range k.Resources {
		text, err := os.ReadFile(e2e.RepoPath(filepath.Join("deploy", name)))
		s.Must(err)
		files["deploy/"+name] = string(text)
	}
	mirror.Push(files)
	mirror.Run("tag", "v0.1.0")
	mirror.Run("push", "-q", "origin", "v0.1.0")
	s.applier(cl, s.example("source.yaml", "GitRepository", "osm-gitops", func(spec map[string]any) { spec["url"], spec["interval"] = mirror.URL, "2s" }))
	s.applier(cl, s.example("kustomizations.yaml", "Kustomization", "osm-gitops", func(spec map[string]any) {
		spec["path"] = "./profiles" + strings.TrimPrefix(spec["path"].(string), ".") // the folder of this server's files
	}))
	deployment := &appsv1.Deployment{}
	s.Eventually("Flux to install osm-gitops", func() error {
		if err := cl.Get(s.T.Context(), client.ObjectKey{Namespace: "kube-system", Name: "osm-gitops"}, deployment); err != nil {
			return err
		}
		if image := deployment.Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/platform/osm-gitops:v0.1.0" {
			return fmt.Errorf("it runs %s", image)
		}
		return nil
	})
	s.conditionOf(cl, kustomization, "flux-system", "osm-gitops", "Reconciling", "True", "osm-gitops")
	// What the controllers of a complete cluster report about it.
	n := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	s.Must(cl.Status().Update(s.T.Context(), deployment))
	budget := &policyv1.PodDisruptionBudget{}
	s.Must(cl.Get(s.T.Context(), client.ObjectKey{Namespace: "kube-system", Name: "osm-gitops"}, budget))
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: n, CurrentHealthy: n, DesiredHealthy: n - 1, DisruptionsAllowed: 1}
	s.Must(cl.Status().Update(s.T.Context(), budget))
	s.conditionOf(cl, kustomization, "flux-system", "osm-gitops", "Ready", "True", "Applied revision: v0.1.0@sha1:")
}

func (s *system) text(object map[string]any) string {
	s.T.Helper()
	b, err := yaml.Marshal(object)
	s.Must(err)
	return string(b)
}
