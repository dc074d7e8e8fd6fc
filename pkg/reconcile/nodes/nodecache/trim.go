package nodecache

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// The caches have tens of thousands of these objects, so fields that are not used are
// removed. Never write objects of the cache back: patch them.

// trimNode retains the identity of a Node, its machine, and its reports.
func trimNode(in any) (any, error) {
	if node, ok := in.(*metav1.PartialObjectMetadata); ok {
		node.ObjectMeta = trimMeta(node.ObjectMeta)
		node.Labels = pick(node.Labels, api.LabelOwnedBy, api.LabelConfig, api.LabelCommit)
		node.Annotations = pick(node.Annotations, api.AnnotationMachine, api.AnnotationProvenance, api.AnnotationMatch)
		// A node can write 256 KiB. The copy lets the rest be freed.
		if match := node.Annotations[api.AnnotationMatch]; len(match) > api.MaxMatchBytes {
			node.Annotations[api.AnnotationMatch] = strings.Clone(match[:api.MaxMatchBytes+1])
		}
		node.OwnerReferences = nil
	}
	return in, nil
}

// trimMachine retains the owners of a Machine, its node, and the condition that the node
// is not Ready, which rollouts use.
func trimMachine(in any) (any, error) {
	if m, ok := in.(*cluster.Machine); ok {
		m.ObjectMeta = trimMeta(m.ObjectMeta)
		m.Labels = nil
		m.Annotations = nil
		m.Spec = cluster.MachineSpec{}
		if m.Status.NodeRef != nil {
			m.Status.NodeRef = &corev1.ObjectReference{Name: m.Status.NodeRef.Name, UID: m.Status.NodeRef.UID}
		}
		var retained []cluster.MachineCondition
		for _, c := range m.Status.Conditions {
			if c.Type == string(corev1.NodeReady) && c.Status != corev1.ConditionTrue {
				retained = append(retained, c)
			}
		}
		m.Status.Conditions = retained
	}
	return in, nil
}

// trimMachineSet retains the owners of a MachineSet and its revisions, and for rollouts
// the desired number of machines.
func trimMachineSet(in any) (any, error) {
	switch ms := in.(type) {
	case *metav1.PartialObjectMetadata:
		ms.ObjectMeta = trimMeta(ms.ObjectMeta)
		ms.Labels, ms.Annotations = nil, pick(ms.Annotations, api.AnnotationMDRevision)
	case *cluster.MachineSet:
		ms.ObjectMeta = trimMeta(ms.ObjectMeta)
		ms.Labels = nil
		ms.Annotations = pick(ms.Annotations, api.AnnotationMDRevision, api.AnnotationMDRevisionHistory)
		ms.Spec = cluster.MachineDeploymentSpec{Replicas: ms.Spec.Replicas}
	}
	return in, nil
}

// trimProvenance retains the parts of a NodeProvenance that show whether its status is up
// to date.
func trimProvenance(np *api.NodeProvenance) *api.NodeProvenance {
	np.ObjectMeta = trimMeta(np.ObjectMeta)
	np.Labels, np.Annotations = nil, nil
	s := &np.Spec
	s.Node.ProviderID = ""
	s.Explanation = ""
	s.Bootstrap = nil
	s.Reported = nil
	s.Possible = nil
	if c := s.Configuration; c != nil {
		s.Configuration = &api.ProvenanceConfiguration{InputDigest: c.InputDigest, Profile: c.Profile, Version: c.Version}
	}
	for i := range np.Status.Conditions {
		np.Status.Conditions[i].Message = ""
	}
	return np
}

// trimMeta retains the identity and the owners of an object.
func trimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	out := metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, CreationTimestamp: m.CreationTimestamp,
		DeletionTimestamp: m.DeletionTimestamp, Labels: m.Labels, Annotations: m.Annotations,
	}
	for _, ref := range m.OwnerReferences {
		out.OwnerReferences = append(out.OwnerReferences, metav1.OwnerReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID})
	}
	return out
}

func pick(from map[string]string, keys ...string) map[string]string {
	var out map[string]string
	for _, key := range keys {
		if v, ok := from[key]; ok {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = v
		}
	}
	return out
}
