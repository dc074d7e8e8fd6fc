package render

import (
	"strings"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// DefaultProfile names the profile of a MachineDeployment that names none itself
// (contract 10.1): "osp-<operating system>", but "osp-flatcar-cloud-init" for
// Flatcar on anexia where cloud-init is asked for. It reads the provider spec
// alone, as strictly as DecodePool. The error is an *InvalidError: the provider
// spec cannot be read, or its operating system is none that is supported.
func DefaultProfile(md *cluster.MachineDeployment) (string, error) {
	name, problems := defaultProfile(md)
	for _, p := range problems {
		p.Pool = md.Namespace + "/" + md.Name
	}
	return name, invalid.One(problems)
}

func defaultProfile(md *cluster.MachineDeployment) (string, []*invalid.Error) {
	if wrong, ok := md.Spec.Malformed(); ok && md.Spec.Template.Spec.ProviderSpec.Value == nil {
		return "", []*invalid.Error{malformed(wrong)}
	}
	config, problems := decodeProviderSpec(md)
	if config == nil {
		return "", problems
	}
	system := osm.OperatingSystem(config.OperatingSystem)
	// What is wrong in operatingSystemSpec has no say here: the contract ignores it.
	spec, err := decodeOSSpec(system, config.OperatingSystemSpec)
	if err != nil && strings.HasSuffix(err.Field, ".operatingSystem") {
		return "", []*invalid.Error{err}
	}
	if config.CloudProvider == "anexia" && spec.Flatcar != nil && err == nil &&
		spec.Flatcar.ProvisioningUtility == osm.ProvisioningUtilityCloudInit {
		return "osp-flatcar-cloud-init", nil
	}
	return "osp-" + string(system), nil
}
