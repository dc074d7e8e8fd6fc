// Package list has the type of lists of API objects.
package list

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Of is a list of objects of one kind, as the API server returns it.
type Of[T any, P copier[T]] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []T `json:"items"`
}

// copier is a pointer to T with the generated deep copy.
type copier[T any] interface {
	*T
	DeepCopyInto(out *T)
}

// DeepCopyObject implements runtime.Object.
func (l *Of[T, P]) DeepCopyObject() runtime.Object {
	out := &Of[T, P]{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&out.ListMeta) // that of ListMeta
	if l.Items != nil {
		out.Items = make([]T, len(l.Items))
	}
	for i := range l.Items {
		P(&l.Items[i]).DeepCopyInto(&out.Items[i])
	}
	return out
}
