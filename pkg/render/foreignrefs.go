package render

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
)

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
	return ForeignObjects(md, pool.CloudConfigRefs(md, settings))
}

// ForeignObjects returns the objects among refs that are outside of a pool's namespace, in
// order and without duplicates.
func ForeignObjects(md *cluster.MachineDeployment, refs []ConfigVarRef) []types.NamespacedName {
	var out []types.NamespacedName
	for _, ref := range refs {
		if ref.Namespace != md.Namespace {
			out = append(out, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// AllowReferences is ReferencesFlag with the objects that it has to list.
func AllowReferences(objects []types.NamespacedName) string {
	names := make([]string, 0, len(objects))
	for _, o := range objects {
		names = append(names, o.String())
	}
	return "--" + ReferencesFlag + "=" + strings.Join(names, ",")
}
