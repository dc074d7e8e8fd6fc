package list_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
)

// A copy is equal, and has nothing in common with the list.
func TestDeepCopy(t *testing.T) {
	machines := func() *cluster.MachineList {
		remaining := int64(2)
		return &cluster.MachineList{
			TypeMeta: metav1.TypeMeta{Kind: "MachineList"}, ListMeta: metav1.ListMeta{Continue: "a", RemainingItemCount: &remaining},
			Items: []cluster.Machine{{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"}}}},
		}
	}
	had := machines()
	got := had.DeepCopyObject().(*cluster.MachineList)
	if diff := cmp.Diff(had, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got.Items[0].Labels["a"], got.Items[0].Name, *got.RemainingItemCount = "c", "b", 3
	if diff := cmp.Diff(machines(), had); diff != "" {
		t.Errorf("a change of the copy changed the list (-want +got):\n%s", diff)
	}
	if empty := (&cluster.MachineList{}).DeepCopyObject().(*cluster.MachineList); empty.Items != nil {
		t.Errorf("the copy of no items is %v", empty.Items)
	}
}
