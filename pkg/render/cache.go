package render

import (
	"container/list"
	"sync"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/templates"
)

// An engine keeps this many compiled profiles, and as many bytes of them. One takes a
// few hundred KiB, and a fleet uses a handful of versions at a time.
const (
	maxCompiled      = 128
	maxCompiledBytes = 64 << 20
	// actionMemory is what a byte of an action takes when it is compiled.
	actionMemory = 80
)

// cache keeps the most recently used compiled profiles by digest. Its zero value
// is ready.
type cache struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order list.List // of cacheEntry, the most recently used first
	bytes int       // that they take
}

type cacheEntry struct {
	digest   string
	compiled *compiled
	bytes    int
}

// compiled returns the profile's templates, from the cache if it has a digest.
// Those that take much are compiled few at a time.
func (e *Engine) compiled(p Profile) (c *compiled) {
	if c := e.cache.get(p.Digest); c != nil {
		return c
	}
	actions := templates.ActionBytes(&p.Spec)
	if actions <= meter.SmallAction {
		c = compile(&p.Spec, nil)
	} else {
		meter.Within(e.rooms.Large, func() { c = compile(&p.Spec, nil) })
	}
	// Two goroutines may both compile; the result is the same.
	if p.Digest != "" {
		e.cache.put(p.Digest, c, min(actions, templates.MaxActionBytes)*actionMemory+templates.TextBytes(&p.Spec))
	}
	return c
}

func (c *cache) get(digest string) *compiled {
	if digest == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byKey[digest]
	if el == nil {
		return nil
	}
	c.order.MoveToFront(el)
	return el.Value.(cacheEntry).compiled
}

func (c *cache) put(digest string, compiled *compiled, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[digest] != nil {
		return
	}
	if c.byKey == nil {
		c.byKey = map[string]*list.Element{}
	}
	c.byKey[digest] = c.order.PushFront(cacheEntry{digest, compiled, bytes})
	c.bytes += bytes
	for c.order.Len() > maxCompiled || c.bytes > maxCompiledBytes && c.order.Len() > 1 {
		oldest := c.order.Remove(c.order.Back()).(cacheEntry)
		delete(c.byKey, oldest.digest)
		c.bytes -= oldest.bytes
	}
}
