package desired

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// maxDigests is the number of cached digests at which the cache is cleared.
const maxDigests = 4096

// DigestCache caches the digests of the specs of profiles, because specs are large. Its zero value is
// empty.
type DigestCache struct {
	mu      sync.Mutex
	digests map[types.UID]specDigest // by the profile's uid
}

type specDigest struct {
	generation int64
	digest     string
}

// SpecDigest returns the digest of a profile's spec, from the cache if it has that generation of the
// profile.
func (d *DigestCache) SpecDigest(osp *osm.OperatingSystemProfile) string {
	d.mu.Lock()
	cached, ok := d.digests[osp.UID]
	d.mu.Unlock()
	if ok && cached.generation == osp.Generation {
		return cached.digest
	}
	// The lock is not held while the digest is computed, because that takes long: two runs can compute
	// that of the same profile, with the same result.
	computed := specDigest{osp.Generation, profile.Digest(osp.Spec)}
	d.mu.Lock()
	defer d.mu.Unlock()
	// A full cache is cleared: the digests of profiles in use are computed again in the next run.
	if d.digests == nil || (!ok && len(d.digests) >= maxDigests) {
		d.digests = map[types.UID]specDigest{}
	}
	d.digests[osp.UID] = computed
	return computed.digest
}
