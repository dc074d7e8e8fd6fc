package docs_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
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
	"github.com/osm-gitops/osm-gitops/test/program"
)

// withCluster gives a world kubectl, a control plane or two, and a Git server.
func (w *world) withCluster(s scene) {
	w.t.Helper()
	w.kubectl()
	var options cluster.Options
	if s.helm {
		options.Kinds = cluster.MachineKinds // a release brings ours
	}
	c := cluster.Start(w.t, options)
	kubeconfig := c.Kubeconfig
	w.clusterInfo(c)
	var worker *cluster.Cluster
	if s.worker {
		worker = cluster.Start(w.t, options)
		w.clusterInfo(worker)
		kubeconfig = w.contexts(map[string]*cluster.Cluster{"seed": c, "worker": worker})
	}
	w.asController(c, worker)
	w.env = append(w.env, "KUBECONFIG="+kubeconfig)
	if s.helm {
		w.helm()
	}
	if s.registry {
		w.registry()
	}
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

// clusterInfo publishes the address of a control plane for nodes, as kubeadm does.
func (w *world) clusterInfo(c *cluster.Cluster) {
	w.t.Helper()
	info, err := clientcmd.Write(clientcmdapi.Config{Clusters: map[string]*clientcmdapi.Cluster{"": {Server: "https://api.example.com:6443", CertificateAuthorityData: c.Config.CAData}}})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := c.Client(w.t).Create(w.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"}, Data: map[string]string{"kubeconfig": string(info)},
	}); err != nil {
		w.t.Fatal(err)
	}
}

// contexts writes a kubeconfig with a context for each control plane, seed being that of
// commands that name none.
func (w *world) contexts(clusters map[string]*cluster.Cluster) (path string) {
	w.t.Helper()
	all := clientcmdapi.NewConfig()
	all.CurrentContext = "seed"
	for name, c := range clusters {
		one, err := clientcmd.LoadFromFile(c.Kubeconfig)
		if err != nil {
			w.t.Fatal(err)
		}
		context := one.Contexts[one.CurrentContext]
		all.Clusters[name], all.AuthInfos[name] = one.Clusters[context.Cluster], one.AuthInfos[context.AuthInfo]
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	path = filepath.Join(w.dir, "contexts")
	if err := clientcmd.WriteToFile(*all, path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// asController runs the controller with the rights of deploy/, and a dry run with the rights for
// it, on ports that are free on this machine. worker is nil if there is no separate worker
// cluster.
func (w *world) asController(c, worker *cluster.Cluster) {
	w.t.Helper()
	for file, account := range map[string]string{"controller.flags": "osm-gitops", "observer.flags": "osm-gitops-dry-run"} {
		flags := []string{
			"--kubeconfig", w.impersonating(c, account), "--health-probe-address", "0", "--metrics-address", "0", "--webhook-address", "0", "--cache-dir", filepath.Join(w.dir, "mirrors"),
			"--allow-insecure-git", "--git-allowed-cidrs", "127.0.0.0/8", "--publish-snapshot",
		}
		if worker != nil {
			flags = append(flags, "--worker-health-probe-address", "0", "--worker-metrics-address", "0", "--worker-cluster-kubeconfig", w.impersonating(worker, account))
		}
		w.write(file, strings.Join(flags, " "))
	}
}

// impersonating writes a kubeconfig of a ServiceAccount.
func (w *world) impersonating(c *cluster.Cluster, account string) (path string) {
	w.t.Helper()
	config, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:kube-system:" + account
	}
	path = filepath.Join(w.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// helm gives a world the helm that tools/helm pins.
func (w *world) helm() {
	w.t.Helper()
	if err := os.Symlink(w.tool("tools/helm", "helm.sh/helm/v3/cmd/helm"), filepath.Join(w.bin, "helm")); err != nil && !os.IsExist(err) {
		w.t.Fatal(err)
	}
}

// tool builds a program that a module below tools pins, and returns its path.
func (w *world) tool(module, program string) string {
	w.t.Helper()
	list := exec.CommandContext(w.t.Context(), "go", "list", "-deps", program)
	list.Dir, list.Env = filepath.Join(root, module), append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if out, err := list.CombinedOutput(); err != nil {
		unavailable(w.t, fmt.Errorf("%w\n%s", err, out))
	}
	built, err := exec.CommandContext(w.t.Context(), root+"/hack/tool", path.Base(program)).Output()
	if err != nil {
		w.t.Fatalf("building %s: %v", program, err)
	}
	return strings.TrimSpace(string(built))
}

// registry starts one at the address $REGISTRY; it stores in memory.
func (w *world) registry() {
	w.t.Helper()
	crane := w.tool("tools/image", "github.com/google/go-containerregistry/cmd/crane")
	cmd := exec.CommandContext(w.t.Context(), crane, "registry", "serve", "--address", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = cmd.Wait() }) // the end of the context killed it
	log := bufio.NewReader(stderr)
	line, err := log.ReadString('\n')
	_, port, found := strings.Cut(line, "serving on port ")
	if !found {
		w.t.Fatalf("the registry says %q (%v)", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, log) }() // each request is logged
	// HOME is another, and has no module and no tool.
	caches, err := os.UserCacheDir()
	if err != nil {
		w.t.Fatal(err)
	}
	modules, err := exec.CommandContext(w.t.Context(), "go", "env", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		w.t.Fatal(err)
	}
	dirs := strings.Fields(string(modules))
	w.env = append(w.env, "REGISTRY=127.0.0.1:"+strings.TrimSpace(port), "XDG_CACHE_HOME="+caches, "GOMODCACHE="+dirs[0], "GOCACHE="+dirs[1])
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
	for _, version := range []string{"v1.0.1", "v1.1.0", "v1.2.0"} {
		text := strings.Replace(string(first), "version: v1.0.1", "version: "+version, 1)
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

// kubectl puts it where the commands of a page find it.
func (w *world) kubectl() {
	w.t.Helper()
	link := filepath.Join(w.bin, "kubectl")
	if _, err := os.Lstat(link); err == nil {
		return // another scene has
	}
	path, err := program.Kubectl.Path(w.t.Context(), os.Stderr)
	if errors.Is(err, program.ErrUnavailable) {
		unavailable(w.t, err)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		w.t.Fatal(err)
	}
}

func unavailable(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skipf("the modules of kubectl or helm cannot be had on this machine: %v", err)
}
