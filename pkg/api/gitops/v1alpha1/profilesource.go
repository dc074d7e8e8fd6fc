package v1alpha1

import (
	"regexp"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/osm-gitops/osm-gitops/pkg/api/list"
)

// Finalizer delays the deletion of a ProfileSource until the objects that it created are
// deleted or released.
const Finalizer = "gitops.k8c.io/finalizer"

// ProfileSource is a place that stores profiles as files. Each version of a profile there
// becomes one immutable OperatingSystemProfile. The status names the current version of
// each profile.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=ps,categories=osm-gitops
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.summary.revision`
// +kubebuilder:printcolumn:name="Verified",type=string,JSONPath=`.status.conditions[?(@.type=="SourceVerified")].status`,priority=1
// +kubebuilder:printcolumn:name="Attempted",type=string,JSONPath=`.status.lastAttemptedRevision`,priority=1
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`,priority=1
// +kubebuilder:printcolumn:name="Repository",type=string,JSONPath=`.status.repository`,priority=1
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.status.summary.rollout`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.summary.message`
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
type ProfileSourceList = list.Of[ProfileSource, *ProfileSource]

// ProfileSourceSpec says where the profiles are and how the controller applies them.
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
	// Builtin selects the profiles in the controller's binary.
	// +optional
	Builtin *BuiltinSource `json:"builtin,omitempty"`

	// Path is the folder of the profiles inside the source; the default is its root.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.contains('\\\\') && !self.split('/').exists(p, p == '..')",message="path must be relative, with forward slashes and without '..'"
	// +optional
	Path string `json:"path,omitempty"`
	// Ignore has patterns in gitignore syntax, relative to path, in addition to
	// .osmignore files.
	// +kubebuilder:validation:MaxLength=16384
	// +optional
	Ignore *string `json:"ignore,omitempty"`

	// Interval is the time between two reconciliations of the source.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="interval must be between 1s and 720h"
	// +kubebuilder:default="1m"
	// +optional
	Interval metav1.Duration `json:"interval,omitempty"`
	// RetryInterval is the time until the next attempt after a temporary failure. If the
	// host does not answer, the time doubles with each attempt, up to interval.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('720h')",message="retryInterval must be between 1s and 720h"
	// +kubebuilder:default="30s"
	// +optional
	RetryInterval metav1.Duration `json:"retryInterval,omitempty"`
	// Prune deletes versions that are no longer in the source, that no object refers to,
	// and that exceed historyLimit.
	// +kubebuilder:default=true
	// +optional
	Prune *bool `json:"prune,omitempty"`
	// HistoryLimit is the number of superseded versions of each profile that remain in
	// the cluster, newest first. Versions that are in the source or that an object refers
	// to remain in addition.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=10
	// +optional
	HistoryLimit *int32 `json:"historyLimit,omitempty"`
	// Suspend stops reconciling the source. Applied objects remain. No wave of a rollout
	// begins, and no machines are replaced.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Webhook lets the host of the repository request a reconciliation at once.
	// +optional
	Webhook *Webhook `json:"webhook,omitempty"`
	// Rollout says how a new version reaches pools. By default all pools get it at once,
	// and machines are replaced in one pool at a time if their pool asks for it.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`
}

// gitURL has the three expressions of GitSource's rule for url.
var gitURL = regexp.MustCompile(`^https?://([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/[A-Za-z0-9._~+,=:@%/-]+$` +
	`|^ssh://([A-Za-z0-9_][A-Za-z0-9._-]*@)?([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/[A-Za-z0-9._~+,=:@%/-]+$` +
	`|^[A-Za-z0-9_][A-Za-z0-9._-]*@([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]):[A-Za-z0-9._~/][A-Za-z0-9._~+,=@%/-]*$`)

// IsGitURL reports whether the API server accepts a text as the url of a GitSource.
func IsGitURL(url string) bool { return gitURL.MatchString(url) }

// GitSource is a remote Git repository.
//
// The rule for url is at this level because a message about a field repeats its value: a
// password in the URL must not end up in the error that the user who applies the object
// gets.
//
// +kubebuilder:validation:XValidation:rule=`self.url.matches(r'^https?://([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/[A-Za-z0-9._~+,=:@%/-]+$') || self.url.matches(r'^ssh://([A-Za-z0-9_][A-Za-z0-9._-]*@)?([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/[A-Za-z0-9._~+,=:@%/-]+$') || self.url.matches(r'^[A-Za-z0-9_][A-Za-z0-9._-]*@([A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]):[A-Za-z0-9._~/][A-Za-z0-9._~+,=@%/-]*$')`,fieldPath=".url",message="url must be https://host/path, ssh://user@host/path or user@host:path, without password, query, fragment, spaces or quotes"
type GitSource struct {
	// URL of the repository: https, ssh or scp form. The controller must allow http.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
	// Ref is the reference to follow; the default is branch main.
	// +optional
	Ref *GitReference `json:"ref,omitempty"`
	// SecretRef names a Secret with credentials. Its keys are those of Flux: username and
	// password, bearerToken, those of a GitHub App, identity and known_hosts, ca.crt,
	// tls.crt and tls.key.
	// +optional
	SecretRef *meta.LocalObjectReference `json:"secretRef,omitempty"`
	// ProxySecretRef names a Secret with the address, username and password of a proxy.
	// +optional
	ProxySecretRef *meta.LocalObjectReference `json:"proxySecretRef,omitempty"`
	// Verify requires signatures.
	// +optional
	Verify *GitVerification `json:"verify,omitempty"`
	// OnRewrite says what to do if the new history does not contain the applied commit,
	// after a force-push or a moved tag: follow the new history (Accept), or keep what is
	// applied (Hold).
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

// GitReference is the reference to follow in a repository.
//
// +kubebuilder:validation:XValidation:rule="[has(self.branch), has(self.tag), has(self.semver), has(self.name), has(self.commit)].filter(x, x).size() <= 1",message="at most one of branch, tag, semver, name and commit may be set"
// +kubebuilder:object:generate=false
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
	// SemVer is a range; the highest tag in it is followed. If tags have the same
	// precedence, the one whose name sorts last is followed. Pre-releases count only if
	// the range has one.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +optional
	SemVer string `json:"semver,omitempty"`
	// Name of a reference, such as refs/pull/420/head.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=244
	// +optional
	Name string `json:"name,omitempty"`
	// Commit is the full id of a commit that is not left.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{40}$`
	// +optional
	Commit string `json:"commit,omitempty"`
}

// GitVerification requires signatures of what is applied.
type GitVerification struct {
	// Mode says what must be signed.
	// +kubebuilder:validation:Enum=HEAD;Tag;TagAndHEAD
	// +kubebuilder:default=HEAD
	// +optional
	Mode string `json:"mode,omitempty"`
	// SecretRef names a Secret with the public keys. Each value has OpenPGP keys in ASCII
	// armor, or lines in the format of ssh-keygen's allowed_signers.
	SecretRef meta.LocalObjectReference `json:"secretRef"`
	// Range requires a signature of every commit since the last one applied.
	// +optional
	Range bool `json:"range,omitempty"`
	// Paths maps files to the signers who can change them.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Paths []PathPrincipals `json:"paths,omitempty"`
}

// PathPrincipals names the signers who can change the files that match a pattern.
type PathPrincipals struct {
	// Glob matches paths from the root of the repository; ** matches any folders.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Glob string `json:"glob"`
	// Principals are signers: principals of allowed_signers, fingerprints of keys, or
	// names of keys of the Secret.
	// +kubebuilder:validation:MinItems=1
	Principals []string `json:"principals"`
}

// SourceReference names an object of Flux in the same namespace.
// +kubebuilder:object:generate=false
type SourceReference struct {
	// Kind of the object.
	// +kubebuilder:validation:Enum=GitRepository;OCIRepository;Bucket;ExternalArtifact
	Kind string `json:"kind"`
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the object. Only the namespace of the ProfileSource is accepted.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// DirectorySource is a folder that the controller can read.
// +kubebuilder:object:generate=false
type DirectorySource struct {
	// Path of the folder, below the controller's --directory-root.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(p, p == '..')",message="path must not contain '..'"
	Path string `json:"path"`
}

// BuiltinSource selects the profiles in the controller's binary.
// +kubebuilder:object:generate=false
type BuiltinSource struct{}

// Webhook lets the host of a repository request a reconciliation of the source.
// +kubebuilder:object:generate=false
type Webhook struct {
	// Provider selects how the signature of a request is checked.
	// +kubebuilder:validation:Enum=github;gitlab;gitea;bitbucket;generic
	Provider string `json:"provider"`
	// SecretRef names a Secret with the shared key under token, as in Flux's Receiver.
	// With apiToken the controller also reports the outcome of each commit to the host;
	// apiURL is needed if the host's API is not at its usual address.
	SecretRef meta.LocalObjectReference `json:"secretRef"`
}

// ProfileSourceStatus says what the source has and what is current.
type ProfileSourceStatus struct {
	meta.ReconcileRequestStatus `json:",inline"`

	// ObservedGeneration is the last generation that was reconciled completely.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready, Reconciling, Stalled and SourceVerified, as kstatus reads them.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Summary is the rest of the status in brief, as columns of kubectl get.
	// +optional
	Summary *ProfileSourceSummary `json:"summary,omitempty"`
	// Revision is the last revision whose files were all accepted, "main@sha1:<40 hex>".
	// +optional
	Revision string `json:"revision,omitempty"`
	// LastAttemptedRevision is the last revision that was read, verified if required, and
	// applied except for rejected files.
	// +optional
	LastAttemptedRevision string `json:"lastAttemptedRevision,omitempty"`
	// HeldRevision is the last revision that was fetched but not applied, because of a
	// signature or a rewritten history. It is removed once a revision is applied.
	// +optional
	HeldRevision string `json:"heldRevision,omitempty"`
	// FailedCommits are those whose status at the Git host is a failure because machines do not boot.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	FailedCommits []string `json:"failedCommits,omitempty"`
	// LastLook is a time at which the source was read, successfully or not. It is written
	// along with any other change of the status, and otherwise after five intervals, but
	// at least ten minutes. The latest read can be later than this time by as much.
	// +optional
	LastLook *metav1.Time `json:"lastLook,omitempty"`
	// Repository is the URL of these revisions, without credentials.
	// +optional
	Repository string `json:"repository,omitempty"`
	// LastRewrite is the last time that the controller followed a history which does not
	// contain the commit applied before.
	// +optional
	LastRewrite *Rewrite `json:"lastRewrite,omitempty"`
	// Profiles is the inventory. Pools look up the current object here.
	// +listType=map
	// +listMapKey=name
	// +optional
	Profiles []ProfileEntry `json:"profiles,omitempty"`
	// Rollouts are the rollouts of the current version of each profile if
	// spec.rollout.gate is Waves. Pools look up their version here.
	// +listType=map
	// +listMapKey=profile
	// +optional
	Rollouts []RolloutStatus `json:"rollouts,omitempty"`
	// MaintenanceWindows is the state of spec.rollout.maintenanceWindows, one entry for
	// each use.
	// +listType=map
	// +listMapKey=applies
	// +optional
	MaintenanceWindows []WindowStatus `json:"maintenanceWindows,omitempty"`
	// Replacements counts the pools whose machines are replaced, if any pool has the
	// annotation gitops.k8c.io/rollout: Replace.
	// +optional
	Replacements *Replacements `json:"replacements,omitempty"`
}

// Rewrite is a force-push, or a tag that was moved.
// +kubebuilder:object:generate=false
type Rewrite struct {
	// From is the previous revision.
	From string `json:"from"`
	// To is the revision that does not contain it.
	To string `json:"to"`
}

// Limits on the versions in the inventory that exist only in the history: of one profile,
// and of all profiles together.
const (
	MaxListedVersions = 200
	MaxListedTotal    = 10_000
)

// ProfileEntry is the current version of one profile of a source.
type ProfileEntry struct {
	// Name of the profile.
	Name string `json:"name"`
	// Version that is current.
	Version string `json:"version"`
	// Object is the name of the OperatingSystemProfile.
	Object string `json:"object"`
	// Path of the file in the source.
	Path string `json:"path"`
	// Commit is the first commit on the first-parent history with this content.
	// +optional
	Commit string `json:"commit,omitempty"`
	// SelectedBy is the commit that made this version current.
	// +optional
	SelectedBy string `json:"selectedBy,omitempty"`
	// Digest of the profile's spec, "v1:sha256:<64 hex>".
	Digest string `json:"digest"`
	// Signature names the signer of the commit, as on the OperatingSystemProfile, if
	// signatures are verified.
	// +optional
	Signature string `json:"signature,omitempty"`
	// Versions that a pool can request in addition to the current one, highest first:
	// those in the cluster, and the newest from the history. The list has at most 200
	// entries, fewer if there are more than 50 profiles. A version that is not in the
	// cluster is created when a pool requests it, also if it is not in this list.
	// +listType=atomic
	// +optional
	Versions []string `json:"versions,omitempty"`
	// Removed is true if the source no longer has the profile: pools that use it keep
	// their version, other pools cannot get it.
	Removed bool `json:"removed"`
}

// minLastLookWrite and lastLookWriteIntervals limit how often a reconciliation that changes nothing is
// recorded in the status: each record is a write that nothing reads.
const (
	minLastLookWrite       = 10 * time.Minute
	lastLookWriteIntervals = 5
)

// LastLookWriteInterval is the time after which status.lastLook is written again. If lastLook is
// older than twice this time, no controller reconciles the source.
func (s *ProfileSource) LastLookWriteInterval() time.Duration {
	return max(minLastLookWrite, lastLookWriteIntervals*s.Spec.Interval.Duration)
}
