package render

import (
	"cmp"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/settings"
)

// Profile is what to render.
type Profile struct {
	// Spec is the content. Rendering never changes it.
	Spec osm.OperatingSystemProfileSpec
	// Object is the name of the OperatingSystemProfile.
	Object string
	// Digest of the canonical spec, "v1:sha256:<64 hex>". Compiled templates are
	// cached under it; without one they are compiled each time.
	Digest string
	// Provenance is the origin of the profile.
	Provenance Provenance
	// SelectedBy is the commit that made this version current. It is recorded and never
	// rendered.
	SelectedBy string
	// File is the profile's file in messages. Empty means Provenance.Path.
	File string
	// Lines returns the line of the profile's file on which the text of a field begins, for a
	// field such as "spec.bootstrapConfig.files[3].content.inline.data" or
	// "spec.bootstrapConfig.templates[name]". For a block scalar it is the line after its "|".
	// Lines can be nil.
	Lines func(field string) int
	// FileOf returns the file that Lines counts in, for a field whose text is not in File: an
	// overlay inherits some from its base. "" means File. FileOf can be nil.
	FileOf func(field string) string
}

// Provenance is the origin of a profile's content. For an object that was created by hand only
// Profile and Version are set.
type Provenance struct {
	// Profile is the profile's name, and Version its version.
	Profile, Version string
	// Commit is the first commit of the tracked branch with this content, and Change the commit
	// that its author wrote.
	Commit, Change string
	// Repository is the URL without credentials, and Path the file in it at Commit.
	Repository, Path string
}

func (p Profile) name() string {
	if p.Provenance.Profile != "" {
		return p.Provenance.Profile
	}
	return p.Object
}

// Position returns the file and the line of the n-th line of a field's text. The line is 0 if it is
// unknown; n below 1 is the first.
func (p Profile) Position(field string, n int) (file string, line int) {
	if p.FileOf != nil {
		file = p.FileOf(field)
	}
	if p.Lines != nil {
		line = p.Lines(field)
	}
	if line > 0 {
		line += max(n-1, 0)
	}
	return cmp.Or(file, p.File, p.Provenance.Path), line
}

func (p Profile) version() string {
	if p.Provenance.Version != "" {
		return p.Provenance.Version
	}
	return p.Spec.Version
}

// locateProblems adds the profile and the pool to the problems, and converts lines of a template to
// lines of the profile's file. It returns copies, because compiled profiles are shared, and so are
// the problems found in them.
func (p Profile) locateProblems(pool string, problems []*invalid.Error) []*invalid.Error {
	out := make([]*invalid.Error, len(problems))
	for i, problem := range problems {
		e := *problem
		e.Profile = p.name()
		e.Version = p.version()
		e.Commit = p.Provenance.Commit
		e.Pool = pool
		if strings.HasPrefix(e.Field, "spec.template.") || strings.HasPrefix(e.Field, "settings") || strings.HasPrefix(e.Field, "metadata.") {
			out[i] = &e
			continue
		}
		if e.Field != "" {
			path, line := p.Position(e.Field, e.Line)
			e.Path = path
			if line > 0 && path != "" {
				e.Line, e.LineOfPath = line, true
			}
		}
		out[i] = &e
	}
	return out
}

// Cluster has the values that differ between clusters and pools, including the tokens. The JSON
// names are those under `cluster` in the file for `osm-gitops render --cluster`.
type Cluster struct {
	// Server is the URL under which nodes reach the API server.
	Server string `json:"server,omitempty"`
	// APIServerToken is the token with which a node fetches its Secrets.
	APIServerToken string `json:"apiServerToken,omitempty"`
	// BootstrapToken is the kubelet's, "abcdef.0123456789abcdef".
	BootstrapToken string `json:"bootstrapToken,omitempty"`
	// BootstrapKubeconfigSecretName is the Secret with the kubelet's bootstrap kubeconfig.
	// Empty means the name that operating-system-manager gives it.
	BootstrapKubeconfigSecretName string `json:"bootstrapKubeconfigSecretName,omitempty"`
	// BootstrapKubeconfig is that kubeconfig. Empty means that BootstrapKubeconfig creates it
	// from Server, the settings' KubernetesCACert and BootstrapToken.
	BootstrapKubeconfig string `json:"bootstrapKubeconfig,omitempty"`
}

// Settings are the controller's flags that change what a node gets, unparsed.
type Settings = settings.Settings

// RegistryCredential is the login of containerd at a registry.
type RegistryCredential = settings.RegistryCredential

// Warning is about a setting that nodes receive unchanged although it can hardly have the
// intended effect.
type Warning = settings.Warning

// Input is everything that rendering reads: nothing else can change a node.
type Input struct {
	Profile  Profile
	Pool     Pool
	Settings Settings
	Cluster  Cluster
}

// Output is what a pool's nodes get.
type Output struct {
	// OSC is the configuration with placeholders, without cloudProvider.spec.
	OSC osm.OperatingSystemConfigSpec
	// Bootstrap and Provisioning are the user-data of the two stages, with the
	// real values.
	Bootstrap, Provisioning []byte
	// Record is the input of this generation.
	Record Record
}
