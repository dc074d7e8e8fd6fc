package receiver

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// spacing is the minimum time between two reconciliations of one source that requests
// cause.
const spacing = 2 * time.Second

// debouncer limits requests for reconciliation: the first is sent at once, all others within
// the next spacing are merged into one, which is sent at its end. None is lost.
type debouncer struct {
	// request requests one reconciliation.
	request func(ctx context.Context, source types.NamespacedName) error
	// failed is called for a request that failed and will be retried.
	failed func(err error, source types.NamespacedName)

	mu      sync.Mutex
	stopped bool
	open    map[types.NamespacedName]*pendingRequest
}

// pendingRequest is the time after a request.
type pendingRequest struct {
	again bool // another reconciliation is requested
	timer *time.Timer
}

// requestOrMerge requests a reconciliation, or merges the request with one that is already delayed.
// After an error nothing will be reconciled.
func (l *debouncer) requestOrMerge(ctx context.Context, source types.NamespacedName) error {
	l.mu.Lock()
	if w, ok := l.open[source]; ok && !l.stopped {
		w.again = true
		l.mu.Unlock()
		return nil
	}
	w := &pendingRequest{}
	if !l.stopped {
		if l.open == nil {
			l.open = map[types.NamespacedName]*pendingRequest{}
		}
		l.open[source] = w
	}
	l.mu.Unlock()

	// The lock is free meanwhile, so that other pushes do not wait for the API server.
	err := l.request(ctx, source)

	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped:
	// The sender gets the error and repeats the push.
	case err != nil && !w.again:
		delete(l.open, source)
	default:
		w.again = w.again || err != nil
		w.timer = time.AfterFunc(spacing, func() { l.sendPending(source) })
	}
	return err
}

// sendPending sends the merged request, if there is one.
func (l *debouncer) sendPending(source types.NamespacedName) {
	l.mu.Lock()
	w := l.open[source]
	if w == nil || l.stopped || !w.again {
		delete(l.open, source)
		l.mu.Unlock()
		return
	}
	w.again = false
	l.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	err := l.request(ctx, source)
	if err != nil {
		l.failed(err, source)
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	// A deleted source needs no retry.
	w.again = w.again || err != nil && !apierrors.IsNotFound(err)
	if !l.stopped {
		w.timer.Reset(spacing)
	}
}

// stopAndFlush starts no more timers, and sends every merged request now.
func (l *debouncer) stopAndFlush(ctx context.Context) {
	l.mu.Lock()
	l.stopped = true
	var wanted []types.NamespacedName
	for source, w := range l.open {
		if w.again {
			wanted = append(wanted, source)
		}
	}
	l.mu.Unlock()
	for _, source := range wanted {
		if err := l.request(ctx, source); err != nil {
			l.failed(err, source)
		}
	}
}
