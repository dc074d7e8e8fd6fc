package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/gittestserver"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/gittest"
	"github.com/osm-gitops/osm-gitops/test/permissions"
	"github.com/osm-gitops/osm-gitops/test/program"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

const patience = 2 * time.Minute

func TestMain(m *testing.M) { os.Exit(cluster.Main(m, cluster.Options{Audit: true}, onlyWithRights)) }

// onlyWithRights fails the tests if a request of the controller was denied: only the audit page
// reads these objects.
func onlyWithRights(c *cluster.Cluster, _ int) error {
	root, err := program.Root()
	if err != nil {
		return err
	}
	return permissions.DeniedRequests(c.AuditLog(), "system:serviceaccount:kube-system:osm-gitops", filepath.Join(root, "deploy", "rbac.yaml"), filepath.Join(root, "deploy", "ui.yaml"))
}

// world is a control plane, a repository on a Git server, and the controller.
type world struct {
	t          *testing.T
	root, dir  string
	cluster    *cluster.Cluster
	client     client.Client
	binary     string
	kubeconfig string // the controller's
	git        string // URL
	commits    map[string]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), cluster: cluster.Shared(t), commits: map[string]string{}}
	w.client = w.cluster.Client(t)
	var err error
	w.root, err = program.Root()
	w.must(err)
	w.must(program.DependOn("examples"))
	w.binary, w.kubeconfig = w.path("osm-gitops"), w.path("kubeconfig")
	w.must(program.Controller(t.Context(), w.binary))
	w.must(testenv.Install(t.Context(), w.cluster))
	w.must(testenv.Kubeconfig(t.Context(), w.cluster, w.kubeconfig, w.cluster.URL, w.cluster.Config.CAData))
	server, err := gittestserver.NewTempGitServer()
	w.must(err)
	t.Cleanup(func() { _ = os.RemoveAll(server.Root()) })
	server.AutoCreate()
	w.must(server.StartHTTP())
	t.Cleanup(server.StopHTTP)
	w.git = server.HTTPAddress() + "/platform/osps.git"
	w.must(os.Mkdir(w.path("work"), 0o700))
	w.gitRun(ada, "init", "-q", "--initial-branch=main")
	w.gitRun(ada, "remote", "add", "origin", w.git)
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Authors.
const (
	ada = "Ada Lovelace"
	ben = "Ben Okafor"
)

func (w *world) gitRun(author string, args ...string) string {
	w.t.Helper()
	email := strings.ToLower(strings.Fields(author)[0]) + "@example.com"
	return gittest.Run(w.t, gittest.By(gittest.Command(w.t.Context(), w.path("work"), args...), author, email))
}

// push commits files below profiles/ and remembers the commit by a name.
func (w *world) push(name, author, message string, files map[string]string) {
	w.t.Helper()
	for path, content := range files {
		path = filepath.Join(w.path("work"), "profiles", path)
		w.must(os.MkdirAll(filepath.Dir(path), 0o755))
		w.must(os.WriteFile(path, []byte(content), 0o600))
	}
	w.must(os.WriteFile(w.path("message"), []byte(message), 0o600))
	w.gitRun(author, "add", "-A")
	w.gitRun(author, "commit", "-q", "--file="+w.path("message"))
	w.gitRun(author, "push", "-q", "origin", "main")
	w.commits[name] = w.gitRun(author, "rev-parse", "HEAD")
}

// profile is one of the examples, with other texts in it.
func (w *world) profile(name string, replace ...string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.root, "examples", "repository", "profiles", name+".yaml"))
	w.must(err)
	text := string(b)
	if name == "osp-ubuntu-example" { // its nodes report their files
		replace = append(replace, "    - path: /etc/sysctl.d/90-kubernetes.conf\n", "    - path: "+manifest.Path+"\n      content:\n        inline:\n          data: |\n            "+
			strings.ReplaceAll(strings.TrimSpace(reported.Encode()), "\n", "\n            ")+"\n    - path: /etc/sysctl.d/90-kubernetes.conf\n")
	}
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			w.t.Fatalf("%s does not hold %q", name, replace[i])
		}
		text = strings.ReplaceAll(text, replace[i], replace[i+1])
	}
	return text
}

func (w *world) apply(text string) {
	w.t.Helper()
	var object map[string]any
	w.must(yaml.Unmarshal([]byte(text), &object))
	w.must(w.cluster.ApplyObjects(w.t.Context(), &unstructured.Unstructured{Object: object}))
}

// source lets the controller follow the repository.
func (w *world) source() {
	w.t.Helper()
	w.apply(fmt.Sprintf(`
apiVersion: gitops.k8c.io/v1alpha1
kind: ProfileSource
metadata: {name: platform, namespace: kube-system}
spec:
  git: {url: %q}
  path: profiles
  interval: 1s
  retryInterval: 1s
  webhook: {provider: gitea, secretRef: {name: platform-webhook}}
  rollout:
    maintenanceWindows:
    - {schedule: "0 4 29 2 *", duration: 6h, timeZone: Europe/Berlin}
    - {schedule: "0 0 * * *", duration: 24h, applies: [Waves]}
`, w.git))
}

// pools applies the pools of the examples.
func (w *world) pools(names ...string) {
	w.t.Helper()
	w.must(w.cluster.Apply(w.t.Context(), filepath.Join(w.root, "examples", "pools", "00-namespaces.yaml")))
	for _, name := range names {
		w.must(w.cluster.Apply(w.t.Context(), filepath.Join(w.root, "examples", "pools", name+".yaml")))
	}
}

// controller starts the controller; flags come on top.
func (w *world) controller(flags ...string) *testenv.Process {
	w.t.Helper()
	args := append([]string{
		"controller", "--kubeconfig", w.kubeconfig, "--namespace", metav1.NamespaceSystem, "--leader-elect=false",
		"--health-probe-address", "0", "--metrics-address", "0", "--webhook-address", "0", "--log-format", "Console",
		"--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8", "--cache-dir", w.path("cache"),
	}, flags...)
	return w.process("controller.log", args...)
}

// process starts the binary, and stops it with the test.
func (w *world) process(log string, args ...string) *testenv.Process {
	w.t.Helper()
	p, err := testenv.Start(w.path(log), w.binary, args...)
	w.must(err)
	w.t.Cleanup(p.Stop)
	w.t.Cleanup(func() {
		if w.t.Failed() {
			b, _ := os.ReadFile(w.path(log)) // a missing log only shortens the message
			w.t.Logf("%s:\n%s", log, b[max(0, len(b)-6000):])
		}
	})
	return p
}

func (w *world) until(what string, condition func() error) {
	w.t.Helper()
	w.must(testenv.Until(w.t.Context(), patience, what, condition))
}

// served waits until a pool's nodes get a version.
func (w *world) served(pool, version string) *corev1.Secret {
	w.t.Helper()
	namespace, name, _ := strings.Cut(pool, "/")
	var secret corev1.Secret
	w.until(pool+" is served "+version, func() error {
		err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: name + "-" + namespace + "-provisioning-config"}, &secret)
		if err == nil && secret.Annotations[api.AnnotationVersion] != version {
			err = fmt.Errorf("it has %s", secret.Annotations[api.AnnotationVersion])
		}
		return err
	})
	return &secret
}

// join makes nodes of a pool, as machine-controller would. They say what their profile
// makes them say, unless says is nil.
func (w *world) join(pool string, says *corev1.Secret, providerID string, names ...string) {
	w.t.Helper()
	namespace, name, _ := strings.Cut(pool, "/")
	var md machines.MachineDeployment
	w.must(w.client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &md))
	const group = "cluster.k8s.io/v1alpha1"
	set := &machines.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: names[0] + "-set", Annotations: map[string]string{api.AnnotationMDRevision: "1"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: group, Kind: "MachineDeployment", Name: md.Name, UID: md.UID}},
	}}
	w.must(w.client.Create(w.t.Context(), set))
	for _, n := range names {
		m := &machines.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: n, OwnerReferences: []metav1.OwnerReference{{APIVersion: group, Kind: "MachineSet", Name: set.Name, UID: set.UID}},
		}}
		w.must(w.client.Create(w.t.Context(), m))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{api.LabelOwnedBy: string(m.UID)}}, Spec: corev1.NodeSpec{ProviderID: providerID}}
		if says != nil {
			node.Labels[api.LabelConfig] = render.ShortDigest(says.Annotations[api.AnnotationInputDigest])
			node.Labels[api.LabelCommit] = says.Annotations[api.AnnotationCommit]
		}
		w.must(w.client.Create(w.t.Context(), node))
		w.until(n+" is known", func() error {
			return w.client.Get(w.t.Context(), client.ObjectKey{Name: lineage.ProvenanceName(n, node.UID)}, &api.NodeProvenance{})
		})
	}
}

// reported is the manifest of nodes with the example's profile.
var reported = manifest.Manifest{
	Config: "{{ .Provenance.ConfigDigest }}",
	Files: []manifest.File{
		{Path: "/etc/containerd/config.toml", Mode: 0o600, Owner: "root:root"},
		{Path: "/etc/sysctl.d/90-kubernetes.conf", Digest: strings.Repeat("0a", 32), Mode: 0o644, Owner: "root:root"},
	},
	Units: []manifest.Unit{{Name: "kubelet.service", State: manifest.Enabled}},
}

// differs has a node report that it does not match its configuration, as its script does.
func (w *world) differs(name string) {
	w.t.Helper()
	node := &corev1.Node{}
	w.must(w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, node))
	text := fmt.Sprintf(`{"v":1,"config":%q,"state":"Differs","time":%q,"differences":[{"path":"/etc/sysctl.d/90-kubernetes.conf","reason":"Content","found":"5f70bf18a086"},`+
		`{"path":"/etc/systemd/system/kubelet.service.d/local.conf","reason":"DropIn"},{"path":"/etc/containerd/config.toml","reason":"Mode"}],"others":2}`,
		node.Labels[api.LabelConfig], time.Now().UTC().Format(time.RFC3339))
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{api.AnnotationMatch: text}}})
	w.must(err)
	w.must(w.client.Patch(w.t.Context(), node, client.RawPatch(types.MergePatchType, body)))
	w.until(name+" is said to differ", func() error {
		np := &api.NodeProvenance{}
		err := w.client.Get(w.t.Context(), client.ObjectKey{Name: lineage.ProvenanceName(name, node.UID)}, np)
		if err == nil && (np.Status.Match == nil || len(np.Status.Match.Differences) != 3) {
			err = fmt.Errorf("it has %+v", np.Status.Match)
		}
		return err
	})
}

// fails makes a machine of a set that reports that its script fails, as a machine does.
func (w *world) fails(pool string, says *corev1.Secret, set, name string) {
	w.t.Helper()
	md := &machines.MachineDeployment{}
	md.Namespace, md.Name, _ = strings.Cut(pool, "/")
	owner := &machines.MachineSet{}
	w.must(w.client.Get(w.t.Context(), client.ObjectKey{Namespace: md.Namespace, Name: set}, owner))
	w.must(w.client.Create(w.t.Context(), &machines.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: md.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "cluster.k8s.io/v1alpha1", Kind: "MachineSet", Name: set, UID: owner.UID}},
	}}))
	report := &api.BootReport{}
	key := client.ObjectKey{Namespace: api.NamespaceCloudInitSettings, Name: lineage.AccessName(client.ObjectKeyFromObject(md))}
	w.until("there is a BootReport", func() error { return w.client.Get(w.t.Context(), key, report) })
	entry := api.MachineBoot{
		Machine: name, Stage: api.BootStageSetup, Outcome: api.BootFailing, Attempt: 3, Config: render.ShortDigest(says.Annotations[api.AnnotationInputDigest]),
		File: "/opt/bin/setup", Line: 4711, Command: "<script>alert(11)</script>", ExitStatus: 22, Log: "c4nary", BootID: "01234567-89ab-cdef-0123-456789abcdef",
	}
	body, err := json.Marshal(map[string]any{"apiVersion": api.GroupVersion.String(), "kind": "BootReport", "metadata": map[string]any{"name": key.Name}, "spec": map[string]any{"machines": []any{entry}}})
	w.must(err)
	w.must(w.client.Patch(w.t.Context(), report, client.RawPatch(types.ApplyPatchType, body), client.FieldOwner(name), client.ForceOwnership))
	w.until("the cause is known", func() error {
		err := w.client.Get(w.t.Context(), key, report)
		if err == nil && (len(report.Status.Machines) == 0 || report.Status.Machines[0].Cause == nil) {
			err = errors.New("it is not")
		}
		return err
	})
}

// refused waits until the source refuses something.
func (w *world) refused() {
	w.t.Helper()
	w.until("the source refuses a file", func() error {
		var ps api.ProfileSource
		if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "platform"}, &ps); err != nil {
			return err
		}
		if c := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition); c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Errorf("its condition is %+v", c)
		}
		return nil
	})
}
