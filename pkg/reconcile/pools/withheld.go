package pools

import (
	"errors"
	"time"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
)

const (
	// withheldRetry is the time after which a configuration that could not take the place
	// of the one before is tried again; it doubles each time, up to withheldPause.
	withheldRetry, withheldPause = 15 * time.Second, 15 * time.Minute
)

// withheld is a generation that cannot take the place of the one that stands: the API
// server refuses its configuration, or the record of the one before has no name. What
// stands is maintained meanwhile, as with a profile that cannot be rendered.
type withheld struct {
	input   string // digest
	refusal *fault.Refusal
	wait    time.Duration
	until   time.Time
}

// withhold remembers that a plan could not be applied, and reports whether the next run
// keeps what stands. A pool that has nothing to keep is not among those.
func (r *Reconciler) withhold(s step, err error) bool {
	var refusal *fault.Refusal
	if !s.todo.wanted || s.todo.osc == nil || s.todo.sameAgain || s.seen.objects.bootstrap == nil || !errors.As(err, &refusal) {
		return false
	}
	input := s.todo.serving.Digests.Input
	r.memories.remember(s.seen.md, func(m *memory) {
		wait := withheldRetry
		if m.withheld != nil && m.withheld.input == input {
			wait = min(2*m.withheld.wait, withheldPause)
		}
		m.withheld = &withheld{input, refusal, wait, r.Clock.Now().Add(wait)}
	})
	return true
}

// withheld says why a pool cannot have what it asks for now, and when to look again.
func (r *Reconciler) withheld(seen *observed) (time.Duration, error) {
	w := r.memories.recall(seen.md).withheld
	if w == nil || !seen.now.Before(w.until) || w.input != seen.desired.InputDigest() {
		return seen.poll, nil
	}
	return sooner(seen.poll, w.until.Sub(seen.now)), w.refusal
}
