package render

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// maxProviderSpecBytes limits the input of DecodePool; real ones have a few KiB.
const maxProviderSpecBytes = 256 << 10 // 256 KiB

// Field paths in a MachineDeployment.
const (
	providerSpecField = "spec.template.spec.providerSpec.value"
	kubeletField      = "spec.template.spec.versions.kubelet"
)

// Pool has the facts of one MachineDeployment that rendering reads, and nothing else. After
// Input.Split it contains no credentials, so it can be recorded.
type Pool struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// KubeletVersion is spec.template.spec.versions.kubelet, unparsed.
	KubeletVersion string `json:"kubeletVersion"`
	// KubeletAnnotations are the known kubelet annotations, by suffix.
	KubeletAnnotations map[string]string `json:"kubeletAnnotations,omitempty"`
	// CloudProvider and OperatingSystem are those of the provider spec.
	CloudProvider   osm.CloudProvider   `json:"cloudProvider"`
	OperatingSystem osm.OperatingSystem `json:"operatingSystem"`
	// OperatingSystemSpec is the decoded spec of that operating system.
	OperatingSystemSpec OperatingSystemSpec `json:"operatingSystemSpec,omitzero"`
	// Network is nil if the provider spec has none.
	Network *NetworkConfig `json:"network,omitempty"`
	// SSHPublicKeys are those of the provider spec, unchanged.
	SSHPublicKeys []string `json:"sshPublicKeys,omitempty"`
	// CloudConfig is the configuration of the cloud provider built into old kubelets, see
	// WithCloudConfig; it is empty for most pools.
	CloudConfig string `json:"cloudConfig,omitempty"`
	// IgnitionVersion is the value of the annotation with that name. It is empty for the
	// settings' version, and for a pool whose nodes do not use Ignition.
	IgnitionVersion string `json:"ignitionVersion,omitempty"`
	// OverwriteCloudConfig replaces the cloud configuration, also when empty.
	OverwriteCloudConfig *string `json:"overwriteCloudConfig,omitempty"`
}

// OperatingSystemSpec is the part of a provider spec that depends on the
// operating system. Flatcar and RHEL are set for those systems only.
type OperatingSystemSpec struct {
	DistUpgradeOnBoot bool         `json:"distUpgradeOnBoot,omitempty"`
	Flatcar           *FlatcarSpec `json:"flatcar,omitempty"`
	RHEL              *RHELSpec    `json:"rhel,omitempty"`
}

// FlatcarSpec is Flatcar's operatingSystemSpec.
type FlatcarSpec struct {
	DisableAutoUpdate   bool                    `json:"disableAutoUpdate,omitempty"`
	DisableLocksmithD   bool                    `json:"disableLocksmithD,omitempty"`
	DisableUpdateEngine bool                    `json:"disableUpdateEngine,omitempty"`
	ProvisioningUtility osm.ProvisioningUtility `json:"provisioningUtility,omitempty"`
}

// RHELSpec is RHEL's operatingSystemSpec.
type RHELSpec struct {
	RHELSubscriptionManagerUser     string `json:"rhelSubscriptionManagerUser,omitempty"`
	RHELSubscriptionManagerPassword string `json:"rhelSubscriptionManagerPassword,omitempty"`
	RHSMOfflineToken                string `json:"rhsmOfflineToken,omitempty"`
	AttachSubscription              bool   `json:"attachSubscription,omitempty"`
	RHELUseSatelliteServer          bool   `json:"rhelUseSatelliteServer,omitempty"`
	RHELSatelliteServer             string `json:"rhelSatelliteServer,omitempty"`
	RHELOrganizationName            string `json:"rhelOrganizationName,omitempty"`
	RHELActivationKey               string `json:"rhelActivationKey,omitempty"`
}

// NetworkConfig is the network section of a provider spec.
type NetworkConfig struct {
	CIDR     string    `json:"cidr,omitempty"`
	Gateway  string    `json:"gateway,omitempty"`
	DNS      DNSConfig `json:"dns,omitzero"`
	IPFamily IPFamily  `json:"ipFamily,omitempty"`
}

// DNSConfig holds name servers.
type DNSConfig struct {
	Servers []string `json:"servers"`
}

// IsStaticIPConfig reports whether nodes get a fixed address.
func (n *NetworkConfig) IsStaticIPConfig() bool {
	return n != nil && (n.CIDR != "" || n.Gateway != "" || len(n.DNS.Servers) > 0)
}

// GetIPFamily returns the family, and "" without a network.
func (n *NetworkConfig) GetIPFamily() IPFamily {
	if n == nil {
		return ""
	}
	return n.IPFamily
}

// IPFamily is "", "IPv4", "IPv6", "IPv4+IPv6" or "IPv6+IPv4". The empty one is
// treated as IPv4.
type IPFamily string

// HasIPv4 reports whether nodes have IPv4 addresses.
func (f IPFamily) HasIPv4() bool { return f == "" || f == "IPv4" || f.IsDualstack() }

// HasIPv6 reports whether nodes have IPv6 addresses.
func (f IPFamily) HasIPv6() bool { return f == "IPv6" || f.IsDualstack() }

// IsDualstack reports whether nodes have both.
func (f IPFamily) IsDualstack() bool { return f == "IPv4+IPv6" || f == "IPv6+IPv4" }

// providerConfig is providerSpec.value, as machine-controller defines it.
type providerConfig struct {
	SSHPublicKeys        []string        `json:"sshPublicKeys"`
	CAPublicKey          string          `json:"caPublicKey"`
	CloudProvider        string          `json:"cloudProvider"`
	CloudProviderSpec    json.RawMessage `json:"cloudProviderSpec"`
	OperatingSystem      string          `json:"operatingSystem"`
	OperatingSystemSpec  json.RawMessage `json:"operatingSystemSpec"`
	Network              *NetworkConfig  `json:"network"`
	OverwriteCloudConfig *string         `json:"overwriteCloudConfig"`
}

// DecodePool reads the values of a pool from its MachineDeployment. It is as strict as
// operating-system-manager: an unknown field of the provider spec, of its network and of its dns is an
// error, and fields below cloudProviderSpec and operatingSystemSpec are not checked. The error is an
// *InvalidError that names every field to change.
func DecodePool(md *cluster.MachineDeployment) (Pool, error) {
	pool := Pool{Name: md.Name, Namespace: md.Namespace, KubeletVersion: md.Spec.Template.Spec.Versions.Kubelet}
	var problems []*invalid.Error

	if wrong, ok := md.Spec.Malformed(); ok {
		problems = append(problems, malformed(wrong))
	} else if _, err := kubeVersion(pool.KubeletVersion); err != nil {
		problems = append(problems, invalid.At(kubeletField, "%w", err))
	}
	for suffix := range kubeletAnnotations {
		if value, ok := md.Annotations[api.AnnotationKubeletConfigPrefix+suffix]; ok {
			if pool.KubeletAnnotations == nil {
				pool.KubeletAnnotations = map[string]string{}
			}
			pool.KubeletAnnotations[suffix] = value
		}
	}
	_, more := parseKubeletAnnotations(pool.KubeletAnnotations)
	problems = append(problems, more...)

	config, more := decodeProviderSpec(md)
	problems = append(problems, more...)
	if config != nil {
		pool.CloudProvider = osm.CloudProvider(config.CloudProvider)
		pool.OperatingSystem = osm.OperatingSystem(config.OperatingSystem)
		pool.Network = config.Network
		pool.SSHPublicKeys = config.SSHPublicKeys
		pool.OverwriteCloudConfig = config.OverwriteCloudConfig
		spec, err := decodeOSSpec(pool.OperatingSystem, config.OperatingSystemSpec)
		if err != nil {
			problems = append(problems, err)
		}
		pool.OperatingSystemSpec = spec
	}
	version := md.Annotations[api.AnnotationIgnitionVersion]
	problems = append(problems, userdata.CheckIgnitionVersion(ignitionVersionField, "", version)...)
	if pool.utility() == osm.ProvisioningUtilityIgnition {
		pool.IgnitionVersion = version
	}
	for _, p := range problems {
		p.Pool = pool.key()
	}
	return pool, invalid.AsSingleError(problems)
}

func malformed(wrong cluster.Malformed) *invalid.Error {
	return invalid.At(strings.TrimSuffix("spec."+wrong.Field, "."), "expected %s, found %s%s", wrong.Want, wrong.Got, quoteHint(wrong))
}

// quoteHint explains a common mistake, a version that YAML decodes to a number.
func quoteHint(wrong cluster.Malformed) string {
	if wrong.Want == "string" && (wrong.Got == "number" || strings.HasPrefix(wrong.Got, "number ") || wrong.Got == "bool") {
		return ": put it in quotes"
	}
	return ""
}

// key is "namespace/name".
func (p Pool) key() string { return p.Namespace + "/" + p.Name }

// kubeVersion parses a kubelet version like machine-controller: "1.33" is 1.33.0, and a leading
// "v" is optional.
func kubeVersion(version string) (*semver.Version, error) {
	if version == "" {
		return nil, errors.New("is empty: name the kubelet's version, such as \"1.36.2\"")
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return nil, fmt.Errorf("%q is not a version: write one like \"1.36.2\"", version)
	}
	return v, nil
}

func decodeProviderSpec(md *cluster.MachineDeployment) (*providerConfig, []*invalid.Error) {
	value := md.Spec.Template.Spec.ProviderSpec.Value
	if value == nil || len(value.Raw) == 0 {
		return nil, []*invalid.Error{invalid.At(providerSpecField, "is missing: give the provider's configuration inline there (valueFrom is not read)")}
	}
	if len(value.Raw) > maxProviderSpecBytes {
		return nil, []*invalid.Error{invalid.At(providerSpecField, "has %d bytes, %d are allowed", len(value.Raw), maxProviderSpecBytes)}
	}
	if problems := unknownFields(value.Raw); len(problems) > 0 {
		return nil, problems
	}
	var config providerConfig
	dec := json.NewDecoder(bytes.NewReader(value.Raw))
	dec.DisallowUnknownFields() // unknownFields has a better message, this one has no gaps
	if err := dec.Decode(&config); err != nil {
		return nil, []*invalid.Error{invalid.FromJSONError(providerSpecField, err)}
	}
	if n := config.Network; n != nil && len(n.DNS.Servers) == 0 {
		n.DNS.Servers = nil // the same as after recording, which omits an empty list
	}
	return &config, nil
}

// unknownFields reports every unused field of a provider spec. Names are compared without
// regard to case, as encoding/json does.
func unknownFields(raw []byte) []*invalid.Error {
	var problems []*invalid.Error
	levels := []struct {
		path  string
		typ   reflect.Type
		child string // the one field to look into
	}{
		{providerSpecField, reflect.TypeFor[providerConfig](), "network"},
		{providerSpecField + ".network", reflect.TypeFor[NetworkConfig](), "dns"},
		{providerSpecField + ".network.dns", reflect.TypeFor[DNSConfig](), ""},
	}
	for _, level := range levels {
		var fields map[string]json.RawMessage
		if json.NewDecoder(bytes.NewReader(raw)).Decode(&fields) != nil {
			return problems // the decoder will say what is wrong
		}
		known := jsonNames(level.typ)
		raw = nil
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			switch i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) }); {
			case i < 0:
				hint := cmp.Or(phrase.DidYouMean(name, known), ": remove it")
				problems = append(problems, invalid.At(level.path+"."+name, "is not a field of the provider spec%s", hint))
			case known[i] == level.child:
				raw = fields[name]
			}
		}
		if len(raw) == 0 {
			break
		}
	}
	return problems
}

func jsonNames(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// decodeOSSpec decodes operatingSystemSpec leniently, as operating-system-manager does.
func decodeOSSpec(system osm.OperatingSystem, raw json.RawMessage) (OperatingSystemSpec, *invalid.Error) {
	var spec OperatingSystemSpec
	decode := func(into any) *invalid.Error {
		if len(raw) == 0 {
			return nil
		}
		if err := json.Unmarshal(raw, into); err != nil {
			return invalid.FromJSONError(providerSpecField+".operatingSystemSpec", err)
		}
		return nil
	}
	var common struct {
		DistUpgradeOnBoot bool `json:"distUpgradeOnBoot"`
	}
	if err := decode(&common); err != nil {
		return spec, err
	}
	spec.DistUpgradeOnBoot = common.DistUpgradeOnBoot
	switch system {
	case osm.OperatingSystemUbuntu, osm.OperatingSystemAmazon2, osm.OperatingSystemRockyLinux:
		return spec, nil
	case osm.OperatingSystemFlatcar:
		spec.Flatcar = &FlatcarSpec{}
		return spec, decode(spec.Flatcar)
	case osm.OperatingSystemRHEL:
		spec.RHEL = &RHELSpec{}
		return spec, decode(spec.RHEL)
	case "":
		return spec, invalid.At(providerSpecField+".operatingSystem", "is empty: name one of %s", supportedSystems)
	}
	return spec, invalid.At(providerSpecField+".operatingSystem", "%q is not supported: name one of %s", system, supportedSystems)
}

const supportedSystems = "amzn2, flatcar, rhel, rockylinux, ubuntu"

// DefaultProfile returns the profile of a MachineDeployment that names none:
// "osp-<operating system>", but "osp-flatcar-cloud-init" for Flatcar on anexia with cloud-init.
// It reads only the provider spec, as strictly as DecodePool. The error is an *InvalidError:
// the provider spec cannot be read, or its operating system is not supported.
func DefaultProfile(md *cluster.MachineDeployment) (string, error) {
	name, problems := defaultProfile(md)
	for _, p := range problems {
		p.Pool = md.Namespace + "/" + md.Name
	}
	return name, invalid.AsSingleError(problems)
}

func defaultProfile(md *cluster.MachineDeployment) (string, []*invalid.Error) {
	if wrong, ok := md.Spec.Malformed(); ok && md.Spec.Template.Spec.ProviderSpec.Value == nil {
		return "", []*invalid.Error{malformed(wrong)}
	}
	config, problems := decodeProviderSpec(md)
	if config == nil {
		return "", problems
	}
	system := osm.OperatingSystem(config.OperatingSystem)
	// Errors in operatingSystemSpec have no effect here: operating-system-manager ignores them, too.
	spec, err := decodeOSSpec(system, config.OperatingSystemSpec)
	if err != nil && strings.HasSuffix(err.Field, ".operatingSystem") {
		return "", []*invalid.Error{err}
	}
	if config.CloudProvider == "anexia" && spec.Flatcar != nil && err == nil &&
		spec.Flatcar.ProvisioningUtility == osm.ProvisioningUtilityCloudInit {
		return "osp-flatcar-cloud-init", nil
	}
	return "osp-" + string(system), nil
}
