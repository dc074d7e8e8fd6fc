package v1alpha1

// FieldManager is the field manager of the controller's writes.
const FieldManager = "osm-gitops"

// Labels of the objects we create.
const (
	// LabelManagedBy is the common label; its value is FieldManager.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelProfile is the profile's name.
	LabelProfile = "gitops.k8c.io/profile"
	// LabelSource is the name of the ProfileSource.
	LabelSource = "gitops.k8c.io/source"
	// LabelVersion is the profile's version in label-safe form ("+" becomes "_").
	LabelVersion = "gitops.k8c.io/version"
	// LabelPool is the pool of an archived record or a NodeProvenance,
	// "<namespace>_<name>". If that is longer than 63 characters, the value is its first
	// 50 characters, "-" and 12 hex digits of a digest.
	LabelPool = "gitops.k8c.io/pool"
)

// Annotations of OperatingSystemProfiles. Those that apply are also on
// OperatingSystemConfigs and user-data Secrets.
const (
	// AnnotationRepository is the URL of the repository, without credentials.
	AnnotationRepository = "gitops.k8c.io/repository"
	// AnnotationRevision is the revision at which the profile was first applied, "main@sha1:<40 hex>".
	AnnotationRevision = "gitops.k8c.io/revision"
	// AnnotationCommit is the first commit on the first-parent history with this content.
	AnnotationCommit = "gitops.k8c.io/commit"
	// AnnotationChange is the commit that the author wrote.
	AnnotationChange = "gitops.k8c.io/change"
	// AnnotationSelectedBy is the commit that made this version current.
	AnnotationSelectedBy = "gitops.k8c.io/selected-by"
	// AnnotationProfile is the profile's name.
	AnnotationProfile = "gitops.k8c.io/profile"
	// AnnotationVersion is the profile's version.
	AnnotationVersion = "gitops.k8c.io/version"
	// AnnotationAuthor is the author of AnnotationChange, "Name <address>".
	AnnotationAuthor = "gitops.k8c.io/author"
	// AnnotationSubject is the subject of AnnotationChange, at most 100 bytes.
	AnnotationSubject = "gitops.k8c.io/subject"
	// AnnotationCommittedAt is when AnnotationCommit was made, RFC 3339 in UTC.
	AnnotationCommittedAt = "gitops.k8c.io/committed-at"
	// AnnotationPath is the file in the repository at AnnotationCommit.
	AnnotationPath = "gitops.k8c.io/path"
	// AnnotationSignature names the signer of AnnotationCommit, if signatures are
	// verified: "commit <40 hex> by <signer>, <ssh or openpgp> <key>". If that commit has
	// no valid signature, this is the signature for which the revision was accepted.
	AnnotationSignature = "gitops.k8c.io/signature"
	// AnnotationAppliedBy is set on a profile that was not created by a ProfileSource:
	// the Flux Kustomization or Argo CD Application that applied it, "<kind>
	// <namespace>/<name>". AnnotationCommit is then the revision that this object
	// reports.
	AnnotationAppliedBy = "gitops.k8c.io/applied-by"
	// AnnotationDigest is the digest of the profile's spec, "v1:sha256:<64 hex>".
	AnnotationDigest = "gitops.k8c.io/digest"
)

// Annotations of OperatingSystemProfiles that result from a ProfileOverlay.
// AnnotationPath, AnnotationCommit and the others above describe the file of the overlay;
// these describe its base.
const (
	// AnnotationBase is the base, "<profile> <version>".
	AnnotationBase = "gitops.k8c.io/base"
	// AnnotationBaseDigest is the digest of the base's spec, "v1:sha256:<64 hex>".
	AnnotationBaseDigest = "gitops.k8c.io/base-digest"
	// AnnotationBaseCommit is the first commit on the first-parent history with the base;
	// a built-in base has none.
	AnnotationBaseCommit = "gitops.k8c.io/base-commit"
	// AnnotationBasePath is the file of the base at that commit, or among the built-in
	// profiles.
	AnnotationBasePath = "gitops.k8c.io/base-path"
)

// Annotations of OperatingSystemConfigs and user-data Secrets.
const (
	// AnnotationPool is the MachineDeployment an object belongs to, "namespace/name".
	AnnotationPool = "gitops.k8c.io/machine-deployment"
	// AnnotationPoolUID is that MachineDeployment's uid.
	AnnotationPoolUID = "gitops.k8c.io/machine-deployment-uid"
	// AnnotationReplaces is, on an OperatingSystemConfig, the uid of the one that it
	// replaced: machines boot from the old one until this one exists, even if clocks
	// disagree.
	AnnotationReplaces = "gitops.k8c.io/replaces"
	// AnnotationRecord is the JSON from which a generation can be rendered again.
	AnnotationRecord = "gitops.k8c.io/record"
	// AnnotationInputDigest is the digest of everything that rendering read.
	AnnotationInputDigest = "gitops.k8c.io/input-digest"
	// AnnotationDataDigest is the digest of a Secret's document.
	AnnotationDataDigest = "gitops.k8c.io/data-digest"
	// AnnotationUserDataBytes is the size of a bootstrap document, counted as its cloud
	// provider does.
	AnnotationUserDataBytes = "gitops.k8c.io/user-data-bytes"
	// AnnotationCredentialsDigest is the keyed digest of the credentials in a Secret,
	// without tokens.
	AnnotationCredentialsDigest = "gitops.k8c.io/credentials-digest"
	// AnnotationTokensDigest is the keyed digest of the tokens that a Secret was rendered
	// with.
	AnnotationTokensDigest = "gitops.k8c.io/tokens-digest"
	// AnnotationCredentialsExpireAt is when a token in the Secret expires, RFC 3339.
	AnnotationCredentialsExpireAt = "gitops.k8c.io/credentials-expire-at"
	// AnnotationCredentialsRenewAt is when the controller replaces that token, RFC 3339.
	AnnotationCredentialsRenewAt = "gitops.k8c.io/credentials-renew-at"
	// AnnotationWaitingSince is when the replacement of another controller's immutable
	// Secret began to wait for booting machines, RFC 3339.
	AnnotationWaitingSince = "gitops.k8c.io/waiting-since"
)

// Annotations of OperatingSystemConfigs only. An OperatingSystemConfig has no status: its
// pool has the requested configuration if AnnotationRefused is absent and the bootstrap
// Secret has the same AnnotationInputDigest.
const (
	// AnnotationRefused says why the pool cannot have a newer configuration. It is
	// removed when the pool can.
	AnnotationRefused = "gitops.k8c.io/refused"
	// AnnotationRefusedVersion is the version of the profile that the pool cannot have.
	// It is absent if the reason is not a version, such as an invalid pool.
	AnnotationRefusedVersion = "gitops.k8c.io/refused-version"
	// AnnotationRefusedSince is the time of the first rejection, RFC 3339; another
	// version starts it again.
	AnnotationRefusedSince = "gitops.k8c.io/refused-since"
	// AnnotationJournaled is the id of the audit log entry for the configuration, set
	// after the entry is written if the controller writes an audit log.
	AnnotationJournaled = "gitops.k8c.io/journaled"
)

// Annotations of archived records, which are ControllerRevisions. They also have
// AnnotationInputDigest and the origin of the profile.
const (
	// AnnotationIntervals are the times in which a generation was active: a JSON list of
	// Interval, oldest first. It is an annotation because the data of a
	// ControllerRevision is immutable, and a pool can return to a generation.
	AnnotationIntervals = "gitops.k8c.io/intervals"
	// AnnotationSettingsDigest is the digest of a generation's settings.
	AnnotationSettingsDigest = "gitops.k8c.io/settings-digest"
)

// Labels by which a node reports what it was provisioned from: our profiles make the
// kubelet set them. NodeProvenances have LabelCommit too.
const (
	// LabelConfig is the first 12 hex digits of the input digest.
	LabelConfig = "gitops.k8c.io/config"
	// LabelCommit is the commit in label-safe form.
	LabelCommit = "gitops.k8c.io/commit"
)

const (
	// LabelNode is the name of the node of a NodeProvenance. If that is longer than 63
	// characters, the value is its first 50 characters, "-" and 12 hex digits of a
	// digest.
	LabelNode = "gitops.k8c.io/node"
	// AnnotationProvenance is, on a Node, the name of its NodeProvenance.
	AnnotationProvenance = "gitops.k8c.io/provenance"
	// AnnotationMatch is, on a Node, the node's own comparison of its files and units with its
	// configuration: one line of JSON.
	AnnotationMatch = "gitops.k8c.io/match"
)

// MaxMatchBytes is the maximum size of the value of AnnotationMatch.
const MaxMatchBytes = 2 << 10 // 2 KiB

// Annotations and labels that users set on a MachineDeployment.
const (
	// AnnotationVersionPin requests a version of the profile, "v1.8.0", or the highest
	// version in a range, "~1.8".
	AnnotationVersionPin = "gitops.k8c.io/osp-version"
	// AnnotationSuspend set to "true" freezes the configuration of a pool.
	AnnotationSuspend = "gitops.k8c.io/suspend"
	// LabelWave is the wave, "0" to "9", in which a pool adopts a new version if
	// spec.rollout.gate of its ProfileSource is Waves.
	LabelWave = "gitops.k8c.io/wave"
	// AnnotationRollout, set to RolloutReplace, makes the controller replace the machines
	// of a pool when their configuration changes.
	AnnotationRollout = "gitops.k8c.io/rollout"
	// AnnotationWindows, set to WindowsIgnore, exempts a pool from the maintenance windows of
	// its ProfileSource.
	AnnotationWindows = "gitops.k8c.io/maintenance-windows"
	// AnnotationIgnitionVersion chooses the Ignition specification for a pool.
	AnnotationIgnitionVersion = "gitops.k8c.io/ignition-version"
)

// RolloutReplace is the value of AnnotationRollout.
const RolloutReplace = "Replace"

// WindowsIgnore is the value of AnnotationWindows.
const WindowsIgnore = "Ignore"

// AnnotationConfig is set on the template of a pool's machines: the input digest of the
// configuration that they boot with. If it changes, machine-controller replaces the
// machines.
const AnnotationConfig = "gitops.k8c.io/config"

// AnnotationRelease, set on a ProfileSource, continues the held rollout of a version:
// "v1.8.0" in all waves at once, "v1.8.0@3" after wave 3, despite any failures so far.
const AnnotationRelease = "gitops.k8c.io/release"

// AnnotationAcceptRewrite, set on a ProfileSource to the full id of the commit that the
// reference names now, accepts a rewritten history that spec.git.onRewrite would
// otherwise hold.
const AnnotationAcceptRewrite = "gitops.k8c.io/accept-rewrite"

// Names that existing installations rely on.
const (
	// AnnotationOSP names the profile of a MachineDeployment.
	AnnotationOSP = "k8c.io/operating-system-profile"
	// AnnotationOSPNamespace is the namespace of the profile if it is not the
	// controller's.
	AnnotationOSPNamespace = "k8c.io/operating-system-profile-namespace"
	// AnnotationMDRevision is the revision of a MachineDeployment, written by machine-controller.
	AnnotationMDRevision = "machinedeployment.clusters.k8s.io/revision"
	// AnnotationMDRevisionHistory is, on a MachineSet that is used again, the revisions
	// that it had before.
	AnnotationMDRevisionHistory = "machinedeployment.clusters.k8s.io/revision-history"
	// AnnotationRevisionFor is the MachineDeployment revision that an
	// OperatingSystemConfig or Secret was created for.
	AnnotationRevisionFor = "k8c.io/machine-deployment-revision"
	// AnnotationMDAnnotationsHash is the SHA-256 of a MachineDeployment's annotations.
	AnnotationMDAnnotationsHash = "k8c.io/mdannotations-hash"
	// AnnotationOSPVersion is the version of the profile that was rendered.
	AnnotationOSPVersion = "k8c.io/osp-version"
	// AnnotationKubeletConfigPrefix starts every kubelet annotation of a MachineDeployment.
	AnnotationKubeletConfigPrefix = "v1.kubelet-config.machine-controller.kubermatic.io/"
	// LabelOwnedBy is, on a Node, the uid of its Machine.
	LabelOwnedBy = "machine-controller/owned-by"
	// AnnotationMachine is, on a Node, its Machine, "namespace/name".
	AnnotationMachine = "cluster.k8s.io/machine"
	// LabelTokenPool marks the bootstrap token of a pool.
	LabelTokenPool = "machinedeployment.k8s.io/name"
	// FinalizerPool delays the deletion of a MachineDeployment until its objects are
	// removed.
	FinalizerPool = "kubermatic.io/cleanup-operating-system-configs"
	// NamespaceCloudInitSettings is the namespace of the Secrets that nodes boot from.
	NamespaceCloudInitSettings = "cloud-init-settings"
	// SecretGetterToken has the token with which a node reads its Secrets.
	SecretGetterToken = "cloud-init-getter-token"
	// UserDataKey is the data key of a user-data Secret.
	UserDataKey = "cloud-config"
	// KubeconfigKey is the data key of a kubelet bootstrap kubeconfig Secret.
	KubeconfigKey = "kubeconfig"
)

// OSPVersionPrefix comes before the version in an OperatingSystemConfig's
// AnnotationOSPVersion. operating-system-manager compares that annotation for equality,
// so it never reuses a configuration with placeholders.
const OSPVersionPrefix = "gitops/"

// DefaultsName is the ProfileSource of the built-in profiles, which the controller
// manages. No other ProfileSource can have spec.builtin.
const DefaultsName = "osm-gitops-defaults"

// KeySecretName is the Secret, in the controller's namespace, with the key of every
// credentials digest.
const KeySecretName = "osm-gitops-key"

// ShardLeaseInfix separates the name of the lease of a controller without shards from the digits
// that identify a shard, in the name of the shard's lease.
const ShardLeaseInfix = "-shard-"

// Names of objects that the controller's admission webhooks need.
const (
	// WebhookSecretName is the Secret, in the controller's namespace, with the webhook
	// certificates that the controller creates and renews.
	WebhookSecretName = "osm-gitops-webhook-cert"
	// WebhookServiceName is the Service by which the API server calls the webhooks, in
	// the controller's namespace; a flag can name another.
	WebhookServiceName = "osm-gitops-webhook"
	// WebhookConfigurationName is the name of the MutatingWebhookConfiguration and the
	// ValidatingWebhookConfiguration.
	WebhookConfigurationName = "osm-gitops"
)

// Keys of a webhook's Secret.
const (
	// WebhookToken is the key with which the host of the repository signs its requests.
	// Flux's Receiver has the same name for it.
	WebhookToken = "token"
	// WebhookAPIToken is a token for the host's API. It enables commit statuses.
	WebhookAPIToken = "apiToken"
	// WebhookAPIURL is the address of the host's API, if it is not the usual one.
	WebhookAPIURL = "apiURL"
)

// SourceVerifiedCondition says whether the applied revision has the required signatures.
const SourceVerifiedCondition = "SourceVerified"

// ObservedCondition says what a controller with --observe would do.
const ObservedCondition = "Observed"

// Reasons of ObservedCondition, in addition to those of Ready, which it has if Ready
// would be False. Each completes "it is known of the source that ...".
const (
	// ReasonWouldChange: the controller would write something.
	ReasonWouldChange = "WouldChange"
	// ReasonNothingToDo: the controller would write nothing.
	ReasonNothingToDo = "NothingToDo"
	// ReasonNotObserved: nothing is known.
	ReasonNotObserved = "NotObserved"
)

// RolledOutCondition says whether all pools have the current versions, if
// spec.rollout.gate is Waves, and whether machines wait for a maintenance window.
const RolledOutCondition = "RolledOut"

// Reasons of RolledOutCondition. Each completes "the source is ...".
const (
	// ReasonRolledOut: all waves have the current versions.
	ReasonRolledOut = "RolledOut"
	// ReasonRollingOut: a version is being rolled out.
	ReasonRollingOut = "RollingOut"
	// ReasonRolloutHeld: a rollout waits for an action of a user.
	ReasonRolloutHeld = "Held"
	// ReasonWindowInvalid: a maintenance window is invalid, and never opens.
	ReasonWindowInvalid = "WindowInvalid"
)

// Reasons of conditions, in addition to those of fluxcd/pkg/apis/meta. Each completes
// "the source is ...".
const (
	// ReasonUnsupported: the spec requests something that this release does not have.
	ReasonUnsupported = "Unsupported"
	// ReasonProfilesInvalid: files of this revision were rejected.
	ReasonProfilesInvalid = "ProfilesInvalid"
	// ReasonSourceInvalid: the repository or its content cannot be used at all.
	ReasonSourceInvalid = "SourceInvalid"
	// ReasonUnreachable: the repository does not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonAuthenticationFailed: the repository rejected the credentials.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonHostKeyRefused: the host key of an ssh server is not the one in known_hosts,
	// or is not listed there.
	ReasonHostKeyRefused = "HostKeyRefused"
	// ReasonReferenceNotFound: the branch or commit is not in the repository.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonAccessDenied: the spec names something that this controller must not read.
	ReasonAccessDenied = "AccessDenied"
	// ReasonVerificationFailed: the new revision is not signed as spec.git.verify
	// requires.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonHistoryRewritten: the reference was moved to a commit that does not contain
	// the applied one, and spec.git.onRewrite is Hold.
	ReasonHistoryRewritten = "HistoryRewritten"
)

// Reasons of SourceVerifiedCondition if it is False. Each completes "the source is ...";
// the message names the commit and what to do.
const (
	// ReasonUnsigned: a commit or tag has no signature.
	ReasonUnsigned = "Unsigned"
	// ReasonSignatureInvalid: a signature belongs to other content, or is too weak.
	ReasonSignatureInvalid = "SignatureInvalid"
	// ReasonUnknownSigner: a signature is by a key that is not in the Secret.
	ReasonUnknownSigner = "SignedByUnknownKey"
	// ReasonKeyExpired: a signature is by a key that is not valid yet or has expired.
	ReasonKeyExpired = "SignedByExpiredKey"
	// ReasonKeyRevoked: a signature is by a key that was revoked.
	ReasonKeyRevoked = "SignedByRevokedKey"
	// ReasonSignerNotAllowed: the signer is not allowed to change the file.
	ReasonSignerNotAllowed = "SignerNotAllowed"
	// ReasonRangeUnknown: the commit applied last no longer exists, so the new commits
	// are unknown.
	ReasonRangeUnknown = "RangeUnknown"
	// ReasonKeysInvalid: the Secret with the public keys is missing or cannot be read.
	ReasonKeysInvalid = "KeysInvalid"
)

// Reasons of events.
const (
	// EventRevisionApplied: every file of a revision was accepted.
	EventRevisionApplied = "RevisionApplied"
	// EventProfileCreated: a version of a profile became an object.
	EventProfileCreated = "ProfileCreated"
	// EventProfileRestored: a CustomOperatingSystemProfile was edited, and the controller
	// restored it.
	EventProfileRestored = "ProfileRestored"
	// EventProfileRefused: a file was rejected.
	EventProfileRefused = "ProfileRefused"
	// EventProfileRemoved: a profile left the repository.
	EventProfileRemoved = "ProfileRemoved"
	// EventProfileSkipped: versions of the history cannot be used.
	EventProfileSkipped = "ProfileSkipped"
	// EventProfilePruned: versions that no object refers to were deleted.
	EventProfilePruned = "ProfilePruned"
	// EventProfilesLeft: a ProfileSource was deleted, and some of its versions remain.
	EventProfilesLeft = "ProfilesLeft"
	// EventHistoryRewritten: a force-push or a moved tag, with the old and the new commit.
	EventHistoryRewritten = "HistoryRewritten"
	// EventVerificationFailed: the new revision is not signed as required.
	EventVerificationFailed = "VerificationFailed"
	// EventSourceFailed: the repository could not be read.
	EventSourceFailed = "SourceFailed"
	// EventSourceRecovered: it can be read again, and its revision has not changed.
	EventSourceRecovered = "SourceRecovered"
	// EventWebhookUnusable: the requests of the repository's host cannot be verified.
	EventWebhookUnusable = "WebhookUnusable"
	// EventCommitStatusRefused: the host of the repository rejects a commit status.
	EventCommitStatusRefused = "CommitStatusRefused"
	// EventConfigCreated: a pool has its first configuration.
	EventConfigCreated = "ConfigCreated"
	// EventConfigRotated: a pool has another configuration.
	EventConfigRotated = "ConfigRotated"
	// EventConfigHealed: a configuration that was rejected before is accepted.
	EventConfigHealed = "ConfigHealed"
	// EventConfigSuspended: the configuration of a pool is frozen.
	EventConfigSuspended = "ConfigSuspended"
	// EventConfigResumed: it follows its profile again.
	EventConfigResumed = "ConfigResumed"
	// EventConfigRestored: objects of a pool were deleted or edited, and the controller
	// restored them.
	EventConfigRestored = "ConfigRestored"
	// EventRolloutStarted: a version is rolled out to pools, wave by wave.
	EventRolloutStarted = "RolloutStarted"
	// EventRolloutAdvanced: the next wave gets it.
	EventRolloutAdvanced = "RolloutAdvanced"
	// EventRolloutHeld: the rollout waits for an action of a user.
	EventRolloutHeld = "RolloutHeld"
	// EventRolloutResumed: it continues.
	EventRolloutResumed = "RolloutResumed"
	// EventRolloutDone: all waves have it.
	EventRolloutDone = "RolloutDone"
	// EventRolledBack: a version was withdrawn, and pools get their previous version.
	EventRolledBack = "RolledBack"
	// EventRolloutInvalid: a label or annotation about rollouts is invalid and is
	// ignored.
	EventRolloutInvalid = "RolloutInvalid"
	// EventMachineFailed: a new machine of a pool does not join.
	EventMachineFailed = "MachineFailed"
	// EventBootFailing: a machine reports which command of its scripts fails.
	EventBootFailing = "BootFailing"
	// EventMachinesReplaced: machine-controller replaces the machines of a pool.
	EventMachinesReplaced = "MachinesReplaced"
	// EventProvenanceDisputed: the report of a node does not agree with the records of
	// its pool.
	EventProvenanceDisputed = "ProvenanceDisputed"
	// EventNodeDiffers: a node reports that it no longer has what its configuration put on
	// it, or it has stopped reporting.
	EventNodeDiffers = "NodeDiffers"
	// EventProfileError is the reason that operating-system-manager also uses: the pool
	// cannot have the configuration it requests. The note says what to change.
	EventProfileError = "OperatingSystemProfileError"
	// EventWaiting: an object that a pool needs does not exist yet.
	EventWaiting = "Waiting"
	// EventForeignKind: another program installed a kind of operating-system-manager.
	EventForeignKind = "ForeignKind"
	// EventWriteRefused: the API server rejects a write that a pool needs.
	EventWriteRefused = "WriteRefused"
	// EventTwoAppliers: a profile is applied twice, or it is applied and also in a
	// ProfileSource.
	EventTwoAppliers = "TwoAppliers"
	// EventOriginUnknown: the object that applied a profile does not name a revision, or
	// cannot be read.
	EventOriginUnknown = "OriginUnknown"
	// EventSettingDoubtful: nodes get a setting that probably has not the intended
	// effect.
	EventSettingDoubtful = "SettingDoubtful"
	// EventNameCollision: another pool owns the names of this one, or a ProfileSource has
	// the name of the built-in profiles.
	EventNameCollision = "NameCollision"
)
