package fleet

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"
)

// Snapshots reads the cluster on demand, at most once at a time.
type Snapshots struct {
	// Read reads the objects.
	Read func(ctx context.Context) (Objects, error)
	// Clock determines the age of a model.
	Clock clock.Clock
	// A model younger than Fresh is returned immediately. A request with an older one waits for
	// a new model, but no longer than Wait if there is one younger than Stale.
	Fresh, Wait, Stale time.Duration

	reads singleflight.Group // one call, without a key

	mu   sync.Mutex
	have *Model
}

// readTime bounds a read of the cluster.
const readTime = time.Minute

// Get returns a model. It returns an error if there is none that is recent enough.
func (s *Snapshots) Get(ctx context.Context) (*Model, error) {
	s.mu.Lock()
	have, now := s.have, s.Clock.Now()
	if have != nil && now.Sub(have.At) < s.Fresh {
		s.mu.Unlock()
		return have, nil
	}
	// Under the lock: a call that has just stored its model is not followed by another one.
	read := s.reads.DoChan("", func() (any, error) {
		// The first request must not cancel it for the others.
		return s.readModel(context.WithoutCancel(ctx), now)
	})
	s.mu.Unlock()
	var patience <-chan time.Time
	showOld := have != nil && now.Sub(have.At) < s.Stale
	if showOld {
		timer := s.Clock.NewTimer(s.Wait)
		defer timer.Stop()
		patience = timer.C()
	}
	select {
	case result := <-read:
		if result.Err != nil && showOld {
			return have, nil
		}
		return result.Val.(*Model), result.Err
	case <-patience:
		return have, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readModel reads the objects, builds the model and stores it. With an error the model is nil.
func (s *Snapshots) readModel(ctx context.Context, now time.Time) (*Model, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	objects, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	// The model takes long to build, so this comes before the lock.
	model := NewModel(now, objects)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.have = model
	return model, nil
}
