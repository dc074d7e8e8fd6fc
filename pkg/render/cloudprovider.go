package render

import (
	"github.com/Masterminds/semver/v3"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// A kubelet below 1.29 may still run the cloud provider that was built into it:
// https://kubernetes.io/blog/2024/05/20/completing-cloud-provider-migration/
// The constraint is not met by pre-releases, as in the contract (section 5).
var withoutInTree = mustConstraint(">= 1.29")

func mustConstraint(s string) *semver.Constraints {
	c, err := semver.NewConstraint(s)
	if err != nil {
		panic(err) // a constant of this file
	}
	return c
}

// cloudConfig is the cloud provider's configuration for nodes.
func (in Input) cloudConfig(kubelet *semver.Version) (string, *InvalidError) {
	if in.Pool.OverwriteCloudConfig != nil {
		return *in.Pool.OverwriteCloudConfig, nil
	}
	if in.Settings.ExternalCloudProvider || withoutInTree.Check(kubelet) {
		return "", nil
	}
	switch in.Pool.CloudProvider {
	case "aws", "azure", "gce", "kubevirt", "openstack", "vsphere":
		return "", problem(kubeletField, "kubelet %s would need an in-tree cloud configuration for %s, which is not supported yet: use kubelet 1.29 or later, an external cloud provider, or overwriteCloudConfig",
			kubelet, in.Pool.CloudProvider)
	case "alibaba", "anexia", "baremetal", "digitalocean", "edge", "hetzner", "linode", "nutanix", "opennebula", "scaleway", "vmware-cloud-director":
		return "", nil
	}
	return "", problem(providerSpecField+".cloudProvider", "%q has no cloud configuration for kubelet %s: use kubelet 1.29 or later", in.Pool.CloudProvider, kubelet)
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
