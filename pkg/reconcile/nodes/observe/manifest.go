package observe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/drift"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/render/manifest"
)

const (
	// maxManifestBytes bounds the memory of cached manifests, of about 10 KiB each: the nodes of a pool need
	// up to forty.
	maxManifestBytes = 64 << 20 // 64 MiB
	// maxVersions is the number of generations, and of offered versions, whose content is
	// compared with that of a node.
	maxVersions = 20
	// maxVersionBytes and maxCommitBytes are the lengths that the schema of NodeProvenance allows.
	maxVersionBytes, maxCommitBytes = 256, 512
	// manifestRetry is the time until a configuration that could not be rendered is tried again: a node
	// can change its report at any rate.
	manifestRetry = 10 * time.Minute
)

// ErrNoManifest says that a configuration cannot be rendered again: objects that it was rendered
// from are gone or were edited, or another release rendered it. A retry can succeed only after a
// change of these.
var ErrNoManifest = errors.New("the configuration cannot be rendered again")

// manifestCache caches the manifests of configurations by input digest.
type manifestCache struct {
	mu    sync.Mutex
	of    *lru.Cache
	bytes int
}

// cachedManifest is a manifest, or why there is none until a time.
type cachedManifest struct {
	made  *manifest.Manifest
	err   error
	until time.Time
}

// size returns about how many bytes it needs.
func (c cachedManifest) size() int {
	n := 256
	if c.made != nil {
		for _, f := range c.made.Files {
			n += 64 + len(f.Path) + len(f.Digest) + len(f.Owner)
		}
	}
	return n
}

func (c *manifestCache) get(digest string) (cachedManifest, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		return cachedManifest{}, false
	}
	v, _ := c.of.Get(digest)
	have, ok := v.(cachedManifest)
	return have, ok && (have.err == nil || time.Now().Before(have.until))
}

// put caches a manifest, or the error ErrNoManifest, and returns both.
func (c *manifestCache) put(digest string, made *manifest.Manifest, err error) (*manifest.Manifest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !errors.Is(err, ErrNoManifest) {
		return nil, err
	}
	if c.of == nil {
		c.of = lru.NewWithEvictionFunc(0, func(_ lru.Key, v any) {
			if gone, ok := v.(cachedManifest); ok {
				c.bytes -= gone.size()
			}
		})
	}
	entry := cachedManifest{made, err, time.Now().Add(manifestRetry)}
	c.of.Remove(digest)
	c.of.Add(digest, entry)
	for c.bytes += entry.size(); c.bytes > maxManifestBytes; {
		c.of.RemoveOldest()
	}
	return made, err
}

// ManifestOf returns the manifest of nodes that were provisioned from a generation. If its profile has
// none, the result has no Config, and only the content of files. The error can be ErrNoManifest.
func (r *Reader) ManifestOf(ctx context.Context, pool types.NamespacedName, g *lineage.Generation) (*manifest.Manifest, error) {
	if have, ok := r.manifests.get(g.InputDigest); ok {
		return have.made, have.err
	}
	in, err := r.inputOf(ctx, pool, g)
	if err != nil {
		return r.manifests.put(g.InputDigest, nil, err)
	}
	return r.renderManifest(g.InputDigest, in)
}

// inputOf returns the input of a generation, with placeholders.
func (r *Reader) inputOf(ctx context.Context, pool types.NamespacedName, g *lineage.Generation) (render.Input, error) {
	rec, err := r.ReadRecord(ctx, pool, g)
	if edited := (*editedRecordError)(nil); errors.As(err, &edited) || apierrors.IsNotFound(err) {
		return render.Input{}, ErrNoManifest
	}
	if err != nil {
		return render.Input{}, err
	}
	if rec.Engine != render.EngineVersion || r.Engine == nil {
		return render.Input{}, ErrNoManifest
	}
	osp, err := r.profileOf(ctx, rec.Object, rec.ObjectDigest)
	if err != nil {
		return render.Input{}, err
	}
	if osp == nil {
		return render.Input{}, ErrNoManifest
	}
	in, err := r.RebuildInput(ctx, rec, osp.Spec)
	if err != nil {
		return render.Input{}, err
	}
	in, _ = in.ReplaceSecrets()
	return in, nil
}

// RebuildInput returns the input of a record, with tokens that say only that there are some: with
// placeholders, rendering depends on nothing else. The error can be ErrNoManifest.
func (r *Reader) RebuildInput(ctx context.Context, rec render.Record, spec osm.OperatingSystemProfileSpec) (render.Input, error) {
	var settings corev1.ConfigMap
	name := types.NamespacedName{Namespace: r.Namespace, Name: lineage.SettingsName(rec.SettingsDigest)}
	if err := r.Management.Live.Get(ctx, name, &settings); apierrors.IsNotFound(err) {
		return render.Input{}, ErrNoManifest
	} else if err != nil {
		return render.Input{}, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	in, err := rec.RebuildInput(spec, rec.ObjectDigest, []byte(settings.Data[lineage.SettingsKey]))
	if err != nil { // the settings were edited
		return render.Input{}, fmt.Errorf("%w: %w", ErrNoManifest, err)
	}
	in.Cluster.APIServerToken, in.Cluster.BootstrapToken = "token", "token"
	return in, nil
}

// renderManifest renders an input and caches its manifest.
func (r *Reader) renderManifest(digest string, in render.Input) (*manifest.Manifest, error) {
	out, err := r.Engine.Render(in)
	if err != nil {
		return r.manifests.put(digest, nil, ErrNoManifest) // it was valid when it was rendered first
	}
	made, ok, err := render.ManifestOf(&out.OSC)
	switch {
	case err != nil:
		return r.manifests.put(digest, nil, fmt.Errorf("%w: %w", ErrNoManifest, err))
	case !ok:
		if made, err = r.contentOf(in); err != nil {
			return r.manifests.put(digest, nil, ErrNoManifest)
		}
	}
	return r.manifests.put(digest, &made, nil)
}

// contentOf returns the digests of the files that an input puts on a node. Those with credentials or a
// machine's name are wrong: no node has them.
func (r *Reader) contentOf(in render.Input) (manifest.Manifest, error) {
	node, err := r.Engine.RenderNode(in)
	if err != nil {
		return manifest.Manifest{}, fmt.Errorf("rendering the files of a node: %w", err)
	}
	digests := map[string]string{}
	for _, f := range slices.Concat(node.Bootstrap.Files, node.Provisioning.Files) {
		sum := sha256.Sum256([]byte(f.Content))
		digests[path.Clean(f.Path)] = hex.EncodeToString(sum[:])
	}
	var m manifest.Manifest
	for _, at := range slices.Sorted(maps.Keys(digests)) {
		m.Files = append(m.Files, manifest.File{Path: at, Digest: digests[at]})
	}
	return m, nil
}

// OtherVersions returns the versions that a file on a node of a generation can be from, newest
// first: other generations of the pool, and versions of the profile that the pool could have. Those
// that cannot be rendered are left out.
func (r *Reader) OtherVersions(ctx context.Context, pool types.NamespacedName, current *lineage.Generation, timeline lineage.Timeline) ([]drift.Version, error) {
	var out []drift.Version
	seen := map[string]bool{current.InputDigest: true}
	add := func(version, commit string, m *manifest.Manifest, err error) error {
		if err != nil && !errors.Is(err, ErrNoManifest) {
			return err
		}
		if m != nil {
			// Both are from annotations, which users can edit; the API server refuses longer ones.
			out = append(out, drift.Version{
				Version:  redact.Shorten(redact.PrintableLine(version), maxVersionBytes),
				Commit:   redact.Shorten(redact.PrintableLine(commit), maxCommitBytes),
				Manifest: m,
			})
		}
		return nil
	}
	for _, g := range slices.Backward(timeline) {
		if len(seen) > maxVersions {
			break
		}
		if seen[g.InputDigest] {
			continue
		}
		seen[g.InputDigest] = true
		m, err := r.ManifestOf(ctx, pool, &g)
		if err := add(g.Version, g.Commit, m, err); err != nil {
			return nil, err
		}
	}
	in, err := r.inputOf(ctx, pool, current)
	if errors.Is(err, ErrNoManifest) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	available, err := r.availableProfiles(ctx, current.Profile)
	if err != nil {
		return nil, err
	}
	for _, p := range available {
		in.Profile = p
		digest := in.InputDigest()
		if seen[digest] {
			continue
		}
		have, ok := r.manifests.get(digest)
		if !ok {
			have.made, have.err = r.renderManifest(digest, in)
		}
		if err := add(p.Provenance.Version, p.Provenance.Commit, have.made, have.err); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// availableProfiles lists the newest versions of a profile of the controller's namespace.
func (r *Reader) availableProfiles(ctx context.Context, name string) ([]render.Profile, error) {
	var list osm.OperatingSystemProfileList // belongs to the cache: do not modify it
	if err := r.Management.List(ctx, &list, client.InNamespace(r.Namespace), client.MatchingLabels{api.LabelProfile: name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the versions of profile %s: %w", name, err)
	}
	slices.SortFunc(list.Items, func(a, b osm.OperatingSystemProfile) int {
		return cmp.Or(strings.Compare(b.Annotations[api.AnnotationCommittedAt], a.Annotations[api.AnnotationCommittedAt]), strings.Compare(a.Name, b.Name))
	})
	var out []render.Profile
	for _, osp := range list.Items[:min(maxVersions, len(list.Items))] {
		a := osp.Annotations
		out = append(out, render.Profile{
			Spec: osp.Spec, Object: osp.Name, Digest: profile.Digest(osp.Spec), // a user can have edited the annotation
			Provenance: render.Provenance{
				Profile: name, Version: a[api.AnnotationVersion], Repository: a[api.AnnotationRepository], Path: a[api.AnnotationPath],
				Commit: a[api.AnnotationCommit], Change: a[api.AnnotationChange],
			},
		})
	}
	return out, nil
}
