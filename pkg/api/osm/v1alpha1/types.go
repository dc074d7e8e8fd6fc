package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/osm-gitops/osm-gitops/pkg/api/list"
)

// OperatingSystem is what a node runs.
// +kubebuilder:validation:Enum=flatcar;rhel;ubuntu;amzn2;rockylinux
type OperatingSystem string

// The operating systems a profile can be written for.
const (
	OperatingSystemFlatcar    OperatingSystem = "flatcar"
	OperatingSystemRHEL       OperatingSystem = "rhel"
	OperatingSystemUbuntu     OperatingSystem = "ubuntu"
	OperatingSystemAmazon2    OperatingSystem = "amzn2"
	OperatingSystemRockyLinux OperatingSystem = "rockylinux"
)

// CloudProvider is the infrastructure that a node runs on.
// +kubebuilder:validation:Enum=aws;azure;digitalocean;edge;gce;hetzner;kubevirt;linode;nutanix;openstack;vsphere;fake;alibaba;anexia;scaleway;baremetal;external;vmware-cloud-director;opennebula
type CloudProvider string

// The cloud providers that rendering treats differently from the others.
const (
	CloudProviderAWS     CloudProvider = "aws"
	CloudProviderAzure   CloudProvider = "azure"
	CloudProviderEdge    CloudProvider = "edge"
	CloudProviderGCE     CloudProvider = "gce"
	CloudProviderVSphere CloudProvider = "vsphere"
)

// ContainerRuntime runs the containers of a node. The schema accepts docker, but it is
// never selected.
// +kubebuilder:validation:Enum=docker;containerd
type ContainerRuntime string

// ContainerRuntimeContainerd is the only runtime that is ever selected.
const ContainerRuntimeContainerd ContainerRuntime = "containerd"

// ProvisioningUtility reads the user data of a node.
// +kubebuilder:validation:Enum=cloud-init;ignition
type ProvisioningUtility string

// The provisioning utilities.
const (
	ProvisioningUtilityCloudInit ProvisioningUtility = "cloud-init"
	ProvisioningUtilityIgnition  ProvisioningUtility = "ignition"
)

// DefaultFilePermissions is the mode of a file without permissions. The digits of
// permissions are read as octal, although the number itself is decimal.
const DefaultFilePermissions int32 = 644

// OperatingSystemProfile is a template of the configuration of nodes: one
// operating system, the providers it serves, and two stages of files, units and
// cloud-init modules.
//
// An object whose name ends in its version is immutable; others can change only together
// with their version.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=osp,categories=osm-gitops
// +kubebuilder:printcolumn:name="OS",type=string,JSONPath=`.spec.osName`
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.metadata.labels.gitops\.k8c\.io/profile`,priority=1
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Commit",type=string,JSONPath=`.metadata.annotations.gitops\.k8c\.io/commit`
// +kubebuilder:printcolumn:name="Committed",type=date,JSONPath=`.metadata.annotations.gitops\.k8c\.io/committed-at`
// +kubebuilder:printcolumn:name="Author",type=string,JSONPath=`.metadata.annotations.gitops\.k8c\.io/author`
// +kubebuilder:printcolumn:name="Signature",type=string,JSONPath=`.metadata.annotations.gitops\.k8c\.io/signature`,priority=1
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.metadata.labels.gitops\.k8c\.io/source`
// +kubebuilder:printcolumn:name="Path",type=string,JSONPath=`.metadata.annotations.gitops\.k8c\.io/path`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec || (self.spec.version != oldSelf.spec.version && !self.metadata.name.endsWith('-' + oldSelf.spec.version.lowerAscii().replace('+', '-')))",fieldPath=".spec",message="the spec of a profile is immutable: an object named after its version never changes, any other only together with spec.version"
type OperatingSystemProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec OperatingSystemProfileSpec `json:"spec"`
}

// OperatingSystemProfileList is a list of OperatingSystemProfiles.
type OperatingSystemProfileList = list.Of[OperatingSystemProfile, *OperatingSystemProfile]

// OperatingSystemProfileSpec is the content of a profile.
type OperatingSystemProfileSpec struct {
	// OSName is the operating system the profile is for.
	OSName OperatingSystem `json:"osName"`
	// OSVersion is free text for users; it is copied to the OperatingSystemConfig.
	OSVersion string `json:"osVersion"`
	// Version identifies the content: a change of the content must change the version.
	// +kubebuilder:validation:Pattern=`v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$`
	Version string `json:"version"`
	// SupportedCloudProviders lists the providers of the pools that can use the profile.
	SupportedCloudProviders []CloudProviderSpec `json:"supportedCloudProviders"`
	// BootstrapConfig is what a node gets at its first boot.
	BootstrapConfig OSPConfig `json:"bootstrapConfig"`
	// ProvisioningConfig is what the bootstrap stage fetches and applies.
	ProvisioningConfig OSPConfig `json:"provisioningConfig"`
	// ProvisioningUtility reads the user data on the node.
	// +kubebuilder:default=cloud-init
	// +optional
	ProvisioningUtility ProvisioningUtility `json:"provisioningUtility,omitempty"`
}

// OSPConfig is one stage of a profile.
type OSPConfig struct {
	// SupportedContainerRuntimes has the files and templates of each runtime; the first
	// entry with the name of the selected runtime is used.
	// +optional
	SupportedContainerRuntimes []ContainerRuntimeSpec `json:"supportedContainerRuntimes,omitempty"`
	// Templates are named Go templates for the files of this stage.
	// +optional
	Templates map[string]string `json:"templates,omitempty"`
	// Units are systemd units. They are not templated.
	// +optional
	Units []Unit `json:"units,omitempty"`
	// Files are written to the node. Their content is a template.
	// +optional
	Files []File `json:"files,omitempty"`
	// CloudInitModules are passed to cloud-init. They are not templated.
	// +optional
	CloudInitModules *CloudInitModule `json:"modules,omitempty"`
}

// ContainerRuntimeSpec is what one container runtime adds to a stage.
type ContainerRuntimeSpec struct {
	// Name of the container runtime.
	Name ContainerRuntime `json:"name"`
	// Files of the runtime; they come after those of the stage.
	Files []File `json:"files"`
	// Templates of the runtime; a template of the stage with the same name takes
	// precedence.
	// +optional
	Templates map[string]string `json:"templates,omitempty"`
}

// OperatingSystemConfig is a profile rendered for one MachineDeployment. It has
// placeholders instead of credentials. It has no status, because the platforms that it is
// installed on serve it without one; annotations have that information.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=osc,categories=osm-gitops
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.metadata.annotations.gitops\.k8c\.io/machine-deployment`
// +kubebuilder:printcolumn:name="OS",type=string,JSONPath=`.spec.osName`
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.metadata.annotations.gitops\.k8c\.io/profile`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.metadata.annotations.gitops\.k8c\.io/version`
// +kubebuilder:printcolumn:name="Commit",type=string,JSONPath=`.metadata.annotations.gitops\.k8c\.io/commit`
// +kubebuilder:printcolumn:name="Selected",type=string,JSONPath=`.metadata.annotations.gitops\.k8c\.io/selected-by`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Refused",type=string,JSONPath=`.metadata.annotations.gitops\.k8c\.io/refused`
type OperatingSystemConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of an OperatingSystemConfig is immutable"
	Spec OperatingSystemConfigSpec `json:"spec"`
}

// OperatingSystemConfigList is a list of OperatingSystemConfigs.
type OperatingSystemConfigList = list.Of[OperatingSystemConfig, *OperatingSystemConfig]

// OperatingSystemConfigSpec is the rendered configuration.
type OperatingSystemConfigSpec struct {
	// OSName is the operating system, from the profile.
	OSName OperatingSystem `json:"osName"`
	// OSVersion is the profile's free text.
	OSVersion string `json:"osVersion"`
	// CloudProvider names the pool's provider. Its spec is empty here: it can have
	// credentials.
	CloudProvider CloudProviderSpec `json:"cloudProvider"`
	// BootstrapConfig is the rendered first stage.
	BootstrapConfig OSCConfig `json:"bootstrapConfig"`
	// ProvisioningConfig is the rendered second stage.
	ProvisioningConfig OSCConfig `json:"provisioningConfig"`
	// ProvisioningUtility reads the user data on the node.
	// +kubebuilder:default=cloud-init
	// +optional
	ProvisioningUtility ProvisioningUtility `json:"provisioningUtility,omitempty"`
}

// OSCConfig is one rendered stage.
type OSCConfig struct {
	// Units are those of the profile, unchanged.
	// +optional
	Units []Unit `json:"units,omitempty"`
	// Files are rendered, in the order in which they are written to the node.
	// +optional
	Files []File `json:"files,omitempty"`
	// UserSSHKeys are the pool's sshPublicKeys, verbatim.
	// +optional
	UserSSHKeys []string `json:"userSSHKeys,omitempty"`
	// CloudInitModules are those of the profile; rh_subscription is added for RHEL.
	// +optional
	CloudInitModules *CloudInitModule `json:"modules,omitempty"`
}

// ConfigDigests are the digests of one generation, each "v1:sha256:" and 64 hex digits.
// They are taken over outputs with placeholders, so anyone with the repository can
// compute them again.
// +kubebuilder:object:generate=false
type ConfigDigests struct {
	// Input is taken over everything that rendering read, before rendering.
	Input string `json:"input"`
	// Spec is taken over this object's spec.
	Spec string `json:"spec"`
	// Bootstrap is taken over the bootstrap document with placeholders.
	Bootstrap string `json:"bootstrap"`
	// Provisioning is taken over the provisioning document with placeholders.
	Provisioning string `json:"provisioning"`
}

// CloudProviderSpec names a cloud provider.
type CloudProviderSpec struct {
	// Name of the provider.
	Name CloudProvider `json:"name"`
	// Spec is free-form.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Spec *runtime.RawExtension `json:"spec,omitempty"`
}

// Unit is a systemd unit.
type Unit struct {
	// Name of the unit with its suffix.
	Name string `json:"name"`
	// Enable starts the unit at boot.
	// +optional
	Enable *bool `json:"enable,omitempty"`
	// Mask prevents the unit from being started in any way.
	// +optional
	Mask *bool `json:"mask,omitempty"`
	// Content of the unit file.
	// +optional
	Content *string `json:"content,omitempty"`
	// DropIns extend the unit.
	// +optional
	DropIns []DropIn `json:"dropIns,omitempty"`
}

// DropIn extends a systemd unit.
// +kubebuilder:object:generate=false
type DropIn struct {
	// Name of the file, ending in ".conf".
	Name string `json:"name"`
	// Content of the file.
	Content string `json:"content"`
}

// File is written to the node.
type File struct {
	// Path on the node.
	Path string `json:"path"`
	// Permissions are a decimal number whose digits are read as octal: 644 is rw-r--r--.
	// +kubebuilder:default=644
	// +optional
	Permissions int32 `json:"permissions,omitempty"`
	// Content of the file.
	Content FileContent `json:"content"`
}

// FileContent is the content of a file.
type FileContent struct {
	// Inline is the only kind of content.
	// +optional
	Inline *FileContentInline `json:"inline,omitempty"`
}

// FileContentInline is the content itself.
// +kubebuilder:object:generate=false
type FileContentInline struct {
	// Encoding of the file in the user data: "b64" protects it from textual replacement
	// there. Data itself is always plain text.
	// +optional
	Encoding string `json:"encoding,omitempty"`
	// Data is the text.
	Data string `json:"data"`
}

// CloudInitModule has the cloud-init modules that a profile can use.
type CloudInitModule struct {
	// BootCMD are commands run early at every boot.
	// +optional
	BootCMD []string `json:"bootcmd,omitempty"`
	// RHSubscription registers a RHEL node.
	// +optional
	RHSubscription map[string]string `json:"rh_subscription,omitempty"`
	// RunCMD are commands run late at the first boot.
	// +optional
	RunCMD []string `json:"runcmd,omitempty"`
	// YumRepos are repository files by name.
	// +optional
	YumRepos map[string]map[string]string `json:"yum_repos,omitempty"`
	// YumRepoDir is where repository files are written.
	// +optional
	YumRepoDir string `json:"yum_repo_dir,omitempty"`
}
