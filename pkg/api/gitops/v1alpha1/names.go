package v1alpha1

// FieldManager is the name under which the controller writes.
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
	// "<namespace>_<name>"; where that is longer than 63 characters its first 50, "-" and
	// 12 hex digits of a digest.
	LabelPool = "gitops.k8c.io/pool"
)

// Annotations of OperatingSystemProfiles, and where they apply of
// OperatingSystemConfigs and user-data Secrets.
const (
	// AnnotationRepository is the URL of the repository, without credentials.
	AnnotationRepository = "gitops.k8c.io/repository"
	// AnnotationRevision is the revision at which the profile was first applied, "main@sha1:<40 hex>".
	AnnotationRevision = "gitops.k8c.io/revision"
	// AnnotationCommit is the first commit on the tracked line that holds this content.
	AnnotationCommit = "gitops.k8c.io/commit"
	// AnnotationChange is the commit its author wrote.
	AnnotationChange = "gitops.k8c.io/change"
	// AnnotationSelectedBy is the commit that made this version current.
	AnnotationSelectedBy = "gitops.k8c.io/selected-by"
	// AnnotationProfile is the profile's name.
	AnnotationProfile = "gitops.k8c.io/profile"
	// AnnotationVersion is the profile's version.
	AnnotationVersion = "gitops.k8c.io/version"
	// AnnotationAuthor is who wrote AnnotationChange, "Name <address>".
	AnnotationAuthor = "gitops.k8c.io/author"
	// AnnotationCommittedAt is when AnnotationCommit was made, RFC 3339 in UTC.
	AnnotationCommittedAt = "gitops.k8c.io/committed-at"
	// AnnotationPath is the file in the repository at AnnotationCommit.
	AnnotationPath = "gitops.k8c.io/path"
	// AnnotationSignature is who signed AnnotationCommit, where signatures are verified:
	// "commit <40 hex> by <signer>, <ssh or openpgp> <key>". Where that commit bears no
	// good signature, it is the signature for which the revision was accepted.
	AnnotationSignature = "gitops.k8c.io/signature"
	// AnnotationAppliedBy is on a profile that no ProfileSource made the Kustomization of Flux
	// or the Application of Argo CD that applied it, "<kind> <namespace>/<name>".
	// AnnotationCommit is then the revision that it names itself.
	AnnotationAppliedBy = "gitops.k8c.io/applied-by"
	// AnnotationDigest is the digest of the profile's spec, "v1:sha256:<64 hex>".
	AnnotationDigest = "gitops.k8c.io/digest"
)

// Annotations of OperatingSystemProfiles that a ProfileOverlay came to: AnnotationPath,
// AnnotationCommit and the others above are about the overlay's file, these about what
// it starts from.
const (
	// AnnotationBase is the base, "<profile> <version>".
	AnnotationBase = "gitops.k8c.io/base"
	// AnnotationBaseDigest is the digest of the base's spec, "v1:sha256:<64 hex>".
	AnnotationBaseDigest = "gitops.k8c.io/base-digest"
	// AnnotationBaseCommit is the first commit on the tracked line that holds the base;
	// a built-in one has none.
	AnnotationBaseCommit = "gitops.k8c.io/base-commit"
	// AnnotationBasePath is the base's file at that commit, or among the built-in ones.
	AnnotationBasePath = "gitops.k8c.io/base-path"
)

// Annotations of OperatingSystemConfigs and user-data Secrets.
const (
	// AnnotationPool is the MachineDeployment an object belongs to, "namespace/name".
	AnnotationPool = "gitops.k8c.io/machine-deployment"
	// AnnotationPoolUID is that MachineDeployment's uid.
	AnnotationPoolUID = "gitops.k8c.io/machine-deployment-uid"
	// AnnotationReplaces is on an OperatingSystemConfig the uid of the one that it came in
	// place of: what a machine boots from was the one until it was the other, whatever
	// clocks say.
	AnnotationReplaces = "gitops.k8c.io/replaces"
	// AnnotationRecord is the JSON of what a generation was made from.
	AnnotationRecord = "gitops.k8c.io/record"
	// AnnotationInputDigest is the digest over what rendering read.
	AnnotationInputDigest = "gitops.k8c.io/input-digest"
	// AnnotationDataDigest is the digest over a Secret's document.
	AnnotationDataDigest = "gitops.k8c.io/data-digest"
	// AnnotationUserDataBytes is the size of a bootstrap document as its cloud provider
	// counts it.
	AnnotationUserDataBytes = "gitops.k8c.io/user-data-bytes"
	// AnnotationCredentialsDigest is the keyed digest over the credentials in a Secret, tokens aside.
	AnnotationCredentialsDigest = "gitops.k8c.io/credentials-digest"
	// AnnotationTokensDigest is the keyed digest over the tokens a Secret was rendered with.
	AnnotationTokensDigest = "gitops.k8c.io/tokens-digest"
	// AnnotationCredentialsExpireAt is when a token in the Secret ends, RFC 3339.
	AnnotationCredentialsExpireAt = "gitops.k8c.io/credentials-expire-at"
	// AnnotationCredentialsRenewAt is from when that token is replaced, RFC 3339.
	AnnotationCredentialsRenewAt = "gitops.k8c.io/credentials-renew-at"
	// AnnotationWaitingSince is since when the replacement of an immutable Secret of
	// another controller waits for machines that boot, RFC 3339.
	AnnotationWaitingSince = "gitops.k8c.io/waiting-since"
)

// Annotations of an OperatingSystemConfig alone. It has no status: its pool has what it
// asks for if there is no AnnotationRefused, and the bootstrap Secret has the same
// AnnotationInputDigest.
const (
	// AnnotationRefused says why the pool cannot have a newer configuration, as long as
	// that is so.
	AnnotationRefused = "gitops.k8c.io/refused"
	// AnnotationRefusedVersion is the version of the profile that the pool cannot have.
	// It is absent where something else is the reason, such as the pool itself.
	AnnotationRefusedVersion = "gitops.k8c.io/refused-version"
	// AnnotationRefusedSince is since when, RFC 3339; it starts again with another version.
	AnnotationRefusedSince = "gitops.k8c.io/refused-since"
	// AnnotationJournaled is the id of the line of the audit log about the configuration,
	// where the controller keeps one and has written it.
	AnnotationJournaled = "gitops.k8c.io/journaled"
)

// Annotations of archived records, which are ControllerRevisions. They carry
// AnnotationInputDigest and where the profile comes from as well.
const (
	// AnnotationIntervals is when a generation was its pool's: the JSON of a list of
	// Interval, oldest first. It is an annotation because the data of a
	// ControllerRevision is immutable, and a pool may return to a generation.
	AnnotationIntervals = "gitops.k8c.io/intervals"
	// AnnotationSettingsDigest is the digest of the settings of a generation.
	AnnotationSettingsDigest = "gitops.k8c.io/settings-digest"
)

// Labels by which a node says what it was provisioned from: our profiles make its
// kubelet set them, and NodeProvenances have LabelCommit too.
const (
	// LabelConfig is the first 12 hex digits of the input digest.
	LabelConfig = "gitops.k8c.io/config"
	// LabelCommit is the commit in label-safe form.
	LabelCommit = "gitops.k8c.io/commit"
)

const (
	// LabelNode is the node of a NodeProvenance, by name; where that is longer than 63
	// characters its first 50, "-" and 12 hex digits of a digest.
	LabelNode = "gitops.k8c.io/node"
	// AnnotationProvenance is on a Node the name of its NodeProvenance.
	AnnotationProvenance = "gitops.k8c.io/provenance"
)

// Annotations and labels that people set on a MachineDeployment.
const (
	// AnnotationVersionPin asks for a version of the profile, "v1.8.0", or for the best of
	// a range, "~1.8".
	AnnotationVersionPin = "gitops.k8c.io/osp-version"
	// AnnotationSuspend set to "true" freezes the configuration of a pool.
	AnnotationSuspend = "gitops.k8c.io/suspend"
	// LabelWave is the wave of a pool, "0" to "9", in which it adopts a new version where
	// spec.rollout.gate of its ProfileSource is Waves.
	LabelWave = "gitops.k8c.io/wave"
	// AnnotationRollout set to RolloutReplace has the machines of a pool replaced when what
	// they boot from changes.
	AnnotationRollout = "gitops.k8c.io/rollout"
	// AnnotationIgnitionVersion chooses the Ignition specification for a pool.
	AnnotationIgnitionVersion = "gitops.k8c.io/ignition-version"
)

// RolloutReplace is the value of AnnotationRollout.
const RolloutReplace = "Replace"

// AnnotationConfig is the stamp on the template of a pool's machines: the input digest of
// the configuration that they are to boot with. Another stamp makes machine-controller
// replace them.
const AnnotationConfig = "gitops.k8c.io/config"

// AnnotationRelease, set on a ProfileSource to a version, lets the rollout of that version
// go on: "v1.8.0" to all waves at once, "v1.8.0@3" past wave 3, whatever has failed so far.
const AnnotationRelease = "gitops.k8c.io/release"

// AnnotationAcceptRewrite, set on a ProfileSource to the full id of the commit that a
// reference names now, lets a history be followed that does not continue the one
// before, where it is held otherwise.
const AnnotationAcceptRewrite = "gitops.k8c.io/accept-rewrite"

// Names that an existing fleet relies on.
const (
	// AnnotationOSP names the profile of a MachineDeployment.
	AnnotationOSP = "k8c.io/operating-system-profile"
	// AnnotationOSPNamespace is the profile's namespace, when it is not the controller's.
	AnnotationOSPNamespace = "k8c.io/operating-system-profile-namespace"
	// AnnotationMDRevision is the revision of a MachineDeployment, written by machine-controller.
	AnnotationMDRevision = "machinedeployment.clusters.k8s.io/revision"
	// AnnotationMDRevisionHistory is on a MachineSet the revisions it had before, where it
	// is used again.
	AnnotationMDRevisionHistory = "machinedeployment.clusters.k8s.io/revision-history"
	// AnnotationRevisionFor is the MachineDeployment revision that an OperatingSystemConfig or Secret is for.
	AnnotationRevisionFor = "k8c.io/machine-deployment-revision"
	// AnnotationMDAnnotationsHash is the SHA-256 over a MachineDeployment's annotations.
	AnnotationMDAnnotationsHash = "k8c.io/mdannotations-hash"
	// AnnotationOSPVersion is the version of the profile that was rendered.
	AnnotationOSPVersion = "k8c.io/osp-version"
	// AnnotationKubeletConfigPrefix starts every kubelet annotation of a MachineDeployment.
	AnnotationKubeletConfigPrefix = "v1.kubelet-config.machine-controller.kubermatic.io/"
	// LabelOwnedBy is on a Node the uid of its Machine.
	LabelOwnedBy = "machine-controller/owned-by"
	// AnnotationMachine is on a Node its Machine, "namespace/name".
	AnnotationMachine = "cluster.k8s.io/machine"
	// LabelTokenPool marks the bootstrap token of a pool.
	LabelTokenPool = "machinedeployment.k8s.io/name"
	// FinalizerPool keeps a MachineDeployment until its objects are removed.
	FinalizerPool = "kubermatic.io/cleanup-operating-system-configs"
	// NamespaceCloudInitSettings holds the Secrets that nodes boot from.
	NamespaceCloudInitSettings = "cloud-init-settings"
	// SecretGetterToken holds the token with which a node reads its Secrets.
	SecretGetterToken = "cloud-init-getter-token"
	// UserDataKey is the data key of a user-data Secret.
	UserDataKey = "cloud-config"
	// KubeconfigKey is the data key of a kubelet bootstrap kubeconfig Secret.
	KubeconfigKey = "kubeconfig"
)

// OSPVersionPrefix stands before the version in an OperatingSystemConfig's
// AnnotationOSPVersion. The reference implementation compares that annotation
// for equality, so it never reuses a configuration that holds placeholders.
const OSPVersionPrefix = "gitops/"

// DefaultsName is the ProfileSource of the built-in profiles, which the controller
// keeps. No other may have spec.builtin.
const DefaultsName = "osm-gitops-defaults"

// KeySecretName is the Secret, in the controller's namespace, with the key of
// every credentials digest.
const KeySecretName = "osm-gitops-key"

// Names of what the controller's admission webhooks need.
const (
	// WebhookSecretName is the Secret, in the controller's namespace, with the
	// certificates of the webhooks that the controller makes and renews itself.
	WebhookSecretName = "osm-gitops-webhook-cert"
	// WebhookServiceName is the Service by which the API server calls the webhooks,
	// in the controller's namespace, unless a flag names another.
	WebhookServiceName = "osm-gitops-webhook"
	// WebhookConfigurationName is that of the MutatingWebhookConfiguration and of the
	// ValidatingWebhookConfiguration.
	WebhookConfigurationName = "osm-gitops"
)

// Keys of a webhook's Secret.
const (
	// WebhookToken is the key that the repository's host signs its requests with,
	// by the name that Flux's Receiver has for it.
	WebhookToken = "token"
	// WebhookAPIToken is a token for the host's API. It switches commit statuses on.
	WebhookAPIToken = "apiToken"
	// WebhookAPIURL is the address of the host's API, where it is not the usual one.
	WebhookAPIURL = "apiURL"
)

// SourceVerifiedCondition tells whether the signatures of what was applied are good.
const SourceVerifiedCondition = "SourceVerified"

// ObservedCondition tells what a controller with --observe would do.
const ObservedCondition = "Observed"

// Reasons of ObservedCondition. Each completes "of the source it is known that ...",
// besides those of Ready, where that would be False.
const (
	// ReasonWouldChange: something would be written.
	ReasonWouldChange = "WouldChange"
	// ReasonNothingToDo: nothing would be.
	ReasonNothingToDo = "NothingToDo"
	// ReasonNotObserved: nothing is known.
	ReasonNotObserved = "NotObserved"
)

// RolledOutCondition tells whether all pools have got the current versions, where
// spec.rollout.gate is Waves.
const RolledOutCondition = "RolledOut"

// Reasons of RolledOutCondition. Each completes "the source is ...".
const (
	// ReasonRolledOut: all waves have the current versions.
	ReasonRolledOut = "RolledOut"
	// ReasonRollingOut: a version is on its way.
	ReasonRollingOut = "RollingOut"
	// ReasonRolloutHeld: a version goes no further before somebody does something.
	ReasonRolloutHeld = "Held"
)

// Reasons of conditions, beside those of fluxcd/pkg/apis/meta. Each completes
// "the source is ...".
const (
	// ReasonUnsupported: the spec asks for something this release does not have.
	ReasonUnsupported = "Unsupported"
	// ReasonProfilesInvalid: files of this revision were refused.
	ReasonProfilesInvalid = "ProfilesInvalid"
	// ReasonSourceInvalid: the repository or its content cannot be used at all.
	ReasonSourceInvalid = "SourceInvalid"
	// ReasonUnreachable: the repository does not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonAuthenticationFailed: the repository wants other credentials.
	ReasonAuthenticationFailed = "AuthenticationFailed"
	// ReasonHostKeyRefused: an ssh server is not the one that known_hosts tells of, or
	// is not in it.
	ReasonHostKeyRefused = "HostKeyRefused"
	// ReasonReferenceNotFound: the branch or commit is not in the repository.
	ReasonReferenceNotFound = "ReferenceNotFound"
	// ReasonAccessDenied: the spec names what this controller may not read.
	ReasonAccessDenied = "AccessDenied"
	// ReasonVerificationFailed: what is there now is not signed as spec.git.verify wants.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonHistoryRewritten: the reference was moved to a commit that does not
	// continue the one before, and spec.git.onRewrite is Hold.
	ReasonHistoryRewritten = "HistoryRewritten"
)

// Reasons of SourceVerifiedCondition where it is False. Each completes "the source
// is ..."; the message names the commit and what to do.
const (
	// ReasonUnsigned: a commit or tag has no signature.
	ReasonUnsigned = "Unsigned"
	// ReasonSignatureInvalid: a signature belongs to other content, or is too weak.
	ReasonSignatureInvalid = "SignatureInvalid"
	// ReasonUnknownSigner: a signature is of a key that is not in the Secret.
	ReasonUnknownSigner = "SignedByUnknownKey"
	// ReasonKeyExpired: a signature is of a key that is not valid yet or no more.
	ReasonKeyExpired = "SignedByExpiredKey"
	// ReasonKeyRevoked: a signature is of a key that was revoked.
	ReasonKeyRevoked = "SignedByRevokedKey"
	// ReasonSignerNotAllowed: a file was changed by who may not change it.
	ReasonSignerNotAllowed = "SignerNotAllowed"
	// ReasonRangeUnknown: the commit applied last is gone, so what is new is not known.
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
	// EventProfileRefused: a file was refused.
	EventProfileRefused = "ProfileRefused"
	// EventProfileRemoved: a profile left the repository.
	EventProfileRemoved = "ProfileRemoved"
	// EventProfileSkipped: versions of the history that cannot be served.
	EventProfileSkipped = "ProfileSkipped"
	// EventProfilePruned: versions that nothing refers to were deleted.
	EventProfilePruned = "ProfilePruned"
	// EventProfilesLeft: a ProfileSource is deleted, and some of its versions stay.
	EventProfilesLeft = "ProfilesLeft"
	// EventHistoryRewritten: a force-push or a moved tag, with the old and the new commit.
	EventHistoryRewritten = "HistoryRewritten"
	// EventVerificationFailed: what is there now is not signed as it has to be.
	EventVerificationFailed = "VerificationFailed"
	// EventSourceFailed: the repository could not be read.
	EventSourceFailed = "SourceFailed"
	// EventSourceRecovered: it can be read again, and is at the revision it had.
	EventSourceRecovered = "SourceRecovered"
	// EventWebhookUnusable: requests of the repository's host cannot be checked.
	EventWebhookUnusable = "WebhookUnusable"
	// EventCommitStatusRefused: the repository's host does not take a commit status.
	EventCommitStatusRefused = "CommitStatusRefused"
	// EventConfigCreated: a pool has its first configuration.
	EventConfigCreated = "ConfigCreated"
	// EventConfigRotated: a pool has another configuration.
	EventConfigRotated = "ConfigRotated"
	// EventConfigHealed: a configuration that was refused before is accepted.
	EventConfigHealed = "ConfigHealed"
	// EventConfigSuspended: the configuration of a pool is frozen.
	EventConfigSuspended = "ConfigSuspended"
	// EventConfigResumed: it follows its profile again.
	EventConfigResumed = "ConfigResumed"
	// EventConfigRestored: what was made for a pool was deleted or edited, and is back.
	EventConfigRestored = "ConfigRestored"
	// EventRolloutStarted: a version is on its way to pools, wave by wave.
	EventRolloutStarted = "RolloutStarted"
	// EventRolloutAdvanced: the next wave gets it.
	EventRolloutAdvanced = "RolloutAdvanced"
	// EventRolloutHeld: it goes no further before somebody does something.
	EventRolloutHeld = "RolloutHeld"
	// EventRolloutResumed: it goes on.
	EventRolloutResumed = "RolloutResumed"
	// EventRolloutDone: all waves have it.
	EventRolloutDone = "RolloutDone"
	// EventRolledBack: a version was withdrawn, and pools get back what they had.
	EventRolledBack = "RolledBack"
	// EventRolloutInvalid: a label or an annotation about rollouts cannot be read, and is
	// taken as absent.
	EventRolloutInvalid = "RolloutInvalid"
	// EventMachineFailed: a new machine of a pool does not join.
	EventMachineFailed = "MachineFailed"
	// EventMachinesReplaced: machine-controller is told to replace the machines of a pool.
	EventMachinesReplaced = "MachinesReplaced"
	// EventProvenanceDisputed: what a node says of itself does not agree with the records
	// of its pool.
	EventProvenanceDisputed = "ProvenanceDisputed"
	// EventProfileError is the contract's reason: the pool cannot have the
	// configuration it asks for. The note says what to change.
	EventProfileError = "OperatingSystemProfileError"
	// EventWaiting: something a pool needs is not there yet.
	EventWaiting = "Waiting"
	// EventWriteRefused: the API server refuses what a pool needs.
	EventWriteRefused = "WriteRefused"
	// EventTwoAppliers: two apply one profile, or one applies a profile that a ProfileSource
	// offers.
	EventTwoAppliers = "TwoAppliers"
	// EventOriginUnknown: who applied a profile does not say from which revision, or cannot
	// be asked.
	EventOriginUnknown = "OriginUnknown"
	// EventSettingDoubtful: nodes get a setting that can hardly do what was meant.
	EventSettingDoubtful = "SettingDoubtful"
	// EventNameCollision: another pool owns the names of this one, or a ProfileSource
	// stands where the built-in profiles belong.
	EventNameCollision = "NameCollision"
)
