package source

import (
	"context"
	"sync"
)

// turns bounds what is done at a time by what it costs in memory or on disk. Who waits
// for a server that says nothing takes none. The zero value is ready.
type turns struct {
	once sync.Once
	busy chan struct{} // holds one value for each that is taken
}

// take waits for one of maxTurns. done gives it back.
func (t *turns) take(ctx context.Context) (done func(), err error) {
	t.once.Do(func() { t.busy = make(chan struct{}, maxTurns) })
	select {
	case t.busy <- struct{}{}:
		return func() { <-t.busy }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
