package profile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// digestRecipe is the version of the canonical form that Digest hashes. Every digest
// contains it, so that a new form cannot be mistaken for new content.
const digestRecipe = "v1:sha256:"

// wellFormedDigest matches the digests that Digest returns.
var wellFormedDigest = regexp.MustCompile(`^` + digestRecipe + `[0-9a-f]{64}$`)

// Digest returns "v1:sha256:" and 64 hex digits over the canonical form of a spec. A file
// and the object that an API server made of it have the same digest.
func Digest(spec osm.OperatingSystemProfileSpec) string {
	b, err := canonicalJSON(Canonical(spec))
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
	if c.ProvisioningUtility == "" {
		c.ProvisioningUtility = osm.ProvisioningUtilityCloudInit
	}
	if c.SupportedCloudProviders == nil {
		c.SupportedCloudProviders = []osm.CloudProviderSpec{}
	}
	for _, stage := range []*osm.OSPConfig{&c.BootstrapConfig, &c.ProvisioningConfig} {
		canonicalFiles(stage.Files)
		for i := range stage.SupportedContainerRuntimes {
			rt := &stage.SupportedContainerRuntimes[i]
			canonicalFiles(rt.Files)
			if rt.Files == nil {
				rt.Files = []osm.File{}
			}
		}
	}
	return c
}

func canonicalFiles(files []osm.File) {
	for i := range files {
		if files[i].Permissions == 0 {
			files[i].Permissions = osm.DefaultFilePermissions
		}
	}
}

// canonicalJSON encodes v with sorted keys, numbers as in the API server (int64 or
// float64), and without HTML escapes.
func canonicalJSON(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &tree); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// rawExtension wraps a decoded YAML value as free-form JSON.
func rawExtension(v any) (*runtime.RawExtension, error) {
	b, err := canonicalJSON(v)
	if err != nil {
		return nil, fmt.Errorf("encoding free-form value: %w", err)
	}
	return &runtime.RawExtension{Raw: bytes.TrimSpace(b)}, nil
}
