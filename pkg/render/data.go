package render

import (
	"net"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/funcs"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// data is what templates read, as "." and "$". It is our most public API: a field is never
// renamed or removed. An unknown field is an error.
//
// A pointer is nil if the value is absent. Printing it writes the value, or "<nil>"; `if` tests
// whether it is set.
//
// The tag "credential" marks the fields that Input.Split replaces: see package taint.
type data struct {
	// KubeVersion is the kubelet's version, "v1.36.2".
	KubeVersion string
	// ClusterDNSIPs are the DNS servers of pods.
	ClusterDNSIPs []net.IP
	// KubernetesCACert is the CA of the API server, PEM.
	KubernetesCACert string
	// HostCACert is a PEM bundle of CAs to install on nodes; it can be empty.
	HostCACert string
	// CloudConfig is the cloud provider's configuration; empty for most pools.
	CloudConfig string `credential:"text"`
	// CloudProviderName is the provider, "aws".
	CloudProviderName osm.CloudProvider
	// ExternalCloudProvider: cloud-controller-manager runs outside the kubelet.
	ExternalCloudProvider bool
	// InTreeCCMAvailable: Kubernetes itself once had a controller for the provider.
	InTreeCCMAvailable bool
	// ContainerRuntime is "containerd".
	ContainerRuntime string
	// ContainerRuntimeConfig is the text of /etc/containerd/config.toml.
	ContainerRuntimeConfig string `credential:"toml"`
	// ContainerRuntimeAuthConfig is always empty.
	ContainerRuntimeAuthConfig string
	// PauseImage is the sandbox image; it can be empty.
	PauseImage string
	// InitialTaints is for the kubelet's --register-with-taints.
	InitialTaints string
	// HTTPProxy and NoProxy are the nodes' proxy settings.
	HTTPProxy, NoProxy *string `credential:"url"`
	// KubeletFeatureGates by name.
	KubeletFeatureGates map[string]bool
	// NetworkConfig is the pool's network section.
	NetworkConfig *networkConfig
	// NetworkIPFamily is its ipFamily, or empty.
	NetworkIPFamily string
	// BootstrapKubeconfig is the kubelet's first kubeconfig, with its token.
	BootstrapKubeconfig string `credential:"text"`
	// Token reads SecretName and BootstrapKubeconfigSecretName.
	Token string `credential:"text"`
	// ServerURL is the API server.
	ServerURL string
	// SecretName is the Secret with the provisioning user-data.
	SecretName string
	// BootstrapKubeconfigSecretName is the Secret with BootstrapKubeconfig.
	BootstrapKubeconfigSecretName string
	// The following exist and are always empty.
	KubeletConfiguration, KubeletSystemdUnit, CNIVersion, ServerAddress string
	// RHSubscription exists and is always nil.
	RHSubscription map[string]string
	// DownloadMirrors are URLs to download from in place of a publisher's, by the publisher's
	// name. Empty by default.
	DownloadMirrors map[string]string `credential:"url"`
	// DownloadDigests are the SHA-256 digests that downloaded files must have, by file name.
	// Empty by default.
	DownloadDigests map[string]string
	// Provenance is the origin of this configuration.
	Provenance provenanceData

	kubeletConfig
	operatingSystemConfig

	settings *Settings
	// registryHosts caches the result of RegistryHosts, because templates can call it in a loop
	// at the price of a field.
	registryHosts []registryHosts
}

// RegistryHosts are the hosts.toml files of containerd, by path. The provisioning stage always
// has them; this is for a profile that does everything in the bootstrap stage.
func (d *data) RegistryHosts() []registryHosts {
	if d.registryHosts == nil {
		files := d.settings.HostsFiles()
		d.registryHosts = make([]registryHosts, len(files))
		for i, f := range files {
			d.registryHosts[i] = registryHosts{Path: f.Path, Config: f.Content.Inline.Data}
		}
	}
	return d.registryHosts
}

// registryHosts is one file that lists for containerd the endpoints to pull from.
type registryHosts struct {
	Path   string
	Config string `credential:"text"`
}

// String prevents {{ . }} from printing every credential, and addresses that differ from run to
// run. Rendering rejects the text like any other missing value.
func (*data) String() string { return funcs.NoValue }

// operatingSystemConfig has one part per operating system; all but the pool's
// are zero.
type operatingSystemConfig struct {
	UbuntuConfig      linuxConfig
	AmazonLinuxConfig linuxConfig
	RockyLinuxConfig  linuxConfig
	FlatcarConfig     flatcarConfig
	RhelConfig        rhelConfig
}

type linuxConfig struct {
	DistUpgradeOnBoot bool `json:"distUpgradeOnBoot"`
}

// flatcarConfig is FlatcarSpec as templates encode it. The fields that are omitted when empty
// differ from those of Pool, because records must not change: they are those of
// machine-controller's type (pkg/userdata/flatcar; pkg/userdata/rhel for rhelConfig).
type flatcarConfig struct {
	DisableAutoUpdate   bool                    `json:"disableAutoUpdate"`
	DisableLocksmithD   bool                    `json:"disableLocksmithD"`
	DisableUpdateEngine bool                    `json:"disableUpdateEngine"`
	ProvisioningUtility osm.ProvisioningUtility `json:"provisioningUtility,omitempty"`
}

// rhelConfig has all fields at one level, because toYaml nests embedded structs.
type rhelConfig struct {
	DistUpgradeOnBoot               bool   `json:"distUpgradeOnBoot"`
	RHELSubscriptionManagerUser     string `json:"rhelSubscriptionManagerUser,omitempty" credential:"text"`
	RHELSubscriptionManagerPassword string `json:"rhelSubscriptionManagerPassword,omitempty" credential:"text"`
	RHSMOfflineToken                string `json:"rhsmOfflineToken,omitempty" credential:"text"`
	AttachSubscription              bool   `json:"attachSubscription"`
	RHELUseSatelliteServer          bool   `json:"rhelUseSatelliteServer"`
	RHELSatelliteServer             string `json:"rhelSatelliteServer"`
	RHELOrganizationName            string `json:"rhelOrganizationName" credential:"text"`
	RHELActivationKey               string `json:"rhelActivationKey" credential:"text"`
}

// toRHELConfig returns the settings of RHEL in the form that templates read.
func (s *RHELSpec) toRHELConfig(distUpgradeOnBoot bool) rhelConfig {
	return rhelConfig{
		DistUpgradeOnBoot:               distUpgradeOnBoot,
		RHELSubscriptionManagerUser:     s.RHELSubscriptionManagerUser,
		RHELSubscriptionManagerPassword: s.RHELSubscriptionManagerPassword,
		RHSMOfflineToken:                s.RHSMOfflineToken,
		AttachSubscription:              s.AttachSubscription,
		RHELUseSatelliteServer:          s.RHELUseSatelliteServer,
		RHELSatelliteServer:             s.RHELSatelliteServer,
		RHELOrganizationName:            s.RHELOrganizationName,
		RHELActivationKey:               s.RHELActivationKey,
	}
}

// networkConfig is NetworkConfig as templates encode it.
type networkConfig struct {
	CIDR     string    `json:"cidr"`
	Gateway  string    `json:"gateway"`
	DNS      DNSConfig `json:"dns"`
	IPFamily IPFamily  `json:"ipFamily,omitempty"`
}

// IsStaticIPConfig reports whether nodes get a fixed address.
func (n *networkConfig) IsStaticIPConfig() bool { return (*NetworkConfig)(n).IsStaticIPConfig() }

// GetIPFamily returns the family, and "" without a network.
func (n *networkConfig) GetIPFamily() IPFamily { return (*NetworkConfig)(n).GetIPFamily() }

// provenanceData is the origin of a node's configuration, for the node to report. Commit,
// Change, Repository and Path are empty for a profile that was created by hand.
type provenanceData struct {
	// Profile and Version of the rendered profile.
	Profile, Version string
	// Commit is the first one with this content, and Change is the commit that its author
	// wrote.
	Commit, Change string
	// Repository and Path of the profile's file.
	Repository, Path string
	// ConfigDigest is the first 12 hex digits of the input digest, which covers everything that
	// rendering reads except credentials.
	ConfigDigest string
	// The same values in the form of Kubernetes labels: "+" becomes "_", every other character
	// that a label cannot contain becomes "-", and the value is cut to 63 characters.
	ProfileLabel, VersionLabel, CommitLabel, ChangeLabel, PathLabel string
}

// newData returns the data of templates. The input has been checked, and is either the real one
// or the one with placeholders.
func newData(in Input, digest string) (*data, []*invalid.Error) {
	kubelet, problems := parseKubeletAnnotations(in.Pool.KubeletAnnotations)
	version, err := kubeVersion(in.Pool.KubeletVersion)
	if err != nil {
		return nil, append(problems, invalid.At(kubeletField, "%w", err))
	}
	cloudConfig, problem := in.cloudConfig(version)
	if problem != nil {
		problems = append(problems, problem)
	}
	runtimeConfig, err := in.Settings.ContainerdConfig()
	if err != nil {
		problems = append(problems, invalid.At("settings", "%w", err))
	}
	if len(problems) > 0 {
		return nil, problems
	}
	s := in.Settings
	return &data{
		KubeVersion:                   "v" + version.String(),
		ClusterDNSIPs:                 s.DNSServers(),
		KubernetesCACert:              s.KubernetesCACert,
		HostCACert:                    s.HostCACert,
		CloudConfig:                   cloudConfig,
		CloudProviderName:             in.Pool.CloudProvider,
		ExternalCloudProvider:         s.ExternalCloudProvider,
		InTreeCCMAvailable:            in.inTreeCCMAvailable(),
		ContainerRuntime:              string(osm.ContainerRuntimeContainerd),
		ContainerRuntimeConfig:        runtimeConfig,
		PauseImage:                    s.PauseImage,
		InitialTaints:                 s.InitialTaints,
		HTTPProxy:                     nilIfEmpty(s.NodeHTTPProxy),
		NoProxy:                       nilIfEmpty(s.NodeNoProxy),
		KubeletFeatureGates:           s.KubeletFeatureGates,
		NetworkConfig:                 (*networkConfig)(in.Pool.Network),
		NetworkIPFamily:               string(in.Pool.Network.GetIPFamily()),
		BootstrapKubeconfig:           in.bootstrapKubeconfig(),
		Token:                         in.Cluster.APIServerToken,
		ServerURL:                     in.Cluster.Server,
		SecretName:                    in.Pool.Name + "-" + in.Pool.Namespace + "-provisioning-config",
		BootstrapKubeconfigSecretName: in.bootstrapKubeconfigSecretName(),
		DownloadMirrors:               s.DownloadMirrors,
		DownloadDigests:               s.DownloadDigests,
		Provenance:                    in.Profile.provenanceData(digest),
		kubeletConfig:                 kubelet,
		operatingSystemConfig:         in.Pool.operatingSystemConfig(),
		settings:                      &in.Settings,
	}, nil
}

func (p Pool) operatingSystemConfig() operatingSystemConfig {
	var c operatingSystemConfig
	spec := p.OperatingSystemSpec
	linux := linuxConfig{DistUpgradeOnBoot: spec.DistUpgradeOnBoot}
	switch p.OperatingSystem {
	case osm.OperatingSystemUbuntu:
		c.UbuntuConfig = linux
	case osm.OperatingSystemAmazon2:
		c.AmazonLinuxConfig = linux
	case osm.OperatingSystemRockyLinux:
		c.RockyLinuxConfig = linux
	case osm.OperatingSystemFlatcar:
		if spec.Flatcar != nil {
			c.FlatcarConfig = flatcarConfig(*spec.Flatcar)
		}
	case osm.OperatingSystemRHEL:
		rhel := spec.RHEL
		if rhel == nil {
			rhel = &RHELSpec{}
		}
		c.RhelConfig = rhel.toRHELConfig(spec.DistUpgradeOnBoot)
	}
	return c
}

func (p Profile) provenanceData(digest string) provenanceData {
	from := p.Provenance
	d := provenanceData{
		Profile: p.name(), Version: p.version(),
		Commit: from.Commit, Change: from.Change,
		Repository: from.Repository, Path: from.Path,
		ConfigDigest: ShortDigest(digest),
	}
	d.ProfileLabel, d.VersionLabel = LabelValue(d.Profile), LabelValue(d.Version)
	d.CommitLabel = LabelValue(d.Commit)
	d.ChangeLabel = LabelValue(d.Change)
	d.PathLabel = LabelValue(d.Path)
	return d
}

// maxLabelValue is the longest value of a label:
// https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
const maxLabelValue = 63

// LabelValue converts s to a valid label value, the form in which a node reports the origin of
// its configuration.
func LabelValue(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.':
			return r
		case r == '+':
			return '_'
		}
		return '-'
	}, s)
	if len(s) > maxLabelValue {
		s = s[:maxLabelValue]
	}
	return strings.Trim(s, "-_.")
}

// maxPoolKey is the length of the longest "<namespace>-<name>" that is not shortened in the names of objects.
const maxPoolKey = 62

func (in Input) bootstrapKubeconfigSecretName() string {
	if in.Cluster.BootstrapKubeconfigSecretName != "" {
		return in.Cluster.BootstrapKubeconfigSecretName
	}
	return in.Pool.bootstrapKubeconfigSecretName()
}

// bootstrapKubeconfigSecretName returns the name that operating-system-manager gives the Secret.
func (p Pool) bootstrapKubeconfigSecretName() string {
	key := p.Namespace + "-" + p.Name
	if len(key) > maxPoolKey {
		key = p.Name
	}
	return key + "-kubelet-bootstrap-config"
}

func nilIfEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
