package pools

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
)

// memory is what is remembered of a pool from one run to the next, for as long as it is
// a pool. Its runs come one after the other, so that nobody else writes it; but for taken,
// which the watch of configurations does.
type memory struct {
	uid       types.UID // of the MachineDeployment it is about
	races     int       // writes in a row that came too late
	told      string    // what was last reported to be wrong
	suspended bool      // and that was told
	booted    bool      // all of its documents were there
	withheld  *withheld
	token     token.Node // the bound one that was last asked for
	lacks     []string   // the objects of profiles that were not there, as desired.Profiles.Ref names them
	taken     taken
}

// memories are those of all pools, by "namespace/name".
type memories struct {
	mu sync.Mutex
	of map[string]*memory
}

// recall is what is remembered of a pool. It is nobody's to change.
func (m *memories) recall(md *cluster.MachineDeployment) memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.of[poolKey(md)]; have != nil && have.uid == md.UID {
		return *have
	}
	return memory{}
}

// remember changes what is remembered of a pool. What was about another of its name
// is forgotten.
func (m *memories) remember(md *cluster.MachineDeployment, change func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := poolKey(md)
	have := m.of[key]
	if have == nil || have.uid != md.UID {
		have = &memory{uid: md.UID}
		if m.of == nil {
			m.of = map[string]*memory{}
		}
		m.of[key] = have
	}
	change(have)
}

// forget forgets a pool.
func (m *memories) forget(md *cluster.MachineDeployment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, poolKey(md))
}

// lacking names the pools that an object of a profile was missing for.
func (m *memories) lacking(object string) []string {
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
