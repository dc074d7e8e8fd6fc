package source

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// memoryLimiter bounds the number of concurrent operations that take much memory or disk space. A
// fetch that waits for a server's references does not count. The zero value is ready to use.
type memoryLimiter struct {
	once sync.Once
	free *semaphore.Weighted
}

// acquire waits for one of maxConcurrent. The caller calls done to release it.
func (t *memoryLimiter) acquire(ctx context.Context) (done func(), err error) {
	t.once.Do(func() { t.free = semaphore.NewWeighted(maxConcurrent) })
	if err := t.free.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { t.free.Release(1) }, nil
}
