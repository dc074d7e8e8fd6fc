package cloudprovider

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/Masterminds/semver/v3"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// A kubelet below 1.29 can still run the cloud provider that was built into it:
// https://kubernetes.io/blog/2024/05/20/completing-cloud-provider-migration/ Pre-releases do
// not satisfy the constraint, as in operating-system-manager.
var withoutInTree = mustConstraint(">= 1.29")

func mustConstraint(s string) *semver.Constraints {
	c, err := semver.NewConstraint(s)
	if err != nil {
		panic(err) // a constant of this package
	}
	return c
}

// specField is the field of a MachineDeployment from which the configuration is generated.
const specField = "spec.template.spec.providerSpec.value.cloudProviderSpec"

// NeedsConfig reports whether a kubelet reads a configuration that is generated from its
// cloudProviderSpec: below version 1.29 that depends on the provider.
func NeedsConfig(provider osm.CloudProvider, kubelet *semver.Version) (bool, *invalid.Error) {
	if withoutInTree.Check(kubelet) {
		return false, nil
	}
	switch provider {
	case "aws", "azure", "gce", "kubevirt", "openstack", "vsphere":
		return true, nil
	case "alibaba", "anexia", "baremetal", "digitalocean", "edge", "hetzner", "linode", "nutanix", "opennebula", "scaleway", "vmware-cloud-director":
		return false, nil
	}
	return false, invalid.At("spec.template.spec.providerSpec.value.cloudProvider", "%q has no cloud configuration for kubelet %s: use kubelet 1.29 or later", provider, kubelet)
}

// Missing returns the problem of a pool whose configuration was not generated.
func Missing(provider osm.CloudProvider, kubelet *semver.Version) *invalid.Error {
	return invalid.At(specField, "was not read: kubelet %s takes the configuration of %s from it", kubelet, provider)
}

// Config returns the configuration of a provider for which NeedsConfig is true. It also returns the
// references to read for it, in order and without duplicates, including those that are missing from
// the values.
func Config(provider osm.CloudProvider, raw json.RawMessage, kubelet *semver.Version, values ClusterValues) (string, []ConfigVarRef, []*invalid.Error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil, []*invalid.Error{invalid.At(specField, "is missing: kubelet %s takes the configuration of %s from it", kubelet, provider)}
	}
	var spec interface {
		cloudConfig(kubelet *semver.Version, r *resolver) string
	}
	switch provider {
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
		return "", nil, []*invalid.Error{invalid.FromJSONError(specField, err)}
	}
	r := &resolver{values: values}
	text := spec.cloudConfig(kubelet, r)
	slices.SortFunc(r.refs, compareRefs)
	return text, r.refs, r.problems
}

// ConfigEnvironmentNames returns the environment variables that belong in ClusterValues, in order.
func ConfigEnvironmentNames() []string {
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
