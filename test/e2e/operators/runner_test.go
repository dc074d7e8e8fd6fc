package operators

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/clusterfixture"
	"github.com/osm-gitops/osm-gitops/test/e2e"
	"github.com/osm-gitops/osm-gitops/test/runner"
)

// hostile is what an attacker writes into names, fields and messages: a line that is a command to
// a runner, commands in the middle of a line, control characters, marks of direction.
var hostile = "x\n::stop-commands::y\n" + strings.Join(runner.Hostile, "\n") + "\nz\x1b[31m\u009b31m\x7f\u202e\u2066\ufeff\U000e0041"

// commandLines are the command lines that run in a CI job, by verb; each verb has at least one.
// In an argument DIR is replaced by the folder of hostile files, KUBECONFIG by the cluster's,
// HOSTILE by a hostile name.
var commandLines = map[string][]string{
	"boots": {"--pool shop/HOSTILE --kubeconfig KUBECONFIG", "--pool HOSTILE", "HOSTILE"},
	"bundle": {
		"--machine-deployments DIR/pools --profile DIR/profiles/good.yaml", "--machine-deployments DIR/pools --profile DIR/profiles/good.yaml -o json",
		"--machine-deployments DIR/pools --profile DIR/profiles/good.yaml -o mirrors", "--machine-deployments DIR/pools --profile DIR/bad", "HOSTILE",
	},
	"completion": {"HOSTILE"},
	"controller": {"DRYRUN -o text", "DRYRUN -o json", "--log-format HOSTILE", "HOSTILE"},
	"diff": {
		"HOSTILE --repo DIR --machine-deployments DIR/pools --cluster DIR/cluster.yaml", "HEAD~1 --repo DIR --snapshot HOSTILE",
		"HEAD~1 --repo DIR --machine-deployments DIR/pools --cluster DIR/cluster.yaml", "HEAD~1 --repo DIR --machine-deployments DIR/pools --cluster DIR/cluster.yaml -o markdown",
		"HEAD~1 --repo DIR --machine-deployments DIR/pools --cluster DIR/cluster.yaml -o json", "HEAD~1 --repo DIR --kubeconfig KUBECONFIG",
	},
	"doctor":  {"--kubeconfig KUBECONFIG", "--kubeconfig KUBECONFIG -o json", "--kubeconfig KUBECONFIG --ask-git --allow-insecure-git --git-allowed-cidrs 127.0.0.0/8", "--namespace HOSTILE --kubeconfig KUBECONFIG", "HOSTILE"},
	"get":     {"sources --kubeconfig KUBECONFIG -o json", "sources --kubeconfig KUBECONFIG -o yaml", "pools -A --kubeconfig KUBECONFIG -o json", "pools -A --kubeconfig KUBECONFIG -o yaml", "pools -A HOSTILE --kubeconfig KUBECONFIG", "HOSTILE"},
	"history": {"md/HOSTILE --kubeconfig KUBECONFIG", "HOSTILE"},
	"handback": {
		"--kubeconfig KUBECONFIG --namespace kube-system --dry-run", "--kubeconfig HOSTILE --namespace kube-system --dry-run", "HOSTILE",
	},
	"import": {
		"-f DIR/manifests", "-f DIR/manifests -o json", "-f DIR/manifests --to DIR/imported", "-f DIR/bad", "--kubeconfig KUBECONFIG", "--kubeconfig KUBECONFIG -o json", "HOSTILE",
	},
	"init":           {"DIR/init/HOSTILE", "DIR/new --system HOSTILE", "DIR/new --profile HOSTILE"},
	"lint":           {"DIR/bad", "DIR/bad -o json", "DIR/bad -o sarif", "DIR/bad -o junit", "DIR/profiles", "DIR/profiles -o sarif", "HOSTILE"},
	"pin":            {"md/HOSTILE v1.0.0 --kubeconfig KUBECONFIG", "md/pool HOSTILE"},
	"rebase-overlay": {"DIR/over/over.yaml", "DIR/over/over.yaml --write", "DIR/over/over.yaml --profile HOSTILE", "HOSTILE"},
	"render": {
		"--profile DIR/profiles/good.yaml --machine-deployment DIR/pools/pool.yaml --cluster DIR/cluster.yaml -o osc",
		"--repo DIR --path bad --machine-deployment DIR/pools/pool.yaml --cluster DIR/cluster.yaml", "--repo DIR --revision HOSTILE --machine-deployment DIR/pools/pool.yaml --cluster DIR/cluster.yaml", "HOSTILE",
	},
	"reconcile": {"source/HOSTILE --kubeconfig KUBECONFIG", "source/osps --wait --kubeconfig KUBECONFIG --timeout 1s --context HOSTILE"},
	"release":   {"HOSTILE@v1.0.0 --kubeconfig KUBECONFIG", "HOSTILE"},
	"resume":    {"source/HOSTILE --kubeconfig KUBECONFIG", "HOSTILE"},
	"schema":    {"HOSTILE"},
	"snapshot":  {"--kubeconfig KUBECONFIG", "--kubeconfig HOSTILE", "HOSTILE"},
	"suspend":   {"md/HOSTILE --kubeconfig KUBECONFIG", "source/a --show-kubectl --kubeconfig HOSTILE"},
	"trace": {
		"node/one --from DIR/dump.jsonl", "node/one --from DIR/dump.jsonl -o json", "node/one --from DIR/dump.jsonl -o yaml", "node/one --from DIR/whole.jsonl -o intoto",
		"node/one --from DIR/whole.jsonl --diff", "osp/osp-x-v1.0.0 --from DIR/dump.jsonl", "osp/osp-x-v1.0.0 --from DIR/dump.jsonl -o yaml", "node/HOSTILE --from DIR/dump.jsonl", "HOSTILE",
	},
	"unpin": {"md/HOSTILE --kubeconfig KUBECONFIG", "HOSTILE"},
	"ui":    {"--address HOSTILE", "--from HOSTILE --address 0", "HOSTILE"},
	"verify": {
		"node/one --from DIR/dump.jsonl", "node/one --from DIR/dump.jsonl -o json", "node/one --from DIR/dump.jsonl -o yaml", "node/one --from DIR/dump.jsonl --repo DIR -o yaml",
		"node/HOSTILE --from DIR/dump.jsonl", "node/one --from DIR/dump.jsonl --keys HOSTILE", "--audit-log HOSTILE", "HOSTILE",
	},
	"version": {"HOSTILE"},
}

// Hostile text in names, fields, messages, commits, objects and arguments never becomes a command
// to the runner of a job in any verb, and nothing that controls a terminal or hides text is
// printed (security.md 39, 45).
func TestVerbsInARunner(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "true")
	s := newSystem(t)
	dir := s.hostileFiles()
	s.hostileObjects()
	identity := s.kubeconfigOfDryRun()

	_, help, _ := s.Runs("--help")
	help, _, _ = strings.Cut(help, "\nFlags:\n")
	var verbs []string
	for _, m := range regexp.MustCompile(`(?m)^  (\S+) +[a-z]`).FindAllStringSubmatch(help, -1) {
		if m[1] != "help" { // cobra's own
			verbs = append(verbs, m[1])
		}
	}
	slices.Sort(verbs) // the help has them in groups
	if known := slices.Sorted(maps.Keys(commandLines)); !slices.Equal(verbs, known) {
		t.Errorf("the verbs are %q, and here are %q", verbs, known)
	}
	for _, verb := range verbs {
		for _, line := range commandLines[verb] {
			s.Run(verb+" "+line, func(t *testing.T) {
				var args []string
				for arg := range strings.FieldsSeq(line) {
					if arg == "DRYRUN" {
						args = append(args, s.Args(identity, "--dry-run", "--cache-dir", t.TempDir())[1:]...)
						continue
					}
					args = append(args, strings.NewReplacer("DIR", dir, "KUBECONFIG", s.Cluster.Kubeconfig, "HOSTILE", strings.ReplaceAll(hostile, "/", "_")).Replace(arg))
				}
				_, out, errs := s.Runs(append([]string{verb}, args...)...)
				said := strings.ReplaceAll(out+errs, "\u200b", "")
				if !strings.Contains(said, "stop-commands") && !strings.Contains(said, "set-output") && !strings.Contains(said, "add-mask") {
					t.Errorf("it says nothing of a stranger: %s%s", out, errs)
				}
				for _, command := range runner.Commands(out + "\n" + errs) {
					t.Errorf("command %q", command)
				}
				for _, r := range out + errs {
					// A space without width is what breaks commands and links.
					if r != '\n' && r != '\t' && r != '\u200b' && !unicode.IsGraphic(r) {
						t.Errorf("%U in %q", r, out+errs)
						break
					}
				}
				if strings.HasSuffix(line, "-o json") && out != "" && !json.Valid([]byte(out)) {
					t.Errorf("no JSON: %s", out)
				}
				if strings.HasSuffix(line, "-o yaml") && out != "" && yaml.Unmarshal([]byte(out), new(any)) != nil {
					t.Errorf("no YAML: %s", out)
				}
			})
		}
	}
	s.NoError(filepath.WalkDir(filepath.Join(dir, "imported"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, bad := range []string{"](https://evil", "<img", "@everyone", "\u202e", "\u2066", "\ufeff", "\U000e0041", "\u009b", "\x1b", "\x7f"} {
			if strings.Contains(string(text), bad) && (bad[0] > '~' || bad[0] < ' ' || strings.HasSuffix(path, ".md")) {
				t.Errorf("%s of what was imported has %q: %s", path, bad, text)
			}
		}
		return err
	}))
}

// hostileFiles makes a repository with files of hostile names and content, pushes it, and
// returns its folder.
func (s *system) hostileFiles() string {
	s.T.Helper()
	quoted := strconv.QuoteToASCII // in YAML
	script := strings.ReplaceAll(hostile, "\n", "\n            ")
	script = strings.NewReplacer("\x1b", "", "\u009b", "", "\x7f", "", "\r", "").Replace(script) // not in a block of YAML
	good := func(version string) string {
		return e2e.OSP("osp-good", version, "curl -o /opt/x 'https://a.example/"+script+"'")
	}
	pool := `apiVersion: cluster.k8s.io/v1alpha1
kind: MachineDeployment
metadata: {name: pool, namespace: shop, annotations: {k8c.io/operating-system-profile: ` + quoted("osp-good") + `, note: ` + quoted(hostile) + `}}
spec: {template: {spec: {versions: {kubelet: 1.36.2}, providerSpec: {value: {cloudProvider: hetzner, operatingSystem: ubuntu}}}}}
`
	over := `apiVersion: gitops.k8c.io/v1alpha1
kind: ProfileOverlay
metadata: {name: osp-over}
spec:
  version: v1.0.0
  from: {profile: osp-good, version: v1.0.0}
`
	fleet := clusterfixture.TwoPools(s.T)
	np := clusterfixture.Get[*api.NodeProvenance](fleet, "one.0000000e")
	np.Spec.Node.ProviderID = hostile
	dump := string(fleet.Dump())
	inJSON, err := json.Marshal(hostile)
	if err != nil {
		s.T.Fatal(err)
	}
	inner := string(inJSON[1 : len(inJSON)-1])
	edited := strings.NewReplacer("ssh SHA256:x", inner, "profiles/osp-x.yaml", "profiles/"+inner, clusterfixture.Repository, clusterfixture.Repository+"/"+inner).Replace(dump)
	bad := "apiVersion: operatingsystemmanager.k8c.io/v1alpha1\nkind: OperatingSystemProfile\nmetadata:\n  name: " + quoted(hostile) + "\nspec:\n  " + quoted(hostile) + ": 1\n"
	files := map[string]string{
		"profiles/good.yaml": good("v1.0.0"), "pools/pool.yaml": pool, "cluster.yaml": "settings: {}\n", "whole.jsonl": dump, "dump.jsonl": edited,
		"over/over.yaml": over, "over/base.yaml": good("v1.0.0"),
		"manifests/osp.yaml": strings.Replace(good(quoted(hostile+"[a](https://evil.example) <img src=x> @everyone")), "name: osp-good", "name: osp-a\n  namespace: kube-system", 1),
		"manifests/bad.yaml": strings.Replace(good("v1.0.0"), "name: osp-good", "name: "+quoted(hostile), 1),
		"manifests/md.yaml":  strings.ReplaceAll(pool, quoted("osp-good"), quoted(hostile)),
	}
	for _, name := range runner.Hostile {
		files["bad/"+name], files["profiles/"+name] = bad, bad
	}
	write := func(files map[string]string) {
		for name, text := range files {
			path := filepath.Join(s.Git.Work, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				s.T.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				s.T.Fatal(err)
			}
		}
		s.Git.Run("add", "-A")
		s.Git.Run("commit", "-q", "-m", hostile, "--author", strings.ReplaceAll(hostile, "\n", " ")+" <a@example.com>")
	}
	write(files)
	write(map[string]string{"profiles/good.yaml": strings.ReplaceAll(good("v1.1.0"), "/opt/x", "/opt/y"), "over/newer.yaml": strings.ReplaceAll(good("v1.1.0"), "/opt/x", "/opt/y"), "bad/new.yaml": bad})
	s.Git.Run("push", "-q", "origin", "main")
	return s.Git.Work
}

// hostileObjects makes objects that say hostile things.
func (s *system) hostileObjects() {
	s.T.Helper()
	s.ApplyYAML(strings.Replace(e2e.OSP("osp-a", "v1.0.0", "echo"), "name: osp-a", "name: osp-a\n  namespace: "+e2e.Namespace, 1))
	s.Source()
	s.Pool("web", "osp-a")
	s.Pool("worse", "osp-a")
	s.Start()
	s.Served("web", "v1.0.0")
	s.Served("worse", "v1.0.0")
	s.Stop()
	now := metav1.NowMicro()
	s.NoError(s.Client.Create(s.T.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "operating-system-manager"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(hostile), LeaseDurationSeconds: new(int32(3600)), RenewTime: &now},
	}))
	ps := s.ProfileSource()
	ps.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Failed", Message: hostile, LastTransitionTime: metav1.Now()}}
	s.NoError(s.Client.Status().Update(s.T.Context(), ps))
	// The API server takes no such text as YAML.
	patch := func(obj client.Object, at ...string) {
		text, err := json.Marshal(hostile)
		if err != nil {
			s.T.Fatal(err)
		}
		for _, key := range slices.Backward(at) {
			text = []byte(fmt.Sprintf("{%q:%s}", key, text))
		}
		s.NoError(s.Client.Patch(s.T.Context(), obj, client.RawPatch(types.MergePatchType, text)))
	}
	patch(&machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Pools, Name: "web"}}, "metadata", "annotations", api.AnnotationOSP)
	patch(&machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Pools, Name: "worse"}}, "spec", "template", "spec", "versions", "kubelet")
	patch(&osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "osp-a"}}, "metadata", "annotations", "note")
}

func (s *system) kubeconfigOfDryRun() string {
	s.T.Helper()
	s.NoError(s.Cluster.Apply(s.T.Context(), e2e.RepoPath("deploy/dry-run.yaml")))
	return s.KubeconfigOf(e2e.Namespace, "osm-gitops-dry-run")
}
