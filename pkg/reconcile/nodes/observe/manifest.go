package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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
	// maxManifests is the maximum number of cached manifests, of about 10 KiB; a cache that
	// exceeds it is cleared.
	maxManifests = 512
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
	mu sync.Mutex
	of map[string]cachedManifest
}

// cachedManifest is a manifest, nil for none, or why there is none until a time.
type cachedManifest struct {
	made  *manifest.Manifest
	err   error
	until time.Time
}

func (c *manifestCache) get(digest string) (cachedManifest, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have, ok := c.of[digest]
	return have, ok && (have.err == nil || time.Now().Before(have.until))
}

// put caches a manifest, or the error ErrNoManifest, and returns both.
func (c *manifestCache) put(digest string, made *manifest.Manifest, err error) (*manifest.Manifest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil || len(c.of) >= maxManifests {
		c.of = map[string]cachedManifest{}
	}
	if err == nil || errors.Is(err, ErrNoManifest) {
		c.of[digest] = cachedManifest{made, err, time.Now().Add(manifestRetry)}
	}
	return made, err
}

// ManifestOf returns the manifest of nodes that were provisioned from a generation; nil if its
// profile has none. The error can be ErrNoManifest.
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
	var settings corev1.ConfigMap
	name := types.NamespacedName{Namespace: r.Namespace, Name: lineage.SettingsName(rec.SettingsDigest)}
	if err := r.Management.Live.Get(ctx, name, &settings); apierrors.IsNotFound(err) {
		return render.Input{}, ErrNoManifest
	} else if err != nil {
		return render.Input{}, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	in, err := rec.RebuildInput(osp.Spec, rec.ObjectDigest, []byte(settings.Data[lineage.SettingsKey]))
	if err != nil { // the settings were edited
		return render.Input{}, ErrNoManifest
	}
	// With placeholders, rendering depends only on whether there are tokens.
	in.Cluster.APIServerToken, in.Cluster.BootstrapToken = "-", "-"
	in, _ = in.SplitSecrets()
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
		return r.manifests.put(digest, nil, nil)
	}
	return r.manifests.put(digest, &made, nil)
}

// OtherVersions returns the versions that a file on a node of a generation can be from, newest
// first: other generations of the pool, and versions of the profile that the pool could have. Those
// without a manifest, and those that cannot be rendered, are left out.
func (r *Reader) OtherVersions(ctx context.Context, pool types.NamespacedName, own *lineage.Generation, timeline lineage.Timeline) ([]drift.Version, error) {
	var out []drift.Version
	seen := map[string]bool{own.InputDigest: true}
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
	in, err := r.inputOf(ctx, pool, own)
	if errors.Is(err, ErrNoManifest) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	offered, err := r.offeredProfiles(ctx, own.Profile)
	if err != nil {
		return nil, err
	}
	for _, p := range offered {
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

// offeredProfiles lists the newest versions of a profile of the controller's namespace.
func (r *Reader) offeredProfiles(ctx context.Context, name string) ([]render.Profile, error) {
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
