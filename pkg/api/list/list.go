// Package list has the lists of the kinds of the API.
package list

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Of is the list of a kind, for which controller-gen would generate deep copies that differ only in
// the kind.
type Of[T any, P interface {
	*T
	DeepCopyInto(into *T)
}] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []T `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *Of[T, P]) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta) //nolint:staticcheck // without ListMeta it would seem to copy the list
	if l.Items != nil {
		out.Items = make([]T, len(l.Items))
		for i := range l.Items {
			P(&l.Items[i]).DeepCopyInto(&out.Items[i])
		}
	}
	return &out
}
