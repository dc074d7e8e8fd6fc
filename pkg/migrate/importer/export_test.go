package importer

import (
	"maps"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/migrate/importer/internal/profileyaml"
)

// ReferenceDefaults returns the digests of the reference's defaults, and their version.
func ReferenceDefaults() (digests map[string]string, version string) {
	return maps.Clone(referenceDefaults), referenceVersion
}

// ProfileYAML is Write for a profile with a name.
func ProfileYAML(name string, spec osm.OperatingSystemProfileSpec) []byte {
	return profileyaml.Write("A test.", osm.GroupVersion.String(), "OperatingSystemProfile", name, spec)
}

// Sorted is sorted.
func Sorted(spec osm.OperatingSystemProfileSpec) string { return orderInsensitiveDigest(spec) }
