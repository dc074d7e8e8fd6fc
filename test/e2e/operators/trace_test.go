package operators

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// What trace says of every node is what the git command says: over a push, a merge and a
// revert, all signed, with a restart between, from the cluster and from a dump of it.
func TestTrace(t *testing.T) {
	s := newSystem(t)
	key, line := e2e.Signer(t, "ada@example.com")
	s.Git.SignedBy(key)
	s.Trust(line)
	first := s.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	s.Source(e2e.GitSpec("verify", map[string]any{"mode": "HEAD", "secretRef": map[string]any{"name": "signers"}}))
	s.Start()
	s.Ready(first)
	s.Pool("pool-a", "osp-a")
	_, provisioning := s.Served("pool-a", "v1.0.0")
	want := map[*corev1.Node]*trace.Commit{}
	one := s.Joins("pool-a", "one", provisioning)
	want[one] = s.Git.Origin("a.yaml")
	s.ComesFrom(one, api.EvidenceReported, "v1.0.0", first, api.BehindNo)
	apart()

	second := s.Git.Merge(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")}, "\x1b[31mred", "Grace \u202e<grace@example.com>")
	_, provisioning = s.Served("pool-a", "v1.1.0")
	two, three := s.Joins("pool-a", "two", provisioning), s.Joins("pool-a", "three", nil)
	want[two], want[three] = s.Git.Origin("a.yaml"), s.Git.Origin("a.yaml")
	s.Eventually("both to be known", func() error { return s.written(two, three) })
	s.Stop()
	apart()
	s.Git.Run("revert", "--no-edit", "-m", "1", "HEAD")
	s.Git.Run("push", "-q", "origin", "main")
	s.Start()
	_, provisioning = s.Served("pool-a", "v1.0.0")
	four := s.Joins("pool-a", "four", provisioning)
	reverted := *want[one] // what the content is from, not who brought it back
	reverted.SelectedBy = s.Git.Run("rev-parse", "HEAD")
	want[four] = &reverted
	s.Eventually("the last to be known", func() error { return s.written(four) })
	s.Must(s.Client.Delete(t.Context(), three))
	s.Eventually("the removal to be noted", func() error {
		tr := s.Trace(s.Cluster.Kubeconfig, "node/"+three.Name)
		if tr.Node.Removed == nil {
			return fmt.Errorf("got %+v", tr.Node)
		}
		return nil
	})

	dump := filepath.Join(t.TempDir(), "dump.jsonl.gz")
	if status, _, errs := s.Runs("trace", "--dump", dump, "--kubeconfig", s.Cluster.Kubeconfig); status != 0 || !strings.Contains(errs, "without credentials") {
		t.Fatalf("dump: status %d, %s", status, errs)
	}
	for node, commit := range want {
		tr := s.Trace(s.Cluster.Kubeconfig, "node/"+node.Name)
		if !strings.HasPrefix(tr.Commit.Signature, "commit "+commit.Commit+" by ada@example.com, ssh SHA256:") {
			t.Errorf("%s: the signature is %q", node.Name, tr.Commit.Signature)
		}
		tr.Commit.Signature = ""
		if diff := cmp.Diff(commit, tr.Commit); diff != "" {
			t.Errorf("%s (-git +trace):\n%s", node.Name, diff)
		}
		for _, step := range tr.Steps {
			if step.State != trace.Found && step.State != trace.Removed && step.State != trace.Replaced {
				t.Errorf("%s: %+v", node.Name, step)
			}
		}
		_, offline, _ := s.Runs("trace", "node/"+node.Name, "--from", dump, "-o", "json", "--git-hosts", "127.0.0.1=gitea")
		_, online, _ := s.Runs("trace", "node/"+node.Name, "--kubeconfig", s.Cluster.Kubeconfig, "-o", "json", "--git-hosts", "127.0.0.1=gitea")
		if diff := cmp.Diff(online, offline); diff != "" {
			t.Errorf("%s (-cluster +dump):\n%s", node.Name, diff)
		}
	}
	s.Run("from other ends", func(t *testing.T) { s.traceOthers(two, second) })
	s.Run("with few rights", func(t *testing.T) { s.traceWithFewRights(two, want[two]) })
	s.Run("a configuration of somebody else", func(t *testing.T) { s.traceForeign(two) })
}

// written reports whether something is written about nodes.
func (s *system) written(nodes ...*corev1.Node) error {
	for _, node := range nodes {
		var list api.NodeProvenanceList
		if err := s.Client.List(s.T.Context(), &list); err != nil {
			return err
		}
		found := false
		for _, np := range list.Items {
			found = found || np.Spec.Node.UID == node.UID && np.Status.Behind != ""
		}
		if !found {
			return fmt.Errorf("nothing is written about %s", node.Name)
		}
	}
	return nil
}

func (s *system) traceOthers(two *corev1.Node, second string) {
	admin := s.Cluster.Kubeconfig
	if tr := s.Trace(admin, "commit/"+second[:10]); tr.Nodes.Total != 2 || tr.Nodes.Present != 1 || tr.Commit.Commit != second {
		s.T.Errorf("commit: %+v", tr.Nodes)
	}
	if tr := s.Trace(admin, "machinedeployment/"+s.Pools+"/pool-a"); tr.Version != "v1.0.0" || tr.Nodes.Total != 4 || tr.Nodes.Behind != 1 {
		s.T.Errorf("pool: %+v, %+v", tr, tr.Nodes)
	}
	for _, subject := range []string{"osc/pool-a-" + s.Pools + "-config", "secret/pool-a-" + s.Pools + "-bootstrap-config", "machine/" + s.Pools + "/four", "osp/osp-a-v1.0.0"} {
		if tr := s.Trace(admin, subject); tr.Version != "v1.0.0" || tr.Commit == nil {
			s.T.Errorf("%s: %+v", subject, tr)
		}
	}
	status, out, errs := s.Runs("trace", "node/"+two.Name, "--kubeconfig", admin, "--diff")
	if status != 0 || !strings.Contains(out, "\n-echo two\n+echo one\n") {
		s.T.Errorf("diff: status %d\n%s%s", status, errs, out)
	}
	bootstrap, provisioning, err := s.Secrets("pool-a")
	s.Must(err)
	for _, secret := range []*corev1.Secret{bootstrap, provisioning} {
		for _, token := range tokensIn(string(secret.Data[api.UserDataKey])) {
			if strings.Contains(out, token) {
				s.T.Error("the diff shows a token")
			}
		}
	}
	if strings.ContainsAny(out, "\x1b\u202e") {
		s.T.Error("the output does something to a terminal (security.md 28)")
	}
}

// tokensIn are the bearer tokens in a document.
func tokensIn(document string) []string {
	var out []string
	for _, part := range strings.Split(document, "Bearer ")[1:] {
		token, _, _ := strings.Cut(part, "'")
		out = append(out, token)
	}
	return out
}

// A user without access to Secrets and records gets a note about it, and the commit all the same.
// reader makes a ServiceAccount that may get and list resources, each with its group, and
// returns its kubeconfig.
func (s *system) reader(name string, resources ...[2]string) string {
	var rules []any
	for _, r := range resources {
		rules = append(rules, map[string]any{"apiGroups": []any{r[0]}, "resources": []any{r[1]}, "verbs": []any{"get", "list", "watch"}})
	}
	s.Apply(map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": name, "namespace": s.Pools}})
	s.Apply(map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": name + "-" + s.Pools}, "rules": rules})
	s.Apply(map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": name + "-" + s.Pools},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name + "-" + s.Pools},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": s.Pools, "name": name}},
	})
	return s.KubeconfigOf(s.Pools, name)
}

func (s *system) traceWithFewRights(node *corev1.Node, want *trace.Commit) {
	identity := s.reader("auditor", [2]string{"", "nodes"}, [2]string{machines.GroupVersion.Group, "*"}, [2]string{osm.GroupVersion.Group, "*"}, [2]string{api.GroupVersion.Group, "*"})
	var tr *trace.Result
	s.Eventually("the rights to hold", func() error {
		if status, _, errs := s.Runs("trace", "node/"+node.Name, "--kubeconfig", identity); status != 0 {
			return fmt.Errorf("%s", errs)
		}
		return nil
	})
	tr = s.Trace(identity, "node/"+node.Name)
	tr.Commit.Signature = ""
	if diff := cmp.Diff(want, tr.Commit); diff != "" {
		s.T.Errorf("the commit (-git +trace):\n%s", diff)
	}
	for _, kind := range []string{"Secret", "ControllerRevision"} {
		if step := tr.Step(kind); step == nil || step.State != trace.Unreadable {
			s.T.Errorf("%s: %+v", kind, step)
		}
	}
	dump := filepath.Join(s.T.TempDir(), "dump.jsonl")
	status, _, errs := s.Runs("trace", "--dump", dump, "--kubeconfig", identity)
	if status != 0 || !strings.Contains(errs, "warning: not in the dump: Secret: you have no permission to read it") {
		s.T.Errorf("dump: status %d, %s", status, errs)
	}
	info, err := os.Stat(dump)
	if err != nil || info.Mode().Perm() != 0o600 {
		s.T.Errorf("the dump is %v (err %v)", info, err)
	}
}

// TestTraceOfWhatMayNotBeRead: for a user without any right trace reports, for one namespace and
// for all, that it is unknown if the object exists, never that it does not exist.
func TestTraceOfWhatMayNotBeRead(t *testing.T) {
	s := newSystem(t)
	s.Pool("there", "osp-a")
	s.Apply(map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "nobody", "namespace": s.Pools}})
	identity := s.KubeconfigOf(s.Pools, "nobody")
	for _, subject := range []string{
		"machinedeployment/" + s.Pools + "/there", "machinedeployment/" + s.Pools + "/not-there", "machinedeployment/there", "machine/there", "machine/" + s.Pools + "/there",
		"node/there", "nodeprovenance/there", "osc/there-" + s.Pools + "-config", "osp/osp-a", "secret/there-" + s.Pools + "-bootstrap-config", "commit/0123456",
	} {
		status, out, errs := s.Runs("trace", subject, "--kubeconfig", identity)
		told := out + errs
		if status != 1 || !strings.Contains(told, "you have no permission to read it") {
			t.Errorf("%s: status %d: %s", subject, status, told)
		}
		for _, denial := range []string{"there is no ", "does not exist", "REMOVED", "MISSING", "the pool was deleted"} {
			if strings.Contains(told, denial) {
				t.Errorf("%s: it says %q: %s", subject, denial, told)
			}
		}
	}
}

// A configuration that operating-system-manager wrote over ours is reported as foreign, and a
// snapshot of the cluster contains nothing of it.
func (s *system) traceForeign(two *corev1.Node) {
	s.Stop()
	name := "pool-a-" + s.Pools + "-config"
	var osc osm.OperatingSystemConfig
	s.Must(s.Get(e2e.Namespace, name, &osc))
	s.Must(s.Client.Delete(s.T.Context(), &osc))
	foreign := &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: name, Annotations: map[string]string{api.AnnotationOSPVersion: "v1.0.0"}}, Spec: *osc.Spec.DeepCopy()}
	foreign.Spec.BootstrapConfig.Files[0].Content.Inline.Data = "the token of somebody else"
	s.Must(s.Client.Create(s.T.Context(), foreign))
	tr := s.Trace(s.Cluster.Kubeconfig, "node/"+two.Name)
	if step := tr.Step("OperatingSystemConfig"); step.State != trace.Foreign || tr.Behind.State != api.BehindUnknown || tr.Version != "v1.1.0" {
		s.T.Errorf("got %+v, %+v", step, tr.Behind)
	}
	status, out, _ := s.Runs("trace", "osc/"+name, "--kubeconfig", s.Cluster.Kubeconfig)
	if status != 1 || !strings.Contains(out, "OperatingSystemConfig "+e2e.Namespace+"/"+name+": FOREIGN: ") {
		s.T.Errorf("status %d\n%s", status, out)
	}
	dump := filepath.Join(s.T.TempDir(), "dump.jsonl")
	if status, _, errs := s.Runs("trace", "--dump", dump, "--kubeconfig", s.Cluster.Kubeconfig); status != 0 {
		s.T.Fatal(errs)
	}
	text, err := os.ReadFile(dump)
	s.Must(err)
	if strings.Contains(string(text), "the token of somebody else") {
		s.T.Error("the dump holds a configuration with credentials")
	}
}
