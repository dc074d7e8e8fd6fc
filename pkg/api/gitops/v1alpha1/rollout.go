package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Gates of a rollout.
const (
	// GateNone lets all pools adopt a version at once.
	GateNone = "None"
	// GateWaves lets them adopt it wave by wave.
	GateWaves = "Waves"
)

// Waves of pools.
const (
	// DefaultWave is the wave of a pool without LabelWave.
	DefaultWave int32 = 5
	// LastWave is the highest wave.
	LastWave int32 = 9
)

// Uses of maintenance windows.
const (
	// WindowReplace is the replacement of machines.
	WindowReplace = "Replace"
	// WindowWaves is the beginning of waves.
	WindowWaves = "Waves"
)

// Rollout says how a new version reaches pools, and how machines are replaced.
type Rollout struct {
	// Gate adopts a version for all pools at once (None) or wave by wave (Waves). The
	// label gitops.k8c.io/wave of a pool is its wave, "0" to "9", default "5".
	// +kubebuilder:validation:Enum=None;Waves
	// +kubebuilder:default=None
	// +optional
	Gate string `json:"gate,omitempty"`
	// MaintenanceWindows are when machines are replaced and waves begin; without any, at any
	// time. What has begun continues. Reverts and released versions do not wait for them.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	MaintenanceWindows []MaintenanceWindow `json:"maintenanceWindows,omitempty"`
	// MaxConcurrent is the number of pools of this source whose machines are replaced at
	// the same time, or their percentage, rounded up. It counts pools with the annotation
	// gitops.k8c.io/rollout: Replace.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 10000 : self.matches('^([1-9][0-9]?|100)%$')",message="maxConcurrent must be a number between 1 and 10000, or a percentage between 1% and 100%"
	// +kubebuilder:default=1
	// +optional
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`
	// PauseOnFailure holds a rollout in waves if new machines do not join within 30
	// minutes, or pools reject the version. It continues with another commit or the
	// annotation gitops.k8c.io/release. If false, the next wave begins when window has
	// passed.
	// +kubebuilder:default=true
	// +optional
	PauseOnFailure *bool `json:"pauseOnFailure,omitempty"`
	// Window is the time without failures after which the next wave begins even if the
	// current wave has no new machine. It does not pass while all new machines are still
	// booting.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="window must be between 1s and 720h"
	// +kubebuilder:default="30m"
	// +optional
	Window *metav1.Duration `json:"window,omitempty"`
}

// MaintenanceWindow is a recurring time.
type MaintenanceWindow struct {
	// Schedule is when it opens: minute, hour, day of month, month, day of week, as in cron.
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=256
	Schedule string `json:"schedule"`
	// Duration is how long it is open, 5m to 168h. It must end before the next start.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5m') && duration(self) <= duration('168h')",message="duration must be between 5m and 168h"
	Duration metav1.Duration `json:"duration"`
	// TimeZone of the schedule, a name of the IANA database.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:default=UTC
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// Applies is what waits for the window: the replacement of machines (Replace), the
	// beginning of waves (Waves).
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:Enum=Replace;Waves
	// +kubebuilder:default={Replace}
	// +listType=set
	// +optional
	Applies []string `json:"applies,omitempty"`
}

// IsFor reports whether the window applies to a use.
func (w *MaintenanceWindow) IsFor(use string) bool {
	return slices.Contains(w.Applies, use) || len(w.Applies) == 0 && use == WindowReplace
}

// WindowStatus is the state of the maintenance windows of one use.
type WindowStatus struct {
	// Applies is Replace or Waves.
	Applies string `json:"applies"`
	// Open is true while one of them is open.
	Open bool `json:"open"`
	// Opens is the next opening, absent while one is open, or if none is valid.
	// +optional
	Opens *metav1.Time `json:"opens,omitempty"`
	// Closes is when the open window closes, absent if that is not within 31 days.
	// +optional
	Closes *metav1.Time `json:"closes,omitempty"`
	// TimeZone of the next window.
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// RolloutVersion identifies a version of a profile in a rollout.
// +kubebuilder:object:generate=false
type RolloutVersion struct {
	// Version of the profile.
	Version string `json:"version"`
	// Object is the name of the OperatingSystemProfile.
	Object string `json:"object"`
	// Digest of the profile's spec, "v1:sha256:<64 hex>".
	// +optional
	Digest string `json:"digest,omitempty"`
	// Commit is the first commit on the first-parent history with this content.
	// +optional
	Commit string `json:"commit,omitempty"`
	// SelectedBy is the commit that made this version current.
	// +optional
	SelectedBy string `json:"selectedBy,omitempty"`
}

// RolloutStep is a version that was superseded before all waves had it.
// +kubebuilder:object:generate=false
type RolloutStep struct {
	RolloutVersion `json:",inline"`
	// Wave is the last wave that got it.
	Wave int32 `json:"wave"`
}

// RolloutStatus is the progress of a version of a profile. Pools up to wave get this
// version; pools of later waves get a version in superseded, or otherwise the one in
// from. Pools that request a version or are suspended are not part of the rollout.
type RolloutStatus struct {
	// Profile is the name of the profile.
	Profile string `json:"profile"`
	// RolloutVersion is the version that is rolled out.
	RolloutVersion `json:",inline"`
	// Wave is the last wave that gets the version: 9 when the rollout is done, -1 before it
	// begins, if the source is suspended or waits for a maintenance window.
	Wave int32 `json:"wave"`
	// Since is when that wave began.
	Since metav1.Time `json:"since"`
	// Superseded are versions that later waves have, ordered by wave.
	// +listType=atomic
	// +optional
	Superseded []RolloutStep `json:"superseded,omitempty"`
	// From is the version that was rolled out before; pools in waves without a newer
	// version have it.
	// +optional
	From *RolloutVersion `json:"from,omitempty"`
	// Revert is true if the version is the one before the previous one. It does not wait for
	// maintenance windows.
	// +optional
	Revert bool `json:"revert,omitempty"`
	// Done is true if all waves have the version, and new machines of the last wave have
	// joined or the window has passed.
	Done bool `json:"done"`
	// Held is true while failures prevent the next wave from beginning.
	Held bool `json:"held"`
	// Reason is what the rollout waits for: Adopting, Replacing, MachinesBooting, Window,
	// MaintenanceWindow, Suspended, MachinesNotJoined, PoolsRefused; Done or RolledBack at the end.
	Reason string `json:"reason"`
	// Message has details, and what to do.
	// +optional
	Message string `json:"message,omitempty"`
	// Pools counts the pools that follow the profile. It does not change after the
	// rollout is done.
	// +optional
	Pools RolloutPools `json:"pools,omitempty"`
	// Machines counts the machines created since their pool adopted the version. It does
	// not change after the rollout is done.
	// +optional
	Machines RolloutMachines `json:"machines,omitempty"`
	// Failures count against the version, at most 20.
	// +listType=atomic
	// +optional
	Failures []RolloutFailure `json:"failures,omitempty"`
	// FailingBefore are pools, each "namespace/name" and at most 100, whose machines
	// already failed to join before the version reached them. Their machines do not hold
	// the rollout.
	// +listType=atomic
	// +optional
	FailingBefore []string `json:"failingBefore,omitempty"`
}

// RolloutPools counts pools.
// +kubebuilder:object:generate=false
type RolloutPools struct {
	// Adopted have the version, Secrets included.
	Adopted int32 `json:"adopted"`
	// Total follow the profile.
	Total int32 `json:"total"`
}

// RolloutMachines counts machines created since their pool adopted the version.
// +kubebuilder:object:generate=false
type RolloutMachines struct {
	// Joined have a Node.
	Joined int32 `json:"joined"`
	// Waiting have no Node yet.
	Waiting int32 `json:"waiting"`
}

// RolloutFailure is a failure that counts against a version.
// +kubebuilder:object:generate=false
type RolloutFailure struct {
	// Pool is "namespace/name" of the MachineDeployment.
	Pool string `json:"pool"`
	// Wave of the pool.
	Wave int32 `json:"wave"`
	// Machine that did not join, empty if the pool rejected the version.
	// +optional
	Machine string `json:"machine,omitempty"`
	// Reason is NotJoined for a machine without a Node after 30 minutes, Deleted for a
	// machine that was deleted before it had a Node, BootFailing for a machine that reports
	// since 5 minutes, or for the third time, that its scripts fail, Refused for a pool that
	// rejected the version.
	Reason string `json:"reason"`
	// Since is the time of the failure.
	Since metav1.Time `json:"since"`
	// Message is what was known about a deleted machine: its age, and what
	// machine-controller reported about it.
	// +optional
	Message string `json:"message,omitempty"`
	// Cause is where a script of the machine failed last, if its BootReport has it: file and
	// line in the repository, or else on the node, and the exit status.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	Cause string `json:"cause,omitempty"`
}

// DeepCopyInto copies by assignment, as that of metav1.Time does.
func (in *RolloutFailure) DeepCopyInto(out *RolloutFailure) { *out = *in }

// Reasons of a RolloutFailure.
const (
	FailureNotJoined   = "NotJoined"
	FailureDeleted     = "Deleted"
	FailureBootFailing = "BootFailing"
	FailureRefused     = "Refused"
)

// Replacements counts pools whose machines are replaced.
// +kubebuilder:object:generate=false
type Replacements struct {
	// Replacing are replacing machines now.
	Replacing int32 `json:"replacing"`
	// Waiting are next.
	Waiting int32 `json:"waiting"`
}

// HasWaves reports whether versions reach pools wave by wave.
func (s *ProfileSource) HasWaves() bool {
	return s.Spec.Rollout != nil && s.Spec.Rollout.Gate == GateWaves
}

// RolloutOf returns the rollout of a profile, nil if there is none.
func (s *ProfileSource) RolloutOf(profile string) *RolloutStatus {
	for i := range s.Status.Rollouts {
		if s.Status.Rollouts[i].Profile == profile {
			return &s.Status.Rollouts[i]
		}
	}
	return nil
}
