package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fluxcd/pkg/gittestserver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// withCluster gives a world kubectl, a control plane and a Git server.
func (w *world) withCluster() {
	w.t.Helper()
	w.kubectl()
	c := cluster.Start(w.t, cluster.Options{})
	w.env = append(w.env, "KUBECONFIG="+c.Kubeconfig)
	info, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {Server: "https://api.example.com:6443", CertificateAuthorityData: c.Config.CAData}}})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := c.Client(w.t).Create(w.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"}, Data: map[string]string{"kubeconfig": string(info)},
	}); err != nil {
		w.t.Fatal(err)
	}
	w.asController(c)
	w.repository()
	w.t.Cleanup(func() {
		text, err := os.ReadFile(filepath.Join(w.dir, "controller.pid"))
		if err != nil {
			return // it was never started
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
}

// asController has the controller run with the rights of deploy/rbac.yaml, beside whatever
// else runs on this machine.
func (w *world) asController(c *cluster.Cluster) {
	w.t.Helper()
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:kube-system:osm-gitops"
	}
	path := filepath.Join(w.dir, "controller.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		w.t.Fatal(err)
	}
	w.write("controller.flags", strings.Join([]string{
		"--kubeconfig", path, "--health-probe-address", "0", "--metrics-address", "0", "--webhook-address", "0", "--cache-dir", filepath.Join(w.dir, "mirrors"),
		"--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8", "--publish-snapshot",
	}, " "))
}

// repository is that of the pages: three versions of one profile, one of two others, at
// a server; osps is a clone of it, profilesource.yaml leads to it.
func (w *world) repository() {
	w.t.Helper()
	server, err := gittestserver.NewTempGitServer()
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = os.RemoveAll(server.Root()) })
	server.AutoCreate()
	if err := server.StartHTTP(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(server.StopHTTP)
	url := server.HTTPAddress() + "/osps.git"
	clone := filepath.Join(w.dir, "osps")
	if err := os.CopyFS(clone, os.DirFS(root+"/examples/repository")); err != nil {
		w.t.Fatal(err)
	}
	w.run(clone, "git", "init", "--quiet", "--initial-branch=main", ".")
	profile := filepath.Join(clone, "profiles/osp-ubuntu-example.yaml")
	first, err := os.ReadFile(profile)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, version := range []string{"v1.0.0", "v1.1.0", "v1.2.0"} {
		text := strings.Replace(string(first), "version: v1.0.0", "version: "+version, 1)
		if err := os.WriteFile(profile, []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
		w.run(clone, "git", "add", ".")
		w.run(clone, "git", "commit", "--quiet", "--message=osp-ubuntu-example "+version)
	}
	w.run(clone, "git", "remote", "add", "origin", url)
	w.run(clone, "git", "push", "--quiet", "--set-upstream", "origin", "main")
	text, err := os.ReadFile(root + "/examples/profilesource.yaml")
	if err != nil {
		w.t.Fatal(err)
	}
	w.write("profilesource.yaml", strings.Replace(string(text), "https://git.example.com/platform/osps.git", url, 1))
}

func (w *world) run(dir, name string, args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, w.env
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// kubectl builds it from the module beside this test.
func (w *world) kubectl() {
	w.t.Helper()
	command := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(w.t.Context(), "go", args...)
		cmd.Dir = "kubectl"
		// The settings of a contributor make no second build.
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
		return cmd.CombinedOutput()
	}
	if out, err := command("list", "-deps", "."); err != nil {
		unavailable(w.t, fmt.Errorf("%w\n%s", err, out))
	}
	if out, err := command("build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(w.bin, "kubectl"), "."); err != nil {
		w.t.Fatalf("building kubectl: %v\n%s", err, out)
	}
}

func unavailable(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skipf("kubectl's modules cannot be had on this machine: %v", err)
}
