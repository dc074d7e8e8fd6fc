package render

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/Masterminds/semver/v3"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// A kubelet below 1.29 may still run the cloud provider that was built into it:
// https://kubernetes.io/blog/2024/05/20/completing-cloud-provider-migration/
// The constraint is not met by pre-releases, as in the contract (section 5).
var withoutInTree = mustConstraint(">= 1.29")

func mustConstraint(s string) *semver.Constraints {
	c, err := semver.NewConstraint(s)
	if err != nil {
		panic(err) // a constant of this package
	}
	return c
}

const cloudProviderSpecField = providerSpecField + ".cloudProviderSpec"

// WithCloudConfig returns the pool with the configuration of the cloud provider
// built into its kubelets. That is empty, and neither the cloudProviderSpec nor
// the facts are looked at, for a kubelet from 1.29 on, with an external cloud
// provider, and where the pool overwrites it. The MachineDeployment is the one
// that the pool was decoded from. The error is an *InvalidError that names every
// field to change.
func (p Pool) WithCloudConfig(md *cluster.MachineDeployment, s Settings, facts Facts) (Pool, error) {
	r := &resolver{facts: facts}
	text, problems := p.cloudConfig(md, s, r)
	for _, problem := range problems {
		problem.Pool = p.key()
	}
	if err := invalid.One(problems); err != nil {
		return p, err
	}
	p.CloudConfig = text
	return p, nil
}

// CloudConfigRefs returns what has to be read for WithCloudConfig, in order and
// without duplicates. Mostly that is nothing.
func (p Pool) CloudConfigRefs(md *cluster.MachineDeployment, s Settings) []ConfigVarRef {
	r := &resolver{}
	p.cloudConfig(md, s, r) // without facts it fails, once it has asked for each
	slices.SortFunc(r.refs, compareRefs)
	return r.refs
}

// EnvironmentNames returns the environment variables that belong in Facts, in order.
func EnvironmentNames() []string {
	return []string{
		envAzureClientID, envAzureClientSecret, envAzureSubscriptionID, envAzureTenantID,
		envGoogleServiceAccount,
		envKubevirtKubeconfig,
		envOSApplicationCredentialID, envOSApplicationCredentialSecret, envOSAuthURL, envOSDomainName, envOSPassword,
		envOSProjectID, envOSProjectName, envOSRegionName, envOSTenantID, envOSTenantName, envOSUserName,
		envPodNamespace,
		envVSphereAddress, envVSphereAllowInsecure, envVSpherePassword, envVSphereUsername,
	}
}

// cloudConfig makes the configuration, and tells the resolver what it needs for it.
func (p Pool) cloudConfig(md *cluster.MachineDeployment, s Settings, r *resolver) (string, []*invalid.Error) {
	kubelet, err := kubeVersion(p.KubeletVersion)
	if err != nil {
		return "", []*invalid.Error{invalid.At(kubeletField, "%w", err)}
	}
	needed, refused := p.needsCloudConfig(s, kubelet)
	if refused != nil {
		return "", []*invalid.Error{refused}
	}
	if !needed {
		return "", nil
	}
	config, problems := decodeProviderSpec(md)
	if len(problems) > 0 {
		return "", problems
	}
	raw := bytes.TrimSpace(config.CloudProviderSpec)
	if len(raw) == 0 || string(raw) == "null" {
		return "", []*invalid.Error{invalid.At(cloudProviderSpecField, "is missing: kubelet %s takes the configuration of %s from it", kubelet, p.CloudProvider)}
	}
	var spec interface {
		config(kubelet *semver.Version, r *resolver) string
	}
	switch p.CloudProvider {
	case osm.CloudProviderAWS:
		spec = &awsSpec{}
	case osm.CloudProviderAzure:
		spec = &azureSpec{}
	case osm.CloudProviderGCE:
		spec = &gceSpec{}
	case "kubevirt":
		spec = &kubevirtSpec{}
	case "openstack":
		spec = &openstackSpec{}
	case osm.CloudProviderVSphere:
		spec = &vsphereSpec{}
	}
	if err := json.Unmarshal(raw, spec); err != nil {
		return "", []*invalid.Error{invalid.Decoding(cloudProviderSpecField, err)}
	}
	text := spec.config(kubelet, r)
	return text, r.problems
}

// needsCloudConfig reports whether kubelets of a pool read a configuration that is
// made of its cloudProviderSpec (contract 5, steps 1 to 4).
func (p Pool) needsCloudConfig(s Settings, kubelet *semver.Version) (bool, *invalid.Error) {
	if p.OverwriteCloudConfig != nil || s.ExternalCloudProvider || withoutInTree.Check(kubelet) {
		return false, nil
	}
	switch p.CloudProvider {
	case "aws", "azure", "gce", "kubevirt", "openstack", "vsphere":
		return true, nil
	case "alibaba", "anexia", "baremetal", "digitalocean", "edge", "hetzner", "linode", "nutanix", "opennebula", "scaleway", "vmware-cloud-director":
		return false, nil
	}
	return false, invalid.At(providerSpecField+".cloudProvider", "%q has no cloud configuration for kubelet %s: use kubelet 1.29 or later", p.CloudProvider, kubelet)
}

// cloudConfig is the cloud provider's configuration for nodes.
func (in Input) cloudConfig(kubelet *semver.Version) (string, *invalid.Error) {
	if in.Pool.OverwriteCloudConfig != nil {
		return *in.Pool.OverwriteCloudConfig, nil
	}
	needed, err := in.Pool.needsCloudConfig(in.Settings, kubelet)
	if err != nil || !needed {
		return "", err
	}
	if in.Pool.CloudConfig == "" { // none of the texts is empty
		return "", invalid.At(cloudProviderSpecField, "was not read: kubelet %s takes the configuration of %s from it", kubelet, in.Pool.CloudProvider)
	}
	return in.Pool.CloudConfig, nil
}

// inTreeCCMAvailable does not look at the kubelet's version; profiles do.
func (in Input) inTreeCCMAvailable() bool {
	if in.Settings.ExternalCloudProvider {
		return false
	}
	switch in.Pool.CloudProvider {
	case osm.CloudProviderAWS, osm.CloudProviderAzure, osm.CloudProviderGCE, osm.CloudProviderVSphere:
		return true
	}
	return false
}
