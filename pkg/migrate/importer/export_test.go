package importer

import (
	"maps"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// ReferenceDefaults returns the digests of the reference's defaults, and their version.
func ReferenceDefaults() (digests map[string]string, version string) {
	return maps.Clone(referenceDefaults), referenceVersion
}

// ProfileYAML is profileYAML for a profile with a name.
func ProfileYAML(name string, spec osm.OperatingSystemProfileSpec) []byte {
	return profileYAML("A test.", []field{{"name", name}}, spec)
}

// Sorted is sorted.
func Sorted(spec osm.OperatingSystemProfileSpec) string { return sorted(spec) }
