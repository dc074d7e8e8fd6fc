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

	Spec   MachineDeploymentSpec   `json:"spec,omitempty"`
	Status MachineDeploymentStatus `json:"status,omitzero"`
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
	// Replicas are the machines that are wanted, nil where that cannot be read.
	Replicas *int32 `json:"replicas,omitempty"`
	// Paused keeps machine-controller from replacing machines.
	Paused bool `json:"paused,omitempty"`

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

// UnmarshalJSON reads what it can. Malformed is what rendering needs; of the rest what
// cannot be read is as good as absent.
func (s *MachineDeploymentSpec) UnmarshalJSON(data []byte) error {
	var needed struct {
		Template struct {
			Spec MachineSpec `json:"spec"`
		} `json:"template"`
	}
	err := json.Unmarshal(data, &needed)
	var rest struct {
		Replicas *int32 `json:"replicas"`
		Paused   bool   `json:"paused"`
		Template struct {
			Metadata TemplateMeta `json:"metadata"`
		} `json:"template"`
	}
	_ = json.Unmarshal(data, &rest)
	*s = MachineDeploymentSpec{
		Template: MachineTemplateSpec{Metadata: rest.Template.Metadata, Spec: needed.Template.Spec},
		Replicas: rest.Replicas, Paused: rest.Paused,
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		s.malformed = Malformed{Field: wrong.Field, Got: wrong.Value, Want: wrong.Type.String()}
	case err != nil:
		s.malformed = Malformed{Got: err.Error(), Want: "object"}
	}
	return nil
}

// MachineDeploymentStatus is what we read of a MachineDeployment's status, as far as it
// can be read.
type MachineDeploymentStatus struct {
	// ObservedGeneration is the spec that the rest is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas are the machines there are, UpdatedReplicas those of the newest template,
	// AvailableReplicas those that are ready for long enough.
	Replicas          int32 `json:"replicas,omitempty"`
	UpdatedReplicas   int32 `json:"updatedReplicas,omitempty"`
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
}

// UnmarshalJSON reads what it can.
func (s *MachineDeploymentStatus) UnmarshalJSON(data []byte) error {
	type plain MachineDeploymentStatus
	var p plain
	_ = json.Unmarshal(data, &p)
	*s = MachineDeploymentStatus(p)
	return nil
}

// MachineTemplateSpec is the template of a pool's machines.
type MachineTemplateSpec struct {
	Metadata TemplateMeta `json:"metadata,omitzero"`
	Spec     MachineSpec  `json:"spec,omitempty"`
}

// TemplateMeta is what we read of the metadata that machines get.
type TemplateMeta struct {
	Annotations map[string]string `json:"annotations,omitempty"`
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

// UnmarshalJSON reads what it can of the spec, which we do not need; see
// MachineDeploymentSpec for why it never fails over it.
func (m *Machine) UnmarshalJSON(data []byte) error {
	var p struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`

		Spec   json.RawMessage `json:"spec"`
		Status MachineStatus   `json:"status"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return err
	}
	*m = Machine{TypeMeta: p.TypeMeta, ObjectMeta: p.ObjectMeta, Status: p.Status}
	_ = json.Unmarshal(p.Spec, &m.Spec)
	return nil
}

// MachineStatus is what we read of a machine's status, as far as it can be read.
type MachineStatus struct {
	// NodeRef names the Node, once there is one.
	NodeRef *corev1.ObjectReference `json:"nodeRef,omitempty"`
	// Conditions of the Node, where they are known.
	Conditions []MachineCondition `json:"conditions,omitempty"`
}

// MachineCondition is one condition of a machine: of its Node, as machine-controller
// copies it (the API's type there is NodeCondition of k8s.io/api/core/v1).
type MachineCondition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitzero"`
}

// UnmarshalJSON reads what it can.
func (s *MachineStatus) UnmarshalJSON(data []byte) error {
	type plain MachineStatus
	var p plain
	_ = json.Unmarshal(data, &p)
	*s = MachineStatus(p)
	return nil
}
