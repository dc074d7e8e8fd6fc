package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/inspect/trace"
)

// trace asks the program, with the rights of a kubeconfig.
func (s *system) trace(kubeconfig, subject string, flags ...string) *trace.Trail {
	s.t.Helper()
	status, out, errs := s.runs(append([]string{"trace", subject, "--kubeconfig", kubeconfig, "-o", "json", "--git-hosts", "127.0.0.1=gitea"}, flags...)...)
	var tr trace.Trail
	if err := json.Unmarshal([]byte(out), &tr); err != nil || status != 0 {
		s.t.Fatalf("trace %s: status %d, err %v\n%s%s", subject, status, err, errs, out)
	}
	return &tr
}

// origin is what the git command says about the profile that is there now.
func (g *gitServer) origin(name string) *trace.Commit {
	g.t.Helper()
	path := "profiles/" + name
	c := &trace.Commit{Repository: g.url, Path: path, Commit: g.run("log", "--first-parent", "-1", "--format=%H", "--", path), Change: g.run("log", "-1", "--format=%H", "--", path)}
	c.SelectedBy = c.Commit
	c.Author = strings.ReplaceAll(g.run("log", "-1", "--format=%an <%ae>", "--", path), "\u202e", "")
	at, err := time.Parse(time.RFC3339, g.run("log", "-1", "--format=%cI", c.Commit))
	if err != nil {
		g.t.Fatal(err)
	}
	c.CommittedAt = at.UTC().Format(time.RFC3339)
	base := strings.TrimSuffix(g.url, ".git")
	c.Link, c.FileLink = base+"/commit/"+c.Commit, base+"/src/commit/"+c.Commit+"/"+path
	if c.Change != c.Commit {
		c.ChangeLink = base + "/commit/" + c.Change
	}
	return c
}

// What trace says of every node is what the git command says: over a push, a merge and a
// revert, all signed, with a restart between, from the cluster and from a dump of it.
func TestTrace(t *testing.T) {
	const settle = 7 * time.Second // see TestProvenance
	s := newSystem(t)
	key, line := signer(t, "ada@example.com")
	s.git.signedBy(key)
	s.trust(line)
	first := s.git.push(map[string]string{"a.yaml": osp("osp-a", "v1.0.0", "echo one")})
	s.source(gitSpec("verify", map[string]any{"mode": "HEAD", "secretRef": map[string]any{"name": "signers"}}))
	s.start()
	s.ready(first)
	s.pool("pool-a", "osp-a")
	_, provisioning := s.served("pool-a", "v1.0.0")
	want := map[*corev1.Node]*trace.Commit{}
	one := s.joins("pool-a", "one", provisioning)
	want[one] = s.git.origin("a.yaml")
	s.comesFrom(one, api.EvidenceReported, "v1.0.0", first, api.BehindNo)
	time.Sleep(settle)

	second := s.git.merge(map[string]string{"a.yaml": osp("osp-a", "v1.1.0", "echo two")}, "\x1b[31mred", "Grace \u202e<grace@example.com>")
	_, provisioning = s.served("pool-a", "v1.1.0")
	two, three := s.joins("pool-a", "two", provisioning), s.joins("pool-a", "three", nil)
	want[two], want[three] = s.git.origin("a.yaml"), s.git.origin("a.yaml")
	s.eventually("both to be known", func() error { return s.written(two, three) })
	s.stop()
	time.Sleep(settle)
	s.git.run("revert", "--no-edit", "-m", "1", "HEAD")
	s.git.run("push", "-q", "origin", "main")
	s.start()
	_, provisioning = s.served("pool-a", "v1.0.0")
	four := s.joins("pool-a", "four", provisioning)
	reverted := *want[one] // what the content is from, not who brought it back
	reverted.SelectedBy = s.git.run("rev-parse", "HEAD")
	want[four] = &reverted
	s.eventually("the last to be known", func() error { return s.written(four) })
	s.must(s.client.Delete(t.Context(), three))
	s.eventually("the removal to be noted", func() error {
		tr := s.trace(s.cluster.Kubeconfig, "node/"+three.Name)
		if tr.Node.Removed == nil {
			return fmt.Errorf("got %+v", tr.Node)
		}
		return nil
	})

	dump := filepath.Join(t.TempDir(), "dump.jsonl.gz")
	if status, _, errs := s.runs("trace", "--dump", dump, "--kubeconfig", s.cluster.Kubeconfig); status != 0 || !strings.Contains(errs, "without credentials") {
		t.Fatalf("dump: status %d, %s", status, errs)
	}
	for node, commit := range want {
		tr := s.trace(s.cluster.Kubeconfig, "node/"+node.Name)
		if !strings.HasPrefix(tr.Commit.Signature, "commit "+commit.Commit+" by ada@example.com, ssh SHA256:") {
			t.Errorf("%s: the signature is %q", node.Name, tr.Commit.Signature)
		}
		tr.Commit.Signature = ""
		if diff := cmp.Diff(commit, tr.Commit); diff != "" {
			t.Errorf("%s (-git +trace):\n%s", node.Name, diff)
		}
		for _, step := range tr.Steps {
			if step.State != trace.Found && step.State != trace.Removed {
				t.Errorf("%s: %+v", node.Name, step)
			}
		}
		_, offline, _ := s.runs("trace", "node/"+node.Name, "--from", dump, "-o", "json", "--git-hosts", "127.0.0.1=gitea")
		_, online, _ := s.runs("trace", "node/"+node.Name, "--kubeconfig", s.cluster.Kubeconfig, "-o", "json", "--git-hosts", "127.0.0.1=gitea")
		if diff := cmp.Diff(online, offline); diff != "" {
			t.Errorf("%s (-cluster +dump):\n%s", node.Name, diff)
		}
	}
	s.run("from other ends", func(t *testing.T) { s.traceOthers(two, second) })
	s.run("with few rights", func(t *testing.T) { s.traceWithFewRights(two, want[two]) })
	s.run("a configuration of somebody else", func(t *testing.T) { s.traceForeign(two) })
}

// written reports whether something is written about nodes.
func (s *system) written(nodes ...*corev1.Node) error {
	for _, node := range nodes {
		var list api.NodeProvenanceList
		if err := s.client.List(s.t.Context(), &list); err != nil {
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
	admin := s.cluster.Kubeconfig
	if tr := s.trace(admin, "commit/"+second[:10]); tr.Born.Total != 2 || tr.Born.Present != 1 || tr.Commit.Commit != second {
		s.t.Errorf("commit: %+v", tr.Born)
	}
	if tr := s.trace(admin, "machinedeployment/"+s.pools+"/pool-a"); tr.Version != "v1.0.0" || tr.Born.Total != 4 || tr.Born.Behind != 1 {
		s.t.Errorf("pool: %+v, %+v", tr, tr.Born)
	}
	for _, subject := range []string{"osc/pool-a-" + s.pools + "-config", "secret/pool-a-" + s.pools + "-bootstrap-config", "machine/" + s.pools + "/four", "osp/osp-a-v1.0.0"} {
		if tr := s.trace(admin, subject); tr.Version != "v1.0.0" || tr.Commit == nil {
			s.t.Errorf("%s: %+v", subject, tr)
		}
	}
	status, out, errs := s.runs("trace", "node/"+two.Name, "--kubeconfig", admin, "--diff")
	if status != 0 || !strings.Contains(out, "\n-echo two\n+echo one\n") {
		s.t.Errorf("diff: status %d\n%s%s", status, errs, out)
	}
	bootstrap, provisioning, err := s.secrets("pool-a")
	s.must(err)
	for _, secret := range []*corev1.Secret{bootstrap, provisioning} {
		for _, token := range tokensIn(string(secret.Data[api.UserDataKey])) {
			if strings.Contains(out, token) {
				s.t.Error("the diff shows a token")
			}
		}
	}
	if strings.ContainsAny(out, "\x1b\u202e") {
		s.t.Error("the output does something to a terminal (security.md 28)")
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

// Who may read neither Secrets nor records is told so, and gets the commit all the same.
func (s *system) traceWithFewRights(node *corev1.Node, want *trace.Commit) {
	rule := func(group, resource string) map[string]any {
		return map[string]any{"apiGroups": []any{group}, "resources": []any{resource}, "verbs": []any{"get", "list"}}
	}
	s.apply(map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "auditor", "namespace": s.pools}})
	s.apply(map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "auditor-" + s.pools}, "rules": []any{
		rule("", "nodes"), rule(machines.GroupVersion.Group, "*"), rule(osm.GroupVersion.Group, "*"), rule(api.GroupVersion.Group, "*"),
	}})
	s.apply(map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": map[string]any{"name": "auditor-" + s.pools},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "auditor-" + s.pools},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "namespace": s.pools, "name": "auditor"}},
	})
	identity := s.kubeconfigOf(s.pools, "auditor")
	var tr *trace.Trail
	s.eventually("the rights to hold", func() error {
		if status, _, errs := s.runs("trace", "node/"+node.Name, "--kubeconfig", identity); status != 0 {
			return fmt.Errorf("%s", errs)
		}
		return nil
	})
	tr = s.trace(identity, "node/"+node.Name)
	tr.Commit.Signature = ""
	if diff := cmp.Diff(want, tr.Commit); diff != "" {
		s.t.Errorf("the commit (-git +trace):\n%s", diff)
	}
	for _, kind := range []string{"Secret", "ControllerRevision"} {
		if step := tr.Step(kind); step == nil || step.State != trace.Unreadable {
			s.t.Errorf("%s: %+v", kind, step)
		}
	}
	dump := filepath.Join(s.t.TempDir(), "dump.jsonl")
	status, _, errs := s.runs("trace", "--dump", dump, "--kubeconfig", identity)
	if status != 0 || !strings.Contains(errs, "warning: not in the dump: Secret: you may not read it") {
		s.t.Errorf("dump: status %d, %s", status, errs)
	}
	info, err := os.Stat(dump)
	if err != nil || info.Mode().Perm() != 0o600 {
		s.t.Errorf("the dump is %v (err %v)", info, err)
	}
}

// TestTraceOfWhatMayNotBeRead: a user without any right is told that it is not known whether
// there is what they ask for, in one namespace and in all, never that there is none.
func TestTraceOfWhatMayNotBeRead(t *testing.T) {
	s := newSystem(t)
	s.pool("there", "osp-a")
	s.apply(map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": map[string]any{"name": "nobody", "namespace": s.pools}})
	identity := s.kubeconfigOf(s.pools, "nobody")
	for _, subject := range []string{
		"machinedeployment/" + s.pools + "/there", "machinedeployment/" + s.pools + "/not-there", "machinedeployment/there", "machine/there", "machine/" + s.pools + "/there",
		"node/there", "nodeprovenance/there", "osc/there-" + s.pools + "-config", "osp/osp-a", "secret/there-" + s.pools + "-bootstrap-config", "commit/0123456",
	} {
		status, out, errs := s.runs("trace", subject, "--kubeconfig", identity)
		told := out + errs
		if status != 1 || !strings.Contains(told, "you may not read it") {
			t.Errorf("%s: status %d: %s", subject, status, told)
		}
		for _, denial := range []string{"there is no ", "does not exist", "REMOVED", "MISSING", "the pool is gone"} {
			if strings.Contains(told, denial) {
				t.Errorf("%s: it says %q: %s", subject, denial, told)
			}
		}
	}
}

// A configuration that operating-system-manager put in place of ours is said to be
// somebody else's, and a dump of it holds nothing of it.
func (s *system) traceForeign(two *corev1.Node) {
	s.stop()
	name := "pool-a-" + s.pools + "-config"
	var osc osm.OperatingSystemConfig
	s.must(s.get(namespace, name, &osc))
	s.must(s.client.Delete(s.t.Context(), &osc))
	foreign := &osm.OperatingSystemConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{api.AnnotationOSPVersion: "v1.0.0"}}, Spec: *osc.Spec.DeepCopy()}
	foreign.Spec.BootstrapConfig.Files[0].Content.Inline.Data = "the token of somebody else"
	s.must(s.client.Create(s.t.Context(), foreign))
	tr := s.trace(s.cluster.Kubeconfig, "node/"+two.Name)
	if step := tr.Step("OperatingSystemConfig"); step.State != trace.Foreign || tr.Behind.State != api.BehindUnknown || tr.Version != "v1.1.0" {
		s.t.Errorf("got %+v, %+v", step, tr.Behind)
	}
	status, out, _ := s.runs("trace", "osc/"+name, "--kubeconfig", s.cluster.Kubeconfig)
	if status != 1 || !strings.Contains(out, "OperatingSystemConfig "+namespace+"/"+name+": FOREIGN: ") {
		s.t.Errorf("status %d\n%s", status, out)
	}
	dump := filepath.Join(s.t.TempDir(), "dump.jsonl")
	if status, _, errs := s.runs("trace", "--dump", dump, "--kubeconfig", s.cluster.Kubeconfig); status != 0 {
		s.t.Fatal(errs)
	}
	text, err := os.ReadFile(dump)
	s.must(err)
	if strings.Contains(string(text), "the token of somebody else") {
		s.t.Error("the dump holds a configuration with credentials")
	}
}
