package meter

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"
)

// What renderings take at once is bounded, so that the profiles of one tenant take
// neither the memory of a controller nor the turns of the others. A rendering begins in a
// small room; one that does not fit gives up what it has, waits for one of the few large
// ones, and begins again. What fits never waits for what does not.
const (
	// smallRooms and largeRooms are how many renderings there may be at a time of each
	// kind. A small one takes up to 8 MiB, a large one up to 32 MiB (BenchmarkBudget).
	smallRooms = 8
	largeRooms = 2

	SmallCost   = MaxCost / 10
	SmallMade   = 1 << 20   // 1 MiB
	SmallAction = 16 << 10  // 16 KiB of a profile's actions, see templates.MaxActionBytes
	SmallOutput = 512 << 10 // 512 KiB, of both stages
	SmallMemory = 2 << 20   // 2 MiB, of one call

)

// Rooms are those of an engine. Their zero value is of no use.
type Rooms struct{ small, Large *semaphore.Weighted }

func NewRooms() Rooms {
	return Rooms{small: semaphore.NewWeighted(smallRooms), Large: semaphore.NewWeighted(largeRooms)}
}

// Room is what a rendering may take before it has to begin again with more. A nil one
// has no other limits than every rendering.
type Room struct {
	// outgrown: it did not fit.
	outgrown bool
}

// errOutgrown ends a rendering that begins again. Nobody sees it.
var errOutgrown = errors.New("needs a large room")

func (r *Room) Check(fits bool) error {
	if r == nil || fits {
		return nil
	}
	r.outgrown = true
	return errOutgrown
}

// In calls f with a small room and, if that does not do, with a large one. F must not
// wait for another room.
func (r Rooms) In(f func(*Room)) {
	small := &Room{}
	Within(r.small, func() { f(small) })
	if small.outgrown {
		Within(r.Large, func() { f(nil) })
	}
}

// Within waits for its turn. Those who wait are served in their order.
func Within(s *semaphore.Weighted, f func()) {
	_ = s.Acquire(context.Background(), 1) // fails only with its context
	defer s.Release(1)
	f()
}
