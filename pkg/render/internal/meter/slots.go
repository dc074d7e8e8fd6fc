package meter

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"
)

// Concurrent renderings are limited, so that the profiles of one tenant use up neither the
// memory of a controller nor the share of the others. A rendering begins with a small slot. If it
// does not fit, it discards its results, waits for one of the few large slots, and begins
// again. Renderings that fit never wait for those that do not.
const (
	// smallSlots and largeSlots are the number of concurrent renderings of each kind. A small
	// one allocates up to 8 MiB, a large one up to 32 MiB (BenchmarkBudget).
	smallSlots = 8
	largeSlots = 2

	SmallCost   = MaxCost / 10
	SmallMade   = 1 << 20   // 1 MiB
	SmallAction = 16 << 10  // 16 KiB of a profile's actions, see actions.MaxBytes
	SmallOutput = 512 << 10 // 512 KiB, of both stages
	SmallMemory = 2 << 20   // 2 MiB, of one call

)

// MemorySlots are those of an engine. The zero value is not usable.
type MemorySlots struct{ small, Large *semaphore.Weighted }

func NewMemorySlots() MemorySlots {
	return MemorySlots{small: semaphore.NewWeighted(smallSlots), Large: semaphore.NewWeighted(largeSlots)}
}

// Memory limits a rendering, which has to begin again with more if it exceeds the limit. A nil
// Memory adds no limits to those of every rendering.
type Memory struct {
	// outgrown: it did not fit.
	outgrown bool
}

// errOutgrown ends a rendering that begins again with a large slot. No caller gets it.
var errOutgrown = errors.New("needs a large slot")

// RequireFit returns an error if a rendering does not fit into a small slot. RunSmallThenLarge then
// repeats it in a large one.
func (r *Memory) RequireFit(fits bool) error {
	if r == nil || fits {
		return nil
	}
	r.outgrown = true
	return errOutgrown
}

// RunSmallThenLarge calls f in a small slot and, if that is not enough, again in a large one. f
// must not wait for another slot.
func (r MemorySlots) RunSmallThenLarge(f func(*Memory)) {
	small := &Memory{}
	RunWithSlot(r.small, func() { f(small) })
	if small.outgrown {
		RunWithSlot(r.Large, func() { f(nil) })
	}
}

// RunWithSlot calls f when s has a free slot. Waiting callers are served in order.
func RunWithSlot(s *semaphore.Weighted, f func()) {
	_ = s.Acquire(context.Background(), 1) // fails only with its context
	defer s.Release(1)
	f()
}
