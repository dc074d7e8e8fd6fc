package desired

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// maxDigests is the number of cached digests.
const maxDigests = 4096

// SpecDigestCache caches the digests of the specs of profiles, because specs are large. Its zero value is
// empty.
type SpecDigestCache struct {
	once    sync.Once
	digests *lru.Cache
}

// SpecDigest returns the digest of a profile's spec, from the cache if it has that generation of the
// profile.
func (d *SpecDigestCache) SpecDigest(osp *osm.OperatingSystemProfile) string {
	d.once.Do(func() { d.digests = lru.New(maxDigests) })
	of := struct {
		uid        types.UID
		generation int64
	}{osp.UID, osp.Generation}
	if cached, ok := d.digests.Get(of); ok {
		return cached.(string)
	}
	// Two runs can compute that of the same profile, with the same result.
	digest := profile.Digest(osp.Spec)
	d.digests.Add(of, digest)
	return digest
}
