package observe

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
)

// maxCached is the maximum number of entries of a cache; the ones that were used last remain.
const maxCached = 4096

// timelineCache caches the timelines of pools, so that the records of a pool with thousands
// of nodes are read once. The inputs of a timeline show whether it is still valid.
type timelineCache struct {
	mu   sync.Mutex // held while a timeline is made: others of its pool wait for it
	pool *lru.Cache
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
	if t.pool == nil {
		t.pool = lru.New(maxCached)
	}
	v, _ := t.pool.Get(pool)
	if have, ok := v.(remembered); ok && slices.Equal(have.from, from) {
		return have.timeline
	}
	made := lineage.NewTimeline(osc, records)
	t.pool.Add(pool, remembered{from, made})
	return made
}

// configurationCache caches the origin of configurations, by input digest.
type configurationCache struct {
	once sync.Once
	of   *lru.Cache
}

func (c *configurationCache) entries() *lru.Cache {
	c.once.Do(func() { c.of = lru.New(maxCached) })
	return c.of
}

func (c *configurationCache) get(digest string) (api.ProvenanceConfiguration, bool) {
	v, _ := c.entries().Get(digest)
	have, ok := v.(api.ProvenanceConfiguration)
	return have, ok
}

func (c *configurationCache) put(digest string, made api.ProvenanceConfiguration) {
	c.entries().Add(digest, made)
}
