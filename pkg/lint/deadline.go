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

// timeBudget measures the time spent on one file, summed over all goroutines, and limits it. A nil
// timeBudget sets no limit.
type timeBudget struct {
	path  string
	limit time.Duration

	mu    sync.Mutex
	spent time.Duration
	// skipped counts the work that was not done in time, by its description.
	skipped map[string]int
}

// remainingTime returns the remaining time for the file.
func (w *timeBudget) remainingTime() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.limit - w.spent
}

// runWithinLimit calls f with a context that ends with the time for the file. A late call continues
// in the background, so f must not write shared data: it returns take, which stores the result, and
// which is called only if f finished in time.
func (w *timeBudget) runWithinLimit(ctx context.Context, what string, f func(ctx context.Context) (take func())) {
	if w == nil {
		f(ctx)()
		return
	}
	left := w.remainingTime()
	if left <= 0 {
		w.recordSpentAndSkipped(what, 0)
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
			w.recordSpentAndSkipped("", time.Since(begin))
			return
		}
	case <-ctx.Done():
	}
	w.recordSpentAndSkipped(what, time.Since(begin))
}

// recordSpentAndSkipped records work that was not done, and the time spent on the attempt.
func (w *timeBudget) recordSpentAndSkipped(what string, took time.Duration) {
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

// isComplete reports whether everything was done.
func (w *timeBudget) isComplete() bool {
	if w == nil {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.skipped) == 0
}

// incompleteFindings returns findings about what was not checked in time.
func (w *timeBudget) incompleteFindings() []Finding {
	if w.isComplete() {
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
