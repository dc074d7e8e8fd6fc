package nodes

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
)

// most bounds what a memory holds; beyond it, it forgets all.
const most = 4096

// timelines remembers the timelines of pools, so that a pool of thousands of nodes has
// its records read once. What they were made from tells whether they still hold.
type timelines struct {
	mu   sync.Mutex
	pool map[string]remembered
}

type remembered struct {
	from []string
	timeline
}

func (t *timelines) of(pool string, osc client.Object, records []metav1.PartialObjectMetadata) timeline {
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
	made := newTimeline(osc, records)
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
