package impact

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// PoolSnapshot is the input of rendering for all pools, with placeholders for credentials and
// other ssh keys of the same length. It is the content of a snapshot. A lineage/dump.Snapshot is
// another file: it has objects, of nodes and records too, but not the input of rendering.
type PoolSnapshot struct {
	// Namespace of the controller, which has the profiles of pools.
	Namespace string `json:"namespace"`
	// Settings by the name that pools use.
	Settings map[string]Settings `json:"settings"`
	// Sources are the ProfileSources.
	Sources []Source `json:"sources,omitempty"`
	// Unmanaged names the OperatingSystemProfiles that no ProfileSource created.
	Unmanaged []string `json:"byHand,omitempty"`
	// Pools, sorted by namespace and name.
	Pools []Pool `json:"pools"`
	// ComparedSource is the source of the compared repository; "" if unknown.
	ComparedSource string `json:"-"`
}

// Settings are the settings of a controller, and its cluster's URL, as in the file for
// `osm-gitops render --cluster`.
type Settings struct {
	Settings render.Settings `json:"settings"`
	Cluster  struct {
		Server string `json:"server"`
	} `json:"cluster"`
}

// Source is a ProfileSource.
type Source struct {
	Name string `json:"name"`
	// Waves reports whether versions reach pools in waves.
	Waves bool `json:"waves,omitempty"`
	// Windows are its maintenance windows for the replacement of machines.
	Windows []string `json:"windows,omitempty"`
	// Profiles that it offers; nil if unknown.
	Profiles []string `json:"profiles,omitempty"`
}

// Pool is a MachineDeployment.
type Pool struct {
	// Inputs with placeholders.
	Inputs render.Pool `json:"facts"`
	// Annotations that choose a profile and how a new version is adopted.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Wave is the unchanged value of the label.
	Wave string `json:"wave,omitempty"`
	// SecretName is the Secret with the bootstrap kubeconfig, if it is not the default.
	SecretName string `json:"bootstrapKubeconfigSecretName,omitempty"`
	// Settings is the name of the pool's settings.
	Settings string `json:"settings"`
	// Current is the profile and version that the pool has, nil if unknown or none.
	Current *ProfileVersion `json:"now,omitempty"`
	// Problem is the reason why facts are missing.
	Problem string `json:"problem,omitempty"`
}

// ProfileVersion is the profile and version that a pool has in its cluster.
type ProfileVersion struct {
	Profile string `json:"profile"`
	Version string `json:"version"`
}

// Name returns "namespace/name".
func (p Pool) Name() string { return p.Inputs.Namespace + "/" + p.Inputs.Name }

func (p Pool) replacesMachines() bool {
	return p.Annotations[api.AnnotationRollout] == api.RolloutReplace
}

// chosenBy are the annotations that a Pool contains. None of them is rendered.
var chosenBy = []string{api.AnnotationOSP, api.AnnotationOSPNamespace, api.AnnotationVersionPin, api.AnnotationSuspend, api.AnnotationRollout, api.AnnotationWindows}

// NewPool extracts the facts from a MachineDeployment, without credentials. Decode is
// render.DecodePool, or a function that adds the configuration of the cloud provider. An
// error of the pool becomes its Problem.
func NewPool(md *cluster.MachineDeployment, settings string, decode func(*cluster.MachineDeployment) (render.Pool, error)) Pool {
	p := Pool{Annotations: map[string]string{}, Wave: md.Labels[api.LabelWave], Settings: settings}
	for _, key := range chosenBy {
		if value, ok := md.Annotations[key]; ok {
			p.Annotations[key] = value
		}
	}
	decoded, err := decode(md)
	if err != nil {
		p.Inputs = render.Pool{Name: md.Name, Namespace: md.Namespace}
		p.Problem = redact.CleanMessage(errorWithoutPoolName(err)) // it can quote the pool (security.md 15)
		return p
	}
	p.Inputs = redactPool(decoded)
	return p
}

// RedactSettings returns settings without credentials.
func RedactSettings(settings render.Settings, server string) Settings {
	in, _ := render.Input{Settings: settings}.ReplaceSecrets()
	out := Settings{Settings: in.Settings}
	out.Cluster.Server = server
	return out
}

// Key names settings by their content.
func (s Settings) Key() string {
	b, _ := json.Marshal(s) // only strings, booleans, maps and lists of them
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%x", sum[:6])
}

// redactPool returns a pool without credentials; SSH keys become placeholders.
func redactPool(pool render.Pool) render.Pool {
	in, _ := render.Input{Pool: pool}.ReplaceSecrets()
	keys := slices.Clone(in.Pool.SSHPublicKeys)
	for i, key := range keys {
		keys[i] = sshKeyPlaceholder(key)
	}
	in.Pool.SSHPublicKeys = keys
	return in.Pool
}

// sshKinds are the key types, which do not identify the owner of a key:
// https://man.openbsd.org/ssh-keygen.1
var sshKinds = []string{"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"}

// sshKeyPlaceholder returns a text with the length of a key that compresses as badly.
func sshKeyPlaceholder(key string) string {
	kind, _, more := strings.Cut(key, " ")
	if !more || !slices.Contains(sshKinds, kind) {
		return fillerText(len(key))
	}
	return kind + " " + fillerText(len(key)-len(kind)-1)
}

// fillerText returns a constant text of n characters that compresses like a credential.
func fillerText(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "filler %d", i))
		b.WriteString(base64.RawURLEncoding.EncodeToString(sum[:]))
	}
	return b.String()[:max(n, 0)]
}

// sortLists orders the pools, the sources and the unmanaged profiles.
func (f *PoolSnapshot) sortLists() {
	slices.SortFunc(f.Pools, func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.Inputs.Namespace, b.Inputs.Namespace), cmp.Compare(a.Inputs.Name, b.Inputs.Name))
	})
	slices.SortFunc(f.Sources, func(a, b Source) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(f.Unmanaged)
}

// hasWaves reports whether versions of a profile reach pools in waves.
func (f *PoolSnapshot) hasWaves(profile string) bool {
	for _, s := range f.Sources {
		if slices.Contains(s.Profiles, profile) {
			return s.Waves
		}
	}
	return slices.ContainsFunc(f.Sources, func(s Source) bool { return s.Waves && s.Profiles == nil })
}

// windowsOf returns the maintenance windows in which the machines of a pool are replaced, nil
// for at once.
func (f *PoolSnapshot) windowsOf(p Pool, profile string) (out []string) {
	if !p.replacesMachines() || p.Annotations[api.AnnotationWindows] == api.WindowsIgnore {
		return nil
	}
	for _, s := range f.Sources {
		if s.Profiles == nil || slices.Contains(s.Profiles, profile) {
			for _, w := range s.Windows {
				out = append(out, redact.PrintableLine(w))
			}
		}
	}
	return out
}

// sourcesProviding names the sources that offer a profile, except the repository's own.
func (f *PoolSnapshot) sourcesProviding(profile string) []string {
	var out []string
	for _, s := range f.Sources {
		if slices.Contains(s.Profiles, profile) && (f.ComparedSource == "" || s.Name != f.ComparedSource) {
			out = append(out, s.Name)
		}
	}
	return out
}

// conflictingSource names the source that prevents the repository from offering a profile, "" if
// none is known. A source retains its profiles, and of two with the same profile the older
// source wins.
func (f *PoolSnapshot) conflictingSource(profile string) string {
	others := f.sourcesProviding(profile)
	has := func(s Source) bool { return s.Name == f.ComparedSource && slices.Contains(s.Profiles, profile) }
	if f.ComparedSource == "" || len(others) == 0 || slices.ContainsFunc(f.Sources, has) {
		return ""
	}
	return others[0]
}

// errorWithoutPoolName formats a rendering error without the pool's name, which is printed
// separately.
func errorWithoutPoolName(err error) string {
	var lines []string
	for _, p := range render.Problems(err) {
		q := *p
		q.Pool = ""
		lines = append(lines, q.Error())
	}
	if len(lines) == 0 {
		lines = []string{err.Error()}
	}
	return strings.Join(lines, "\n")
}
