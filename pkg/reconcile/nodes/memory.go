package nodes

import (
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

const (
	// most bounds what a memory holds; beyond it, it forgets all.
	most = 4096
	// later is the least time between two answers to one node that changes what it says,
	// and the wait before facts are tried again that could not be written.
	later = time.Minute
)

// answers remembers when nodes were answered to.
type answers struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// allow reports whether a node may be answered to now, and notes that it is.
func (a *answers) allow(node types.UID, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, ok := a.last[node]; ok && now.Before(last.Add(later)) && !now.Before(last) {
		return false
	}
	if a.last == nil || len(a.last) >= most {
		a.last = map[types.UID]time.Time{}
	}
	a.last[node] = now
	return true
}

// timelines remembers the timelines of pools, so that a pool of thousands of nodes has
// its records read once. What they were made from tells whether they still hold.
type timelines struct {
	mu   sync.Mutex
	pool map[string]remembered
}

type remembered struct {
	from     []string
	timeline lineage.Timeline
}

func (t *timelines) of(pool string, osc client.Object, records []metav1.PartialObjectMetadata) lineage.Timeline {
	var from []string
	if osc != nil {
		from = append(from, string(osc.GetUID()), osc.GetResourceVersion())
	}
	for i := range records {
		from = append(from, string(records[i].UID)+records[i].ResourceVersion)
	}
	slices.Sort(from)
	t.mu.Lock()
	defer t.mu.Unlock()
	if have, ok := t.pool[pool]; ok && slices.Equal(have.from, from) {
		return have.timeline
	}
	if t.pool == nil || len(t.pool) >= most {
		t.pool = map[string]remembered{}
	}
	made := lineage.NewTimeline(osc, records)
	t.pool[pool] = remembered{from, made}
	return made
}

// configurations remembers where configurations come from, by input digest.
type configurations struct {
	mu sync.Mutex
	of map[string]api.ProvenanceConfiguration
}

func (c *configurations) get(digest string) (api.ProvenanceConfiguration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have, ok := c.of[digest]
	return have, ok
}

func (c *configurations) put(digest string, made api.ProvenanceConfiguration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil || len(c.of) >= most {
		c.of = map[string]api.ProvenanceConfiguration{}
	}
	c.of[digest] = made
}
