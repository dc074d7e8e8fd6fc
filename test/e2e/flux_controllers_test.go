package e2e

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
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// flux builds the controllers of Flux and runs them with an administrator's rights. It
// returns where source-controller serves artifacts.
func (s *system) flux() (address string) {
	s.t.Helper()
	dir := s.t.TempDir()
	address, err := testenv.FreeAddress()
	s.must(err)
	storage := filepath.Join(dir, "storage")
	s.must(os.Mkdir(storage, 0o700))
	for name, flags := range map[string][]string{
		"source-controller":    {"--storage-path", storage, "--storage-addr", address, "--storage-adv-addr", address},
		"kustomize-controller": {"--requeue-dependency", "2s"},
	} {
		program := filepath.Join(dir, name)
		build := exec.CommandContext(s.t.Context(), "go", "build", "-trimpath", "-o", program, "github.com/fluxcd/"+name)
		build.Dir = repoPath("test/flux/controllers")
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			s.t.Fatalf("building %s: %v\n%s", name, err, out)
		}
		log := filepath.Join(dir, name+".log")
		p, err := testenv.Start(log, "env", append([]string{"KUBECONFIG=" + s.cluster.Kubeconfig, "RUNTIME_NAMESPACE=flux-system", "TMPDIR=" + dir, program,
			"--metrics-addr", "0", "--health-addr", "127.0.0.1:0", "--log-level", "debug"}, flags...)...)
		s.must(err)
		s.t.Cleanup(func() {
			p.Stop()
			if s.t.Failed() {
				said, _ := os.ReadFile(log)
				s.t.Logf("%s:\n%s", name, tail(string(said), 4000))
			}
		})
	}
	return address
}

// conditionOf waits until an object says something of itself.
func (s *system) conditionOf(cl client.Client, kind schema.GroupVersionKind, ns, name, condition, status string, says ...string) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%s %s to be %s=%s", kind.Kind, name, condition, status), func() error {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		if err := cl.Get(s.t.Context(), client.ObjectKey{Namespace: ns, Name: name}, u); err != nil {
			return err
		}
		if err := conditionIs(u, condition, status); err != nil {
			return err
		}
		if text := fmt.Sprint(u.Object["status"]); !containsAll(text, says) {
			return errors.New(text)
		}
		return nil
	})
}

// example returns a document of examples/flux, changed.
func (s *system) example(file, kind, name string, change func(spec map[string]any)) map[string]any {
	s.t.Helper()
	b, err := os.ReadFile(repoPath("examples/flux/" + file))
	s.must(err)
	for part := range strings.SplitSeq(string(b), "\n---\n") {
		u := &unstructured.Unstructured{}
		s.must(yaml.Unmarshal([]byte(part), &u.Object))
		if u.GetKind() == kind && u.GetName() == name {
			spec, _ := u.Object["spec"].(map[string]any)
			change(spec)
			return u.Object
		}
	}
	s.t.Fatalf("examples/flux/%s has no %s %s", file, kind, name)
	return nil
}

// The whole way, with Flux's own controllers and its example: a push to Git, source-controller
// fetches, a ProfileSource follows, a pool's Secret says the revision. kustomize-controller
// waits for the ProfileSource and for the machines of a pool, and what it applies itself says
// where it came from.
func TestFluxControllers(t *testing.T) {
	if os.Getenv("OSM_SOAK") != "1" {
		t.Skip("Flux's controllers take eight minutes of a processor to build: make soak runs this")
	}
	s := newSystem(t)
	s.must(s.cluster.Apply(t.Context(), repoPath("test/flux/crds"), repoPath("pkg/reconcile/profilesource/testdata/flux"), repoPath("deploy/appliers.yaml")))
	s.apply(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "flux-system"}})
	cl := s.cluster.Client(t)
	artifacts := s.flux()
	fleet := newGitServer(t)
	local := func(url string) func(spec map[string]any) {
		return func(spec map[string]any) { spec["url"], spec["interval"] = url, "2s" }
	}
	first := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	fleet.push(map[string]string{"direct.yaml": osp("osp-direct", "v1.0.0", "echo one")})
	s.applier(cl, s.example("source.yaml", "GitRepository", "osps", local(s.git.url)))
	s.applier(cl, s.example("source.yaml", "GitRepository", "fleet", local(fleet.url)))
	s.start("--artifact-hosts", artifacts)

	kustomization := schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}
	inCluster := func(path string) func(spec map[string]any) {
		return func(spec map[string]any) {
			spec["path"], spec["interval"], spec["retryInterval"], spec["targetNamespace"] = path, "3s", "2s", namespace
			delete(spec, "dependsOn")
		}
	}
	// The Kustomization of profiles waits for a ProfileSource that is not there yet.
	s.applier(cl, s.example("kustomizations.yaml", "Kustomization", "osm-profiles", inCluster("./profiles")))
	s.pool("pool-direct", "osp-direct")
	head := "main@sha1:" + fleet.run("rev-parse", "HEAD")
	s.came("pool-direct", "v1.0.0", head)
	var direct osm.OperatingSystemProfile
	s.must(s.get(namespace, "osp-direct", &direct))
	if got := direct.Annotations; got[api.AnnotationAppliedBy] != "Kustomization flux-system/osm-profiles" || got[api.AnnotationRepository] != fleet.url || got[api.AnnotationPath] != "profiles/" {
		t.Errorf("it says %v", got)
	}
	s.conditionOf(cl, kustomization, "flux-system", "osm-profiles", "Reconciling", "True")

	s.applyYAML(s.text(s.example("profilesource.yaml", "ProfileSource", "platform", func(map[string]any) {})))
	s.conditionOf(cl, kustomization, "flux-system", "osm-profiles", "Ready", "True")
	s.pool("pool-a", "osp-a")
	s.came("pool-a", "v1.0.0", "main@sha1:"+first)
	second := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")})
	s.came("pool-a", "v1.1.0", "main@sha1:"+second)

	// A commit that touches another file, then one that touches the profile.
	before, _, err := s.secrets("pool-direct")
	s.must(err)
	fleet.push(map[string]string{"other.yaml": osp("osp-other", "v1.0.0", "echo other")})
	other := "main@sha1:" + fleet.run("rev-parse", "HEAD")
	s.eventually("Flux to apply the next commit", func() error {
		var o osm.OperatingSystemProfile
		if err := s.get(namespace, "osp-other", &o); err != nil || o.Annotations[api.AnnotationCommit] != other {
			return fmt.Errorf("it says %v (%w)", o.Annotations, err)
		}
		return nil
	})
	fleet.push(map[string]string{"direct.yaml": osp("osp-direct", "v1.1.0", "echo two")})
	s.came("pool-direct", "v1.1.0", "main@sha1:"+fleet.run("rev-parse", "HEAD"))
	if a := before.Annotations[api.AnnotationCommit]; a != head {
		t.Errorf("before, it was %q", a)
	}

	// Machines are waited for by the expressions of the example.
	s.pool("pool-md", "osp-a")
	md := s.machineDeployment("pool-md")
	fleet.push(map[string]string{"pools/pool.yaml": s.text(map[string]any{
		"apiVersion": machines.GroupVersion.String(), "kind": "MachineDeployment",
		"metadata": map[string]any{"name": md.Name, "namespace": md.Namespace, "annotations": map[string]any{"from": "git"}},
	})})
	s.applier(cl, s.example("kustomizations.yaml", "Kustomization", "osm-pools", func(spec map[string]any) {
		inCluster("./profiles/pools")(spec)
		delete(spec, "targetNamespace")
	}))
	s.status(&machines.MachineDeployment{}, "pool-md", `{"observedGeneration":1,"replicas":1,"updatedReplicas":1}`)
	s.conditionOf(cl, kustomization, "flux-system", "osm-pools", "Reconciling", "True", "pool-md")
	s.status(&machines.MachineDeployment{}, "pool-md", `{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":1}`)
	s.conditionOf(cl, kustomization, "flux-system", "osm-pools", "Ready", "True")
	s.fluxInstalls(cl, kustomization)
}

// fluxInstalls has Flux install osm-gitops itself, by its example: all of deploy/, of a tag, with an
// image of one's own. The others of the example wait until the controller is there.
func (s *system) fluxInstalls(cl client.Client, kustomization schema.GroupVersionKind) {
	s.t.Helper()
	mirror := newGitServer(s.t)
	b, err := os.ReadFile(repoPath("deploy/kustomization.yaml"))
	s.must(err)
	var k struct{ Resources []string }
	s.must(yaml.Unmarshal(b, &k))
	files := map[string]string{"deploy/kustomization.yaml": string(b)}
	for _, name := range k.Resources {
		text, err := os.ReadFile(repoPath(filepath.Join("deploy", name)))
		s.must(err)
		files["deploy/"+name] = string(text)
	}
	mirror.push(files)
	mirror.run("tag", "v0.1.0")
	mirror.run("push", "-q", "origin", "v0.1.0")
	s.applier(cl, s.example("source.yaml", "GitRepository", "osm-gitops", func(spec map[string]any) { spec["url"], spec["interval"] = mirror.url, "2s" }))
	s.applier(cl, s.example("kustomizations.yaml", "Kustomization", "osm-gitops", func(spec map[string]any) {
		spec["path"] = "./profiles" + strings.TrimPrefix(spec["path"].(string), ".") // where this server has its files
	}))
	deployment := &appsv1.Deployment{}
	s.eventually("Flux to install osm-gitops", func() error {
		if err := cl.Get(s.t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "osm-gitops"}, deployment); err != nil {
			return err
		}
		if image := deployment.Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/platform/osm-gitops:v0.1.0" {
			return fmt.Errorf("it runs %s", image)
		}
		return nil
	})
	s.conditionOf(cl, kustomization, "flux-system", "osm-gitops", "Reconciling", "True", "osm-gitops")
	// What the controllers of a whole cluster say of it.
	n := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	s.must(cl.Status().Update(s.t.Context(), deployment))
	budget := &policyv1.PodDisruptionBudget{}
	s.must(cl.Get(s.t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "osm-gitops"}, budget))
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: n, CurrentHealthy: n, DesiredHealthy: n - 1, DisruptionsAllowed: 1}
	s.must(cl.Status().Update(s.t.Context(), budget))
	s.conditionOf(cl, kustomization, "flux-system", "osm-gitops", "Ready", "True", "Applied revision: v0.1.0@sha1:")
}

func (s *system) text(object map[string]any) string {
	s.t.Helper()
	b, err := yaml.Marshal(object)
	s.must(err)
	return string(b)
}
