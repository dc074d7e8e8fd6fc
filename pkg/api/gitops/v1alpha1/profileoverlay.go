package v1alpha1

import (
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// KindProfileOverlay is the kind of a ProfileOverlay.
const KindProfileOverlay = "ProfileOverlay"

// ProfileOverlay is a profile described by its differences from another profile: it names
// one version of a base and adds, replaces and removes parts of it. It exists only in a
// repository, next to OperatingSystemProfiles, and never in a cluster: the result is an
// OperatingSystemProfile of its own, complete and immutable, which does not change when
// the base has a newer version.
// +kubebuilder:object:generate=false
type ProfileOverlay struct {
	// APIVersion is "gitops.k8c.io/v1alpha1".
	// +kubebuilder:validation:Enum=gitops.k8c.io/v1alpha1
	APIVersion string `json:"apiVersion"`
	// Kind is "ProfileOverlay".
	// +kubebuilder:validation:Enum=ProfileOverlay
	Kind string `json:"kind"`
	// Metadata names the resulting profile.
	Metadata ProfileOverlayMetadata `json:"metadata"`
	// Spec has the differences from the base.
	Spec ProfileOverlaySpec `json:"spec"`
}

// ProfileOverlayMetadata names the profile that results from an overlay.
// +kubebuilder:object:generate=false
type ProfileOverlayMetadata struct {
	// Name of the profile, which pools request.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Namespace is ignored: the profile gets the namespace of its ProfileSource.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Labels are ignored.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are ignored.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ProfileOverlaySpec has the differences of a profile from its base. Fields that are not
// set are those of the base.
// +kubebuilder:object:generate=false
type ProfileOverlaySpec struct {
	// Version of the resulting profile, such as "v1.2.3". It identifies the content: set
	// a new version if the patches or the base change.
	// +kubebuilder:validation:Pattern=`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`
	Version string `json:"version"`
	// From is the base.
	From ProfileOverlayBase `json:"from"`
	// OSName replaces the operating system.
	// +optional
	OSName osm.OperatingSystem `json:"osName,omitempty"`
	// OSVersion replaces the free text about it.
	// +optional
	OSVersion string `json:"osVersion,omitempty"`
	// ProvisioningUtility replaces the program that reads the user data on the node.
	// +optional
	ProvisioningUtility osm.ProvisioningUtility `json:"provisioningUtility,omitempty"`
	// SupportedCloudProviders patches the list of providers.
	// +optional
	SupportedCloudProviders *CloudProviderPatches `json:"supportedCloudProviders,omitempty"`
	// BootstrapConfig patches what a node gets at its first boot.
	// +optional
	BootstrapConfig *StagePatches `json:"bootstrapConfig,omitempty"`
	// ProvisioningConfig patches what the bootstrap stage fetches and applies.
	// +optional
	ProvisioningConfig *StagePatches `json:"provisioningConfig,omitempty"`
}

// ProfileOverlayBase names one version of a profile or of another overlay.
// +kubebuilder:object:generate=false
type ProfileOverlayBase struct {
	// Profile is its name.
	// +kubebuilder:validation:MinLength=1
	Profile string `json:"profile"`
	// Version of the base, exactly. It is searched in the files of the same source, then
	// in their history, then among the built-in profiles. If git.verify.paths protects
	// the file of the overlay, the base must not be in a file that other signers can
	// change.
	Version string `json:"version"`
	// Builtin selects the built-in profile even if a file has the same profile.
	// +optional
	Builtin bool `json:"builtin,omitempty"`
	// Digest selects the profile by the digest of its spec, wherever it is: "v1:sha256:"
	// and 64 hex digits, as in the annotation gitops.k8c.io/digest.
	// +kubebuilder:validation:Pattern=`^v1:sha256:[0-9a-f]{64}$`
	// +optional
	Digest string `json:"digest,omitempty"`
}

// StagePatches patches one stage of a profile.
// +kubebuilder:object:generate=false
type StagePatches struct {
	// Files are identified by their path on the node.
	// +optional
	Files *FilePatches `json:"files,omitempty"`
	// Units are identified by their name with its suffix.
	// +optional
	Units *UnitPatches `json:"units,omitempty"`
	// Templates are identified by their name.
	// +optional
	Templates *TemplatePatches `json:"templates,omitempty"`
	// CloudInitModules are identified by their key.
	// +optional
	CloudInitModules *ModulePatches `json:"modules,omitempty"`
	// SupportedContainerRuntimes patches the files and templates of the base's
	// container runtimes, which are identified by their name.
	// +optional
	SupportedContainerRuntimes []ContainerRuntimePatches `json:"supportedContainerRuntimes,omitempty"`
}

// ContainerRuntimePatches patches one container runtime of a stage.
// +kubebuilder:object:generate=false
type ContainerRuntimePatches struct {
	// Name of the container runtime; the base has it.
	Name osm.ContainerRuntime `json:"name"`
	// Files are identified by their path on the node.
	// +optional
	Files *FilePatches `json:"files,omitempty"`
	// Templates are identified by their name.
	// +optional
	Templates *TemplatePatches `json:"templates,omitempty"`
}

// FilePatches patches a list of files.
// +kubebuilder:object:generate=false
type FilePatches struct {
	// Add puts files after those of the base, which must not have them.
	// +optional
	Add []osm.File `json:"add,omitempty"`
	// Replace changes files that the base has, each in its place.
	// +optional
	Replace []FileReplacement `json:"replace,omitempty"`
	// Remove takes away files that the base has, by path.
	// +optional
	Remove []string `json:"remove,omitempty"`
}

// FileReplacement changes one file of the base. What it does not name stays.
// +kubebuilder:object:generate=false
type FileReplacement struct {
	// Path on the node; the base has it.
	Path string `json:"path"`
	// Permissions are a decimal number whose digits are read as octal: 644 is rw-r--r--.
	// Without them the file keeps the base's.
	// +optional
	Permissions int32 `json:"permissions,omitempty"`
	// Content takes the place of the base's whole content.
	// +optional
	Content *osm.FileContent `json:"content,omitempty"`
}

// UnitPatches patches a list of systemd units.
// +kubebuilder:object:generate=false
type UnitPatches struct {
	// Add puts units after those of the base, which must not have them.
	// +optional
	Add []osm.Unit `json:"add,omitempty"`
	// Replace changes units that the base has, each in its place: of enable, mask,
	// content and dropIns (the whole list) those that are given.
	// +optional
	Replace []osm.Unit `json:"replace,omitempty"`
	// Remove takes away units that the base has, by name.
	// +optional
	Remove []string `json:"remove,omitempty"`
}

// TemplatePatches patches named templates.
// +kubebuilder:object:generate=false
type TemplatePatches struct {
	// Add brings templates that the base does not have.
	// +optional
	Add map[string]string `json:"add,omitempty"`
	// Replace changes templates that the base has.
	// +optional
	Replace map[string]string `json:"replace,omitempty"`
	// Remove takes away templates that the base has, by name.
	// +optional
	Remove []string `json:"remove,omitempty"`
}

// ModulePatches patches the cloud-init modules of a stage.
// +kubebuilder:object:generate=false
type ModulePatches struct {
	// Add brings modules that the base does not have.
	// +optional
	Add *osm.CloudInitModule `json:"add,omitempty"`
	// Append puts commands after those of a module that the base has.
	// +optional
	Append *ModuleCommands `json:"append,omitempty"`
	// Replace changes modules that the base has, each as a whole.
	// +optional
	Replace *osm.CloudInitModule `json:"replace,omitempty"`
	// Remove takes away modules that the base has, by key.
	// +optional
	Remove []ModuleKey `json:"remove,omitempty"`
}

// ModuleKey names a cloud-init module.
// +kubebuilder:validation:Enum=bootcmd;rh_subscription;runcmd;yum_repos;yum_repo_dir
type ModuleKey string

// ModuleCommands are the cloud-init modules that are lists of commands.
// +kubebuilder:object:generate=false
type ModuleCommands struct {
	// BootCMD are run after the base's.
	// +optional
	BootCMD []string `json:"bootcmd,omitempty"`
	// RunCMD are run after the base's.
	// +optional
	RunCMD []string `json:"runcmd,omitempty"`
}

// CloudProviderPatches patches the list of cloud providers.
// +kubebuilder:object:generate=false
type CloudProviderPatches struct {
	// Add puts providers after those of the base, which must not have them.
	// +optional
	Add []osm.CloudProviderSpec `json:"add,omitempty"`
	// Remove takes away providers that the base has, by name.
	// +optional
	Remove []osm.CloudProvider `json:"remove,omitempty"`
}
