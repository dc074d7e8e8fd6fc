package fleet

import (
	"context"
	"sync"
	"time"

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

	mu      sync.Mutex
	have    *Model
	reading *reading
}

// reading is one read of the cluster, for which several requests can wait.
type reading struct {
	done  chan struct{}
	model *Model
	err   error
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
	r := s.reading
	if r == nil {
		r = &reading{done: make(chan struct{})}
		s.reading = r
		// The first request must not cancel it for the others.
		go s.readModel(context.WithoutCancel(ctx), r, now)
	}
	s.mu.Unlock()
	var patience <-chan time.Time
	showOld := have != nil && now.Sub(have.At) < s.Stale
	if showOld {
		timer := s.Clock.NewTimer(s.Wait)
		defer timer.Stop()
		patience = timer.C()
	}
	select {
	case <-r.done:
		if r.err != nil && showOld {
			return have, nil
		}
		return r.model, r.err
	case <-patience:
		return have, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// readModel reads the objects, builds the model, stores it, and wakes the requests that wait for
// this reading.
func (s *Snapshots) readModel(ctx context.Context, r *reading, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	objects, err := s.Read(ctx)
	// The model takes long to build, so this comes before the lock.
	if err == nil {
		r.model = NewModel(now, objects)
	}
	r.err = err
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.have = r.model
	}
	s.reading = nil
	// Waiting requests read the result after this.
	close(r.done)
}
