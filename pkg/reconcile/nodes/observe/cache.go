package observe

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// maxCached is the maximum number of entries; a cache that exceeds it is cleared.
const maxCached = 4096

// timelineCache caches the timelines of pools, so that the records of a pool with thousands
// of nodes are read once. The inputs of a timeline show whether it is still valid.
type timelineCache struct {
	mu   sync.Mutex
	pool map[string]remembered
}

type remembered struct {
	from     []string
	timeline lineage.Timeline
}

func (t *timelineCache) getOrBuild(pool string, osc client.Object, records []metav1.PartialObjectMetadata) lineage.Timeline {
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
	if t.pool == nil || len(t.pool) >= maxCached {
		t.pool = map[string]remembered{}
	}
	made := lineage.NewTimeline(osc, records)
	t.pool[pool] = remembered{from, made}
	return made
}

// configurationCache caches the origin of configurations, by input digest.
type configurationCache struct {
	mu sync.Mutex
	of map[string]api.ProvenanceConfiguration
}

func (c *configurationCache) get(digest string) (api.ProvenanceConfiguration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	have, ok := c.of[digest]
	return have, ok
}

func (c *configurationCache) put(digest string, made api.ProvenanceConfiguration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil || len(c.of) >= maxCached {
		c.of = map[string]api.ProvenanceConfiguration{}
	}
	c.of[digest] = made
}
