package desired

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
)

// mostDigests bounds the digests that are remembered; beyond it, all are forgotten.
const mostDigests = 4096

// DigestCache are those of the specs of profiles, which are large.
type DigestCache struct {
	mu sync.Mutex
	of map[types.UID]specDigest
}

type specDigest struct {
	generation int64
	digest     string
}

// Of digests a profile once per generation.
func (d *DigestCache) Of(osp *osm.OperatingSystemProfile) string {
	d.mu.Lock()
	have, ok := d.of[osp.UID]
	d.mu.Unlock()
	if ok && have.generation == osp.Generation {
		return have.digest
	}
	// Digesting takes long, so it needs no lock; two runs can digest the same profile.
	made := specDigest{osp.Generation, profile.Digest(osp.Spec)}
	d.mu.Lock()
	defer d.mu.Unlock()
	// A full map is cleared: profiles in use are digested again in the next run.
	if d.of == nil || !ok && len(d.of) >= mostDigests {
		d.of = map[types.UID]specDigest{}
	}
	d.of[osp.UID] = made
	return made.digest
}
