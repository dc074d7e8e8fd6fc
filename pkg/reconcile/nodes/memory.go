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
	// most is the maximum number of entries; a cache that exceeds it is cleared.
	most = 4096
	// later is the minimum time between two reactions to changing reports of one node,
	// and the time until entries that could not be written are retried.
	later = time.Minute
)

// reportLimiter records when the reports of nodes were handled.
type reportLimiter struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// allow reports whether the report of a node can be handled now, and records it.
func (a *reportLimiter) allow(node types.UID, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	// A time in the future is from before the clock was set back.
	if last, ok := a.last[node]; ok && now.Before(last.Add(later)) && !now.Before(last) {
		return false
	}
	// Clearing bounds the memory. Some nodes are then handled earlier once.
	if a.last == nil || len(a.last) >= most {
		a.last = map[types.UID]time.Time{}
	}
	a.last[node] = now
	return true
}

// timelines caches the timelines of pools, so that the records of a pool with thousands
// of nodes are read once. The inputs of a timeline show whether it is still valid.
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
	// Lists of the cache have no order.
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

// configurations caches the origin of configurations, by input digest.
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
