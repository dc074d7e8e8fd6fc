package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Gates of a rollout.
const (
	// GateNone lets all pools adopt a version at once.
	GateNone = "None"
	// GateWaves lets them adopt it wave by wave.
	GateWaves = "Waves"
)

// Waves of pools.
const (
	// DefaultWave is that of a pool without LabelWave.
	DefaultWave int32 = 5
	// LastWave is the last one there is.
	LastWave int32 = 9
)

// Rollout says how a new version reaches pools, and how machines are replaced.
type Rollout struct {
	// Gate adopts a version for all pools at once (None) or wave by wave (Waves), by the
	// label gitops.k8c.io/wave of pools, "0" to "9", default "5".
	// +kubebuilder:validation:Enum=None;Waves
	// +kubebuilder:default=None
	// +optional
	Gate string `json:"gate,omitempty"`
	// MaxConcurrent is the number of this source's pools whose machines are replaced at a
	// time, of those with the annotation gitops.k8c.io/rollout: Replace.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=1
	// +optional
	MaxConcurrent *int32 `json:"maxConcurrent,omitempty"`
	// PauseOnFailure holds a rollout in waves when new machines do not join within 30
	// minutes, or pools cannot have the version, until there is another commit, or the
	// annotation gitops.k8c.io/release. Otherwise the next wave waits for window.
	// +kubebuilder:default=true
	// +optional
	PauseOnFailure *bool `json:"pauseOnFailure,omitempty"`
	// Window is the time without failures after which the next wave begins, though no
	// machine of the wave before is new. It does not pass while the only new ones boot.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="window must be between 1s and 720h"
	// +kubebuilder:default="30m"
	// +optional
	Window *metav1.Duration `json:"window,omitempty"`
}

// RolloutVersion is a version of a profile as a rollout knows it.
type RolloutVersion struct {
	// Version of the profile.
	Version string `json:"version"`
	// Object is the name of the OperatingSystemProfile.
	Object string `json:"object"`
	// Digest of the profile's spec, "v1:sha256:<64 hex>".
	// +optional
	Digest string `json:"digest,omitempty"`
	// Commit is the first one on the tracked line that holds this content.
	// +optional
	Commit string `json:"commit,omitempty"`
	// SelectedBy is the commit that made this version current.
	// +optional
	SelectedBy string `json:"selectedBy,omitempty"`
}

// RolloutStep is a version that was superseded before all waves had it.
type RolloutStep struct {
	RolloutVersion `json:",inline"`
	// Wave up to which pools got it.
	Wave int32 `json:"wave"`
}

// RolloutStatus is how far a version of a profile has come. Pools up to wave get it,
// those beyond what is in superseded or, else, in from. Pools that ask for a version, or
// are suspended, are not part of it.
type RolloutStatus struct {
	// Profile is its name.
	Profile string `json:"profile"`
	// RolloutVersion is what is rolled out.
	RolloutVersion `json:",inline"`
	// Wave up to which pools get the version; 9 once it is done, -1 where its source was
	// suspended before it began.
	Wave int32 `json:"wave"`
	// Since is when that wave began.
	Since metav1.Time `json:"since"`
	// Superseded are versions that later waves have, those of the earlier waves first.
	// +listType=atomic
	// +optional
	Superseded []RolloutStep `json:"superseded,omitempty"`
	// From is the version that was rolled out last; pools of waves that nothing newer has
	// reached have it.
	// +optional
	From *RolloutVersion `json:"from,omitempty"`
	// Done is true once all waves have the version and new machines of the last one have
	// joined, or the window has passed.
	Done bool `json:"done"`
	// Held is true while no wave begins because of failures.
	Held bool `json:"held"`
	// Reason is what the rollout waits for, one word: Adopting, Replacing, MachinesBooting,
	// Window, Suspended, MachinesNotJoined, PoolsRefused; Done or RolledBack at the end.
	Reason string `json:"reason"`
	// Message tells more, and what to do.
	// +optional
	Message string `json:"message,omitempty"`
	// Pools are those that follow the profile. It stays as it is once the rollout is done.
	// +optional
	Pools RolloutPools `json:"pools,omitempty"`
	// Machines are those made since their pool adopted the version. It stays as it is once
	// the rollout is done.
	// +optional
	Machines RolloutMachines `json:"machines,omitempty"`
	// Failures are what counts against the version, at most 20.
	// +listType=atomic
	// +optional
	Failures []RolloutFailure `json:"failures,omitempty"`
	// FailingBefore are pools, each "namespace/name" and at most 100, whose machines did not
	// join already before the version reached them. Machines of theirs that do not join
	// hold nothing.
	// +listType=atomic
	// +optional
	FailingBefore []string `json:"failingBefore,omitempty"`
}

// RolloutPools counts pools.
type RolloutPools struct {
	// Adopted have the version, Secrets included.
	Adopted int32 `json:"adopted"`
	// Total follow the profile.
	Total int32 `json:"total"`
}

// RolloutMachines counts machines made since their pool adopted the version.
type RolloutMachines struct {
	// Joined have a Node.
	Joined int32 `json:"joined"`
	// Waiting have none yet.
	Waiting int32 `json:"waiting"`
}

// RolloutFailure is something that counts against a version.
type RolloutFailure struct {
	// Pool is "namespace/name" of the MachineDeployment.
	Pool string `json:"pool"`
	// Wave of the pool.
	Wave int32 `json:"wave"`
	// Machine that did not join, empty where the pool cannot have the version.
	// +optional
	Machine string `json:"machine,omitempty"`
	// Reason is NotJoined for a machine that has no Node for too long, Deleted for one
	// that was deleted without ever having one, Refused for a pool that cannot have the
	// version.
	Reason string `json:"reason"`
	// Since is when it came to that.
	Since metav1.Time `json:"since"`
}

// Reasons of a RolloutFailure.
const (
	FailureNotJoined = "NotJoined"
	FailureDeleted   = "Deleted"
	FailureRefused   = "Refused"
)

// Replacements counts pools whose machines are replaced.
type Replacements struct {
	// Replacing are at it.
	Replacing int32 `json:"replacing"`
	// Waiting are to follow.
	Waiting int32 `json:"waiting"`
}

// Gated reports whether versions reach pools wave by wave.
func (s *ProfileSource) Gated() bool {
	return s.Spec.Rollout != nil && s.Spec.Rollout.Gate == GateWaves
}

// RolloutOf is the rollout of a profile, nil where there is none.
func (s *ProfileSource) RolloutOf(profile string) *RolloutStatus {
	for i := range s.Status.Rollouts {
		if s.Status.Rollouts[i].Profile == profile {
			return &s.Status.Rollouts[i]
		}
	}
	return nil
}
