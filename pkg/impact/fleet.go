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
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Fleet is what rendering reads of all pools, without a credential: one in its place has a
// placeholder, and ssh keys others of the same length. It is what a snapshot holds.
type Fleet struct {
	// Namespace of the controller, where pools look for profiles.
	Namespace string `json:"namespace"`
	// Settings by the name that pools have for them.
	Settings map[string]Settings `json:"settings"`
	// Sources are the ProfileSources.
	Sources []Source `json:"sources,omitempty"`
	// ByHand are the OperatingSystemProfiles that no ProfileSource made, by name.
	ByHand []string `json:"byHand,omitempty"`
	// Pools, sorted by namespace and name.
	Pools []Pool `json:"pools"`
	// Own is the source of the repository that is looked at; "" where nobody said.
	Own string `json:"-"`
}

// Settings are those of a controller, and its cluster's URL, as in the file for
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
	// Waves: versions reach pools wave by wave.
	Waves bool `json:"waves,omitempty"`
	// Profiles that it offers; nil where that is not known.
	Profiles []string `json:"profiles,omitempty"`
}

// Pool is a MachineDeployment.
type Pool struct {
	// Facts with placeholders.
	Facts render.Pool `json:"facts"`
	// Annotations are those that choose a profile and say how a new version is adopted.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Wave is the label of that name as it was written.
	Wave string `json:"wave,omitempty"`
	// SecretName is the Secret with the bootstrap kubeconfig, where it is not the usual one.
	SecretName string `json:"bootstrapKubeconfigSecretName,omitempty"`
	// Settings names those of the pool.
	Settings string `json:"settings"`
	// Now is what the pool has, nil where that is not known or nothing.
	Now *Generation `json:"now,omitempty"`
	// Problem says why there are no facts.
	Problem string `json:"problem,omitempty"`
}

// Generation is what a pool has in its cluster.
type Generation struct {
	Profile string `json:"profile"`
	Version string `json:"version"`
}

// Name is "namespace/name".
func (p Pool) Name() string { return p.Facts.Namespace + "/" + p.Facts.Name }

func (p Pool) replaces() bool { return p.Annotations[api.AnnotationRollout] == api.RolloutReplace }

// chosenBy are the annotations that a Pool keeps. None of them is rendered.
var chosenBy = []string{api.AnnotationOSP, api.AnnotationOSPNamespace, api.AnnotationVersionPin, api.AnnotationSuspend, api.AnnotationRollout}

// NewPool takes the facts out of a MachineDeployment, and leaves the credentials. Decode
// is render.DecodePool, or what adds to it the configuration of the cloud provider. What
// is wrong with the pool is its Problem.
func NewPool(md *cluster.MachineDeployment, settings string, decode func(*cluster.MachineDeployment) (render.Pool, error)) Pool {
	p := Pool{Annotations: map[string]string{}, Wave: md.Labels[api.LabelWave], Settings: settings}
	for _, key := range chosenBy {
		if value, ok := md.Annotations[key]; ok {
			p.Annotations[key] = value
		}
	}
	facts, err := decode(md)
	if err != nil {
		p.Facts = render.Pool{Name: md.Name, Namespace: md.Namespace}
		p.Problem = message(withoutPool(err)) // it may quote the pool (security.md 15)
		return p
	}
	p.Facts = redacted(facts)
	return p
}

// Redacted returns settings without credentials.
func Redacted(settings render.Settings, server string) Settings {
	in, _ := render.Input{Settings: settings}.Split()
	out := Settings{Settings: in.Settings}
	out.Cluster.Server = server
	return out
}

// Key names settings by what they hold.
func (s Settings) Key() string {
	b, _ := json.Marshal(s) // strings, booleans, maps and lists of them
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%x", sum[:6])
}

func redacted(facts render.Pool) render.Pool {
	in, _ := render.Input{Pool: facts}.Split()
	keys := slices.Clone(in.Pool.SSHPublicKeys)
	for i, key := range keys {
		keys[i] = keyStandIn(key)
	}
	in.Pool.SSHPublicKeys = keys
	return in.Pool
}

// sshKinds are the kinds of key that say nothing of who has it:
// https://man.openbsd.org/ssh-keygen.1
var sshKinds = []string{"ssh-ed25519", "ssh-rsa", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521"}

// keyStandIn is a text that is as long as a key and compresses as badly.
func keyStandIn(key string) string {
	kind, _, more := strings.Cut(key, " ")
	if !more || !slices.Contains(sshKinds, kind) {
		return filler(len(key))
	}
	return kind + " " + filler(len(key)-len(kind)-1)
}

// filler is a text of n characters, always the same, that compresses like a credential.
func filler(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "filler %d", i))
		b.WriteString(base64.RawURLEncoding.EncodeToString(sum[:]))
	}
	return b.String()[:max(n, 0)]
}

// sort orders the pools, and drops settings that no pool has.
func (f *Fleet) sort() {
	slices.SortFunc(f.Pools, func(a, b Pool) int {
		return cmp.Or(cmp.Compare(a.Facts.Namespace, b.Facts.Namespace), cmp.Compare(a.Facts.Name, b.Facts.Name))
	})
	slices.SortFunc(f.Sources, func(a, b Source) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(f.ByHand)
}

// waves reports whether versions of a profile reach pools wave by wave.
func (f *Fleet) waves(profile string) bool {
	for _, s := range f.Sources {
		if slices.Contains(s.Profiles, profile) {
			return s.Waves
		}
	}
	return slices.ContainsFunc(f.Sources, func(s Source) bool { return s.Waves && s.Profiles == nil })
}

// offeredBy names the sources that offer a profile, but for that of the repository.
func (f *Fleet) offeredBy(profile string) []string {
	var out []string
	for _, s := range f.Sources {
		if slices.Contains(s.Profiles, profile) && (f.Own == "" || s.Name != f.Own) {
			out = append(out, s.Name)
		}
	}
	return out
}

// claimedBy names the source that keeps the repository from offering a profile, "" where
// none is known to: who has one keeps it, and of two that have it the older source.
func (f *Fleet) claimedBy(profile string) string {
	others := f.offeredBy(profile)
	has := func(s Source) bool { return s.Name == f.Own && slices.Contains(s.Profiles, profile) }
	if f.Own == "" || len(others) == 0 || slices.ContainsFunc(f.Sources, has) {
		return ""
	}
	return others[0]
}

// withoutPool is an error of rendering without the pool's name, which stands beside it.
func withoutPool(err error) string {
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
