package matrix

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Names of dimensions.
const (
	Provider        = "provider"
	Kubelet         = "kubelet"
	Proxy           = "proxy"
	Registries      = "registries"
	External        = "external"
	IPFamily        = "family"
	HostCA          = "hostCA"
	Pause           = "pause"
	Taints          = "taints"
	Annotations     = "annotations"
	Keys            = "keys"
	Gates           = "gates"
	Downloads       = "downloads"
	Commit          = "commit"
	CloudConfig     = "cloudConfig"
	System          = "system"
	Network         = "network"
	IgnitionVersion = "ignition"
)

// Kubelets are a version of each supported minor.
func Kubelets() []string { return []string{"1.33.0", "1.34.0", "1.35.0", "1.36.0"} }

// Dimension is one property in which pools or settings differ. The first value is that of a
// pool that does not set it.
type Dimension struct {
	Name   string
	Values []Value
}

// Value is one value of a dimension.
type Value struct {
	Name string
	// Apply sets the value; nil if nothing has to be set.
	Apply func(*Combination)
}

// Combination is a pool, a cluster and settings to which values are applied.
type Combination struct {
	Settings render.Settings
	Cluster  render.Cluster

	doc          profile.Document
	annotations  map[string]string
	kubelet      string
	providerSpec map[string]any
	system       map[string]any // operatingSystemSpec
	from         render.Provenance
}

// New returns a pool of a profile's operating system without values.
func New(doc profile.Document) *Combination {
	c := &Combination{
		doc:         doc,
		annotations: map[string]string{api.AnnotationOSP: doc.Name},
		system:      map[string]any{},
		Settings: render.Settings{
			ClusterDNS: []string{"10.96.0.10"}, KubernetesCACert: fakeCertificate("cluster"), Namespace: "kube-system",
		},
		Cluster: render.Cluster{Server: "https://api.cluster.example.com:6443", APIServerToken: NodeToken, BootstrapToken: BootstrapToken},
	}
	if doc.Spec.OSName == osm.OperatingSystemFlatcar {
		c.system["provisioningUtility"] = doc.Spec.ProvisioningUtility
	}
	c.providerSpec = map[string]any{"operatingSystem": doc.Spec.OSName}
	return c
}

// Combine returns the pool of a row: a value of each dimension.
func Combine(doc profile.Document, dims []Dimension, row []int) *Combination {
	c := New(doc)
	for i, d := range dims {
		if v := d.Values[row[i]]; v.Apply != nil {
			v.Apply(c)
		}
	}
	return c
}

// Provider sets a cloud provider.
func (c *Combination) Provider(name osm.CloudProvider) { c.providerSpec["cloudProvider"] = name }

// Kubelet sets a version of the kubelet.
func (c *Combination) Kubelet(version string) { c.kubelet = version }

// Input returns the input to render for the combination.
func (c *Combination) Input() (render.Input, error) {
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
	return render.Input{Profile: Profile(c.doc, c.from), Pool: pool, Settings: c.Settings, Cluster: c.Cluster}, err
}

// Profile converts a document to the input of rendering.
func Profile(doc profile.Document, from render.Provenance) render.Profile {
	from.Profile, from.Version = doc.Name, doc.Spec.Version
	return render.Profile{
		Spec: doc.Spec, Object: doc.Name + "-" + doc.Spec.Version, Digest: doc.Digest,
		Provenance: from, File: doc.Path, Lines: doc.Line, FileOf: doc.FileOf,
	}
}

// kubeletAnnotations has a value for every annotation in docs/pools.md that sets the kubelet.
var kubeletAnnotations = map[string]string{
	"KubeReserved": "cpu=300m,memory=350Mi", "SystemReserved": "cpu=250m,ephemeral-storage=2Gi", "EvictionHard": "memory.available<250Mi,nodefs.available<12%",
	"MaxPods": "222", "ContainerLogMaxSize": "64Mi", "ContainerLogMaxFiles": "7",
	"ImageGCHighThresholdPercent": "81", "ImageGCLowThresholdPercent": "71", "ImageMinimumGCAge": "7m", "ImageMaximumGCAge": "26h",
}

func setKubeletAnnotations(names ...string) func(*Combination) {
	return func(c *Combination) {
		for _, name := range names {
			c.annotations[api.AnnotationKubeletConfigPrefix+name] = kubeletAnnotations[name]
		}
	}
}

func setting(set func(*render.Settings)) func(*Combination) {
	return func(c *Combination) { set(&c.Settings) }
}

func osSpec(values map[string]any) func(*Combination) {
	return func(c *Combination) {
		for k, v := range values {
			c.system[k] = v
		}
	}
}

func addNetwork(values map[string]any) func(*Combination) {
	return func(c *Combination) {
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

// setDownloadDigests sets a digest for every file of Kubernetes that nodes download, with the names
// in profiles/README.md.
func setDownloadDigests(s *render.Settings) {
	s.DownloadDigests = map[string]string{}
	for _, name := range []string{"kubelet", "kubectl", "kubeadm"} {
		for _, arch := range []string{"amd64", "arm64"} {
			for _, v := range Kubelets() {
				s.DownloadDigests[name+"-v"+v+"-linux-"+arch] = strings.Repeat("0123456789abcdef", 4)
			}
		}
	}
}

// setDownloadMirrors sets a mirror for every download of a node. The names are those in
// profiles/README.md.
func setDownloadMirrors(s *render.Settings) {
	s.DownloadMirrors = map[string]string{}
	for _, publisher := range []string{"cni", "crictl", "docker", "kubernetes"} {
		s.DownloadMirrors[publisher] = "https://node:" + MirrorPassword + "@mirror.example.com/" + publisher
	}
}

// Dimensions returns those of a profile's pools, including those that only some operating
// systems have.
func Dimensions(doc profile.Document) []Dimension {
	dims := []Dimension{{Name: Provider}, {Name: Kubelet}}
	for _, p := range doc.Spec.SupportedCloudProviders {
		dims[0].Values = append(dims[0].Values, Value{string(p.Name), func(c *Combination) { c.Provider(p.Name) }})
	}
	for _, v := range Kubelets() {
		dims[1].Values = append(dims[1].Values, Value{v, func(c *Combination) { c.Kubelet(v) }})
	}
	dims = append(dims, commonDimensions()...)
	switch doc.Spec.OSName {
	case osm.OperatingSystemFlatcar:
		dims = append(dims, flatcarDimensions(doc)...)
	case osm.OperatingSystemRHEL:
		dims = append(dims, rhelDimension())
	default:
		dims = append(dims, Dimension{System, []Value{{"none", nil}, {"upgrade", osSpec(map[string]any{"distUpgradeOnBoot": true})}}})
	}
	return dims
}

// commonDimensions returns the dimensions that pools of every operating system have, each with its
// values; a value without a function changes nothing. Some values contain characters that need
// escaping, such as the password of the proxy (%40) and the comment of an SSH key (a quote). Keys
// and certificates are incompressible, as real ones are, because user data has a size limit.
func commonDimensions() []Dimension {
	const noProxy = ".svc,.cluster.local,localhost,127.0.0.1,10.0.0.0/8"
	return []Dimension{
		{Proxy, []Value{{"none", nil},
			{"plain", setting(func(s *render.Settings) {
				s.NodeHTTPProxy = "http://proxy.example.com:3128"
				s.NodeNoProxy = noProxy
			})},
			{"password", setting(func(s *render.Settings) {
				s.NodeHTTPProxy = "http://node:" + ProxyPassword + "%40@proxy.example.com:3128" // %40 is an "@" of the password
				s.NodeNoProxy = noProxy
			})},
			{"no-proxy alone", setting(func(s *render.Settings) { s.NodeNoProxy = noProxy })}}},
		{Registries, []Value{{"none", nil},
			{"mirrors", setting(func(s *render.Settings) {
				s.NodeRegistryMirrors = "https://hub.example.com,quay.io=https://quay.example.com"
				s.NodeContainerdRegistryMirrors = []string{"registry.k8s.io=https://k8s.example.com/v2?kubermatic=override_path%3Dtrue", "*=https://node:" + MirrorPassword + "@any.example.com"}
			})},
			{"insecure", setting(func(s *render.Settings) { s.NodeInsecureRegistries = "10.0.0.1:5000,docker.io" })},
			{"credentials", setting(func(s *render.Settings) {
				s.RegistryCredentials = map[string]render.RegistryCredential{
					"registry.example.com": {Username: "node", Password: RegistryPassword}, "id.example.com": {IdentityToken: RegistryIdentity}}
			})}}},
		{External, []Value{{"no", nil}, {"yes", setting(func(s *render.Settings) { s.ExternalCloudProvider = true })}}},
		{IPFamily, []Value{{"none", nil},
			{"IPv4", addNetwork(map[string]any{"ipFamily": "IPv4"})}, {"IPv6", addNetwork(map[string]any{"ipFamily": "IPv6"})},
			{"IPv4+IPv6", addNetwork(map[string]any{"ipFamily": "IPv4+IPv6"})}, {"IPv6+IPv4", addNetwork(map[string]any{"ipFamily": "IPv6+IPv4"})}}},
		{HostCA, []Value{{"none", nil}, {"one", setting(func(s *render.Settings) { s.HostCACert = fakeCertificate("host") })}}},
		{Pause, []Value{{"none", nil}, {"set", setting(func(s *render.Settings) { s.PauseImage = "registry.example.com/pause:3.10" })}}},
		{Taints, []Value{{"none", nil}, {"two", setting(func(s *render.Settings) {
			s.InitialTaints = "node.example.com/agent=missing:NoSchedule,example.com/gpu:NoExecute"
		})}}},
		{Annotations, []Value{{"none", nil}, {"all", setKubeletAnnotations(slices.Sorted(maps.Keys(kubeletAnnotations))...)},
			{"sizes", setKubeletAnnotations("KubeReserved", "EvictionHard", "ContainerLogMaxFiles")}, {"images", setKubeletAnnotations("ImageGCHighThresholdPercent", "ImageGCLowThresholdPercent", "MaxPods", "SystemReserved")}}},
		{Keys, []Value{{"none", nil}, {"two", func(c *Combination) {
			c.providerSpec["sshPublicKeys"] = []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB" + incompressibleText("one", 42) + " one@example.com", "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ" + incompressibleText("two", 338) + " it's two"}
		}}}},
		{Gates, []Value{{"none", nil}, {"two", setting(func(s *render.Settings) {
			s.KubeletFeatureGates = map[string]bool{"RotateKubeletServerCertificate": true, "ImageVolume": false}
		})}}},
		{Downloads, []Value{{"publishers", nil}, {"mirrors", setting(setDownloadMirrors)}, {"digests", setting(setDownloadDigests)},
			{"both", setting(func(s *render.Settings) { setDownloadMirrors(s); setDownloadDigests(s) })}}},
		{Commit, []Value{{"none", nil}, // a profile made by hand
			{"sha1", setProfileCommit("3f2a9c1d5e6f708192a3b4c5d6e7f8091a2b3c4d")},
			{"sha256", setProfileCommit("3f2a9c1d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809")}}},
		{CloudConfig, []Value{{"none", nil}, {"overwritten", func(c *Combination) {
			c.providerSpec["overwriteCloudConfig"] = "[Global]\nsecret = \"" + CloudSecret + "\"\n"
		}}}},
	}
}

// setProfileCommit returns a function that sets the provenance of the profile to a commit with this
// name.
func setProfileCommit(name string) func(*Combination) {
	return func(c *Combination) {
		c.from = render.Provenance{Commit: name, Change: name, Repository: "https://git.example.com/profiles.git", Path: "profiles/" + c.annotations[api.AnnotationOSP] + ".yaml"}
	}
}

func rhelDimension() Dimension {
	return Dimension{System, []Value{{"none", nil},
		{"user", osSpec(map[string]any{"rhelSubscriptionManagerUser": "node@example.com", "rhelSubscriptionManagerPassword": RHELPassword, "attachSubscription": true})},
		{"offline", osSpec(map[string]any{"rhelSubscriptionManagerUser": "node@example.com", "rhelSubscriptionManagerPassword": RHELPassword, "rhsmOfflineToken": RHELOffline})},
		{"satellite", osSpec(map[string]any{"rhelUseSatelliteServer": true, "rhelSatelliteServer": "satellite.example.com", "rhelOrganizationName": "example", "rhelActivationKey": RHELActivation})},
		{"upgrade", osSpec(map[string]any{"distUpgradeOnBoot": true})}}}
}

func flatcarDimensions(doc profile.Document) []Dimension {
	dims := []Dimension{
		{System, []Value{{"none", nil},
			{"no updates", osSpec(map[string]any{"disableAutoUpdate": true})},
			{"no locksmith", osSpec(map[string]any{"disableLocksmithD": true})},
			{"no engine", osSpec(map[string]any{"disableUpdateEngine": true})},
			{"nothing", osSpec(map[string]any{"disableAutoUpdate": true, "disableLocksmithD": true, "disableUpdateEngine": true})}}},
		{Network, []Value{{"dhcp", nil},
			{"static", addNetwork(map[string]any{"cidr": "192.0.2.10/24", "gateway": "192.0.2.1", "dns": map[string]any{"servers": []string{"192.0.2.2", "192.0.2.3"}}})},
			{"dns alone", addNetwork(map[string]any{"dns": map[string]any{"servers": []string{"2001:db8::53"}}})}}},
	}
	if doc.Spec.ProvisioningUtility == osm.ProvisioningUtilityIgnition {
		dims = append(dims, Dimension{IgnitionVersion, []Value{{"3.3.0", nil},
			{"3.4.0", setting(func(s *render.Settings) { s.IgnitionVersion = "3.4.0" })},
			{"2.3.0", func(c *Combination) { c.annotations[api.AnnotationIgnitionVersion] = "2.3.0" }}}})
	}
	return dims
}
