package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
// +kubebuilder:object:root=true
type CustomOperatingSystemProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec OperatingSystemProfileSpec `json:"spec"`
}

// CustomOperatingSystemProfileList is a list of CustomOperatingSystemProfiles.
type CustomOperatingSystemProfileList = list.Of[CustomOperatingSystemProfile, *CustomOperatingSystemProfile]
