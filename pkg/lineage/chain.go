package lineage

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// Reference names an object. Its UID is empty if the text that names it has none.
type Reference struct {
	types.NamespacedName

	UID types.UID
}

// Chain leads from a Machine to its pool. If it is interrupted, by a Machine without a MachineSet or
// a MachineSet that was deleted, the fields after that point are zero.
type Chain struct {
	Machine Reference
	// Created is when the Machine was.
	Created metav1.Time
	// MachineSet is the owner of the Machine, Revision that of the MachineDeployment at
	// which the MachineSet was made or last used.
	MachineSet Reference
	Revision   string
	// EarlierRevisions are those of a MachineSet that was used again. The controller's cache of nodes does
	// not have them.
	EarlierRevisions []string
	// Pool is the MachineDeployment.
	Pool Reference
}

// Object is an object as clients read it.
type Object interface {
	metav1.Object
	runtime.Object
}

// Reader reads one cluster. kubeclient.Owners is one.
type Reader interface {
	// Find reads what a reference names. It returns false if there is none, or if the name
	// belongs to an object with another UID than that of the reference.
	Find(ctx context.Context, ref Reference, obj Object) (bool, error)
}

// FollowOwners follows a Machine to its pool by its owners. It reads only
// the MachineSet: the MachineDeployment can have been deleted.
func FollowOwners(ctx context.Context, from Reader, machine metav1.Object) (Chain, error) {
	c := Chain{
		Machine: Reference{types.NamespacedName{Namespace: machine.GetNamespace(), Name: machine.GetName()}, machine.GetUID()},
		Created: machine.GetCreationTimestamp(), MachineSet: MachineSetOf(machine),
	}
	if c.MachineSet.UID == "" { // none, or one that a UID does not identify
		return c, nil
	}
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(cluster.GroupVersion.WithKind("MachineSet"))
	found, err := from.Find(ctx, c.MachineSet, set)
	if err != nil || !found {
		return c, err
	}
	c.Revision, c.Pool = set.Annotations[api.AnnotationMDRevision], PoolOfSet(set)
	if history := set.Annotations[api.AnnotationMDRevisionHistory]; history != "" {
		c.EarlierRevisions = strings.Split(history, ",")
	}
	return c, nil
}

// RecordedOwners returns the chain that a NodeProvenance has, without the UID of the MachineSet.
func RecordedOwners(np *api.NodeProvenance) Chain {
	m, pool := np.Spec.Machine, np.Spec.Pool
	return Chain{
		Machine:    Reference{types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, m.UID},
		Created:    m.Created,
		MachineSet: Reference{NamespacedName: types.NamespacedName{Namespace: m.Namespace, Name: pool.MachineSet}},
		Revision:   pool.Revision,
		Pool:       Reference{types.NamespacedName{Namespace: pool.Namespace, Name: pool.Name}, pool.UID},
	}
}

// MachineSetOf returns the MachineSet that owns a Machine, zero for none.
func MachineSetOf(machine metav1.Object) Reference { return ownerOf(machine, "MachineSet") }

// PoolOfSet returns the MachineDeployment that owns a MachineSet, zero for none.
func PoolOfSet(set metav1.Object) Reference { return ownerOf(set, "MachineDeployment") }

// ownerOf returns the owner of a kind in the group of MachineDeployments, the last one if
// there are several.
func ownerOf(obj metav1.Object, kind string) (owner Reference) {
	for _, ref := range obj.GetOwnerReferences() {
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err == nil && gv.Group == cluster.GroupVersion.Group && ref.Kind == kind {
			owner = Reference{types.NamespacedName{Namespace: obj.GetNamespace(), Name: ref.Name}, ref.UID}
		}
	}
	return owner
}
