package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Interval is a time in which a configuration generation of a pool was active.
// +kubebuilder:object:generate=false
type Interval struct {
	// From is when its OperatingSystemConfig was created, Until when that was deleted.
	From  metav1.Time `json:"from"`
	Until metav1.Time `json:"until"`
	// UID is that of the OperatingSystemConfig.
	UID types.UID `json:"uid"`
	// Replaces is the uid of the OperatingSystemConfig that it replaced, if any.
	Replaces types.UID `json:"replaces,omitempty"`
	// Revision is the last revision of the MachineDeployment that it was rendered for.
	Revision string `json:"revision,omitempty"`
	// SelectedBy is the commit that had made the version current, if the source is a Git
	// repository.
	SelectedBy string `json:"selectedBy,omitempty"`
}
