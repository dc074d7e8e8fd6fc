package main

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// contractFlags are those of contract section 11.1 in its order: the default there,
// another value, and what the controller makes of the one and the other.
var contractFlags = []struct {
	name, standard, value string
	of                    func(f *controllerFlags) any
	usually, then         any
}{
	{"kubeconfig", "", "/k", func(f *controllerFlags) any { return f.kubeconfig }, "", "/k"},
	{"worker-cluster-kubeconfig", "", "/w", func(f *controllerFlags) any { return f.workerKubeconfig }, "", "/w"},
	{"worker-count", "10", "25", func(f *controllerFlags) any { return f.workerCount }, 10, 25},
	{"container-runtime", "containerd", "containerd", func(f *controllerFlags) any { return f.nodeSettings().ContainerRuntime }, "containerd", "containerd"},
	{"external-cloud-provider", "false", "true", func(f *controllerFlags) any { return f.nodeSettings().ExternalCloudProvider }, false, true},
	{"cluster-dns", "10.10.10.10", "10.0.0.1, fd00::1", func(f *controllerFlags) any { return f.nodeSettings().ClusterDNS }, []string{"10.10.10.10"}, []string{"10.0.0.1", "fd00::1"}},
	{"pause-image", "", "registry.example.com/pause:3", func(f *controllerFlags) any { return f.nodeSettings().PauseImage }, "", "registry.example.com/pause:3"},
	{"initial-taints", "", "a=b:NoSchedule", func(f *controllerFlags) any { return f.nodeSettings().InitialTaints }, "", "a=b:NoSchedule"},
	{"disable-default-osps", "false", "true", func(f *controllerFlags) any { return f.disableDefaultOSPs }, false, true},
	{
		"node-kubelet-feature-gates", "RotateKubeletServerCertificate=true", "A=true,B=false", func(f *controllerFlags) any { return f.nodeSettings().KubeletFeatureGates },
		map[string]bool{rotateGate: true}, map[string]bool{rotateGate: true, "A": true, "B": false},
	},
	{"node-http-proxy", "", "http://proxy.example.com:3128", func(f *controllerFlags) any { return f.nodeSettings().NodeHTTPProxy }, "", "http://proxy.example.com:3128"},
	{"node-no-proxy", ".svc,.cluster.local,localhost,127.0.0.1", "10.0.0.0/8", func(f *controllerFlags) any { return f.nodeSettings().NodeNoProxy }, ".svc,.cluster.local,localhost,127.0.0.1", "10.0.0.0/8"},
	{"node-insecure-registries", "", "reg:5000", func(f *controllerFlags) any { return f.nodeSettings().NodeInsecureRegistries }, "", "reg:5000"},
	{"node-registry-mirrors", "", "mirror.example.com", func(f *controllerFlags) any { return f.nodeSettings().NodeRegistryMirrors }, "", "mirror.example.com"},
	{"node-containerd-registry-mirrors", "", "quay.io=https://m", func(f *controllerFlags) any { return f.nodeSettings().NodeContainerdRegistryMirrors }, []string(nil), []string{"quay.io=https://m"}},
	{
		"node-registry-credentials-secret", "", "kube-system/registries", func(f *controllerFlags) any { return f.registrySecret },
		types.NamespacedName{}, types.NamespacedName{Namespace: "kube-system", Name: "registries"},
	},
	{"device-ownership-from-security-context", "false", "true", func(f *controllerFlags) any { return f.nodeSettings().DeviceOwnershipFromSecurityContext }, false, true},
	{"health-probe-address", "127.0.0.1:8085", ":1", func(f *controllerFlags) any { return f.healthAddress }, "127.0.0.1:8085", ":1"},
	{"metrics-address", "127.0.0.1:8080", ":1", func(f *controllerFlags) any { return f.metricsAddress }, "127.0.0.1:8080", ":1"},
	{"worker-health-probe-address", "127.0.0.1:8086", ":1", func(f *controllerFlags) any { return f.workerHealth }, "127.0.0.1:8086", ":1"},
	{"worker-metrics-address", "127.0.0.1:8081", ":1", func(f *controllerFlags) any { return f.workerMetrics }, "127.0.0.1:8081", ":1"},
	{"leader-elect", "true", "false", func(f *controllerFlags) any { return f.leaderElect }, true, false},
	{"override-bootstrap-kubelet-apiserver", "", "https://api.example.com", func(f *controllerFlags) any { return f.overrideServer }, "", "https://api.example.com"},
	{
		"bootstrap-token-service-account-name", "", "kube-system/joiner", func(f *controllerFlags) any { return f.tokenServiceAccount },
		types.NamespacedName{}, types.NamespacedName{Namespace: "kube-system", Name: "joiner"},
	},
	{"kubernetes-ca-bundle", "", "/ca", func(f *controllerFlags) any { return f.kubernetesCAFile }, "", "/ca"},
	{"host-ca-bundle", "", "/ca", func(f *controllerFlags) any { return f.hostCAFile }, "", "/ca"},
	{"ca-bundle", "", "/ca", func(*controllerFlags) any { return nil }, nil, nil}, // ignored
	{"log-debug", "false", "true", func(f *controllerFlags) any { return f.logger(io.Discard).V(1).Enabled() }, false, true},
	{"log-format", "JSON", "coNsole", func(f *controllerFlags) any { return strings.ToLower(f.logFormat) }, "json", "console"},

	// Of section 11.2, what the webhook's process has beside them. The defaults of the
	// addresses, every address of the machine, are the ones above (security.md 29).
	{"metrics-bind-address", "", ":1", func(f *controllerFlags) any { return f.webhookMetrics }, "", ":1"},
	{"health-probe-bind-address", "", ":1", func(f *controllerFlags) any { return f.webhookHealth }, "", ":1"},
	{"cert-dir", "", "/certs", func(f *controllerFlags) any { return f.admission.certDir }, "", "/certs"},
}

// Every flag of the contract has its default and its meaning, with one dash and two,
// with "=" and without.
func TestContractFlags(t *testing.T) {
	for _, c := range contractFlags {
		t.Run(c.name, func(t *testing.T) {
			f, cmd, err := parsed("-namespace=kube-system")
			if err != nil {
				t.Fatal(err)
			}
			flag := cmd.Flags().Lookup(c.name)
			if flag == nil {
				t.Fatal("there is no such flag")
			}
			if got := strings.Trim(flag.DefValue, "[]"); got != c.standard {
				t.Errorf("the default is %q, want %q", got, c.standard)
			}
			if diff := cmp.Diff(c.usually, c.of(f)); diff != "" {
				t.Errorf("without the flag (-want +got):\n%s", diff)
			}
			ways := [][]string{{"-" + c.name + "=" + c.value}, {"--" + c.name + "=" + c.value}}
			if flag.Value.Type() != "bool" {
				ways = append(ways, []string{"-" + c.name, c.value}, []string{"--" + c.name, c.value})
			} else if c.value == "true" {
				ways = append(ways, []string{"-" + c.name}, []string{"--" + c.name})
			}
			for _, args := range ways {
				f, _, err := parsed(append(args, "-namespace", "kube-system")...)
				if err != nil {
					t.Fatalf("%q: %v", args, err)
				}
				if diff := cmp.Diff(c.then, c.of(f)); diff != "" {
					t.Errorf("%q (-want +got):\n%s", args, diff)
				}
			}
		})
	}
	if len(contractFlags) != 32 { // and --namespace, which every case has
		t.Errorf("the contract has 33 flags, %d are here", len(contractFlags)+1)
	}
}

// What the contract calls fatal ends with an error that names the flag.
func TestContractFlagsRefused(t *testing.T) {
	for flag, value := range map[string]string{
		"namespace": "", "container-runtime": "docker", "cluster-dns": "dns.example.com", "node-kubelet-feature-gates": "",
		"node-containerd-registry-mirrors": "quay.io", "node-registry-credentials-secret": "a/b/c", "bootstrap-token-service-account-name": "joiner",
		"log-format": "xml", "worker-count": "0", "override-bootstrap-kubelet-apiserver": "api.example.com:6443",
	} {
		_, _, err := parsed("-namespace=kube-system", "-"+flag+"="+value)
		if err == nil || !strings.Contains(err.Error(), "-"+flag+":") {
			t.Errorf("%s=%q: error %v", flag, value, err)
		}
	}
}

// parsed reads arguments as main does.
func parsed(args ...string) (*controllerFlags, *cobra.Command, error) {
	f := newControllerFlags()
	cmd := &cobra.Command{Use: "controller", Args: noArgs, RunE: func(*cobra.Command, []string) error { return f.validate() }, SilenceUsage: true, SilenceErrors: true}
	f.bind(cmd.Flags())
	root := &cobra.Command{Use: "osm-gitops"}
	root.AddCommand(cmd)
	root.SetArgs(contractDashes(append([]string{"controller"}, args...)))
	return f, cmd, root.Execute()
}

// kubeconfig writes one with a CA of its own, changed by the caller.
func kubeconfig(t *testing.T, ca string, change func(*clientcmdapi.Config)) string {
	t.Helper()
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: "https://127.0.0.1:1", CertificateAuthorityData: []byte(ca)}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: "canary-token"}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}
	change(&config)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func asItIs(*clientcmdapi.Config) {}

// The CA for nodes: the flag's, else that of the worker cluster's kubeconfig, else of
// the management cluster's, else what the process itself trusts.
func TestNodeCA(t *testing.T) {
	const pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	bundle, empty := filepath.Join(t.TempDir(), "ca.pem"), filepath.Join(t.TempDir(), "empty.pem")
	for path, text := range map[string]string{bundle: pem, empty: "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	management, worker := kubeconfig(t, "management CA", asItIs), kubeconfig(t, "worker CA", asItIs)
	two := kubeconfig(t, "worker CA", func(c *clientcmdapi.Config) { c.Clusters["d"] = &clientcmdapi.Cluster{Server: "https://d"} })
	none := kubeconfig(t, "", asItIs)
	for name, c := range map[string]struct {
		args      []string
		cfg       *rest.Config
		want, err string
	}{
		"the flag":                       {[]string{"-kubeconfig", management, "-kubernetes-ca-bundle", bundle}, &rest.Config{}, pem, ""},
		"the worker cluster's":           {[]string{"-kubeconfig", management, "-worker-cluster-kubeconfig", worker}, &rest.Config{}, "worker CA", ""},
		"of the worker's alone":          {[]string{"-worker-cluster-kubeconfig", worker}, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte("in-cluster CA")}}, "worker CA", ""},
		"the management cluster's":       {[]string{"-kubeconfig", management}, &rest.Config{}, "management CA", ""},
		"without kubeconfig, the data":   {nil, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: []byte("in-cluster CA")}}, "in-cluster CA", ""},
		"without kubeconfig, the file":   {nil, &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: bundle}}, pem, ""},
		"none is known":                  {nil, &rest.Config{}, "", "--kubernetes-ca-bundle"},
		"a bundle without certificate":   {[]string{"-kubernetes-ca-bundle", empty}, &rest.Config{}, "", "--kubernetes-ca-bundle: "},
		"a kubeconfig with two clusters": {[]string{"-kubeconfig", management, "-worker-cluster-kubeconfig", two}, &rest.Config{}, "", "--worker-cluster-kubeconfig: " + two + " has 2 clusters"},
		"a kubeconfig without data":      {[]string{"-kubeconfig", none}, &rest.Config{}, "", "--kubeconfig: " + none + " has no certificate-authority-data"},
	} {
		t.Run(name, func(t *testing.T) {
			f, _, err := parsed(append(c.args, "-namespace=kube-system")...)
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.settings(c.cfg)
			if c.err == "" && (err != nil || got.KubernetesCACert != c.want) {
				t.Errorf("got %q, %v, want %q", got.KubernetesCACert, err, c.want)
			}
			if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// security.md 23: a kubeconfig, of either cluster, that would run a program or load a
// plugin is refused before anything is asked, whoever wrote it.
func TestKubeconfigRunsNothing(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "ran")
	execs := kubeconfig(t, "CA", func(c *clientcmdapi.Config) {
		c.AuthInfos["c"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			Command: "/usr/bin/touch", Args: []string{marker}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}
	})
	plugin := kubeconfig(t, "CA", func(c *clientcmdapi.Config) {
		c.AuthInfos["c"] = &clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "oidc", Config: map[string]string{"cmd-path": "/usr/bin/touch"}}}
	})
	good := kubeconfig(t, "CA", asItIs)
	for _, c := range []struct{ management, worker, says string }{
		{execs, "", "--kubeconfig: its user has exec"},
		{good, execs, "--worker-cluster-kubeconfig: its user has exec"},
		{plugin, "", "--kubeconfig: its user has auth-provider \"oidc\""},
		{good, plugin, "--worker-cluster-kubeconfig: its user has auth-provider"},
	} {
		f, _, err := parsed("-namespace=kube-system", "-kubeconfig", c.management, "-worker-cluster-kubeconfig", c.worker, "-cache-dir", t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := runController(t.Context(), f); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want %q", err, c.says)
		}
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("the program ran")
	}
	t.Setenv("KUBECONFIG", execs)
	f, _, err := parsed("-namespace=kube-system")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.clusters(); err == nil || !strings.Contains(err.Error(), "its user has exec") {
		t.Errorf("the environment's: error %v", err)
	}
	// One cluster is one, and two are two, wherever they are.
	good = kubeconfig(t, "", asItIs)
	f, _, err = parsed("-namespace=kube-system", "-kubeconfig", good, "-worker-cluster-kubeconfig", good)
	if err != nil {
		t.Fatal(err)
	}
	two, err := f.clusters()
	if err != nil || !two.apart() || !reflect.DeepEqual([]string{two.management.name, two.worker.name}, []string{"management cluster", "worker cluster"}) {
		t.Errorf("clusters %+v, %v", two, err)
	}
	f.workerKubeconfig = ""
	if one, err := f.clusters(); err != nil || one.apart() {
		t.Errorf("one cluster: %+v, %v", one, err)
	}
}

// Addresses are served as they are given; "0" and nothing serve nothing.
func TestNoServers(t *testing.T) {
	var counts []int
	for _, args := range [][]string{
		{"-health-probe-address=0", "-metrics-address=0"}, {"-health-probe-address=", "-metrics-address="}, nil,
		{"-health-probe-bind-address=:8081", "-metrics-bind-address=:8080"}, // the webhook's
		{"-health-probe-bind-address=127.0.0.1:8085", "-metrics-bind-address=127.0.0.1:8080"},
	} {
		f, _, err := parsed(append(args, "-namespace=kube-system")...)
		if err != nil {
			t.Fatal(err)
		}
		one := &part{}
		servers, err := f.servers(one, one)
		two, err2 := f.servers(one, &part{})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		counts = append(counts, len(servers), len(two))
	}
	if want := []int{0, 2, 0, 2, 2, 4, 4, 6, 2, 4}; !slices.Equal(counts, want) {
		t.Errorf("numbers of servers %v, want %v", counts, want)
	}
}
