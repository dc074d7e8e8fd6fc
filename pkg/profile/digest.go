package profile

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/strictyaml"
)

// digestRecipe is the version of the canonical form that Digest hashes. Every digest
// contains it, so that a new form cannot be mistaken for new content.
const digestRecipe = "v1:sha256:"

// wellFormedDigest matches the digests that Digest returns.
var wellFormedDigest = regexp.MustCompile(`^` + digestRecipe + `[0-9a-f]{64}$`)

// Digest returns "v1:sha256:" and 64 hex digits over the canonical form of a spec. A file
// and the object that an API server made of it have the same digest.
func Digest(spec osm.OperatingSystemProfileSpec) string {
	b, err := strictyaml.CanonicalJSON(Canonical(spec))
	if err != nil {
		// Only free-form JSON can fail to encode, and Decode and the API server both
		// reject it before; a digest of the error makes the function total.
		b = []byte("invalid: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return digestRecipe + hex.EncodeToString(sum[:])
}

// Canonical returns a copy of spec with the schema's defaults, and in one form for what
// the API server treats as equal: an absent list is an empty one.
func Canonical(spec osm.OperatingSystemProfileSpec) osm.OperatingSystemProfileSpec {
	c := *spec.DeepCopy()
	c.ProvisioningUtility = cmp.Or(c.ProvisioningUtility, osm.ProvisioningUtilityCloudInit)
	if c.SupportedCloudProviders == nil {
		c.SupportedCloudProviders = []osm.CloudProviderSpec{}
	}
	for _, stage := range []*osm.OSPConfig{&c.BootstrapConfig, &c.ProvisioningConfig} {
		SetDefaultPermissions(stage.Files)
		for i := range stage.SupportedContainerRuntimes {
			rt := &stage.SupportedContainerRuntimes[i]
			SetDefaultPermissions(rt.Files)
			if rt.Files == nil {
				rt.Files = []osm.File{}
			}
		}
	}
	return c
}

// SetDefaultPermissions sets the permissions that the API server sets for files without any.
func SetDefaultPermissions(files []osm.File) {
	for i := range files {
		files[i].Permissions = cmp.Or(files[i].Permissions, osm.DefaultFilePermissions)
	}
}

// AsDirty adds a digest of the content to the version of an edited file, so that an edit
// in a directory needs no new version.
func (d Document) AsDirty() Document {
	spec := *d.Spec.DeepCopy()
	spec.Version += "-dirty." + dirtySuffix(d.Digest)
	d.Spec, d.Digest = spec, Digest(spec)
	return d
}

// dirtySuffix returns 8 hex digits of a digest that are valid in a version: a number
// there must not begin with 0.
func dirtySuffix(digest string) string {
	hex := strings.TrimPrefix(digest, digestRecipe)
	for i := 0; i+8 < len(hex); i++ {
		if w := hex[i : i+8]; w[0] != '0' || strings.ContainsAny(w, "abcdef") {
			return w
		}
	}
	return hex[:7] + "f"
}
