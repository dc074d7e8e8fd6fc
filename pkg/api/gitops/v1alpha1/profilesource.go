package v1alpha1

import (
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finalizer keeps a ProfileSource until what it created is settled.
const Finalizer = "gitops.k8c.io/finalizer"

// ProfileSource is a place where profiles are kept as files. Each version found
// there becomes one immutable OperatingSystemProfile, and the status says which
// version is current.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=ps,categories=osm-gitops
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.revision`
// +kubebuilder:printcolumn:name="Verified",type=string,JSONPath=`.status.conditions[?(@.type=="SourceVerified")].status`
// +kubebuilder:printcolumn:name="Attempted",type=string,JSONPath=`.status.lastAttemptedRevision`,priority=1
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`,priority=1
// +kubebuilder:printcolumn:name="Repository",type=string,JSONPath=`.status.repository`,priority=1
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.conditions[?(@.type=="RolledOut")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name is used as a label value: at most 63 characters"
type ProfileSource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ProfileSourceSpec `json:"spec"`
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status ProfileSourceStatus `json:"status,omitempty"`
}

// ProfileSourceList is a list of ProfileSources.
// +kubebuilder:object:root=true
type ProfileSourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ProfileSource `json:"items"`
}

// ProfileSourceSpec says where profiles are and how they are taken over.
//
// +kubebuilder:validation:XValidation:rule="[has(self.git), has(self.sourceRef), has(self.directory), has(self.builtin)].exists_one(x, x)",message="exactly one of git, sourceRef, directory and builtin must be set"
type ProfileSourceSpec struct {
	// Git is a remote repository.
	// +optional
	Git *GitSource `json:"git,omitempty"`
	// SourceRef is an artifact that Flux has fetched, in the same namespace.
	// +optional
	SourceRef *SourceReference `json:"sourceRef,omitempty"`
	// Directory is a folder that the controller can read.
	// +optional
	Directory *DirectorySource `json:"directory,omitempty"`
	// Builtin stands for the profiles in the controller's binary.
	// +optional
	Builtin *BuiltinSource `json:"builtin,omitempty"`

	// Path is the folder inside the source where profiles are; the default is its root.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.contains('\\\\') && !self.split('/').exists(p, p == '..')",message="path must be relative, with forward slashes and without '..'"
	// +optional
	Path string `json:"path,omitempty"`
	// Ignore holds patterns in gitignore's syntax, relative to path, on top of the files .osmignore.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	Ignore *string `json:"ignore,omitempty"`

	// Interval between two looks at the source.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="interval must be between 1s and 720h"
	// +kubebuilder:default="1m"
	// +optional
	Interval metav1.Duration `json:"interval,omitempty"`
	// RetryInterval is the time after a failure that may pass by itself. A host that is
	// away is waited for longer each time, up to interval.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="retryInterval must be between 1s and 720h"
	// +kubebuilder:default="30s"
	// +optional
	RetryInterval metav1.Duration `json:"retryInterval,omitempty"`
	// Prune deletes versions that left the source, that nothing refers to and that are
	// beyond historyLimit.
	// +kubebuilder:default=true
	// +optional
	Prune *bool `json:"prune,omitempty"`
	// HistoryLimit is the number of superseded versions in the cluster for each profile,
	// the newest, beside those that lie in the source or that something refers to.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	HistoryLimit *int32 `json:"historyLimit,omitempty"`
	// Suspend stops looking at the source. What was applied stays; no wave of a rollout
	// begins, and no machines are replaced.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Webhook lets the repository's host ask for a look at once.
	// +optional
	Webhook *Webhook `json:"webhook,omitempty"`
	// Rollout says how a new version reaches pools; the default is all of them at once,
	// and one pool at a time where machines are replaced.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`
}

// GitSource is a remote Git repository.
//
// The rule for url stands here because a message about a field repeats its value:
// a password in it must not end up in the status of whoever applies the object.
//
// +kubebuilder:validation:XValidation:rule=`self.url.matches(r'^https?://([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/[A-Za-z0-9._~+,=:@%/-]+$') || self.url.matches(r'^ssh://([A-Za-z0-9_][A-Za-z0-9._-]*@)?([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/[A-Za-z0-9._~+,=:@%/-]+$') || self.url.matches(r'^[A-Za-z0-9_][A-Za-z0-9._-]*@([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]):[A-Za-z0-9._~/][A-Za-z0-9._~+,=@%/-]*$')`,fieldPath=".url",message="url must be https://host/path, ssh://user@host/path or user@host:path, without password, query, fragment, spaces or quotes"
type GitSource struct {
	// URL of the repository: https, ssh or scp form; http only where the controller allows it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
	// Ref is what to follow; the default is branch main.
	// +optional
	Ref *GitReference `json:"ref,omitempty"`
	// SecretRef names a Secret with credentials, by Flux's keys: username and
	// password, bearerToken, those of a GitHub App, identity and known_hosts, ca.crt,
	// tls.crt and tls.key.
	// +optional
	SecretRef *meta.LocalObjectReference `json:"secretRef,omitempty"`
	// ProxySecretRef names a Secret with a proxy's address, username and password.
	// +optional
	ProxySecretRef *meta.LocalObjectReference `json:"proxySecretRef,omitempty"`
	// Verify demands signatures.
	// +optional
	Verify *GitVerification `json:"verify,omitempty"`
	// OnRewrite says what happens when a history does not continue the one before, by a
	// force-push or a moved tag: it is followed, or what is applied is held.
	// +kubebuilder:validation:Enum=Accept;Hold
	// +kubebuilder:default=Accept
	// +optional
	OnRewrite string `json:"onRewrite,omitempty"`
	// Timeout of each phase: dial, proxy, TLS or handshake, token, refs, pack.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="timeout must be between 1s and 1h"
	// +kubebuilder:default="60s"
	// +optional
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// GitReference is what to follow in a repository.
//
// +kubebuilder:validation:XValidation:rule="[has(self.branch), has(self.tag), has(self.semver), has(self.name), has(self.commit)].filter(x, x).size() <= 1",message="at most one of branch, tag, semver, name and commit may be set"
type GitReference struct {
	// Branch to follow.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +optional
	Branch string `json:"branch,omitempty"`
	// Tag to follow.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +optional
	Tag string `json:"tag,omitempty"`
	// SemVer is a range; the highest tag in it is followed, of tags with one precedence
	// the one whose name sorts last. Pre-releases count only where the range has one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +optional
	SemVer string `json:"semver,omitempty"`
	// Name of a reference, such as refs/pull/420/head.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +optional
	Name string `json:"name,omitempty"`
	// Commit to stay at.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{40}$`
	// +optional
	Commit string `json:"commit,omitempty"`
}

// GitVerification demands signatures of what is applied.
type GitVerification struct {
	// Mode says what must be signed.
	// +kubebuilder:validation:Enum=HEAD;Tag;TagAndHEAD
	// +kubebuilder:default=HEAD
	// +optional
	Mode string `json:"mode,omitempty"`
	// SecretRef names a Secret with the public keys: each value OpenPGP keys in ASCII
	// armour, or lines as in ssh-keygen's allowed_signers.
	SecretRef meta.LocalObjectReference `json:"secretRef"`
	// Range demands a signature of every commit since the last one applied.
	// +optional
	Range bool `json:"range,omitempty"`
	// Paths maps files to those who may change them.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Paths []PathPrincipals `json:"paths,omitempty"`
}

// PathPrincipals says who may change the files that match a pattern.
type PathPrincipals struct {
	// Glob matches paths from the root of the repository; ** stands for any folders.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Glob string `json:"glob"`
	// Principals are signers: principals of allowed_signers, fingerprints of keys, or
	// names of keys of the Secret.
	// +kubebuilder:validation:MinItems=1
	Principals []string `json:"principals"`
}

// SourceReference names an object of Flux in the same namespace.
type SourceReference struct {
	// Kind of the object.
	// +kubebuilder:validation:Enum=GitRepository;OCIRepository;Bucket;ExternalArtifact
	Kind string `json:"kind"`
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the object. Any other than the ProfileSource's own is refused.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// DirectorySource is a folder the controller can read.
type DirectorySource struct {
	// Path of the folder, below the controller's --directory-root.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '..')",message="path must not contain '..'"
	Path string `json:"path"`
}

// BuiltinSource stands for the profiles in the controller's binary.
type BuiltinSource struct{}

// Webhook lets a repository's host ask for a look at the source.
type Webhook struct {
	// Provider says how a request is signed.
	// +kubebuilder:validation:Enum=github;gitlab;gitea;bitbucket;generic
	Provider string `json:"provider"`
	// SecretRef names a Secret with the shared key under token, as Flux's Receiver
	// has it. With apiToken, and apiURL where it is not the usual one, the host is
	// told what became of each commit.
	SecretRef meta.LocalObjectReference `json:"secretRef"`
}

// ProfileSourceStatus is what was found and what is current.
type ProfileSourceStatus struct {
	meta.ReconcileRequestStatus `json:",inline"`

	// ObservedGeneration is the last generation that was handled to its end.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Reconciling, Stalled and SourceVerified, as kstatus reads them.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Revision is the last one of which every file was accepted, "main@sha1:<40 hex>".
	// +optional
	Revision string `json:"revision,omitempty"`
	// LastAttemptedRevision is the last one that was looked at, verified where that is
	// demanded, and applied but for files that were refused.
	// +optional
	LastAttemptedRevision string `json:"lastAttemptedRevision,omitempty"`
	// LastLook is a time at which the source was looked at, whatever came of it. It is
	// written along with any other change of the status, else anew after five intervals,
	// and not before ten minutes: the last look of all may be that much later.
	// +optional
	LastLook *metav1.Time `json:"lastLook,omitempty"`
	// Repository is where these revisions are from, without credentials.
	// +optional
	Repository string `json:"repository,omitempty"`
	// LastRewrite is the last time that a history was followed which does not continue
	// the one before.
	// +optional
	LastRewrite *Rewrite `json:"lastRewrite,omitempty"`
	// Profiles is the inventory. A pool reads from it which object is current.
	// +listType=map
	// +listMapKey=name
	// +optional
	Profiles []ProfileEntry `json:"profiles,omitempty"`
	// Rollouts are how far the current version of each profile has come, where
	// spec.rollout.gate is Waves. A pool reads from it which version it gets.
	// +listType=map
	// +listMapKey=profile
	// +optional
	Rollouts []RolloutStatus `json:"rollouts,omitempty"`
	// Replacements counts the pools whose machines are replaced, where any has the
	// annotation gitops.k8c.io/rollout: Replace.
	// +optional
	Replacements *Replacements `json:"replacements,omitempty"`
}

// Rewrite is a force-push, or a tag that was moved.
type Rewrite struct {
	// From is the revision that was there before.
	From string `json:"from"`
	// To is the revision that does not continue it.
	To string `json:"to"`
}

// ProfileEntry is one profile of a source: the version that is current.
type ProfileEntry struct {
	// Name of the profile.
	Name string `json:"name"`
	// Version that is current.
	Version string `json:"version"`
	// Object is the name of the OperatingSystemProfile.
	Object string `json:"object"`
	// Path of the file in the source.
	Path string `json:"path"`
	// Commit is the first one on the tracked line that holds this content.
	// +optional
	Commit string `json:"commit,omitempty"`
	// SelectedBy is the commit that made this version current.
	// +optional
	SelectedBy string `json:"selectedBy,omitempty"`
	// Digest of the profile's spec, "v1:sha256:<64 hex>".
	Digest string `json:"digest"`
	// Signature is who signed the commit, as on the OperatingSystemProfile, where
	// signatures are verified.
	// +optional
	Signature string `json:"signature,omitempty"`
	// Versions that a pool may ask for beside the current one, the highest first: those
	// in the cluster, and the newest that can be taken from the history, 200 at most and
	// fewer where there are more than 50 profiles. One that is not in the cluster comes
	// when a pool asks for it, whether it is named here or not.
	// +listType=atomic
	// +optional
	Versions []string `json:"versions,omitempty"`
	// Removed is true when the profile left the source: pools that have it keep it, new ones are refused.
	Removed bool `json:"removed"`
}

// GetConditions returns the status conditions, as fluxcd/pkg/runtime reads them.
func (s *ProfileSource) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the status conditions.
func (s *ProfileSource) SetConditions(c []metav1.Condition) { s.Status.Conditions = c }

// GetInterval returns the time between two looks at the source.
func (s *ProfileSource) GetInterval() metav1.Duration { return s.Spec.Interval }

// minNoted and notedIntervals say how often a look that changes nothing is noted in
// the status: each would be a write that nobody reads.
const (
	minNoted       = 10 * time.Minute
	notedIntervals = 5
)

// NotedEvery is the time after which status.lastLook is written anew. One that is
// twice as old is of a source at which nobody looks.
func (s *ProfileSource) NotedEvery() time.Duration {
	return max(minNoted, notedIntervals*s.Spec.Interval.Duration)
}
