package pools

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// ReferencesFlag is the flag of the controller that lists the objects outside of a pool's
// namespace to which its cloudProviderSpec may refer.
const ReferencesFlag = "cloud-provider-references"

const cloudProviderSpecField = "spec.template.spec.providerSpec.value.cloudProviderSpec"

// ForeignReferences returns the objects outside of its own namespace to which a pool's
// cloudProviderSpec refers, in order and without duplicates. It is empty if the pool's
// kubelets take no configuration from it, and if the MachineDeployment is invalid.
func ForeignReferences(md *cluster.MachineDeployment, settings render.Settings) []types.NamespacedName {
	pool, err := render.DecodePool(md)
	if err != nil {
		return nil
	}
	return foreignObjects(md, pool.CloudConfigRefs(md, settings))
}

// References writes objects as ReferencesFlag takes them.
func References(objects []types.NamespacedName) string {
	names := make([]string, 0, len(objects))
	for _, o := range objects {
		names = append(names, o.String())
	}
	return "--" + ReferencesFlag + "=" + strings.Join(names, ",")
}

func foreignObjects(md *cluster.MachineDeployment, refs []render.ConfigVarRef) []types.NamespacedName {
	var out []types.NamespacedName
	for _, ref := range refs {
		if ref.Namespace != md.Namespace {
			out = append(out, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	slices.SortFunc(out, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(out)
}

// Unallowed are those of ForeignReferences that this controller refuses to read.
func (r *Reconciler) Unallowed(md *cluster.MachineDeployment) []types.NamespacedName {
	return r.unallowed(ForeignReferences(md, r.Settings))
}

func (r *Reconciler) unallowed(objects []types.NamespacedName) []types.NamespacedName {
	return slices.DeleteFunc(objects, func(o types.NamespacedName) bool { return slices.Contains(r.CloudProviderReferences, o) })
}

// mayRefer refuses references that leave the pool's namespace and are not allowed. Nothing
// is read before: an error about the object would tell whether it exists.
func (r *Reconciler) mayRefer(md *cluster.MachineDeployment, refs []render.ConfigVarRef) error {
	others := r.unallowed(foreignObjects(md, refs))
	if len(others) == 0 {
		return nil
	}
	return refuse("%s refers to objects outside of namespace %q, which the controller does not allow: copy them to that namespace, or start the controller with %s",
		cloudProviderSpecField, md.Namespace, References(others))
}

// reservedType reports whether Secrets of a type belong to Kubernetes, to Helm, or to
// registries and servers, so that no machine is shown one.
func reservedType(t corev1.SecretType) bool {
	switch t {
	case corev1.SecretTypeServiceAccountToken, corev1.SecretTypeBootstrapToken, corev1.SecretTypeTLS,
		corev1.SecretTypeDockercfg, corev1.SecretTypeDockerConfigJson:
		return true
	}
	// https://helm.sh/docs/topics/advanced/#storage-backends: helm.sh/release.v1
	return strings.HasPrefix(string(t), "helm.sh/")
}

// refuseType is the error about a Secret of such a type.
func refuseType(key types.NamespacedName, t corev1.SecretType) error {
	return refuse("Secret %s has type %s, which no pool may refer to, whatever --%s lists: keep the credentials of a provider in a Secret of type %s",
		key, t, ReferencesFlag, corev1.SecretTypeOpaque)
}
