package lineage

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// reader has at most one MachineSet.
type reader struct {
	set *metav1.PartialObjectMetadata
	err error
}

func (r reader) Find(_ context.Context, ref Reference, obj Object) (bool, error) {
	if r.set == nil || r.set.Namespace != ref.Namespace || r.set.Name != ref.Name || r.set.UID != ref.UID {
		return false, r.err
	}
	r.set.DeepCopyInto(obj.(*metav1.PartialObjectMetadata))
	return true, nil
}

func TestFollowOwners(t *testing.T) {
	const group, other = "cluster.k8s.io/v1alpha1", "cluster.x-k8s.io/v1beta1"
	owner := func(apiVersion, kind, name, uid string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(uid)}
	}
	reference := func(name, uid string) Reference {
		return Reference{types.NamespacedName{Namespace: "ns", Name: name}, types.UID(uid)}
	}
	set := func(owners ...metav1.OwnerReference) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "set", UID: "2", Annotations: map[string]string{api.AnnotationMDRevision: "7"}, OwnerReferences: owners,
		}}
	}
	ofSet := []metav1.OwnerReference{owner(group, "MachineSet", "set", "2")}
	for name, c := range map[string]struct {
		owners []metav1.OwnerReference
		set    *metav1.PartialObjectMetadata
		want   Chain
	}{
		"to the pool": {ofSet, set(owner(group, "MachineDeployment", "pool", "3")), Chain{MachineSet: reference("set", "2"), Revision: "7", Pool: reference("pool", "3")}},
		"an owner in another version of the group counts": {
			[]metav1.OwnerReference{owner("cluster.k8s.io/v1beta1", "MachineSet", "set", "2")}, set(), Chain{MachineSet: reference("set", "2"), Revision: "7"},
		},
		"the last of several owners counts": {
			[]metav1.OwnerReference{owner(group, "MachineSet", "first", "9"), ofSet[0]}, set(), Chain{MachineSet: reference("set", "2"), Revision: "7"},
		},
		"an owner of another group or kind does not": {[]metav1.OwnerReference{owner(other, "MachineSet", "set", "2"), owner(group, "MachineDeployment", "pool", "3")}, set(), Chain{}},
		"a MachineSet that is gone ends it":          {ofSet, nil, Chain{MachineSet: reference("set", "2")}},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "machine", UID: "1", OwnerReferences: c.owners}}
			c.want.Machine = reference("machine", "1")
			got, err := FollowOwners(t.Context(), reader{set: c.set}, machine)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("error %v (-want +got):\n%s", err, diff)
			}
		})
	}
	failed := errors.New("no answer")
	machine := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", OwnerReferences: ofSet}}
	if _, err := FollowOwners(t.Context(), reader{err: failed}, machine); !errors.Is(err, failed) {
		t.Errorf("got error %v, want that of the reader", err)
	}
}

func TestParsePool(t *testing.T) {
	for text, want := range map[string]bool{"a/b": true, "no-pool": false, "/a": false, "a/": false, "": false} {
		if _, ok := ParsePool(text); ok != want {
			t.Errorf("%q: got %v", text, ok)
		}
	}
}
