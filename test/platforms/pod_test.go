package platforms

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// podUser is the user of KKP's Pods, which has no name in the image.
const podUser = 65534

// pod is a container as KKP's Deployments describe it: another user, a root file system that is
// read-only, no writable volume, and a /dev/shm of 64 MiB. Its network is that of this machine.
type pod struct {
	*e2e.System
	container corev1.Container
	env       []string
	volumes   map[string]string // folders of this machine by path in the container
	shm       string            // options of its mount
	planted   string            // a folder of root that exists before the container
}

// newPod reads one of KKP's Deployments.
func newPod(s *e2e.System, name string) *pod {
	s.T.Helper()
	if os.Geteuid() != 0 {
		unavailable(s.T, errors.New("mounts need root: run the tests with sudo"))
	}
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); err != nil {
		unavailable(s.T, fmt.Errorf("unshare: %w: %s", err, out))
	}
	path, err := Path("kkp", "deployments.yaml")
	if err != nil {
		s.T.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		s.T.Fatal(err)
	}
	for _, text := range strings.Split(string(b), "\n---\n") {
		var d appsv1.Deployment
		if err := yaml.UnmarshalStrict([]byte(text), &d); err != nil {
			s.T.Fatal(err)
		}
		user, c := d.Spec.Template.Spec.SecurityContext, d.Spec.Template.Spec.Containers[0]
		if d.Name != name {
			continue
		}
		if *user.RunAsUser != podUser || !*c.SecurityContext.ReadOnlyRootFilesystem {
			s.T.Fatalf("this test does not run %s as its Deployment says", name)
		}
		p := &pod{System: s, container: c, env: []string{"HOME=/"}, volumes: map[string]string{}, shm: "size=64m,mode=1777"}
		for _, e := range c.Env {
			p.env = append(p.env, e.Name+"="+e.Value)
		}
		return p
	}
	s.T.Fatalf("%s has no Deployment %s", path, name)
	return nil
}

func unavailable(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// kubeconfig mounts one for a ServiceAccount into a folder of the container.
func (p *pod) kubeconfig(folder, account string) {
	p.T.Helper()
	b, err := os.ReadFile(p.KubeconfigOf(e2e.Namespace, account))
	if err != nil {
		p.T.Fatal(err)
	}
	dir := p.folder()
	if err := os.WriteFile(filepath.Join(dir, "kubeconfig"), b, 0o644); err != nil {
		p.T.Fatal(err)
	}
	p.volumes[folder] = dir
}

// folder is one that every user can read.
func (p *pod) folder() string {
	p.T.Helper()
	dir := p.T.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		p.T.Fatal(err)
	}
	return dir
}

// command is the container's, with more flags.
func (p *pod) command(flags ...string) *exec.Cmd {
	p.T.Helper()
	binary, err := e2e.Binary()
	if err != nil {
		p.T.Fatal(err)
	}
	// The names in the image, and the file to which they lead: tools/image/base.
	script := `set -eu
root=$1 binary=$2 shm=$3 user=$4 planted=$5; shift 5
mount -t tmpfs -o size=1m,mode=755 tmpfs "$root"
mkdir -p "$root/ko-app" "$root/usr/local/bin" "$root/dev/shm"
touch "$root/ko-app/osm-gitops"
mount --bind "$binary" "$root/ko-app/osm-gitops"
ln -s /ko-app/osm-gitops "$root/usr/local/bin/osm-controller"
ln -s /ko-app/osm-gitops "$root/usr/local/bin/webhook"
while [ "$1" != -- ]; do
	mkdir -p "$root$1"
	mount --bind "$2" "$root$1"
	mount -o remount,ro,bind "$root$1"
	shift 2
done
shift
mount -t tmpfs -o "nosuid,nodev,noexec,$shm" tmpfs "$root/dev/shm"
if [ -n "$planted" ]; then mkdir "$root$planted"; fi
mount -o remount,ro "$root"
exec chroot --userspec="$user:$user" --groups= "$root" "$@"
`
	args := []string{"--mount", "--propagation", "private", "bash", "-c", script, "pod", p.T.TempDir(), binary, p.shm, fmt.Sprint(podUser), p.planted}
	for path, dir := range p.volumes {
		args = append(args, path, dir)
	}
	cmd := exec.Command("unshare", slices.Concat(args, []string{"--"}, p.container.Command, p.container.Args, flags)...)
	cmd.Env = append(slices.Clone(p.env), "PATH="+os.Getenv("PATH"))
	return cmd
}

// answers requests a path, and returns the status and the text.
func (p *pod) answers(url string) (status int, text string) {
	res, err := http.Get(url) //nolint:noctx // a page of this machine
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err.Error()
	}
	return res.StatusCode, string(b)
}

// Under the name osm-controller, with the flags, the user and the file systems of KKP's Pod, the
// program is the controller. Its mirrors are in /dev/shm. A repository that does not fit there is
// refused with both sizes, and others are still fetched.
func TestControllerInPod(t *testing.T) {
	p := newPod(e2e.NewSystem(t), "operating-system-manager")
	p.kubeconfig("/etc/kubernetes/kubeconfig", "osm-gitops")
	p.shm = "size=16m,mode=1777" // a quarter of a Pod's, for a repository that is quick to send
	large := e2e.NewGitServer(t)
	large.Run("config", "core.compression", "0")
	random := mathrand.NewChaCha8([32]byte{1})
	noise := make([]byte, 4<<20)
	for i := range 5 {
		if _, err := random.Read(noise); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(large.Work, fmt.Sprintf("%d.bin", i)), noise, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	large.Push(map[string]string{"large.yaml": e2e.OSP("osp-large", "v1.0.0", "echo large")})
	first := p.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.0.0", "echo one")})
	p.Source()
	health := e2e.FreeAddress(t)
	p.StartCommand(p.command("-health-probe-address", health, "-metrics-address=0", "-webhook-address=0", "-leader-elect=false",
		"-log-format=Console", "-allow-insecure-git", "-git-allowed-cidrs=127.0.0.0/8"))
	p.Ready(first)
	p.Builtin("osp-ubuntu")
	p.Eventually("the probe to succeed", func() error {
		if status, text := p.answers("http://" + health + "/readyz"); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, text)
		}
		return nil
	})
	p.inMemory()

	refused := regexp.MustCompile(`the repository does not fit into the folder of the mirrors: it needs more than 1[0-2] MiB, and 1[4-6] MiB are available, with 4 MiB reserved`)
	spec := map[string]any{"git": map[string]any{"url": large.URL, "timeout": "1m"}, "path": "profiles", "interval": "1h", "retryInterval": "1h"}
	p.Apply(map[string]any{
		"apiVersion": api.GroupVersion.String(), "kind": "ProfileSource",
		"metadata": map[string]any{"name": "large", "namespace": e2e.Namespace}, "spec": spec,
	})
	p.Eventually("the large repository to be refused", func() error {
		var ps api.ProfileSource
		if err := p.Get(e2e.Namespace, "large", &ps); err != nil {
			return err
		}
		for _, c := range ps.Status.Conditions {
			if c.Type == "Ready" && c.Status == metav1.ConditionFalse && refused.MatchString(c.Message) {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v", ps.Status.Conditions)
	})
	next := p.Git.Push(map[string]string{"a.yaml": e2e.OSP("osp-a", "v1.1.0", "echo two")})
	p.Ready(next)
}

// inMemory checks the folder of the mirrors as this machine sees it.
func (p *pod) inMemory() {
	p.T.Helper()
	root := fmt.Sprintf("/proc/%d/root", p.Process.Process.Pid)
	info, err := os.Stat(root + fmt.Sprintf("/dev/shm/osm-gitops-%d", podUser))
	if err != nil {
		p.T.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != podUser || info.Mode().Perm() != 0o700 {
		p.T.Errorf("the folder belongs to user %d and has mode %o", uid, info.Mode().Perm())
	}
	p.LogMu.Lock()
	defer p.LogMu.Unlock()
	if !strings.Contains(p.Log.String(), "repositories are stored in memory") || !strings.Contains(p.Log.String(), "read-only file system") {
		p.T.Errorf("the log does not say where the mirrors are, and why")
	}
}

// If no folder can be used, the error names each with its reason. A folder that a flag names is
// never replaced.
func TestNoFolderInPod(t *testing.T) {
	s := e2e.NewSystem(t)
	for name, c := range map[string]struct {
		prepare func(p *pod)
		flags   []string
		says    []string
	}{
		"no folder is writable": {func(p *pod) { p.shm = "ro,mode=1777" }, nil, []string{
			"--cache-dir: the default folder cannot be used: ", "mkdir /.cache: read-only file system; nor can one in memory: mkdir /dev/shm/osm-gitops-65534: read-only file system: name a folder",
		}},
		"no home": {func(p *pod) { p.env, p.shm = nil, "mode=755" }, nil, []string{
			"neither $XDG_CACHE_HOME nor $HOME are defined; nor can one in memory: mkdir /dev/shm/osm-gitops-65534: permission denied",
		}},
		"the folder in memory is another user's": {func(p *pod) { p.planted = "/dev/shm/osm-gitops-65534" }, nil, []string{
			"/dev/shm/osm-gitops-65534 exists, and is not a private folder of user 65534",
		}},
		"a named folder": {func(*pod) {}, []string{"-cache-dir=/var/cache"}, []string{"--cache-dir: making the folder of the mirrors: mkdir /var: read-only file system"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(s, "operating-system-manager")
			p.kubeconfig("/etc/kubernetes/kubeconfig", "osm-gitops")
			c.prepare(p)
			out, err := p.command(c.flags...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 || !e2e.ContainsAll(string(out), c.says) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// Under the name webhook, with the flags, the user and the rights of the platforms, the program
// serves admission and writes nothing. It is not ready before its files exist.
func TestWebhookInPod(t *testing.T) {
	p := newPod(e2e.NewSystem(t), "operating-system-manager-webhook")
	rights, err := Path("kubeone", "rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Cluster.Apply(t.Context(), rights); err != nil {
		t.Fatal(err)
	}
	const account = "operating-system-manager-webhook"
	mark := p.AuditSize()
	p.kubeconfig("/etc/kubernetes/worker-kubeconfig", account)
	files := p.folder()
	p.volumes["/tmp/k8s-webhook-server/serving-certs"] = files
	address, health, metrics := e2e.FreeAddress(t), e2e.FreeAddress(t), e2e.FreeAddress(t)
	p.StartCommand(p.command("-health-probe-bind-address", health, "-metrics-bind-address", metrics, "-webhook-address", address))
	p.ready(health, http.StatusServiceUnavailable, "open /tmp/k8s-webhook-server/serving-certs/tls.crt: no such file or directory")
	if status, _ := p.answers("http://" + health + "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz has status %d", status)
	}
	ca := servingCertificate(t, files)
	p.ready(health, http.StatusOK, "ok")
	p.Listening(sorted(address, health, metrics)...)

	path, err := Path("kkp", "webhooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(string(b), "\n---\n") {
		configuration := &unstructured.Unstructured{}
		text = strings.ReplaceAll(text, "operating-system-manager-webhook.cluster-example.svc.cluster.local.", address)
		if err := yaml.Unmarshal([]byte(text), &configuration.Object); err != nil {
			t.Fatal(err)
		}
		for _, h := range configuration.Object["webhooks"].([]any) {
			h.(map[string]any)["clientConfig"].(map[string]any)["caBundle"] = ca
		}
		p.Apply(configuration.Object)
		t.Cleanup(func() { p.NoError(p.Client.Delete(context.WithoutCancel(t.Context()), configuration)) })
	}
	p.Eventually("the API server to call the webhooks", func() error {
		p.Pool("web", "", func(md map[string]any) { delete(md["metadata"].(map[string]any), "annotations") })
		if got := p.MachineDeployment("web").Annotations[api.AnnotationOSP]; got != "osp-ubuntu" {
			return fmt.Errorf("the profile of a pool without one is %q", got)
		}
		return nil
	})
	if writes := p.Attempts(mark, account); len(writes) > 0 {
		t.Errorf("it wrote: %v", writes)
	}
}

// The ServiceAccount that our addon gives the Pods of the webhooks suffices for every path, and
// allows nothing else: the program is refused nothing, and needs every rule.
func TestWebhookRights(t *testing.T) {
	p := newPod(e2e.NewSystem(t), "operating-system-manager-webhook")
	const account = "osm-gitops-webhook"
	d := Data{Certificates: map[string]string{"OSMWebhookCert": "", "OSMWebhookKey": "", "KubernetesCA": ""}, Resources: map[string]string{"NodeLocalDNSVirtualIP": "169.254.20.10"}, Params: map[string]string{"image": "i"}}
	d.Config.Features.NodeLocalDNS = &NodeLocalDNS{Deploy: true}
	objects, err := Execute(d)
	if err != nil {
		t.Fatal(err)
	}
	var rules []rbacv1.PolicyRule
	for _, o := range objects {
		if o.GetName() != account {
			continue
		}
		if err := p.Cluster.ApplyObjects(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if o.GetKind() == "Role" {
			var role rbacv1.Role
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
				t.Fatal(err)
			}
			rules = role.Rules
		}
	}
	for _, rule := range rules {
		for _, verb := range rule.Verbs {
			if verb != "get" && verb != "list" {
				t.Errorf("the account can %s %v", verb, rule.Resources)
			}
		}
	}
	mark := p.AuditSize()
	p.kubeconfig("/etc/kubernetes/worker-kubeconfig", account)
	files := p.folder()
	p.volumes["/tmp/k8s-webhook-server/serving-certs"] = files
	ca := servingCertificate(t, files)
	address, health := e2e.FreeAddress(t), e2e.FreeAddress(t)
	p.StartCommand(p.command("-health-probe-bind-address", health, "-metrics-bind-address", "0", "-webhook-address", address))
	p.ready(health, http.StatusOK, "ok")
	for _, o := range objects {
		if !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
			continue
		}
		for _, h := range o.Object["webhooks"].([]any) {
			config := h.(map[string]any)["clientConfig"].(map[string]any)
			path, _, _ := unstructured.NestedString(config, "service", "path")
			delete(config, "service")
			config["url"], config["caBundle"] = "https://"+address+path, ca
			h.(map[string]any)["failurePolicy"] = "Fail"
		}
		p.Apply(o.Object)
		t.Cleanup(func() { p.NoError(p.Client.Delete(context.WithoutCancel(t.Context()), o)) })
	}
	p.Eventually("the API server to call the webhooks", func() error {
		p.Pool("web", "", func(md map[string]any) { delete(md["metadata"].(map[string]any), "annotations") })
		if got := p.MachineDeployment("web").Annotations[api.AnnotationOSP]; got != "osp-ubuntu" {
			return fmt.Errorf("the profile of a pool without one is %q", got)
		}
		return nil
	})
	osp := &osm.OperatingSystemProfile{ObjectMeta: metav1.ObjectMeta{Namespace: e2e.Namespace, Name: "osp-own"}}
	docs, err := profile.Decode("a.yaml", []byte(e2e.OSP("osp-own", "v1.0.0", "echo own")))
	if err != nil {
		t.Fatal(err)
	}
	osp.Spec = docs[0].Spec
	p.NoError(p.Client.Create(t.Context(), osp))
	t.Cleanup(func() { p.NoError(p.Client.Delete(context.WithoutCancel(t.Context()), osp)) })
	p.Pool("own", "osp-own")
	p.Pool("none", "osp-none")
	p.Source()
	source := p.ProfileSource()
	t.Cleanup(func() { p.NoError(p.Client.Delete(context.WithoutCancel(t.Context()), source)) })
	source.Status.Profiles = []api.ProfileEntry{{Name: "osp-listed", Version: "v1.0.0", Object: "osp-own", Path: "a.yaml", Digest: profile.Digest(osp.Spec)}}
	p.NoError(p.Client.Status().Update(t.Context(), source))
	p.Pool("pinned", "osp-listed", e2e.Annotate(api.AnnotationVersionPin, "v1.0.0"))

	log, err := os.ReadFile(p.Cluster.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for line := range strings.Lines(string(log[mark:])) {
		var entry struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef *struct{ Resource string }
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.User.Username != "system:serviceaccount:"+e2e.Namespace+":"+account || entry.ObjectRef == nil {
			continue
		}
		if strings.Contains(line, `"authorization.k8s.io/decision":"forbid"`) {
			t.Errorf("forbidden was %s", line)
		}
		used[entry.Verb+" "+entry.ObjectRef.Resource] = true
	}
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if !used[verb+" "+resource] {
					t.Errorf("%s %s was not needed; used was %v", verb, resource, slices.Sorted(maps.Keys(used)))
				}
			}
		}
	}
}

// ready waits for an answer of the probe.
func (p *pod) ready(address string, status int, says string) {
	p.T.Helper()
	p.Eventually(fmt.Sprintf("the probe to answer %d and %q", status, says), func() error {
		got, text := p.answers("http://" + address + "/readyz")
		if got != status || !strings.Contains(text, says) {
			return fmt.Errorf("%d %s", got, text)
		}
		return nil
	})
}

// servingCertificate writes tls.crt and tls.key for loopback, and returns the CA.
func servingCertificate(t *testing.T, dir string) (ca []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true,
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), "tls.crt": ca} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return ca
}

func sorted(list ...string) []string {
	slices.Sort(list)
	return list
}
