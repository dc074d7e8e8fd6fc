package render

import (
	"container/list"
	"sync"
)

// maxCompiled is how many compiled profiles an engine keeps. One takes a few
// hundred KiB, and a fleet uses a handful of versions at a time.
const maxCompiled = 128

// cache keeps the most recently used compiled profiles by digest. Its zero value
// is ready.
type cache struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order list.List // of cacheEntry, the most recently used first
}

type cacheEntry struct {
	digest   string
	compiled *compiled
}

// compiled returns the profile's templates, from the cache if it has a digest.
func (e *Engine) compiled(p Profile) *compiled {
	if p.Digest == "" {
		return compile(&p.Spec)
	}
	if c := e.cache.get(p.Digest); c != nil {
		return c
	}
	// Two goroutines may both compile; the result is the same.
	c := compile(&p.Spec)
	e.cache.put(p.Digest, c)
	return c
}

func (c *cache) get(digest string) *compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.byKey[digest]
	if el == nil {
		return nil
	}
	c.order.MoveToFront(el)
	return el.Value.(cacheEntry).compiled
}

func (c *cache) put(digest string, compiled *compiled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey[digest] != nil {
		return
	}
	if c.byKey == nil {
		c.byKey = map[string]*list.Element{}
	}
	c.byKey[digest] = c.order.PushFront(cacheEntry{digest, compiled})
	if c.order.Len() > maxCompiled {
		oldest := c.order.Back()
		delete(c.byKey, c.order.Remove(oldest).(cacheEntry).digest)
	}
}
