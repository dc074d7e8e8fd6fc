package sample

import (
	"fmt"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Pool is an artificial pool for rendering profiles.
type Pool struct {
	// Where describes it, such as "aws, kubelet 1.33.0, proxy".
	Where string
	In    render.Input
}

// Kubelets has one version of each supported minor (contract: "Supported kubelet minors").
var Kubelets = []string{"1.33.0", "1.34.0", "1.35.0", "1.36.0"}

// Values of samples. None is a real credential.
const (
	sampleCA       = "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGUsIGp1c3QgdGhlIHBsYWNlIG9mIG9uZQ==\n-----END CERTIFICATE-----\n"
	sampleToken    = "token-of-a-sample"
	sampleID       = "abcdef.0123456789abcdef"
	sampleServer   = "https://api.example.com:6443"
	sampleProxy    = "http://proxy.example.com:3128"
	sampleRegistry = "registry.example.com"
)

// variation is one difference of pools and settings.
type variation struct {
	name  string
	apply func(*render.Input)
}

func variations(system osm.OperatingSystem) []variation {
	all := []variation{
		{"external cloud provider", func(in *render.Input) { in.Settings.ExternalCloudProvider = true }},
		{"proxy", func(in *render.Input) {
			in.Settings.NodeHTTPProxy, in.Settings.NodeNoProxy = sampleProxy, ".svc,127.0.0.1"
		}},
		{"registry mirrors", func(in *render.Input) {
			in.Settings.NodeRegistryMirrors = sampleRegistry
			in.Settings.NodeContainerdRegistryMirrors = []string{"quay.io=https://" + sampleRegistry}
		}},
		{"insecure registries", func(in *render.Input) { in.Settings.NodeInsecureRegistries = "10.0.0.9:5000" }},
		{"registry credentials", func(in *render.Input) {
			in.Settings.RegistryCredentials = map[string]render.RegistryCredential{sampleRegistry: {Username: "user", Password: sampleToken}}
		}},
		{"IPv6", family("IPv6")},
		{"IPv4+IPv6", family("IPv4+IPv6")},
		{"IPv6+IPv4", family("IPv6+IPv4")},
		{"host CA", func(in *render.Input) { in.Settings.HostCACert = sampleCA }},
		{"pause image", func(in *render.Input) { in.Settings.PauseImage = sampleRegistry + "/pause:3.10" }},
		{"initial taints", func(in *render.Input) { in.Settings.InitialTaints = "a=b:NoSchedule" }},
		{"feature gates", func(in *render.Input) {
			in.Settings.KubeletFeatureGates = map[string]bool{"RotateKubeletServerCertificate": true, "GracefulNodeShutdown": false}
		}},
		{"device ownership", func(in *render.Input) { in.Settings.DeviceOwnershipFromSecurityContext = true }},
		{"download mirrors", func(in *render.Input) {
			in.Settings.DownloadMirrors = map[string]string{"kubernetes": "https://mirror.example.com/kubernetes"}
		}},
		{"kubelet annotations", func(in *render.Input) { in.Pool.KubeletAnnotations = kubeletAnnotationsBySuffix() }},
		{"SSH keys", func(in *render.Input) { in.Pool.SSHPublicKeys = []string{"ssh-ed25519 AAAA sample"} }},
		{"overwriteCloudConfig", func(in *render.Input) {
			config := "[global]\n"
			in.Pool.OverwriteCloudConfig, in.Pool.CloudConfig = &config, config
		}},
	}
	return append(all, systemVariations(system)...)
}

func systemVariations(system osm.OperatingSystem) []variation {
	switch system {
	case osm.OperatingSystemFlatcar:
		return []variation{
			{"static network", func(in *render.Input) {
				n := ensureNetwork(in)
				n.CIDR, n.Gateway, n.DNS.Servers = "192.0.2.10/24", "192.0.2.1", []string{"192.0.2.53"}
			}},
			{"disableAutoUpdate", func(in *render.Input) { in.Pool.OperatingSystemSpec.Flatcar.DisableAutoUpdate = true }},
			{"disableLocksmithD and disableUpdateEngine", func(in *render.Input) {
				in.Pool.OperatingSystemSpec.Flatcar.DisableLocksmithD, in.Pool.OperatingSystemSpec.Flatcar.DisableUpdateEngine = true, true
			}},
		}
	case osm.OperatingSystemRHEL:
		return []variation{
			upgradeOnBoot,
			{"subscription", func(in *render.Input) {
				in.Pool.OperatingSystemSpec.RHEL.RHELSubscriptionManagerUser = "user"
				in.Pool.OperatingSystemSpec.RHEL.RHELSubscriptionManagerPassword = sampleToken
				in.Pool.OperatingSystemSpec.RHEL.AttachSubscription = true
			}},
			{"satellite server", func(in *render.Input) {
				in.Pool.OperatingSystemSpec.RHEL.RHELUseSatelliteServer = true
				in.Pool.OperatingSystemSpec.RHEL.RHELSatelliteServer = "satellite.example.com"
				in.Pool.OperatingSystemSpec.RHEL.RHELOrganizationName, in.Pool.OperatingSystemSpec.RHEL.RHELActivationKey = "org", sampleToken
			}},
		}
	}
	return []variation{upgradeOnBoot}
}

var upgradeOnBoot = variation{"distUpgradeOnBoot", func(in *render.Input) { in.Pool.OperatingSystemSpec.DistUpgradeOnBoot = true }}

func family(f render.IPFamily) func(*render.Input) {
	return func(in *render.Input) { ensureNetwork(in).IPFamily = f }
}

// ensureNetwork returns the pool's network configuration, which it creates if there is none.
func ensureNetwork(in *render.Input) *render.NetworkConfig {
	if in.Pool.Network == nil {
		in.Pool.Network = &render.NetworkConfig{}
	}
	return in.Pool.Network
}

// kubeletAnnotationsBySuffix returns sample values of the kubelet annotations, by what follows the
// prefix in their names.
func kubeletAnnotationsBySuffix() map[string]string {
	return map[string]string{
		"KubeReserved": "cpu=300m,memory=350Mi", "SystemReserved": "cpu=250m", "EvictionHard": "memory.available<250Mi",
		"MaxPods": "222", "ContainerLogMaxSize": "64Mi", "ContainerLogMaxFiles": "7",
		"ImageGCHighThresholdPercent": "81", "ImageGCLowThresholdPercent": "71", "ImageMinimumGCAge": "7m", "ImageMaximumGCAge": "26h",
	}
}

// Pools returns pools with a profile's operating system for each provider that it names
// and each kubelet minor: with defaults, with all options, and with one variation at a
// time, in rotation. For a profile without providers there are none.
func Pools(spec osm.OperatingSystemProfileSpec) []Pool {
	var out []Pool
	all := variations(spec.OSName)
	providers := spec.SupportedCloudProviders
	for n := range max(len(providers), len(Kubelets)) {
		if len(providers) == 0 {
			break
		}
		provider, kubelet := providers[n%len(providers)].Name, Kubelets[n%len(Kubelets)]
		out = append(out, New(spec, provider, kubelet), New(spec, provider, kubelet, all...))
	}
	for v := range all {
		if len(providers) > 0 {
			out = append(out, New(spec, providers[v%len(providers)].Name, Kubelets[v%len(Kubelets)], all[v]))
		}
	}
	return out
}

// ExhaustivePools returns more of them, for a comparison that has to be reliable: every
// variation with every provider and every minor.
func ExhaustivePools(spec osm.OperatingSystemProfileSpec) []Pool {
	out := Pools(spec) // most differences occur in these
	for _, provider := range spec.SupportedCloudProviders {
		for _, kubelet := range Kubelets {
			for _, v := range variations(spec.OSName) {
				out = append(out, New(spec, provider.Name, kubelet, v))
			}
		}
	}
	return out
}

func New(spec osm.OperatingSystemProfileSpec, provider osm.CloudProvider, kubelet string, with ...variation) Pool {
	in := render.Input{
		Pool: render.Pool{Name: "sample", Namespace: "kube-system", KubeletVersion: kubelet, CloudProvider: provider, OperatingSystem: spec.OSName},
		Settings: render.Settings{
			ClusterDNS: []string{"10.96.0.10"}, KubernetesCACert: sampleCA, Namespace: "kube-system",
		},
		Cluster: render.Cluster{Server: sampleServer, APIServerToken: sampleToken, BootstrapToken: sampleID},
	}
	switch spec.OSName {
	case osm.OperatingSystemFlatcar:
		in.Pool.OperatingSystemSpec.Flatcar = &render.FlatcarSpec{ProvisioningUtility: spec.ProvisioningUtility}
	case osm.OperatingSystemRHEL:
		in.Pool.OperatingSystemSpec.RHEL = &render.RHELSpec{}
	}
	names := []string{string(provider), "kubelet " + kubelet}
	for _, v := range with {
		v.apply(&in)
		names = append(names, v.name)
	}
	if len(with) > 3 {
		names = append(names[:2], fmt.Sprintf("all of %d settings", len(with)))
	}
	in.Settings.KubeletFeatureGates = emptyIfNil(in.Settings.KubeletFeatureGates)
	return Pool{Where: strings.Join(names, ", "), In: in}
}

// emptyIfNil replaces nil, which no value of the flag produces.
func emptyIfNil(gates map[string]bool) map[string]bool {
	if gates == nil {
		return map[string]bool{}
	}
	return gates
}
