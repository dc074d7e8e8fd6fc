package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/osm-gitops/osm-gitops/pkg/api/list"
)

// BootReport has what the booting machines of one pool report about their scripts. It has the name
// of the pool's Role, in the namespace cloud-init-settings; its annotation gitops.k8c.io/pool names
// the pool. Machines write the spec, which is not trusted; the controller writes the status.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=br,categories=osm-gitops
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.metadata.annotations.gitops\.k8c\.io/pool`
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.status.machines[0].machine`
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.machines[0].stage`
// +kubebuilder:printcolumn:name="Outcome",type=string,JSONPath=`.status.machines[0].outcome`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.machines[0].version`
// +kubebuilder:printcolumn:name="Line",type=integer,JSONPath=`.status.machines[0].cause.line`
// +kubebuilder:printcolumn:name="File",type=string,JSONPath=`.status.machines[0].cause.file`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BootReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what machines report. Any machine of the pool can write it.
	// +optional
	Spec BootReportSpec `json:"spec,omitempty"`
	// Status is what the controller concludes.
	// +optional
	Status BootReportStatus `json:"status,omitempty"`
}

// BootReportList is a list of BootReports.
type BootReportList = list.Of[BootReport, *BootReport]

// BootReportSpec is what machines report.
type BootReportSpec struct {
	// Machines has one entry for each machine and stage. Each machine applies all of its
	// own entries, with its name as field manager. The controller removes entries of
	// machines that have joined or are deleted.
	// +listType=map
	// +listMapKey=machine
	// +listMapKey=stage
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Machines []MachineBoot `json:"machines,omitempty"`
}

// BootStage is a part of a boot.
// +kubebuilder:validation:Enum=Bootstrap;Setup;Join
type BootStage string

// The values of BootStage. Each completes "the machine ...".
const (
	// BootStageBootstrap: fetches the provisioning stage.
	BootStageBootstrap BootStage = "Bootstrap"
	// BootStageSetup: executes the provisioning stage.
	BootStageSetup BootStage = "Setup"
	// BootStageJoin: waits until the cluster has signed the kubelet's certificate.
	BootStageJoin BootStage = "Join"
)

// BootOutcome is the last state of a stage.
// +kubebuilder:validation:Enum=Failing;Succeeded
type BootOutcome string

// The values of BootOutcome.
const (
	// BootFailing: the last attempt failed.
	BootFailing BootOutcome = "Failing"
	// BootSucceeded: an attempt succeeded after others had failed.
	BootSucceeded BootOutcome = "Succeeded"
)

// MachineBoot is what a machine reports about one stage.
// +kubebuilder:object:generate=false
type MachineBoot struct {
	// Machine is the name of the Machine.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Machine string `json:"machine"`
	// Stage of the boot.
	Stage BootStage `json:"stage"`
	// Outcome of the last attempt.
	Outcome BootOutcome `json:"outcome"`
	// Attempt counts from 1, for each stage and boot.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Attempt int32 `json:"attempt"`
	// Config is the configuration that the script comes from: the first 12 hex digits of
	// its input digest.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{12}$`
	Config string `json:"config"`
	// File and Line are where the failing command is on the node. The file is absolute; *** is masked.
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9._@+*-]+)*$`
	// +optional
	File string `json:"file,omitempty"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Line int32 `json:"line,omitempty"`
	// Command that failed, as bash prints it. After an explicit exit, for which bash has none, it is
	// "exit after: " and the last line of output, and Line is 0.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Command string `json:"command,omitempty"`
	// ExitStatus of the script.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=255
	// +optional
	ExitStatus int32 `json:"exitStatus,omitempty"`
	// Log has the last lines of output, without credentials.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Log string `json:"log,omitempty"`
	// BootID is /proc/sys/kernel/random/boot_id.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	BootID string `json:"bootID"`
	// Time is the machine's clock, which may be wrong.
	// +kubebuilder:validation:MaxLength=32
	// +optional
	Time string `json:"time,omitempty"`
}

// BootReportStatus is what the controller concludes from the reports of existing machines of the
// pool that have no Node. Reports of others, of old machines and of configurations that the pool
// did not have are ignored. The last failure of a version remains after its machine is deleted, until
// a machine of the pool joins with this version.
type BootReportStatus struct {
	// Machines has one entry for each machine and stage; those that were reported first
	// come first.
	// +listType=map
	// +listMapKey=machine
	// +listMapKey=stage
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Machines []MachineBootStatus `json:"machines,omitempty"`
}

// MachineBootStatus is what the controller concludes about a stage of a machine.
type MachineBootStatus struct {
	// Machine is the name of the Machine, in the pool's namespace.
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine"`
	// MachineUID distinguishes machines that have the same name one after the other.
	MachineUID types.UID `json:"machineUID"`
	// Stage of the boot.
	Stage BootStage `json:"stage"`
	// Outcome of the last reported attempt.
	Outcome BootOutcome `json:"outcome"`
	// BootID of the machine.
	// +kubebuilder:validation:MaxLength=36
	BootID string `json:"bootID"`
	// Attempt that was reported last.
	Attempt int32 `json:"attempt"`
	// Config is the first 12 hex digits of the input digest of the configuration.
	// +kubebuilder:validation:MaxLength=12
	Config string `json:"config"`
	// Profile is the name of the profile.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Profile string `json:"profile,omitempty"`
	// ProfileNamespace is that of the profile, if it is not the controller's.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	ProfileNamespace string `json:"profileNamespace,omitempty"`
	// Version of the profile.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	Version string `json:"version,omitempty"`
	// SelectedBy is the commit that made this version current.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	SelectedBy string `json:"selectedBy,omitempty"`
	// Since is when the controller first read a report of this machine, boot and stage.
	Since metav1.Time `json:"since"`
	// Cause of the last failure. It remains after the stage has succeeded.
	// +optional
	Cause *BootCause `json:"cause,omitempty"`
	// Journaled is the id of the audit log entry about the cause, if the controller writes an audit
	// log. It is another one, or absent, until the entry is stored.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Journaled string `json:"journaled,omitempty"`
}

// BootCause says which command of which file failed.
// +kubebuilder:object:generate=false
type BootCause struct {
	// File of the profile in its repository, and the line of the command. They are absent
	// if the command is not found in the profile.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	File string `json:"file,omitempty"`
	// +optional
	Line int32 `json:"line,omitempty"`
	// Near says that the line is the nearest with the same command: the reported line has
	// another one.
	// +optional
	Near bool `json:"near,omitempty"`
	// NodeFile and NodeLine are where the command is on the node.
	// +kubebuilder:validation:MaxLength=256
	// +optional
	NodeFile string `json:"nodeFile,omitempty"`
	// +optional
	NodeLine int32 `json:"nodeLine,omitempty"`
	// Command that failed, without credentials.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Command string `json:"command,omitempty"`
	// ExitStatus of the script.
	// +optional
	ExitStatus int32 `json:"exitStatus,omitempty"`
	// Commit is the first commit on the first-parent history with this version of the
	// profile.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Commit string `json:"commit,omitempty"`
	// Author of that change, "Name <address>".
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Author string `json:"author,omitempty"`
}
