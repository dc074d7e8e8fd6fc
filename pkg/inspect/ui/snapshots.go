package ui

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Snapshots reads the cluster for the requests that need it, and at most once at a time.
type Snapshots struct {
	// Read makes the facts.
	Read func(ctx context.Context) (Objects, error)
	// Clock tells their age.
	Clock clock.Clock
	// Facts younger than Fresh are returned at once. A request for older ones waits for
	// new facts, but no longer than Wait if there are facts younger than Stale.
	Fresh, Wait, Stale time.Duration

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
		return r.facts, r.err
	case <-patience:
		return have, nil
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
