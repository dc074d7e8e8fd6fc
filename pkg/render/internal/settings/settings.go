package settings

import (
	"net"
	"strings"
	"unicode/utf8"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// Settings are the controller's flags that change what a node gets, unparsed. The JSON names
// are those under `settings` in the file for `osm-gitops render --cluster`.
type Settings struct {
	// ClusterDNS are the IPs of -cluster-dns.
	ClusterDNS []string `json:"clusterDNS,omitempty"`
	// ContainerRuntime is -container-runtime; empty is containerd, the only one.
	ContainerRuntime string `json:"containerRuntime,omitempty"`
	// DeviceOwnershipFromSecurityContext is the flag of that name.
	DeviceOwnershipFromSecurityContext bool `json:"deviceOwnershipFromSecurityContext,omitempty"`
	// ExternalCloudProvider is -external-cloud-provider.
	ExternalCloudProvider bool `json:"externalCloudProvider,omitempty"`
	// DownloadDigests are those of --node-download-digests: the SHA-256, in hexadecimal, that a
	// file downloaded by nodes must have, by the file's name.
	DownloadDigests map[string]string `json:"downloadDigests,omitempty"`
	// DownloadMirrors are those of --node-download-mirrors: the URL that replaces a publisher's
	// when nodes download, by the publisher's name in profiles.
	DownloadMirrors map[string]string `json:"downloadMirrors,omitempty"`
	// HostCACert is the PEM text of -host-ca-bundle.
	HostCACert string `json:"hostCACert,omitempty"`
	// IgnitionVersion is --ignition-version: the version of the Ignition specification, empty
	// for DefaultIgnitionVersion. A pool can set another version.
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	// InitialTaints is -initial-taints.
	InitialTaints string `json:"initialTaints,omitempty"`
	// KubeletFeatureGates is -node-kubelet-feature-gates.
	KubeletFeatureGates map[string]bool `json:"kubeletFeatureGates,omitempty"`
	// KubernetesCACert is the PEM text of the cluster's CA bundle.
	KubernetesCACert string `json:"kubernetesCACert,omitempty"`
	// Namespace is -namespace, that of the OperatingSystemConfigs.
	Namespace string `json:"namespace,omitempty"`
	// NodeContainerdRegistryMirrors has one item per use of the flag.
	NodeContainerdRegistryMirrors []string `json:"nodeContainerdRegistryMirrors,omitempty"`
	// NodeHTTPProxy is -node-http-proxy.
	NodeHTTPProxy string `json:"nodeHTTPProxy,omitempty"`
	// NodeInsecureRegistries is the comma-separated list of -node-insecure-registries.
	NodeInsecureRegistries string `json:"nodeInsecureRegistries,omitempty"`
	// NodeNoProxy is -node-no-proxy.
	NodeNoProxy string `json:"nodeNoProxy,omitempty"`
	// NodeRegistryMirrors is the comma-separated list of -node-registry-mirrors.
	NodeRegistryMirrors string `json:"nodeRegistryMirrors,omitempty"`
	// PauseImage is -pause-image.
	PauseImage string `json:"pauseImage,omitempty"`
	// RegistryCredentials is the content of the Secret of -node-registry-credentials-secret, by
	// the registry as it is written there.
	RegistryCredentials map[string]RegistryCredential `json:"registryCredentials,omitempty"`
}

// RegistryCredential is the login of containerd at a registry.
type RegistryCredential struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
}

// Validate rejects settings that no node could use, and names each flag. The messages contain
// no credentials. Warnings reports settings that nodes can use or do without.
func (s Settings) Validate() error {
	var problems []*invalid.Error
	for _, ip := range s.ClusterDNS {
		if net.ParseIP(strings.TrimSpace(ip)) == nil {
			problems = append(problems, invalid.At("settings.clusterDNS", "-cluster-dns: %q is not an IP address", ip))
		}
	}
	if s.ContainerRuntime != "" && s.ContainerRuntime != string(osm.ContainerRuntimeContainerd) {
		problems = append(problems, invalid.At("settings.containerRuntime", "-container-runtime: %q is not supported: use containerd", s.ContainerRuntime))
	}
	for gate := range s.KubeletFeatureGates {
		if strings.TrimSpace(gate) == "" {
			problems = append(problems, invalid.At("settings.kubeletFeatureGates", "-node-kubelet-feature-gates: a gate has no name"))
		}
	}
	if !utf8.ValidString(s.NodeHTTPProxy) || strings.Contains(s.NodeHTTPProxy, "\x00") {
		problems = append(problems, invalid.At("settings.nodeHTTPProxy", "-node-http-proxy: the value is not UTF-8 text: write other bytes percent-encoded"))
	}
	problems = append(problems, userdata.CheckIgnitionVersion("settings.ignitionVersion", "--ignition-version: ", s.IgnitionVersion)...)
	problems = append(problems, s.checkDownloads()...)
	_, more := s.buildRegistries()
	problems = append(problems, more...)
	return invalid.AsSingleError(problems)
}

// DNSServers returns the addresses of ClusterDNS; Validate has checked them.
func (s Settings) DNSServers() []net.IP {
	var ips []net.IP
	for _, ip := range s.ClusterDNS {
		ips = append(ips, net.ParseIP(strings.TrimSpace(ip)))
	}
	return ips
}
