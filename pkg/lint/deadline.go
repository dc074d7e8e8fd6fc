package lint

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// DefaultFileTime limits the time to check one file with profiles. The built-in profiles
// take a few seconds, with shellcheck.
const DefaultFileTime = 2 * time.Minute

// stopwatch measures the time spent on one file, summed over all goroutines. A nil
// stopwatch sets no limit.
type stopwatch struct {
	path  string
	limit time.Duration

	mu    sync.Mutex
	spent time.Duration
	// skipped counts the work that was not done in time, by its description.
	skipped map[string]int
}

// left returns the remaining time for the file.
func (w *stopwatch) left() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.limit - w.spent
}

// run calls f with a context that ends with the time for the file. A call that does not return
// in time continues in the background, so f must not write shared data: it returns take, which
// stores the result, and which do calls only if f finished in time.
func (w *stopwatch) run(ctx context.Context, what string, f func(ctx context.Context) (take func())) {
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
	// With the buffer, a late call can end although its result is not received.
	done := make(chan func(), 1)
	go func() { done <- f(ctx) }()
	select {
	case take := <-done:
		// A result that arrives after the end can be incomplete.
		if ctx.Err() == nil {
			take()
			w.skip("", time.Since(begin))
			return
		}
	case <-ctx.Done():
	}
	w.skip(what, time.Since(begin))
}

// skip records work that was not done, and the time spent on the attempt.
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

// Descriptions of work that can be skipped.
const (
	skippedProfile   = "profiles not compiled"
	skippedRendering = "combinations of pools and settings not rendered"
	skippedText      = "texts not read"
	skippedTexts     = "checks of all texts not completed"
	skippedCheck     = "checks of the profile not run"
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
	for _, what := range []string{skippedProfile, skippedCheck, skippedRendering, skippedText, skippedTexts} {
		if n := w.skipped[what]; n > 0 {
			message += fmt.Sprintf(" %d %s,", n, what)
		}
	}
	return []Finding{{Rule: RuleIncomplete, Severity: SeverityError, Path: w.path, Message: message[:len(message)-1],
		Fix: "simplify its templates, split it, or allow more time with --file-timeout"}}
}
