package v1alpha1

import (
	"encoding/json"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "cluster.k8s.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&MachineDeployment{}, &MachineDeploymentList{},
		&MachineSet{}, &MachineSetList{},
		&Machine{}, &MachineList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// MachineDeployment is a pool of machines.
// +kubebuilder:object:root=true
type MachineDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MachineDeploymentSpec `json:"spec,omitempty"`
}

// MachineDeploymentList is a list of MachineDeployments.
// +kubebuilder:object:root=true
type MachineDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MachineDeployment `json:"items"`
}

// MachineDeploymentSpec is what we read of a MachineDeployment.
//
// The CRD has no schema, so a field may hold anything. Decoding never fails: one
// object that is malformed would otherwise keep a whole list from being read. See
// Malformed.
type MachineDeploymentSpec struct {
	Template MachineTemplateSpec `json:"template,omitempty"`

	malformed Malformed
}

// Malformed names a field that has another type than the contract gives it.
type Malformed struct {
	// Field below spec, such as "template.spec.versions.kubelet"; empty when the
	// spec as a whole is no object.
	Field string
	// Got is what stands there: "number", "array", ...
	Got string
	// Want is the Go type that belongs there.
	Want string
}

// Malformed returns the first field that could not be read, if there is one. It
// has its zero value in the spec.
func (s *MachineDeploymentSpec) Malformed() (Malformed, bool) {
	return s.malformed, s.malformed != Malformed{}
}

// UnmarshalJSON reads what it can.
func (s *MachineDeploymentSpec) UnmarshalJSON(data []byte) error {
	type plain MachineDeploymentSpec
	var p plain
	err := json.Unmarshal(data, &p)
	*s = MachineDeploymentSpec(p)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		s.malformed = Malformed{Field: wrong.Field, Got: wrong.Value, Want: wrong.Type.String()}
	case err != nil:
		s.malformed = Malformed{Got: err.Error(), Want: "object"}
	}
	return nil
}

// MachineTemplateSpec is the template of a pool's machines.
type MachineTemplateSpec struct {
	Spec MachineSpec `json:"spec,omitempty"`
}

// MachineSpec is what we read of a machine.
type MachineSpec struct {
	ProviderSpec ProviderSpec   `json:"providerSpec,omitempty"`
	Versions     MachineVersion `json:"versions,omitempty"`
	ProviderID   *string        `json:"providerID,omitempty"`
}

// ProviderSpec holds the provider's configuration as raw JSON.
type ProviderSpec struct {
	Value *runtime.RawExtension `json:"value,omitempty"`
}

// MachineVersion holds the version of a machine's kubelet.
type MachineVersion struct {
	Kubelet string `json:"kubelet,omitempty"`
}

// MachineSet is one revision of a MachineDeployment.
// +kubebuilder:object:root=true
type MachineSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MachineDeploymentSpec `json:"spec,omitempty"`
}

// MachineSetList is a list of MachineSets.
// +kubebuilder:object:root=true
type MachineSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MachineSet `json:"items"`
}

// Machine is one machine.
// +kubebuilder:object:root=true
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MachineSpec   `json:"spec,omitempty"`
	Status MachineStatus `json:"status,omitempty"`
}

// MachineList is a list of Machines.
// +kubebuilder:object:root=true
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Machine `json:"items"`
}

// MachineStatus is what we read of a machine's status.
type MachineStatus struct {
	NodeRef *corev1.ObjectReference `json:"nodeRef,omitempty"`
}
