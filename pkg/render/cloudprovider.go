package render

import (
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/cloudprovider"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// ClusterValues are the values that a cloudProviderSpec can refer to.
type ClusterValues = cloudprovider.ClusterValues

// ConfigVarRef names one value that a cloudProviderSpec refers to.
type ConfigVarRef = cloudprovider.ConfigVarRef

// The kinds of object that a ConfigVarRef names.
const (
	KindSecret    = cloudprovider.KindSecret
	KindConfigMap = cloudprovider.KindConfigMap
)

// CloudConfigEnvironmentNames returns the environment variables that belong in ClusterValues, in order.
func CloudConfigEnvironmentNames() []string { return cloudprovider.ConfigEnvironmentNames() }

// WithCloudConfig returns the pool with the configuration of the cloud provider that its
// kubelets use. The configuration is empty, and neither the cloudProviderSpec nor the values are
// read, for a kubelet from 1.29 on, with an external cloud provider, and if the pool overwrites
// the configuration. md is the MachineDeployment that the pool was decoded from. The error is
// an *InvalidError that names every field to change.
func (p Pool) WithCloudConfig(md *cluster.MachineDeployment, s Settings, values cloudprovider.ClusterValues) (Pool, error) {
	text, _, problems := p.makeCloudConfig(md, s, values)
	for _, problem := range problems {
		problem.Pool = p.key()
	}
	if err := invalid.AsSingleError(problems); err != nil {
		return p, err
	}
	p.CloudConfig = text
	return p, nil
}

// CloudConfigRefs returns the references to read for WithCloudConfig, in order and without
// duplicates. For most pools there are none.
func (p Pool) CloudConfigRefs(md *cluster.MachineDeployment, s Settings) []cloudprovider.ConfigVarRef {
	_, refs, _ := p.makeCloudConfig(md, s, cloudprovider.ClusterValues{}) // without values it fails, but after it has listed every reference
	return refs
}

// makeCloudConfig returns the configuration, and the references that it needs.
func (p Pool) makeCloudConfig(md *cluster.MachineDeployment, s Settings, values cloudprovider.ClusterValues) (string, []cloudprovider.ConfigVarRef, []*invalid.Error) {
	kubelet, err := kubeVersion(p.KubeletVersion)
	if err != nil {
		return "", nil, []*invalid.Error{invalid.At(kubeletField, "%w", err)}
	}
	needed, problem := p.needsCloudConfig(s, kubelet)
	if problem != nil {
		return "", nil, []*invalid.Error{problem}
	}
	if !needed {
		return "", nil, nil
	}
	config, problems := decodeProviderSpec(md)
	if len(problems) > 0 {
		return "", nil, problems
	}
	return cloudprovider.Config(p.CloudProvider, config.CloudProviderSpec, kubelet, values)
}

// needsCloudConfig reports whether kubelets of a pool read a configuration that is generated
// from the cloudProviderSpec.
func (p Pool) needsCloudConfig(s Settings, kubelet *semver.Version) (bool, *invalid.Error) {
	if p.OverwriteCloudConfig != nil || s.ExternalCloudProvider {
		return false, nil
	}
	return cloudprovider.NeedsConfig(p.CloudProvider, kubelet)
}

// cloudConfig returns the cloud provider's configuration for nodes.
func (in Input) cloudConfig(kubelet *semver.Version) (string, *invalid.Error) {
	if in.Pool.OverwriteCloudConfig != nil {
		return *in.Pool.OverwriteCloudConfig, nil
	}
	needed, err := in.Pool.needsCloudConfig(in.Settings, kubelet)
	if err != nil || !needed {
		return "", err
	}
	if in.Pool.CloudConfig == "" { // none of the texts is empty
		return "", cloudprovider.Missing(in.Pool.CloudProvider, kubelet)
	}
	return in.Pool.CloudConfig, nil
}

// inTreeCCMAvailable ignores the kubelet's version; profiles check it.
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

// ReferencesFlag is the flag of the controller that lists the objects outside of a pool's
// namespace to which its cloudProviderSpec may refer.
const ReferencesFlag = "cloud-provider-references"

// ForeignReferences returns the objects outside of its own namespace to which a pool's
// cloudProviderSpec refers, in order and without duplicates. It is empty if the pool's
// kubelets take no configuration from it, and if the MachineDeployment is invalid.
func ForeignReferences(md *cluster.MachineDeployment, settings Settings) []types.NamespacedName {
	pool, err := DecodePool(md)
	if err != nil {
		return nil
	}
	return ObjectsInOtherNamespaces(md, pool.CloudConfigRefs(md, settings))
}

// ObjectsInOtherNamespaces returns the objects among refs that are outside of a pool's namespace,
// in order and without duplicates.
func ObjectsInOtherNamespaces(md *cluster.MachineDeployment, refs []ConfigVarRef) []types.NamespacedName {
	var out []types.NamespacedName
	for _, ref := range refs {
		if ref.Namespace != md.Namespace {
			out = append(out, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// AllowReferencesFlag returns ReferencesFlag with the objects that it has to list.
func AllowReferencesFlag(objects []types.NamespacedName) string {
	names := make([]string, 0, len(objects))
	for _, o := range objects {
		names = append(names, o.String())
	}
	return "--" + ReferencesFlag + "=" + strings.Join(names, ",")
}
