package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/osm-gitops/osm-gitops/cmd/osm-gitops/internal/cli"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/gittest"
)

func TestMain(m *testing.M) {
	code := cluster.Main(m, cluster.Options{})
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// clusterCommands are arguments for every command that reads a cluster.
func clusterCommands(repo string) map[string][]string {
	return map[string][]string{
		"boots":     {},
		"bundle":    {},
		"diff":      {"HEAD", "--repo", repo},
		"doctor":    {},
		"get":       {"sources"},
		"handback":  {"--dry-run", "-n", "kube-system"},
		"history":   {"md/web"},
		"import":    {},
		"pin":       {"md/web", "v1.0.0"},
		"reconcile": {"source/none"},
		"release":   {"osp-a@v1.0.0"},
		"resume":    {"md/web"},
		"snapshot":  {},
		"suspend":   {"pool/web"},
		"trace":     {"machinedeployments/web"},
		"ui":        {"--address", "0"},
		"unpin":     {"md/web"},
		"verify":    {"nodes/one"},
	}
}

// Every command that reads a cluster has --kubeconfig, --context and -n, and reads the cluster
// of $KUBECONFIG: with the current context, whose server does not answer, and with one whose
// server does. diff and bundle, which can have pools from elsewhere, need a flag that names it.
func TestEveryCommandFindsItsCluster(t *testing.T) {
	program := filepath.Join(build(t), programName)
	dir := t.TempDir()
	config := writeContexts(t, dir, cluster.Shared(t).Kubeconfig)
	repo := filepath.Join(dir, "repo")
	if err := errors.Join(os.MkdirAll(repo, 0o700), os.WriteFile(filepath.Join(repo, "README.md"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-qm", "one"}} {
		gittest.Git(t, repo, args...)
	}
	commands := clusterCommands(repo)
	for _, cmd := range newRoot().Commands() {
		if reads := cmd.Flags().Lookup("kubeconfig") != nil && cmd.Name() != "controller"; reads != (commands[cmd.Name()] != nil) {
			t.Errorf("%s has --kubeconfig: %t, and is in the table: %t", cmd.Name(), reads, !reads)
		}
	}
	const unanswered = "127.0.0.1:1:"
	for name, args := range commands {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			elsewhere := name == "diff" || name == "bundle"
			for _, way := range []struct {
				env   string
				args  []string
				dials bool // the cluster that does not answer
			}{
				{env: config, dials: !elsewhere},
				{args: []string{"--kubeconfig", config}, dials: true},
				{env: config, args: []string{"--context", "right"}},
				{args: []string{"--kubeconfig", config, "--context", "right", "-n", "kube-system"}},
			} {
				out := answer(t, program, way.env, slices.Concat([]string{name}, args, way.args)...)
				if elsewhere && way.args == nil && !strings.Contains(out, "osm-gitops: name the pools") {
					t.Errorf("KUBECONFIG=%s alone: %s", way.env, out)
				}
				if strings.Contains(out, unanswered) != way.dials || strings.Contains(out, "unknown") && strings.Contains(out, "flag") {
					t.Errorf("KUBECONFIG=%s %q: want the cluster that does not answer: %t, got\n%s", way.env, way.args, way.dials, out)
				}
			}
		})
	}
}

// writeContexts writes a kubeconfig with context right of a cluster, and another one, which is
// the current one and whose server does not answer.
func writeContexts(t *testing.T, dir, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	right := config.Contexts[config.CurrentContext].DeepCopy()
	wrong, server := right.DeepCopy(), config.Clusters[right.Cluster].DeepCopy()
	server.Server, wrong.Cluster = "https://127.0.0.1:1", "wrong"
	config.Clusters["wrong"], config.Contexts["right"], config.Contexts["wrong"] = server, right, wrong
	config.CurrentContext = "wrong"
	path := filepath.Join(dir, "contexts.yaml")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// answer is what a command prints; of one that goes on, until it has opened its page.
func answer(t *testing.T, program, kubeconfig string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "KUBECONFIG=") }), "HOME="+cmd.Dir)
	if kubeconfig != "" {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+kubeconfig)
	}
	out := &until{text: "the audit page is at", then: cancel}
	cmd.Stdout, cmd.Stderr = out, out
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.written.String()
}

// until calls a function when a text is written.
type until struct {
	written bytes.Buffer // not embedded: io.Copy would call its ReadFrom
	text    string
	then    func()
}

func (u *until) Write(p []byte) (int, error) {
	n, err := u.written.Write(p)
	if strings.Contains(u.written.String(), u.text) {
		u.then()
	}
	return n, err
}

// Every command with --output has text, json and yaml, unless it prints documents of its own or
// the flag names a file.
func TestOutputs(t *testing.T) {
	own := map[string]string{"render": "osc", "snapshot": "-", "schema": ""}
	looked := 0
	for _, cmd := range newRoot().Commands() {
		flag := cmd.Flags().Lookup("output")
		if flag == nil {
			continue
		}
		looked++
		first := "text"
		if _, ok := own[cmd.Name()]; ok {
			first = own[cmd.Name()]
		}
		if flag.DefValue != first || flag.Shorthand != "o" {
			t.Errorf("%s -%s: the default is %q, want %q", cmd.Name(), flag.Shorthand, flag.DefValue, first)
		}
		formats, ok := flag.Value.(*cli.Formats)
		if !ok {
			if cmd.Name() != "snapshot" && cmd.Name() != "schema" {
				t.Errorf("%s --output: takes any value", cmd.Name())
			}
			continue
		}
		for _, name := range []string{"json", "yaml"} {
			if !slices.Contains(formats.Names(), name) {
				t.Errorf("%s -o %s is not a value", cmd.Name(), name)
			}
		}
	}
	if looked < 12 {
		t.Errorf("looked at %d commands", looked)
	}
}

// The shell completes names of objects of the cluster in trace and verify.
func TestCompletedNames(t *testing.T) {
	c := cluster.Shared(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "completed-"}}
	if err := c.Client(t).Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Client(t).Delete(context.WithoutCancel(t.Context()), node) })
	for _, name := range []string{"trace", "verify"} {
		for _, word := range []string{"node", "nodes", "no"} {
			got := runs(t, cobra.ShellCompNoDescRequestCmd, name, "--kubeconfig", c.Kubeconfig, word+"/")
			if !slices.Contains(strings.Split(got.stdout, "\n"), word+"/"+node.Name) {
				t.Errorf("%s %s/: %q lacks %s", name, word, got.stdout, node.Name)
			}
		}
		// The names of a dump are not those of the cluster.
		if got := runs(t, cobra.ShellCompNoDescRequestCmd, name, "--kubeconfig", c.Kubeconfig, "--from", "dump", "node/"); strings.Contains(got.stdout, node.Name) {
			t.Errorf("%s --from dump: %q", name, got.stdout)
		}
		if got := runs(t, cobra.ShellCompNoDescRequestCmd, name, "--kubeconfig", c.Kubeconfig, ""); !strings.Contains(got.stdout, "node/\n") {
			t.Errorf("%s: %q", name, got.stdout)
		}
	}
}
