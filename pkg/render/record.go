package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// EngineVersion changes whenever equal inputs give other bytes than before. It is recorded, but
// not part of the input digest: a new engine alone causes no rollout.
const EngineVersion = "v1"

// EngineReleases returns, as text, which releases of osm-gitops have an engine, out of this
// release and all before it. An unknown engine is that of a later release.
func EngineReleases(engine string) (string, bool) {
	releases, known := map[string]string{EngineVersion: "all so far"}[engine]
	return releases, known
}

// digestRecipe is part of every digest, so that a digest of another recipe is never mistaken
// for one of other content.
const digestRecipe = "v1:sha256:"

// maxRecordBytes limits the annotation that contains a Record; all annotations of an object
// together are limited to 256 KiB:
// https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/api/validation/objectmeta.go
const maxRecordBytes = 64 << 10 // 64 KiB

// Record is the input of a generation. Together with the profile and the settings of that
// digest, it is enough to render the placeholder outputs again and compare them.
type Record struct {
	// Object is the OperatingSystemProfile, ObjectDigest the digest of its spec.
	Object       string `json:"object,omitempty"`
	ObjectDigest string `json:"objectDigest,omitempty"`
	Profile      string `json:"profile,omitempty"`
	Version      string `json:"version,omitempty"`
	Repository   string `json:"repository,omitempty"`
	Path         string `json:"path,omitempty"`
	Commit       string `json:"commit,omitempty"`
	Change       string `json:"change,omitempty"`
	SelectedBy   string `json:"selectedBy,omitempty"`
	// Pool are the facts with placeholders.
	Pool Pool `json:"pool"`
	// BootstrapKubeconfigSecretName is set only if it differs from the name that
	// operating-system-manager gives the Secret.
	BootstrapKubeconfigSecretName string `json:"bootstrapKubeconfigSecretName,omitempty"`
	// SettingsDigest is the digest of RedactedSettingsJSON.
	SettingsDigest string `json:"settingsDigest"`
	// Engine is the EngineVersion that rendered.
	Engine string `json:"engine"`
	// Digests of the input and of the outputs with placeholders.
	Digests osm.ConfigDigests `json:"digests"`
}

// MarshalRecord returns the JSON of a record, or an error if an annotation cannot contain it.
func MarshalRecord(r Record) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, &invalid.Error{Pool: r.Pool.key(), Err: fmt.Errorf("encoding the record: %w", err)}
	}
	if len(b) > maxRecordBytes {
		return nil, &invalid.Error{Pool: r.Pool.key(), Field: providerSpecField,
			Err: fmt.Errorf("the record of this pool's input has %d bytes, but an annotation can have %d: shorten its SSH keys or annotations", len(b), maxRecordBytes)}
	}
	return b, nil
}

// RebuildInput returns the input of a generation, with placeholders in place of credentials and
// tokens. With WithCredentials and with the tokens in Cluster, it renders that generation
// again. The profile is the one that Object names, and settings are RedactedSettingsJSON; both
// have to be those of the record.
func (r Record) RebuildInput(spec osm.OperatingSystemProfileSpec, digest string, settings []byte) (Input, error) {
	if digest != r.ObjectDigest {
		return Input{}, fmt.Errorf("profile %q has digest %s, the record says %s", r.Object, digest, r.ObjectDigest)
	}
	if got := digestBytes(settings); got != r.SettingsDigest {
		return Input{}, fmt.Errorf("the settings have digest %s, the record says %s", got, r.SettingsDigest)
	}
	var redacted redactedSettings
	if err := json.Unmarshal(settings, &redacted); err != nil {
		return Input{}, fmt.Errorf("reading the settings of a record: %w", err)
	}
	return Input{
		Profile: Profile{
			Spec: spec, Object: r.Object, Digest: digest, SelectedBy: r.SelectedBy,
			Provenance: Provenance{Profile: r.Profile, Version: r.Version, Repository: r.Repository, Path: r.Path, Commit: r.Commit, Change: r.Change},
		},
		Pool: r.Pool, Settings: redacted.Settings,
		Cluster: Cluster{Server: redacted.Cluster.Server, BootstrapKubeconfigSecretName: r.BootstrapKubeconfigSecretName},
	}, nil
}

// InputDigest returns the correct value of Digests.Input: if a record has another, the record
// was edited.
func (r Record) InputDigest() string {
	return digestJSON(digestedInput{
		ProfileDigest: r.ObjectDigest, Profile: cmp.Or(r.Profile, r.Object), Version: r.Version,
		Repository: r.Repository, Path: r.Path, Commit: r.Commit, Change: r.Change,
		Pool: r.Pool, SecretName: r.BootstrapKubeconfigSecretName, SettingsDigest: r.SettingsDigest,
	})
}

// digestedInput is the content of the input digest. The order and the names of its fields are part
// of the recipe.
type digestedInput struct {
	ProfileDigest  string `json:"profileDigest"`
	Profile        string `json:"profile"`
	Version        string `json:"version"`
	Repository     string `json:"repository"`
	Path           string `json:"path"`
	Commit         string `json:"commit"`
	Change         string `json:"change"`
	Pool           Pool   `json:"pool"`
	SecretName     string `json:"bootstrapKubeconfigSecretName,omitempty"`
	SettingsDigest string `json:"settingsDigest"`
}

// InputDigest returns "v1:sha256:" and 64 hex digits over everything that rendering reads
// except credentials: the profile and its origin, the pool, and the settings. It covers the
// profile's content only through Profile.Digest.
func (in Input) InputDigest() string {
	redacted, _ := in.splitCredentialsExceptTokens()
	return redacted.inputDigest(redacted.settingsDigest())
}

// inputDigest returns the digest of an input without credentials.
func (in Input) inputDigest(settingsDigest string) string {
	from := in.Profile.Provenance
	return digestJSON(digestedInput{
		ProfileDigest: in.Profile.Digest, Profile: in.Profile.name(), Version: in.Profile.version(),
		Repository: from.Repository, Path: from.Path, Commit: from.Commit, Change: from.Change,
		Pool: in.Pool, SecretName: in.unusualSecretName(), SettingsDigest: settingsDigest,
	})
}

// unusualSecretName returns the name only if it does not follow from the pool's.
func (in Input) unusualSecretName() string {
	if name := in.bootstrapKubeconfigSecretName(); name != in.Pool.bootstrapKubeconfigSecretName() {
		return name
	}
	return ""
}

// redactedSettings is the part of the settings that is stored, with the server, because the
// OperatingSystemConfig contains that as text.
type redactedSettings struct {
	Settings Settings `json:"settings"`
	Cluster  struct {
		Server string `json:"server"`
	} `json:"cluster"`
}

// RedactedSettingsJSON returns the canonical JSON of the settings without
// credentials, with the server's URL. It has the form of the file for
// `osm-gitops render --cluster`.
func (in Input) RedactedSettingsJSON() []byte {
	redacted, _ := in.splitCredentialsExceptTokens()
	return redacted.settingsJSON()
}

// SettingsDigest returns the digest of RedactedSettingsJSON, "v1:sha256:<64 hex>".
func (in Input) SettingsDigest() string {
	redacted, _ := in.splitCredentialsExceptTokens()
	return redacted.settingsDigest()
}

func (in Input) settingsDigest() string { return digestBytes(in.settingsJSON()) }

func (in Input) settingsJSON() []byte {
	r := redactedSettings{Settings: in.Settings}
	r.Cluster.Server = in.Cluster.Server
	return mustJSON(r)
}

// Record returns the record of in, without the digests of the outputs.
func (in Input) Record() Record {
	redacted, _ := in.splitCredentialsExceptTokens()
	settings := redacted.settingsDigest()
	return redacted.recordWithDigests(settings, osm.ConfigDigests{Input: redacted.inputDigest(settings)})
}

func (in Input) recordWithDigests(settingsDigest string, digests osm.ConfigDigests) Record {
	from := in.Profile.Provenance
	return Record{
		Object: in.Profile.Object, ObjectDigest: in.Profile.Digest,
		Profile: in.Profile.name(), Version: in.Profile.version(),
		Repository: from.Repository, Path: from.Path, Commit: from.Commit, Change: from.Change,
		SelectedBy: in.Profile.SelectedBy, Pool: in.Pool,
		BootstrapKubeconfigSecretName: in.unusualSecretName(),
		SettingsDigest:                settingsDigest, Engine: EngineVersion, Digests: digests,
	}
}

// digestJSON returns the digest of the JSON of a value: encoding/json orders struct fields by
// declaration and map keys by name.
func digestJSON(v any) string { return digestBytes(mustJSON(v)) }

func digestBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return digestRecipe + hex.EncodeToString(sum[:])
}

// mustJSON encodes this package's own types of strings, numbers and maps, which cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err))
	}
	return b
}

// ShortDigest returns the first 12 hex digits of a digest, the form in node reports and object
// names.
func ShortDigest(digest string) string {
	hexDigits := digest[strings.LastIndex(digest, ":")+1:]
	return hexDigits[:min(12, len(hexDigits))]
}
