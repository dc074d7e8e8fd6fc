package source

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// turns bounds what is done at a time by what it costs in memory or on disk. Who waits
// for a server that says nothing takes none. The zero value is ready.
type turns struct {
	once sync.Once
	free *semaphore.Weighted
}

// take waits for one of maxTurns. done gives it back.
func (t *turns) take(ctx context.Context) (done func(), err error) {
	t.once.Do(func() { t.free = semaphore.NewWeighted(maxTurns) })
	if err := t.free.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { t.free.Release(1) }, nil
}
