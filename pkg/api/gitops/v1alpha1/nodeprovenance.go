package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeProvenance says which configuration of which pool a node was provisioned
// from. It is a record of facts: the controller writes the spec once, and nobody
// changes it; what comes later is in the status. It stays for a while after its
// node is gone.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=np,categories=osm-gitops
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.node.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.evidence`
// +kubebuilder:selectablefield:JSONPath=`.status.behind`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node.name`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.pool.namespace`,priority=1
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool.name`
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.spec.configuration.profile`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.configuration.version`
// +kubebuilder:printcolumn:name="Commit",type=string,JSONPath=`.spec.configuration.shortCommit`
// +kubebuilder:printcolumn:name="Evidence",type=string,JSONPath=`.spec.evidence`
// +kubebuilder:printcolumn:name="Agreed",type=string,JSONPath=`.status.conditions[?(@.type=="Agreed")].status`,priority=1
// +kubebuilder:printcolumn:name="Behind",type=string,JSONPath=`.status.behind`
// +kubebuilder:printcolumn:name="Missing",type=string,JSONPath=`.status.missing.version`,priority=1
// +kubebuilder:printcolumn:name="Author",type=string,JSONPath=`.spec.configuration.author`,priority=1
// +kubebuilder:printcolumn:name="Signature",type=string,JSONPath=`.spec.configuration.signature`,priority=1
// +kubebuilder:printcolumn:name="Removed",type=date,JSONPath=`.status.removed`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.spec.node.joined`
type NodeProvenance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is known of how the node was provisioned. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is a record of what happened and immutable"
	Spec NodeProvenanceSpec `json:"spec"`
	// Status is what changes afterwards.
	// +optional
	Status NodeProvenanceStatus `json:"status,omitempty"`
}

// NodeProvenanceList is a list of NodeProvenances.
// +kubebuilder:object:root=true
type NodeProvenanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeProvenance `json:"items"`
}

// Evidence is how a node's configuration is known.
// +kubebuilder:validation:Enum=Reported;Inferred;Unknown
type Evidence string

// The evidence there may be. Each completes "the configuration is ...".
const (
	// EvidenceReported: the node says so itself, by labels that the profile made its
	// kubelet set, and its pool had that configuration at that time.
	EvidenceReported Evidence = "Reported"
	// EvidenceInferred: it is what the pool had when the machine was created.
	EvidenceInferred Evidence = "Inferred"
	// EvidenceUnknown: no record is left of what the pool had then, or it had nothing of
	// this controller.
	EvidenceUnknown Evidence = "Unknown"
)

// NodeProvenanceSpec is what is known of how a node was provisioned.
//
// +kubebuilder:validation:XValidation:rule="(self.evidence == 'Unknown') != has(self.configuration)",message="configuration is set unless evidence is Unknown"
type NodeProvenanceSpec struct {
	// Node that was provisioned.
	Node ProvenanceNode `json:"node"`
	// Machine that the node is of.
	Machine ProvenanceMachine `json:"machine"`
	// Pool is the MachineDeployment that the machine was made for.
	Pool ProvenancePool `json:"pool"`
	// Evidence is how the configuration is known.
	Evidence Evidence `json:"evidence"`
	// Explanation says what the evidence rests on, or what it lacks.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Explanation string `json:"explanation,omitempty"`
	// Configuration is the one whose provisioning document the node was set up by.
	// +optional
	Configuration *ProvenanceConfiguration `json:"configuration,omitempty"`
	// Bootstrap is the configuration whose bootstrap document the machine was created
	// with. It may be an older one than the other: a machine fetches its provisioning
	// document when it boots.
	// +optional
	Bootstrap *PossibleConfiguration `json:"bootstrap,omitempty"`
	// Reported is what the node said of itself when this was written. It is the node's
	// own word, and kept whether it agrees with the records or not.
	// +optional
	Reported *NodeReport `json:"reported,omitempty"`
	// Window is the time in which the machine fetched its documents.
	Window ProvenanceWindow `json:"window"`
	// Possible are the configurations that the pool had within the window, oldest first,
	// where there was more than one: without the node's word any of them may be meant.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Possible []PossibleConfiguration `json:"possible,omitempty"`
}

// ProvenanceNode is a node as it joined.
type ProvenanceNode struct {
	// +kubebuilder:validation:MaxLength=253
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// ProviderID is the instance's name at the cloud.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// Joined is when the Node was created.
	Joined metav1.Time `json:"joined"`
}

// ProvenanceMachine is the machine of a node.
type ProvenanceMachine struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Created is when the Machine was created.
	Created metav1.Time `json:"created"`
}

// ProvenancePool is the MachineDeployment of a machine.
type ProvenancePool struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// MachineSet of the machine.
	// +kubebuilder:validation:MaxLength=253
	MachineSet string `json:"machineSet"`
	// Revision of the MachineDeployment that the MachineSet stood for when this was written.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Revision string `json:"revision,omitempty"`
}

// ProvenanceConfiguration is a configuration of a pool, and where it comes from.
type ProvenanceConfiguration struct {
	// InputDigest is the digest of everything that rendering read, "v1:sha256:<64 hex>".
	// The record of that digest is on the pool's OperatingSystemConfig, or archived as a
	// ControllerRevision, and stays as long as this object.
	// +kubebuilder:validation:MaxLength=128
	InputDigest string `json:"inputDigest"`
	// Profile by name.
	// +kubebuilder:validation:MaxLength=253
	Profile string `json:"profile"`
	// Version of the profile.
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version"`
	// Object is the OperatingSystemProfile, ProfileDigest the digest of its spec.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Object string `json:"object,omitempty"`
	// +kubebuilder:validation:MaxLength=128
	// +optional
	ProfileDigest string `json:"profileDigest,omitempty"`
	// Repository is its URL, without credentials. It and the fields below are set where
	// the profile comes from a source.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Repository string `json:"repository,omitempty"`
	// Path of the file in the repository.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Path string `json:"path,omitempty"`
	// Commit is the first on the followed line that holds this content; of an artifact
	// without history it is the artifact's revision.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Commit string `json:"commit,omitempty"`
	// ShortCommit is the beginning of Commit, for people to look at.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ShortCommit string `json:"shortCommit,omitempty"`
	// Change is the commit its author wrote.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Change string `json:"change,omitempty"`
	// SelectedBy is the commit that had made the version current.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	SelectedBy string `json:"selectedBy,omitempty"`
	// CommittedAt is when Commit was made.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	CommittedAt string `json:"committedAt,omitempty"`
	// Author of Change, "Name <address>".
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Author string `json:"author,omitempty"`
	// Signature says who signed Commit, where signatures are verified.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Signature string `json:"signature,omitempty"`
	// Engine is the version of the rendering.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Engine string `json:"engine,omitempty"`
}

// PossibleConfiguration is a configuration that a pool had for a time.
type PossibleConfiguration struct {
	// InputDigest is the digest of everything that rendering read, "v1:sha256:<64 hex>".
	// +kubebuilder:validation:MaxLength=128
	InputDigest string `json:"inputDigest"`
	// Profile by name.
	// +kubebuilder:validation:MaxLength=253
	Profile string `json:"profile"`
	// Version of the profile.
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version"`
	// Commit, as with a configuration.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Commit string `json:"commit,omitempty"`
	// From is when the pool got it, Until when it got another; without Until it still
	// had it when this was written.
	From metav1.Time `json:"from"`
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// NodeReport is what a node says of itself: the values of its labels.
type NodeReport struct {
	// Config is the value of gitops.k8c.io/config, 12 digits of an input digest.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Config string `json:"config,omitempty"`
	// Commit is the value of gitops.k8c.io/commit.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Commit string `json:"commit,omitempty"`
}

// ProvenanceWindow is the time in which a machine fetched its documents.
type ProvenanceWindow struct {
	// From is when the machine was created. It is missing where the machine is younger
	// than its node, such as one that was adopted or restored.
	// +optional
	From *metav1.Time `json:"from,omitempty"`
	// Until is when a node of the machine joined first.
	Until metav1.Time `json:"until"`
}

// Behind says whether a node has the version of the profile that its pool has.
// +kubebuilder:validation:Enum=No;Yes;Unknown
type Behind string

// What Behind may be.
const (
	// BehindNo: a machine created now would get the same version of the profile.
	BehindNo Behind = "No"
	// BehindYes: it would get another one.
	BehindYes Behind = "Yes"
	// BehindUnknown: the node's version is not known, or its pool has none.
	BehindUnknown Behind = "Unknown"
)

// NodeProvenanceStatus is what changes after a node has joined.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.removed) || has(self.removed) && self.removed == oldSelf.removed",message="removed is set once"
type NodeProvenanceStatus struct {
	// Removed is when the controller noticed that the node is gone.
	// +optional
	Removed *metav1.Time `json:"removed,omitempty"`
	// Behind says whether the node has another version of the profile than its pool gives
	// to new machines. It stays as it was when the node is gone.
	// +optional
	Behind Behind `json:"behind,omitempty"`
	// Missing is the first version that the pool got and the node did not. It stays the
	// same while newer ones come, so that a push changes no object of a node that is
	// behind already.
	// +optional
	Missing *MissingVersion `json:"missing,omitempty"`
	// Reported is what the node said when Agreed was last looked at.
	// +optional
	Reported *NodeReport `json:"reported,omitempty"`
	// Journaled are the ids of the lines of the audit log about this node, where the
	// controller keeps one.
	// +optional
	Journaled *ProvenanceJournaled `json:"journaled,omitempty"`
	// Conditions: Agreed.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ProvenanceJournaled are ids of lines of the audit log. One that is missing was not
// written yet.
type ProvenanceJournaled struct {
	// Joined is that of the line with what the node was provisioned from.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Joined string `json:"joined,omitempty"`
	// Disputed is that of the last line which says that the node disagrees with the records.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Disputed string `json:"disputed,omitempty"`
	// Removed is that of the line which says that the node is gone.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Removed string `json:"removed,omitempty"`
}

// MissingVersion is a version of a profile that a pool got after a node had joined.
type MissingVersion struct {
	// +kubebuilder:validation:MaxLength=253
	Profile string `json:"profile"`
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version"`
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Commit string `json:"commit,omitempty"`
	// Since is when the pool got it.
	Since metav1.Time `json:"since"`
}

// AgreedCondition tells whether what a node says of itself agrees with the records of
// its pool.
const AgreedCondition = "Agreed"

// Reasons of AgreedCondition. Each completes "what the node says is ...".
const (
	// ReasonRecorded: its pool had that configuration when the machine fetched it.
	ReasonRecorded = "Recorded"
	// ReasonNothingReported: the node says nothing; its profile sets no labels.
	ReasonNothingReported = "NothingReported"
	// ReasonNoRecords: nothing is known of its pool to compare it with.
	ReasonNoRecords = "NoRecords"
	// ReasonNeverCurrent: its pool never had that configuration.
	ReasonNeverCurrent = "NeverCurrent"
	// ReasonNotCurrentThen: its pool had that configuration at another time.
	ReasonNotCurrentThen = "NotCurrentThen"
	// ReasonOtherCommit: the configuration and the commit do not belong together.
	ReasonOtherCommit = "OtherCommit"
	// ReasonOtherMachine: machines say that it is not the node of the machine that was
	// written down.
	ReasonOtherMachine = "OtherMachine"
)
