package main

import (
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
)

// osmFlags are those of operating-system-manager, in the order of its help: the default there,
// another value, and what the controller makes of the one and the other.
var osmFlags = []struct {
	name, standard, value string
	of                    func(f *controllerFlags) any
	usually, then         any
}{
	{"kubeconfig", "", "/k", func(f *controllerFlags) any { return f.Kubeconfig }, "", "/k"},
	{"worker-cluster-kubeconfig", "", "/w", func(f *controllerFlags) any { return f.WorkerKubeconfig }, "", "/w"},
	{"worker-count", "10", "25", func(f *controllerFlags) any { return f.WorkerCount }, 10, 25},
	{"container-runtime", "containerd", "containerd", func(f *controllerFlags) any { return f.Settings.ContainerRuntime }, "containerd", "containerd"},
	{"external-cloud-provider", "false", "true", func(f *controllerFlags) any { return f.Settings.ExternalCloudProvider }, false, true},
	{"cluster-dns", "10.10.10.10", "10.0.0.1, fd00::1", func(f *controllerFlags) any { return f.Settings.ClusterDNS }, []string{"10.10.10.10"}, []string{"10.0.0.1", "fd00::1"}},
	{"pause-image", "", "registry.example.com/pause:3", func(f *controllerFlags) any { return f.Settings.PauseImage }, "", "registry.example.com/pause:3"},
	{"initial-taints", "", "a=b:NoSchedule", func(f *controllerFlags) any { return f.Settings.InitialTaints }, "", "a=b:NoSchedule"},
	{"disable-default-osps", "false", "true", func(f *controllerFlags) any { return f.DisableDefaultOSPs }, false, true},
	{
		"node-kubelet-feature-gates", "RotateKubeletServerCertificate=true", "A=true,B=false", func(f *controllerFlags) any { return f.Settings.KubeletFeatureGates },
		map[string]bool{rotateGate: true}, map[string]bool{rotateGate: true, "A": true, "B": false},
	},
	{"node-http-proxy", "", "http://proxy.example.com:3128", func(f *controllerFlags) any { return f.Settings.NodeHTTPProxy }, "", "http://proxy.example.com:3128"},
	{"node-no-proxy", ".svc,.cluster.local,localhost,127.0.0.1", "10.0.0.0/8", func(f *controllerFlags) any { return f.Settings.NodeNoProxy }, ".svc,.cluster.local,localhost,127.0.0.1", "10.0.0.0/8"},
	{"node-insecure-registries", "", "reg:5000", func(f *controllerFlags) any { return f.Settings.NodeInsecureRegistries }, "", "reg:5000"},
	{"node-registry-mirrors", "", "mirror.example.com", func(f *controllerFlags) any { return f.Settings.NodeRegistryMirrors }, "", "mirror.example.com"},
	{"node-containerd-registry-mirrors", "", "quay.io=https://m", func(f *controllerFlags) any { return f.Settings.NodeContainerdRegistryMirrors }, []string(nil), []string{"quay.io=https://m"}},
	{
		"node-registry-credentials-secret", "", "kube-system/registries", func(f *controllerFlags) any { return f.RegistrySecret },
		types.NamespacedName{}, types.NamespacedName{Namespace: "kube-system", Name: "registries"},
	},
	{"device-ownership-from-security-context", "false", "true", func(f *controllerFlags) any { return f.Settings.DeviceOwnershipFromSecurityContext }, false, true},
	{"health-probe-address", "127.0.0.1:8085", ":1", func(f *controllerFlags) any { return f.HealthAddress }, "127.0.0.1:8085", ":1"},
	{"metrics-address", "127.0.0.1:8080", ":1", func(f *controllerFlags) any { return f.MetricsAddress }, "127.0.0.1:8080", ":1"},
	{"worker-health-probe-address", "127.0.0.1:8086", ":1", func(f *controllerFlags) any { return f.WorkerHealthAddress }, "127.0.0.1:8086", ":1"},
	{"worker-metrics-address", "127.0.0.1:8081", ":1", func(f *controllerFlags) any { return f.WorkerMetricsAddress }, "127.0.0.1:8081", ":1"},
	{"leader-elect", "true", "false", func(f *controllerFlags) any { return f.LeaderElect }, true, false},
	{"override-bootstrap-kubelet-apiserver", "", "https://api.example.com", func(f *controllerFlags) any { return f.OverrideServer }, "", "https://api.example.com"},
	{
		"bootstrap-token-service-account-name", "", "kube-system/joiner", func(f *controllerFlags) any { return f.TokenServiceAccount },
		types.NamespacedName{}, types.NamespacedName{Namespace: "kube-system", Name: "joiner"},
	},
	{"kubernetes-ca-bundle", "", "/ca", func(f *controllerFlags) any { return f.KubernetesCAFile }, "", "/ca"},
	{"host-ca-bundle", "", "/ca", func(f *controllerFlags) any { return f.HostCAFile }, "", "/ca"},
	{"ca-bundle", "", "/ca", func(*controllerFlags) any { return nil }, nil, nil}, // ignored
	{"log-debug", "false", "true", func(f *controllerFlags) any { return f.newLogger(io.Discard).V(1).Enabled() }, false, true},
	{"log-format", "JSON", "coNsole", func(f *controllerFlags) any { return strings.ToLower(f.logFormat) }, "json", "console"},

	// Flags that only the webhook process of section 11.2 has. Their default addresses are the
	// ones above, not every address of the machine (security.md 29).
	{"metrics-bind-address", "", ":1", func(f *controllerFlags) any { return f.SecondMetricsAddress }, "", ":1"},
	{"health-probe-bind-address", "", ":1", func(f *controllerFlags) any { return f.SecondHealthAddress }, "", ":1"},
	{"cert-dir", "", "/certs", func(f *controllerFlags) any { return f.Webhook.CertDir }, "", "/certs"},
}

// Every flag of operating-system-manager has its default and its meaning, with one dash and two,
// with "=" and without.
func TestContractFlags(t *testing.T) {
	for _, c := range osmFlags {
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
	if len(osmFlags) != 32 { // and --namespace, which every case has
		t.Errorf("operating-system-manager has 33 flags, %d are here", len(osmFlags)+1)
	}
}

// Errors that end operating-system-manager at its start name the flag.
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
	cmd := &cobra.Command{Use: "controller", Args: noArgs, RunE: func(*cobra.Command, []string) error { return f.parseAndValidate() }, SilenceUsage: true, SilenceErrors: true}
	f.bind(cmd.Flags())
	root := &cobra.Command{Use: "osm-gitops"}
	root.AddCommand(cmd)
	root.SetArgs(normalizeControllerDashes(append([]string{"controller"}, args...)))
	return f, cmd, root.Execute()
}
