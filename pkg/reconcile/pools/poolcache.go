package pools

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
)

// cachedPool is the state of a pool that is cached from one run to the next, as long as it is a
// pool. The runs of a pool never overlap, so there is one writer, except for deleted, which the
// watch of configurations writes.
type cachedPool struct {
	uid       types.UID // of the MachineDeployment it is about
	races     int       // writes in a row that came too late, and waits for a source
	raced     bool      // the last run wrote what another client changed meanwhile
	reported  string    // what was last reported to be wrong
	suspended bool      // the pool is suspended, and that was reported
	complete  bool      // all of its documents existed
	rejected  *rejectedGeneration
	nodeToken token.Node // the bound one that was last requested
	// bootstrapTokenCreated: a bootstrap token was created, which the cache of Secrets may not have yet.
	bootstrapTokenCreated bool
	lacks                 []string // the objects of profiles that were not there, as desired.Profiles.FormatRef names them
	deleted               deletedConfig
}

// poolCache caches the state of all pools, by "namespace/name". Losing it costs time, and
// never correctness.
type poolCache struct {
	mu sync.Mutex
	of map[string]*cachedPool
}

// get returns a copy of the cached state of a pool. Callers must not modify what it refers to.
func (m *poolCache) get(md *cluster.MachineDeployment) cachedPool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.of[poolKey(md)]; have != nil && have.uid == md.UID {
		return *have
	}
	return cachedPool{}
}

// update changes the cached state of a pool. State of an earlier MachineDeployment of the same
// name is dropped.
func (m *poolCache) update(md *cluster.MachineDeployment, change func(*cachedPool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := poolKey(md)
	have := m.of[key]
	if have == nil || have.uid != md.UID {
		have = &cachedPool{uid: md.UID}
		if m.of == nil {
			m.of = map[string]*cachedPool{}
		}
		m.of[key] = have
	}
	change(have)
}

// forget forgets a pool.
func (m *poolCache) forget(md *cluster.MachineDeployment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, poolKey(md))
}

// poolsLacking returns the pools whose last run lacked an object of a profile.
func (m *poolCache) poolsLacking(object string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for pool, have := range m.of {
		for _, ref := range have.lacks {
			if ref == object {
				out = append(out, pool)
				break
			}
		}
	}
	return out
}

const (
	// rejectedRetry is the time after which a configuration that could not take the place
	// of the one before is tried again; it doubles each time, up to rejectedRetryMax.
	rejectedRetry, rejectedRetryMax = 15 * time.Second, 15 * time.Minute
)

// rejectedGeneration is a generation that cannot replace the present one: the API server rejects its
// configuration, or the name for the record of the present one is taken. The present one is
// maintained meanwhile, as with a profile that cannot be rendered.
type rejectedGeneration struct {
	input     string // digest
	rejection *fault.Rejection
	wait      time.Duration
	until     time.Time
}

// cacheRejection caches that a plan could not be applied, and reports whether the next run maintains
// the existing generation. It does nothing for a pool that has none.
func (m *poolCache) cacheRejection(seen *observed, planned plan, err error, now time.Time) bool {
	var rejection *fault.Rejection
	if !planned.wanted || planned.osc == nil || planned.restoresConfig || seen.objects.bootstrap == nil || !errors.As(err, &rejection) {
		return false
	}
	input := planned.serving.Digests.Input
	m.update(seen.md, func(cached *cachedPool) {
		wait := rejectedRetry
		if cached.rejected != nil && cached.rejected.input == input {
			wait = min(2*cached.rejected.wait, rejectedRetryMax)
		}
		cached.rejected = &rejectedGeneration{input, rejection, wait, now.Add(wait)}
	})
	return true
}

// activeRejection returns why a pool cannot have what it requests now, and when to retry.
func (m *poolCache) activeRejection(seen *observed) (time.Duration, error) {
	w := m.get(seen.md).rejected
	if w == nil || !seen.now.Before(w.until) || w.input != seen.desired.InputDigest() {
		return seen.poll, nil
	}
	return earliestNonZero(seen.poll, w.until.Sub(seen.now)), w.rejection
}

// forgetDeleted drops the record of a deleted configuration after the next one exists.
func (m *poolCache) forgetDeleted(seen *observed) {
	was, osc := m.get(seen.md).deleted, seen.objects.osc
	if was.record != "" && osc != nil && osc.UID != was.uid && lineage.Intact(recordOf(osc)) {
		m.update(seen.md, func(m *cachedPool) { m.deleted = deletedConfig{} })
	}
}
