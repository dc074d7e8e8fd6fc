package pools

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// The stages in names of Secrets (contract: section 8.1).
const (
	stageBootstrap = "bootstrap"
	stageProvision = "provisioning"
)

// What other names of Secrets begin or end with (contract: sections 8.1 and 8.6).
const (
	kubeconfigSuffix = "-kubelet-bootstrap-config"
	inputsSuffix     = "-inputs"
	edgePrefix       = "edge-provider-script-"
)

// keyOf is the namespace and name of a pool.
func keyOf(md *cluster.MachineDeployment) types.NamespacedName {
	return types.NamespacedName{Namespace: md.Namespace, Name: md.Name}
}

func namesOf(md *cluster.MachineDeployment) lineage.Names { return lineage.NamesOf(keyOf(md)) }

// Prefixes of derivedNames: objects of one kind and namespace, or labels.
const (
	derivedConfig = "OperatingSystemConfig "
	derivedSecret = "Secret "
	derivedToken  = "bootstrap token label "
)

// derivedNames are the names of all that is made for a pool, each with its kind: objects of
// equal derived names are the same object. Two kinds of names are left out. Archived
// records: two pools that share one share the configuration. And those of accessName, which
// have a digest of the pool.
func derivedNames(md *cluster.MachineDeployment) []string {
	out := []string{derivedConfig + namesOf(md).Config, derivedToken + lineage.TokenLabel(keyOf(md))}
	for _, name := range secretNames(md) {
		out = append(out, derivedSecret+name)
	}
	return out
}

// secretNames are those of a pool's Secrets in cloud-init-settings, whether it needs them
// or not.
func secretNames(md *cluster.MachineDeployment) []string {
	names := namesOf(md)
	return []string{names.Kubeconfig, names.Provisioning, names.Bootstrap, names.Inputs, edgeName(md)}
}

// stems are what derived names are made of, by adding text before or behind.
func stems(md *cluster.MachineDeployment) []string {
	out := []string{md.Name + "-" + md.Namespace, lineage.ContractKey(keyOf(md)), lineage.TokenLabel(keyOf(md))}
	slices.Sort(out)
	return slices.Compact(out)
}

// rivalStems are the stems of every pool that has a derived name in common with this one.
// Others may have them too.
func rivalStems(md *cluster.MachineDeployment) []string {
	out := stems(md)
	for _, name := range secretNames(md) {
		for _, suffix := range []string{kubeconfigSuffix, "-" + stageProvision + "-config", "-" + stageBootstrap + "-config", inputsSuffix} {
			if stem, ok := strings.CutSuffix(name, suffix); ok {
				out = append(out, stem)
			}
		}
		if stem, ok := strings.CutPrefix(name, edgePrefix); ok {
			out = append(out, stem)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// recordLabel names a pool in a label.
func recordLabel(pool string) string {
	namespace, name, _ := cutKey(pool)
	return api.PoolLabel(namespace, name)
}

// cutKey takes the "namespace/name" of poolKey apart.
func cutKey(key string) (namespace, name string, ok bool) {
	namespace, name, ok = strings.Cut(key, "/")
	return namespace, name, ok && namespace != "" && name != ""
}
