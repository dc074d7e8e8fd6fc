package cluster_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/program"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// holdEnv makes this test binary hold a control plane until it is killed.
const holdEnv = "OSM_TEST_HOLD_CONTROLPLANE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		hold(dir)
	}
	os.Exit(cluster.Main(m, cluster.Options{}))
}

func hold(dir string) {
	ctx := context.Background() //nolint:forbidigo // not a test, but a process that a test kills
	if _, err := cluster.Run(ctx, dir, cluster.Options{SeparateAPIServer: true}, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("holding")
	select {}
}

func TestShared(t *testing.T) {
	c := cluster.Shared(t)
	if again := cluster.Shared(t); again != c {
		t.Error("a second control plane was started for the same test binary")
	}
	t.Logf("ready after %s at %s", c.StartTime, c.URL)
	cl := c.Client(t)

	t.Run("namespaces are fresh, and emptied in the end", func(t *testing.T) {
		var name string
		md := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.k8s.io/v1alpha1", "kind": "MachineDeployment",
			"spec": map[string]any{"template": "no object"},
		}}
		t.Run("inner", func(t *testing.T) {
			name = c.Namespace(t)
			if other := c.Namespace(t); other == name {
				t.Errorf("both namespaces are called %q", name)
			}
			md.SetNamespace(name)
			md.SetName("pool")
			md.SetFinalizers([]string{"example.com/nobody-removes-it"})
			if err := cl.Create(t.Context(), md); err != nil {
				t.Fatal(err)
			}
		})
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(md), md); !apierrors.IsNotFound(err) {
			t.Errorf("the MachineDeployment is still there: %v", err)
		}
		if err := cl.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the namespace controller deletes the namespace", func() error {
			err := cl.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.Namespace{})
			if err == nil {
				return fmt.Errorf("namespace %s is still there", name)
			}
			return client.IgnoreNotFound(err)
		})
	})

	t.Run("the API server has the version of its modules", func(t *testing.T) {
		cs, err := kubernetes.NewForConfig(c.Config)
		if err != nil {
			t.Fatal(err)
		}
		version, err := cs.Discovery().ServerVersion()
		if err != nil {
			t.Fatal(err)
		}
		root, err := program.Root()
		if err != nil {
			t.Fatal(err)
		}
		modules, err := os.ReadFile(filepath.Join(root, "test", "controlplane", "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if want := "k8s.io/kubernetes " + version.GitVersion + "\n"; !strings.Contains(string(modules), want) {
			t.Errorf("test/controlplane/go.mod does not require %q", want)
		}
	})

	t.Run("service-account tokens are filled in, as with the real controller manager", func(t *testing.T) {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: "token-", Namespace: c.Namespace(t),
				Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
			},
			Type: corev1.SecretTypeServiceAccountToken,
		}
		eventually(t, "the account has a token", func() error {
			if secret.ResourceVersion == "" {
				return cl.Create(t.Context(), secret)
			}
			if err := cl.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
				return err
			}
			if len(secret.Data["token"]) == 0 {
				return errors.New("the secret holds no token")
			}
			return nil
		})
	})

	t.Run("rights are checked", func(t *testing.T) {
		config := *c.Config
		config.Impersonate.UserName = "nobody"
		stranger, err := client.New(&config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := stranger.List(t.Context(), &rbacv1.ClusterRoleList{}); !apierrors.IsForbidden(err) {
			t.Errorf("a stranger lists cluster roles: %v", err)
		}
	})

	t.Run("machine-controller's kinds have no schema, a status and a scale", func(t *testing.T) {
		md := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "cluster.k8s.io/v1alpha1", "kind": "MachineDeployment",
			"metadata": map[string]any{"name": "pool", "namespace": c.Namespace(t)},
			"spec":     map[string]any{"replicas": int64(3), "anything": []any{"goes", int64(1)}},
			"status":   map[string]any{"replicas": int64(2)},
		}}
		if err := cl.Create(t.Context(), md); err != nil {
			t.Fatal(err)
		}
		if _, ok := md.Object["status"]; ok {
			t.Error("status was written without its subresource")
		}
		if _, ok := md.Object["spec"].(map[string]any)["anything"]; !ok {
			t.Error("an unknown field was dropped")
		}
		scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
		if err := cl.SubResource("scale").Get(t.Context(), md, scale); err != nil {
			t.Fatal(err)
		}
		if n, _, _ := unstructured.NestedInt64(scale.Object, "spec", "replicas"); n != 3 {
			t.Errorf("scale says %d replicas, the object 3", n)
		}
	})
}

func TestApply(t *testing.T) {
	c := cluster.Shared(t)
	ns := c.Namespace(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	group := ns + ".example.com" // a kind that no other test has
	write("1-object.yaml", fmt.Sprintf("apiVersion: %s/v1\nkind: Thing\nmetadata: {name: a, namespace: %s}\nspec: {n: 1}\n", group, ns))
	write("2-definition.yaml", fmt.Sprintf(`# a comment
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.%[1]s}
spec:
  group: %[1]s
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, group))
	for range 2 { // twice is as good as once
		if err := c.Apply(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct{ path, want string }{
		"a missing file is named":      {filepath.Join(dir, "missing.yaml"), "missing.yaml"},
		"a broken file is named":       {write("broken.txt", "a: [1\n"), "broken.txt"},
		"a refused object is named":    {write("refused.txt", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: UPPER, namespace: default}\n"), `ConfigMap "UPPER"`},
		"an empty directory is no set": {t.TempDir(), "no .yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.Apply(t.Context(), tc.path); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// Kinds that no client has read since they were applied are deleted at once too, and others remain.
func TestUninstall(t *testing.T) {
	c := cluster.Shared(t)
	group := c.Namespace(t) + ".example.com"
	path := filepath.Join(t.TempDir(), "definitions.yaml")
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things%[2]d.%[1]s}
spec:
  group: %[1]s
  names: {kind: Thing%[2]d, listKind: Thing%[2]dList, plural: things%[2]d, singular: thing%[2]d}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
`, group, i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if err := c.Uninstall(t.Context(), func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Spec.Group == group && crd.Spec.Names.Plural != "things7"
	}); err != nil {
		t.Fatal(err)
	}
	var left apiextensionsv1.CustomResourceDefinitionList
	if err := c.Client(t).List(t.Context(), &left); err != nil {
		t.Fatal(err)
	}
	left.Items = slices.DeleteFunc(left.Items, func(crd apiextensionsv1.CustomResourceDefinition) bool { return crd.Spec.Group != group })
	if len(left.Items) != 1 || left.Items[0].Name != "things7."+group {
		t.Errorf("%d are left: %v", len(left.Items), left.Items)
	}
}

func TestStart(t *testing.T) {
	c := cluster.Start(t, cluster.Options{SeparateAPIServer: true, Audit: true})
	cl := c.Client(t)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default"}}
	if err := cl.Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}

	if err := c.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server is away", func() error { // a client would retry by itself
		if conn, err := net.Dial("tcp", strings.TrimPrefix(c.URL, "https://")); err == nil {
			conn.Close()
			return errors.New("the API server still listens")
		}
		return nil
	})
	eventually(t, "the API server answers again", func() error { return cl.Get(t.Context(), client.ObjectKeyFromObject(cm), cm) })

	if !audited(t, c.AuditLog(), "create", "configmaps", "kept") {
		t.Error("the audit log does not hold the creation of a ConfigMap")
	}
}

func TestRun(t *testing.T) {
	cluster.Shared(t) // skips if no control plane can be started
	dir := t.TempDir()
	first, err := cluster.Run(t.Context(), dir, cluster.Options{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept", Namespace: "default"}}
	if err := first.Client(t).Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	first.Stop()
	first.Stop() // does no harm
	if err := first.Client(t).Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err == nil {
		t.Error("a stopped control plane still answers")
	}
	second, err := cluster.Run(t.Context(), dir, cluster.Options{}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Stop)
	if err := second.Client(t).Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil {
		t.Errorf("a second run on the same directory does not go on from there: %v", err)
	}

	if _, err := cluster.Run(t.Context(), t.TempDir(), cluster.Options{APIServerArgs: []string{"--no-such-flag"}}, io.Discard); err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("a control plane that does not start says %v, not why", err)
	}
}

// TestKilled shows that nothing is left of a control plane when the process that
// started it is killed: neither the program nor its children.
func TestKilled(t *testing.T) {
	cluster.Shared(t) // skips if no control plane can be started
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "holding\n" {
		t.Fatalf("got %q (%v)", line, err)
	}
	eventually(t, "the processes run", func() error {
		if n := len(processes(t, dir)); n < 3 { // itself, kube-apiserver, kube-controller-manager
			return fmt.Errorf("%d processes run", n)
		}
		return nil
	})
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "no process is left", func() error {
		if left := processes(t, dir); len(left) > 0 {
			return fmt.Errorf("left behind: %q", left)
		}
		return nil
	})
}

// processes lists the command lines that name a directory.
func processes(t *testing.T, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d processes (%v)", len(paths), err)
	}
	var found []string
	for _, path := range paths {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), dir) {
			found = append(found, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}

func audited(t *testing.T, path, verb, resource, name string) bool {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e struct {
			Verb      string
			ObjectRef struct{ Resource, Name string }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Verb == verb && e.ObjectRef.Resource == resource && e.ObjectRef.Name == name {
			return true
		}
	}
	return false
}

// eventually waits for a condition, with patience for a machine that compiles meanwhile.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	testenv.Await(t, 2*time.Minute, what, condition)
}
