package profiles_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Credentials, each different, so that a test can tell where one ended up.
const (
	bootstrapToken   = "abcdef.0123456789abcdef"
	proxyPassword    = "proxy-2f6c0b94"
	registryPassword = "registry-81d3a5e7"
	registryIdentity = "identity-5b0c9f12"
	mirrorPassword   = "mirror-c47e1a60"
	rhelPassword     = "rhsm-93b8d2f4"
	rhelOffline      = "offline-6a1f7c38"
	rhelActivation   = "activation-e05d4b29"
	cloudSecret      = "cloud-config-7d92e6b1"
)

// nodeToken is as long as a ServiceAccount's: three parts, about a thousand characters.
var nodeToken = noise("header", 120) + "." + noise("claims", 620) + "." + noise("signature", 342)

// noise is text of n characters that nothing compresses, always the same.
func noise(seed string, n int) string {
	var b []byte
	for i := 0; len(b) < n; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", seed, i))
		b = append(b, sum[:]...)
	}
	return strings.NewReplacer("+", "-", "/", "_").Replace(base64.StdEncoding.EncodeToString(b))[:n]
}

// certificate is as long as that of a cluster's CA with an RSA key. Nothing here
// reads what is in it.
func certificate(seed string) string {
	var b strings.Builder
	b.WriteString("-----BEGIN CERTIFICATE-----\n")
	for line := range slices.Chunk([]byte(noise(seed, 1024)), 64) {
		b.Write(line)
		b.WriteByte('\n')
	}
	b.WriteString("-----END CERTIFICATE-----\n")
	return b.String()
}

// Names of dimensions that tests ask for.
const (
	provider        = "provider"
	kubelet         = "kubelet"
	proxy           = "proxy"
	registries      = "registries"
	external        = "external"
	ipFamily        = "family"
	hostCA          = "hostCA"
	pause           = "pause"
	taints          = "taints"
	annotations     = "annotations"
	keys            = "keys"
	gates           = "gates"
	downloads       = "downloads"
	commit          = "commit"
	cloudConf       = "cloudConfig"
	system          = "system"
	network         = "network"
	ignitionVersion = "ignition"
)

// kubelets are the supported minors.
var kubelets = []string{"1.33.0", "1.34.0", "1.35.0", "1.36.0"}

// dimension is one thing in which pools or settings differ. The first value is
// what a pool has that says nothing.
type dimension struct {
	name   string
	values []value
}

type value struct {
	name  string
	apply func(*combination)
}

// combination is a pool, a cluster and settings in the making.
type combination struct {
	annotations  map[string]string
	kubelet      string
	providerSpec map[string]any
	system       map[string]any // operatingSystemSpec
	settings     render.Settings
	cluster      render.Cluster
	from         render.Provenance
}

// newCombination is a pool of a profile's operating system with nothing chosen.
func newCombination(doc profile.Document) *combination {
	c := &combination{
		annotations: map[string]string{api.AnnotationOSP: doc.Name},
		system:      map[string]any{},
		settings: render.Settings{
			ClusterDNS: []string{"10.96.0.10"}, KubernetesCACert: certificate("cluster"), Namespace: "kube-system",
		},
		cluster: render.Cluster{Server: "https://api.cluster.example.com:6443", APIServerToken: nodeToken, BootstrapToken: bootstrapToken},
	}
	if doc.Spec.OSName == osm.OperatingSystemFlatcar {
		c.system["provisioningUtility"] = doc.Spec.ProvisioningUtility
	}
	c.providerSpec = map[string]any{"operatingSystem": doc.Spec.OSName}
	return c
}

func (c *combination) input(doc profile.Document) (render.Input, error) {
	c.providerSpec["operatingSystemSpec"] = c.system
	b, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": "worker-pool-a", "namespace": "kube-system", "annotations": c.annotations},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"versions":     map[string]any{"kubelet": c.kubelet},
			"providerSpec": map[string]any{"value": c.providerSpec},
		}}},
	})
	if err != nil {
		return render.Input{}, err
	}
	var md machines.MachineDeployment
	if err := json.Unmarshal(b, &md); err != nil {
		return render.Input{}, err
	}
	pool, err := render.DecodePool(&md)
	return render.Input{Profile: profileOf(doc, c.from), Pool: pool, Settings: c.settings, Cluster: c.cluster}, err
}

// kubeletAnnotations are all of the contract's (section 6).
var kubeletAnnotations = map[string]string{
	"KubeReserved": "cpu=300m,memory=350Mi", "SystemReserved": "cpu=250m,ephemeral-storage=2Gi", "EvictionHard": "memory.available<250Mi,nodefs.available<12%",
	"MaxPods": "222", "ContainerLogMaxSize": "64Mi", "ContainerLogMaxFiles": "7",
	"ImageGCHighThresholdPercent": "81", "ImageGCLowThresholdPercent": "71", "ImageMinimumGCAge": "7m", "ImageMaximumGCAge": "26h",
}

func annotate(names ...string) func(*combination) {
	return func(c *combination) {
		for _, name := range names {
			c.annotations[api.AnnotationKubeletConfigPrefix+name] = kubeletAnnotations[name]
		}
	}
}

func setting(set func(*render.Settings)) func(*combination) {
	return func(c *combination) { set(&c.settings) }
}

func osSpec(values map[string]any) func(*combination) {
	return func(c *combination) {
		for k, v := range values {
			c.system[k] = v
		}
	}
}

func addNetwork(values map[string]any) func(*combination) {
	return func(c *combination) {
		n, _ := c.providerSpec["network"].(map[string]any)
		if n == nil {
			n = map[string]any{}
			c.providerSpec["network"] = n
		}
		for k, v := range values {
			n[k] = v
		}
	}
}

// withDigests gives a digest for all that nodes download of Kubernetes, by the names
// that profiles/README.md gives.
func withDigests(s *render.Settings) {
	s.DownloadDigests = map[string]string{}
	for _, name := range []string{"kubelet", "kubectl", "kubeadm"} {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, v := range kubelets {
				s.DownloadDigests[name+"-v"+v+"-linux-"+arch] = strings.Repeat("0123456789abcdef", 4)
			}
		}
	}
}

// withMirrors sends nodes elsewhere for all that they download. The names are those
// of profiles/README.md.
func withMirrors(s *render.Settings) {
	s.DownloadMirrors = map[string]string{}
	for _, publisher := range []string{"cni", "crictl", "docker", "kubernetes"} {
		s.DownloadMirrors[publisher] = "https://node:" + mirrorPassword + "@mirror.example.com/" + publisher
	}
}

// dimensions of a profile's pools, those that only some operating systems have
// included.
func dimensions(doc profile.Document) []dimension {
	dims := []dimension{{name: provider}, {name: kubelet}}
	for _, p := range doc.Spec.SupportedCloudProviders {
		dims[0].values = append(dims[0].values, value{string(p.Name), func(c *combination) { c.providerSpec["cloudProvider"] = p.Name }})
	}
	for _, v := range kubelets {
		dims[1].values = append(dims[1].values, value{v, func(c *combination) { c.kubelet = v }})
	}
	dims = append(dims, everywhere()...)
	switch doc.Spec.OSName {
	case osm.OperatingSystemFlatcar:
		dims = append(dims, flatcar(doc)...)
	case osm.OperatingSystemRHEL:
		dims = append(dims, rhel())
	default:
		dims = append(dims, dimension{system, []value{{"none", nil}, {"upgrade", osSpec(map[string]any{"distUpgradeOnBoot": true})}}})
	}
	return dims
}

func everywhere() []dimension {
	const noProxy = ".svc,.cluster.local,localhost,127.0.0.1,10.0.0.0/8"
	return []dimension{
		{proxy, []value{{"none", nil},
			{"plain", setting(func(s *render.Settings) { s.NodeHTTPProxy, s.NodeNoProxy = "http://proxy.example.com:3128", noProxy })},
			{"password", setting(func(s *render.Settings) {
				s.NodeHTTPProxy, s.NodeNoProxy = "http://node:"+proxyPassword+"%40@proxy.example.com:3128", noProxy // %40 is an "@" of the password
			})},
			{"no-proxy alone", setting(func(s *render.Settings) { s.NodeNoProxy = noProxy })}}},
		{registries, []value{{"none", nil},
			{"mirrors", setting(func(s *render.Settings) {
				s.NodeRegistryMirrors = "https://hub.example.com,quay.io=https://quay.example.com"
				s.NodeContainerdRegistryMirrors = []string{"registry.k8s.io=https://k8s.example.com/v2?kubermatic=override_path%3Dtrue", "*=https://node:" + mirrorPassword + "@any.example.com"}
			})},
			{"insecure", setting(func(s *render.Settings) { s.NodeInsecureRegistries = "10.0.0.1:5000,docker.io" })},
			{"credentials", setting(func(s *render.Settings) {
				s.RegistryCredentials = map[string]render.RegistryCredential{
					"registry.example.com": {Username: "node", Password: registryPassword}, "id.example.com": {IdentityToken: registryIdentity}}
			})}}},
		{external, []value{{"no", nil}, {"yes", setting(func(s *render.Settings) { s.ExternalCloudProvider = true })}}},
		{ipFamily, []value{{"none", nil},
			{"IPv4", addNetwork(map[string]any{"ipFamily": "IPv4"})}, {"IPv6", addNetwork(map[string]any{"ipFamily": "IPv6"})},
			{"IPv4+IPv6", addNetwork(map[string]any{"ipFamily": "IPv4+IPv6"})}, {"IPv6+IPv4", addNetwork(map[string]any{"ipFamily": "IPv6+IPv4"})}}},
		{hostCA, []value{{"none", nil}, {"one", setting(func(s *render.Settings) { s.HostCACert = certificate("host") })}}},
		{pause, []value{{"none", nil}, {"set", setting(func(s *render.Settings) { s.PauseImage = "registry.example.com/pause:3.10" })}}},
		{taints, []value{{"none", nil}, {"two", setting(func(s *render.Settings) {
			s.InitialTaints = "node.example.com/agent=missing:NoSchedule,example.com/gpu:NoExecute"
		})}}},
		{annotations, []value{{"none", nil}, {"all", annotate(slices.Sorted(maps.Keys(kubeletAnnotations))...)},
			{"sizes", annotate("KubeReserved", "EvictionHard", "ContainerLogMaxFiles")}, {"images", annotate("ImageGCHighThresholdPercent", "ImageGCLowThresholdPercent", "MaxPods", "SystemReserved")}}},
		{keys, []value{{"none", nil}, {"two", func(c *combination) {
			c.providerSpec["sshPublicKeys"] = []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB" + noise("one", 42) + " one@example.com", "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ" + noise("two", 338) + " it's two"}
		}}}},
		{gates, []value{{"none", nil}, {"two", setting(func(s *render.Settings) {
			s.KubeletFeatureGates = map[string]bool{"RotateKubeletServerCertificate": true, "ImageVolume": false}
		})}}},
		{downloads, []value{{"publishers", nil}, {"mirrors", setting(withMirrors)}, {"digests", setting(withDigests)},
			{"both", setting(func(s *render.Settings) { withMirrors(s); withDigests(s) })}}},
		{commit, []value{{"none", nil}, // a profile made by hand
			{"sha1", from("3f2a9c1d5e6f708192a3b4c5d6e7f8091a2b3c4d")},
			{"sha256", from("3f2a9c1d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809")}}},
		{cloudConf, []value{{"none", nil}, {"overwritten", func(c *combination) {
			c.providerSpec["overwriteCloudConfig"] = "[Global]\nsecret = \"" + cloudSecret + "\"\n"
		}}}},
	}
}

func from(name string) func(*combination) {
	return func(c *combination) {
		c.from = render.Provenance{Commit: name, Change: name, Repository: "https://git.example.com/profiles.git", Path: "profiles/" + c.annotations[api.AnnotationOSP] + ".yaml"}
	}
}

func rhel() dimension {
	return dimension{system, []value{{"none", nil},
		{"user", osSpec(map[string]any{"rhelSubscriptionManagerUser": "node@example.com", "rhelSubscriptionManagerPassword": rhelPassword, "attachSubscription": true})},
		{"offline", osSpec(map[string]any{"rhelSubscriptionManagerUser": "node@example.com", "rhelSubscriptionManagerPassword": rhelPassword, "rhsmOfflineToken": rhelOffline})},
		{"satellite", osSpec(map[string]any{"rhelUseSatelliteServer": true, "rhelSatelliteServer": "satellite.example.com", "rhelOrganizationName": "example", "rhelActivationKey": rhelActivation})},
		{"upgrade", osSpec(map[string]any{"distUpgradeOnBoot": true})}}}
}

func flatcar(doc profile.Document) []dimension {
	dims := []dimension{
		{system, []value{{"none", nil},
			{"no updates", osSpec(map[string]any{"disableAutoUpdate": true})},
			{"no locksmith", osSpec(map[string]any{"disableLocksmithD": true})},
			{"no engine", osSpec(map[string]any{"disableUpdateEngine": true})},
			{"nothing", osSpec(map[string]any{"disableAutoUpdate": true, "disableLocksmithD": true, "disableUpdateEngine": true})}}},
		{network, []value{{"dhcp", nil},
			{"static", addNetwork(map[string]any{"cidr": "192.0.2.10/24", "gateway": "192.0.2.1", "dns": map[string]any{"servers": []string{"192.0.2.2", "192.0.2.3"}}})},
			{"dns alone", addNetwork(map[string]any{"dns": map[string]any{"servers": []string{"2001:db8::53"}}})}}},
	}
	if doc.Spec.ProvisioningUtility == osm.ProvisioningUtilityIgnition {
		dims = append(dims, dimension{ignitionVersion, []value{{"3.3.0", nil},
			{"3.4.0", setting(func(s *render.Settings) { s.IgnitionVersion = "3.4.0" })},
			{"2.3.0", func(c *combination) { c.annotations[api.AnnotationIgnitionVersion] = "2.3.0" }}}})
	}
	return dims
}
