package page

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Snapshots reads the cluster when somebody looks, and not more often than need be.
type Snapshots struct {
	// Read makes the facts.
	Read func(ctx context.Context) (Objects, error)
	// Clock tells their age.
	Clock clock.PassiveClock
	// Fresh is how old facts may be to be shown as they are. Up to Stale they are shown
	// too, while they are read again for whoever comes next.
	Fresh, Stale time.Duration

	mu      sync.Mutex
	have    *Facts
	reading *reading
}

// reading is one look at the cluster, which many may wait for.
type reading struct {
	done  chan struct{}
	facts *Facts
	err   error
}

// readTime bounds a look at the cluster.
const readTime = time.Minute

// Get returns facts. An error means that there are none that are not too old.
func (s *Snapshots) Get(ctx context.Context) (*Facts, error) {
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
		// Not the context of who asked first: others wait for it too.
		go s.read(context.WithoutCancel(ctx), r, now)
	}
	s.mu.Unlock()
	if have != nil && now.Sub(have.At) < s.Stale {
		return have, nil
	}
	select {
	case <-r.done:
		return r.facts, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Snapshots) read(ctx context.Context, r *reading, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	objects, err := s.Read(ctx)
	if err == nil {
		r.facts = NewFacts(now, objects)
		r.facts.objects = objects
	}
	r.err = err
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.have = r.facts
	}
	s.reading = nil
	close(r.done)
}
