package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/osm-gitops/osm-gitops/pkg/api/list"
)

// NodeProvenance says which configuration of which pool a node was provisioned from. It
// is a record of facts: the controller writes the spec once, and nothing changes it;
// later changes are in the status. It is retained for a time after its node is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=np,categories=osm-gitops
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.node.name`
// +kubebuilder:selectablefield:JSONPath=`.spec.evidence`
// +kubebuilder:selectablefield:JSONPath=`.status.behind`
// +kubebuilder:selectablefield:JSONPath=`.status.match.state`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node.name`,priority=1
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.pool.namespace`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool.name`
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.spec.configuration.profile`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.configuration.version`
// +kubebuilder:printcolumn:name="Commit",type=string,JSONPath=`.spec.configuration.shortCommit`
// +kubebuilder:printcolumn:name="Evidence",type=string,JSONPath=`.spec.evidence`
// +kubebuilder:printcolumn:name="Agreed",type=string,JSONPath=`.status.conditions[?(@.type=="Agreed")].status`,priority=1
// +kubebuilder:printcolumn:name="Behind",type=string,JSONPath=`.status.behind`
// +kubebuilder:printcolumn:name="Match",type=string,JSONPath=`.status.match.state`
// +kubebuilder:printcolumn:name="Missing",type=string,JSONPath=`.status.missing.version`,priority=1
// +kubebuilder:printcolumn:name="Author",type=string,JSONPath=`.spec.configuration.author`,priority=1
// +kubebuilder:printcolumn:name="Signature",type=string,JSONPath=`.spec.configuration.signature`,priority=1
// +kubebuilder:printcolumn:name="Removed",type=date,JSONPath=`.status.removed`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.spec.node.joined`
type NodeProvenance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is how the node was provisioned, as far as known. It is immutable.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is a record of what happened and immutable"
	Spec NodeProvenanceSpec `json:"spec"`
	// Status is what changes afterwards.
	// +optional
	Status NodeProvenanceStatus `json:"status,omitempty"`
}

// NodeProvenanceList is a list of NodeProvenances.
type NodeProvenanceList = list.Of[NodeProvenance, *NodeProvenance]

// Evidence says how a node's configuration is known.
// +kubebuilder:validation:Enum=Reported;Inferred;Unknown
type Evidence string

// The values of Evidence. Each completes "the configuration is ...".
const (
	// EvidenceReported: the node reports it, by labels that the profile made its kubelet
	// set, and its pool had that configuration at that time.
	EvidenceReported Evidence = "Reported"
	// EvidenceInferred: the pool had it when the machine was created.
	EvidenceInferred Evidence = "Inferred"
	// EvidenceUnknown: no record exists of the pool's configuration at that time, or the
	// pool had no configuration of this controller.
	EvidenceUnknown Evidence = "Unknown"
)

// NodeProvenanceSpec is how a node was provisioned, as far as known.
//
// +kubebuilder:validation:XValidation:rule="(self.evidence == 'Unknown') != has(self.configuration)",message="configuration is set unless evidence is Unknown"
type NodeProvenanceSpec struct {
	// Node that was provisioned.
	Node ProvenanceNode `json:"node"`
	// Machine of the node.
	Machine ProvenanceMachine `json:"machine"`
	// Pool is the MachineDeployment that the machine was created for.
	Pool ProvenancePool `json:"pool"`
	// Evidence says how the configuration is known.
	Evidence Evidence `json:"evidence"`
	// Explanation says what the evidence is based on, or what is missing.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Explanation string `json:"explanation,omitempty"`
	// Configuration is the one whose provisioning document set up the node.
	// +optional
	Configuration *ProvenanceConfiguration `json:"configuration,omitempty"`
	// Bootstrap is the configuration whose bootstrap document the machine was created
	// with. It can be older than Configuration: a machine fetches its provisioning
	// document when it boots.
	// +optional
	Bootstrap *PossibleConfiguration `json:"bootstrap,omitempty"`
	// Reported is what the node reported when this was written. It is the node's own
	// claim, recorded whether or not it agrees with the records.
	// +optional
	Reported *NodeReport `json:"reported,omitempty"`
	// Window is the time in which the machine fetched its documents.
	Window ProvenanceWindow `json:"window"`
	// Possible are the configurations that the pool had within the window, oldest first,
	// if there was more than one: without a report of the node it could be any of them.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	Possible []PossibleConfiguration `json:"possible,omitempty"`
}

// ProvenanceNode is a node as it joined.
// +kubebuilder:object:generate=false
type ProvenanceNode struct {
	// +kubebuilder:validation:MaxLength=253
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// ProviderID is the id of the instance at the cloud provider.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// Joined is when the Node was created.
	Joined metav1.Time `json:"joined"`
}

// DeepCopyInto copies by assignment, as that of metav1.Time does.
func (in *ProvenanceNode) DeepCopyInto(out *ProvenanceNode) { *out = *in }

// ProvenanceMachine is the machine of a node.
// +kubebuilder:object:generate=false
type ProvenanceMachine struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Created is when the Machine was created.
	Created metav1.Time `json:"created"`
}

// DeepCopyInto copies by assignment, as that of metav1.Time does.
func (in *ProvenanceMachine) DeepCopyInto(out *ProvenanceMachine) { *out = *in }

// ProvenancePool is the MachineDeployment of a machine.
// +kubebuilder:object:generate=false
type ProvenancePool struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MaxLength=253
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// MachineSet of the machine.
	// +kubebuilder:validation:MaxLength=253
	MachineSet string `json:"machineSet"`
	// Revision of the MachineDeployment that the MachineSet had when this was written.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Revision string `json:"revision,omitempty"`
}

// ProvenanceConfiguration is a configuration of a pool and its origin.
// +kubebuilder:object:generate=false
type ProvenanceConfiguration struct {
	// InputDigest is the digest of everything that rendering read, "v1:sha256:<64 hex>".
	// The record with that digest is on the pool's OperatingSystemConfig, or archived as
	// a ControllerRevision, and is retained as long as this object.
	// +kubebuilder:validation:MaxLength=128
	InputDigest string `json:"inputDigest"`
	// Profile is the name of the profile.
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
	// Repository is the URL of the repository, without credentials. It and the fields
	// below are set if the profile comes from a source.
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	Repository string `json:"repository,omitempty"`
	// Path of the file in the repository.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Path string `json:"path,omitempty"`
	// Commit is the first commit on the first-parent history with this content; for an
	// artifact without history, the revision of the artifact.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Commit string `json:"commit,omitempty"`
	// ShortCommit is the beginning of Commit, for display.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	ShortCommit string `json:"shortCommit,omitempty"`
	// Change is the commit that the author wrote.
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
	// Signature names the signer of Commit, if signatures are verified.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Signature string `json:"signature,omitempty"`
	// Engine is the version of the rendering engine.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Engine string `json:"engine,omitempty"`
}

// PossibleConfiguration is a configuration that a pool had for some time.
type PossibleConfiguration struct {
	// InputDigest is the digest of everything that rendering read, "v1:sha256:<64 hex>".
	// +kubebuilder:validation:MaxLength=128
	InputDigest string `json:"inputDigest"`
	// Profile is the name of the profile.
	// +kubebuilder:validation:MaxLength=253
	Profile string `json:"profile"`
	// Version of the profile.
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version"`
	// Commit, as in ProvenanceConfiguration.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Commit string `json:"commit,omitempty"`
	// From is when the pool got it, Until when it got another; without Until the pool
	// still had it when this was written.
	From metav1.Time `json:"from"`
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// NodeReport is what a node reports about itself: the values of its labels.
// +kubebuilder:object:generate=false
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
	// From is when the machine was created. It is absent if the machine is younger than
	// its node, such as an adopted or restored machine.
	// +optional
	From *metav1.Time `json:"from,omitempty"`
	// Until is when a node of the machine first joined.
	Until metav1.Time `json:"until"`
}

// Behind says whether a node has the version of the profile that its pool has.
// +kubebuilder:validation:Enum=No;Yes;Unknown
type Behind string

// The values of Behind.
const (
	// BehindNo: a machine created now would get the same version of the profile.
	BehindNo Behind = "No"
	// BehindYes: it would get another one.
	BehindYes Behind = "Yes"
	// BehindUnknown: the version of the node is not known, or its pool has none.
	BehindUnknown Behind = "Unknown"
)

// NodeProvenanceStatus is what changes after a node has joined.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.removed) || has(self.removed) && self.removed == oldSelf.removed",message="removed is set once"
type NodeProvenanceStatus struct {
	// Removed is when the controller noticed that the node was deleted.
	// +optional
	Removed *metav1.Time `json:"removed,omitempty"`
	// Behind says whether new machines of the pool would get another version of the
	// profile than the node has. It does not change after the node is deleted.
	// +optional
	Behind Behind `json:"behind,omitempty"`
	// Missing is the first version that the pool got and the node did not. It does not
	// change when newer versions follow, so a push does not change the objects of nodes
	// that are already behind.
	// +optional
	Missing *MissingVersion `json:"missing,omitempty"`
	// Reported is what the node reported when Agreed was last evaluated.
	// +optional
	Reported *NodeReport `json:"reported,omitempty"`
	// Journaled are the ids of the audit log entries about this node, if the controller
	// writes an audit log.
	// +optional
	Journaled *ProvenanceJournaled `json:"journaled,omitempty"`
	// Match is whether the node still has what its configuration put on it, as the node
	// itself found last. It is absent until the node reports.
	// +optional
	Match *NodeMatch `json:"match,omitempty"`
	// Conditions: Agreed, Matches.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MatchState says whether a node still has what its configuration put on it.
// +kubebuilder:validation:Enum=Matches;Differs;NotReported;NotSupported
type MatchState string

// The values of MatchState. Each completes "the node ...".
const (
	// MatchStateMatches: it has the files and units of its configuration.
	MatchStateMatches MatchState = "Matches"
	// MatchStateDiffers: it does not have all of them.
	MatchStateDiffers MatchState = "Differs"
	// MatchStateNotReported: it has reported nothing for more than a day.
	MatchStateNotReported MatchState = "NotReported"
	// MatchStateNotSupported: its configuration does not make it report.
	MatchStateNotSupported MatchState = "NotSupported"
)

// NodeMatch is what a node reports about its files and units.
type NodeMatch struct {
	State MatchState `json:"state"`
	// Since is when the controller found this state with these differences.
	Since metav1.Time `json:"since"`
	// Reported is when the node first reported this, by its own clock. Later reports of the
	// same do not change it.
	// +optional
	Reported *metav1.Time `json:"reported,omitempty"`
	// Config is the configuration that the node compares itself with: 12 digits of an input
	// digest.
	// +kubebuilder:validation:MaxLength=12
	// +optional
	Config string `json:"config,omitempty"`
	// Differences are sorted by path.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	Differences []MatchDifference `json:"differences,omitempty"`
	// Others is the number of further differences: more than 20, or with paths that the
	// configuration does not have.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Others int32 `json:"others,omitempty"`
}

// MatchDifference is a file or unit that is not as its configuration has it.
// +kubebuilder:object:generate=false
type MatchDifference struct {
	// Path is that of a file, or "unit:" and the name of a unit.
	// +kubebuilder:validation:MaxLength=320
	Path string `json:"path"`
	// Reason says what differs.
	Reason DifferenceReason `json:"reason"`
	// Found are the first 12 hex digits of the SHA-256 of the content on the node, if the
	// reason is Content.
	// +kubebuilder:validation:MaxLength=12
	// +optional
	Found string `json:"found,omitempty"`
	// Version of the profile that has the content found, and its commit. They are absent if no
	// known version has it.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Version string `json:"version,omitempty"`
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Commit string `json:"commit,omitempty"`
}

// DifferenceReason says how a file or unit differs.
// +kubebuilder:validation:Enum=Content;Mode;Owner;Missing;Type;DropIn;Disabled;Enabled;Masked;Unmasked;Mounted
type DifferenceReason string

// The values of DifferenceReason. Each completes "the difference is ...".
const (
	// DifferenceContent: other content.
	DifferenceContent DifferenceReason = "Content"
	// DifferenceMode: other permissions.
	DifferenceMode DifferenceReason = "Mode"
	// DifferenceOwner: another owner or group.
	DifferenceOwner DifferenceReason = "Owner"
	// DifferenceMissing: there is no such file or unit.
	DifferenceMissing DifferenceReason = "Missing"
	// DifferenceType: a symbolic link or a folder instead of a file.
	DifferenceType DifferenceReason = "Type"
	// DifferenceDropIn: a file that changes a unit of the configuration, and is not part of it.
	DifferenceDropIn DifferenceReason = "DropIn"
	// DifferenceDisabled: a unit that should be enabled is not.
	DifferenceDisabled DifferenceReason = "Disabled"
	// DifferenceEnabled: a unit that should not be enabled is.
	DifferenceEnabled DifferenceReason = "Enabled"
	// DifferenceMasked: a unit that should not be masked is, and cannot be started.
	DifferenceMasked DifferenceReason = "Masked"
	// DifferenceUnmasked: a unit that should be masked is not.
	DifferenceUnmasked DifferenceReason = "Unmasked"
	// DifferenceMounted: something is mounted over the file.
	DifferenceMounted DifferenceReason = "Mounted"
)

// ProvenanceJournaled has ids of audit log entries. An id is absent until its entry is
// written.
// +kubebuilder:object:generate=false
type ProvenanceJournaled struct {
	// Joined is the id of the entry about how the node was provisioned.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Joined string `json:"joined,omitempty"`
	// Disputed is the id of the latest entry about a disagreement between the node and
	// the records.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Disputed string `json:"disputed,omitempty"`
	// Match is the id of the latest entry about a node that no longer matches its
	// configuration, or matches it again.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Match string `json:"match,omitempty"`
	// Removed is the id of the entry about the deletion of the node.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Removed string `json:"removed,omitempty"`
}

// MissingVersion is a version of a profile that a pool got after a node had joined.
// +kubebuilder:object:generate=false
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

// DeepCopy copies by assignment, as that of metav1.Time does.
func (in *MissingVersion) DeepCopy() *MissingVersion {
	out := *in
	return &out
}

// AgreedCondition says whether the report of a node agrees with the records of its pool.
const AgreedCondition = "Agreed"

// Reasons of AgreedCondition. Each completes "the node's report is ...".
const (
	// ReasonRecorded: its pool had that configuration when the machine fetched it.
	ReasonRecorded = "Recorded"
	// ReasonNothingReported: the node reports nothing; its profile sets no labels.
	ReasonNothingReported = "NothingReported"
	// ReasonNoRecords: the pool has no records to compare it with.
	ReasonNoRecords = "NoRecords"
	// ReasonNeverCurrent: its pool never had that configuration.
	ReasonNeverCurrent = "NeverCurrent"
	// ReasonNotCurrentThen: its pool had that configuration at another time.
	ReasonNotCurrentThen = "NotCurrentThen"
	// ReasonOtherCommit: the reported configuration and commit do not belong together.
	ReasonOtherCommit = "OtherCommit"
	// ReasonOtherMachine: according to the machines, the node does not belong to the
	// recorded machine.
	ReasonOtherMachine = "OtherMachine"
)

// MatchesCondition says whether the node still has what its configuration put on it.
const MatchesCondition = "Matches"

// Reasons of MatchesCondition. Each completes "the node is ...".
const (
	// ReasonUnchanged: it has the files and units of its configuration.
	ReasonUnchanged = "Unchanged"
	// ReasonEdited: a file or unit differs.
	ReasonEdited = "Edited"
	// ReasonDisabled: all differences are units that are disabled or masked.
	ReasonDisabled = "Disabled"
	// ReasonOtherVersion: all differences are the content of another version of its profile.
	ReasonOtherVersion = "OtherVersion"
	// ReasonNotReported: it has reported nothing for more than a day, while its kubelet is
	// Ready.
	ReasonNotReported = "NotReported"
	// ReasonNotSupported: its configuration does not make it report, or is not known.
	ReasonNotSupported = "NotSupported"
)
