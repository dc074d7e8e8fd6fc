package v1alpha1

import (
	"encoding/json"
	"errors"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/osm-gitops/osm-gitops/pkg/api/list"
)

// GroupVersion is the group and version of the kinds in this package.
var GroupVersion = schema.GroupVersion{Group: "cluster.k8s.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &MachineDeployment{}, &MachineSet{}, &Machine{})
	s.AddKnownTypeWithName(GroupVersion.WithKind("MachineDeploymentList"), &MachineDeploymentList{})
	s.AddKnownTypeWithName(GroupVersion.WithKind("MachineSetList"), &MachineSetList{})
	s.AddKnownTypeWithName(GroupVersion.WithKind("MachineList"), &MachineList{})
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
type MachineDeploymentList = list.Of[MachineDeployment, *MachineDeployment]

// MachineDeploymentSpec has the fields of a MachineDeployment that we read.
//
// The CRD has no schema, so a field can have any type. Decoding never fails: otherwise
// one malformed object would make a whole list unreadable. See Malformed.
type MachineDeploymentSpec struct {
	Template MachineTemplateSpec `json:"template,omitempty"`
	// Replicas is the desired number of machines, nil if it cannot be read.
	Replicas *int32 `json:"replicas,omitempty"`
	// Paused stops machine-controller from replacing machines.
	Paused bool `json:"paused,omitempty"`

	malformed Malformed
}

// Malformed names a field that has not the type that machine-controller defines.
// +kubebuilder:object:generate=false
type Malformed struct {
	// Field below spec, such as "template.spec.versions.kubelet"; empty if the spec
	// itself is not an object.
	Field string
	// Got is the JSON type found there: "number", "array", ...
	Got string
	// Want is the expected JSON type.
	Want string
}

// Malformed returns the first field that could not be read, if there is one. The field
// has its zero value in the spec.
func (s *MachineDeploymentSpec) Malformed() (Malformed, bool) {
	return s.malformed, s.malformed != Malformed{}
}

// UnmarshalJSON decodes every field that it can. Malformed reports fields that rendering
// needs; other fields that cannot be read are treated as absent.
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
		s.malformed = Malformed{Field: wrong.Field, Got: wrong.Value, Want: jsonType(wrong.Type)}
	case err != nil:
		s.malformed = Malformed{Got: err.Error(), Want: "object"}
	}
	return nil
}

// jsonType returns the JSON type of values that a Go type accepts.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Bool, reflect.String:
		return t.Kind().String()
	default:
		return "number"
	}
}

// MachineDeploymentStatus has the fields of a MachineDeployment's status that we read. A
// field that cannot be read is treated as absent.
// +kubebuilder:object:generate=false
type MachineDeploymentStatus struct {
	// ObservedGeneration is the generation of the spec that the other fields describe.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas counts existing machines, UpdatedReplicas those of the newest template,
	// AvailableReplicas those that have been ready for long enough.
	Replicas          int32 `json:"replicas,omitempty"`
	UpdatedReplicas   int32 `json:"updatedReplicas,omitempty"`
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
}

// UnmarshalJSON decodes every field that it can.
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

// TemplateMeta has the metadata of the machine template that we read.
type TemplateMeta struct {
	Annotations map[string]string `json:"annotations,omitempty"`
}

// MachineSpec has the fields of a machine that we read.
type MachineSpec struct {
	ProviderSpec ProviderSpec   `json:"providerSpec,omitempty"`
	Versions     MachineVersion `json:"versions,omitempty"`
	ProviderID   *string        `json:"providerID,omitempty"`
}

// ProviderSpec has the provider's configuration as raw JSON.
type ProviderSpec struct {
	Value *runtime.RawExtension `json:"value,omitempty"`
}

// MachineVersion has the version of a machine's kubelet.
// +kubebuilder:object:generate=false
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
type MachineSetList = list.Of[MachineSet, *MachineSet]

// Machine is one machine.
// +kubebuilder:object:root=true
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MachineSpec   `json:"spec,omitempty"`
	Status MachineStatus `json:"status,omitempty"`
}

// MachineList is a list of Machines.
type MachineList = list.Of[Machine, *Machine]

// UnmarshalJSON decodes every field of the spec that it can; we do not need them.
// MachineDeploymentSpec explains why it never fails.
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

// MachineStatus has the fields of a machine's status that we read. A field that cannot be
// read is treated as absent.
type MachineStatus struct {
	// NodeRef names the Node, if it exists.
	NodeRef *corev1.ObjectReference `json:"nodeRef,omitempty"`
	// Conditions of the Node, if known.
	Conditions []MachineCondition `json:"conditions,omitempty"`
	// ErrorReason and ErrorMessage say why the machine could not be created, if known.
	ErrorReason  string `json:"errorReason,omitempty"`
	ErrorMessage string `json:"errorMessage,omitempty"`
}

// MachineCondition is one condition of the machine's Node, as machine-controller copies
// it (the API's type there is NodeCondition of k8s.io/api/core/v1).
// +kubebuilder:object:generate=false
type MachineCondition struct {
	Type               string                 `json:"type"`
	Status             corev1.ConditionStatus `json:"status"`
	LastTransitionTime metav1.Time            `json:"lastTransitionTime,omitzero"`
}

// DeepCopyInto copies by assignment, as that of metav1.Time does.
func (in *MachineCondition) DeepCopyInto(out *MachineCondition) { *out = *in }

// UnmarshalJSON decodes every field that it can.
func (s *MachineStatus) UnmarshalJSON(data []byte) error {
	type plain MachineStatus
	var p plain
	_ = json.Unmarshal(data, &p)
	*s = MachineStatus(p)
	return nil
}
