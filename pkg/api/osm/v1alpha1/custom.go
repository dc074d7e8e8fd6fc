package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/osm-gitops/osm-gitops/pkg/api/list"
)

// CustomOperatingSystemProfile is a profile in a seed of Kubermatic Kubernetes Platform (KKP),
// which copies its spec to an OperatingSystemProfile of the same name in namespace kube-system of
// every user cluster. KKP installs the kind; its schema is that of OperatingSystemProfile:
// https://docs.kubermatic.com/kubermatic/main/tutorials-howtos/operating-system-manager/usage/
//
// It has the fields of OperatingSystemProfile, so that a pointer to one converts to a pointer to
// the other.
//
// +kubebuilder:object:generate=false
type CustomOperatingSystemProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec OperatingSystemProfileSpec `json:"spec"`
}

// DeepCopyInto copies all fields.
func (in *CustomOperatingSystemProfile) DeepCopyInto(out *CustomOperatingSystemProfile) {
	(*OperatingSystemProfile)(in).DeepCopyInto((*OperatingSystemProfile)(out))
}

// DeepCopyObject implements runtime.Object.
func (in *CustomOperatingSystemProfile) DeepCopyObject() runtime.Object {
	return (*CustomOperatingSystemProfile)((*OperatingSystemProfile)(in).DeepCopy())
}

// CustomOperatingSystemProfileList is a list of CustomOperatingSystemProfiles.
type CustomOperatingSystemProfileList = list.Of[CustomOperatingSystemProfile, *CustomOperatingSystemProfile]
