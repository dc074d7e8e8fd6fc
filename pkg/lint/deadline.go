package lint

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// DefaultFileTime is how long a file with profiles may be checked. Those that we ship
// take a few seconds, with shellcheck.
const DefaultFileTime = 2 * time.Minute

// stopwatch measures what checking a file takes, all goroutines together. A nil one has
// no end.
type stopwatch struct {
	path  string
	limit time.Duration

	mu    sync.Mutex
	spent time.Duration
	// skipped is what was not done for want of time, by what it is.
	skipped map[string]int
}

// left is how long the file may still be checked.
func (w *stopwatch) left() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.limit - w.spent
}

// do calls f with a context that ends when the file's time does, and reports whether
// that was early enough. What goes on longer is left to itself, so f must write nothing
// that others read: take tells when its result may be taken.
func (w *stopwatch) do(ctx context.Context, what string, f func(ctx context.Context) (take func())) {
	if w == nil {
		f(ctx)()
		return
	}
	left := w.left()
	if left <= 0 {
		w.skip(what, 0)
		return
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	done := make(chan func(), 1)
	go func() { done <- f(ctx) }()
	select {
	case take := <-done:
		if ctx.Err() == nil {
			take()
			w.skip("", time.Since(begin))
			return
		}
	case <-ctx.Done():
	}
	w.skip(what, time.Since(begin))
}

// skip notes what was not done, and what trying took.
func (w *stopwatch) skip(what string, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spent += took
	if what != "" {
		if w.skipped == nil {
			w.skipped = map[string]int{}
		}
		w.skipped[what]++
	}
}

// What may not be done in time.
const (
	skippedProfile   = "profiles not compiled"
	skippedRendering = "combinations of pools and settings not rendered"
	skippedText      = "texts not read"
	skippedCheck     = "checks of the profile not made"
)

// complete reports whether everything was done.
func (w *stopwatch) complete() bool {
	if w == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.skipped) == 0
}

// findings say what was not done.
func (w *stopwatch) findings() []Finding {
	if w.complete() {
		return nil
	}
	message := fmt.Sprintf("the file was not checked completely: it took longer than %v, with", w.limit)
	for _, what := range []string{skippedProfile, skippedCheck, skippedRendering, skippedText} {
		if n := w.skipped[what]; n > 0 {
			message += fmt.Sprintf(" %d %s,", n, what)
		}
	}
	return []Finding{{Rule: RuleIncomplete, Severity: SeverityError, Path: w.path, Message: message[:len(message)-1],
		Fix: "make its templates do less, split it, or give it more time with --file-timeout"}}
}
