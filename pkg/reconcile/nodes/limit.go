package nodes

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxReports is the maximum number of nodes in a reportLimiter, which is then cleared.
	maxReports = 4096
	// later is the minimum time between two reactions to changing reports of one node,
	// and the time until entries that could not be written are retried.
	later = time.Minute
)

// reportLimiter records when the reports of nodes were handled.
type reportLimiter struct {
	mu   sync.Mutex
	last map[types.UID]time.Time
}

// allow reports whether the report of a node can be handled now, and records it.
func (a *reportLimiter) allow(node types.UID, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	// A time in the future is from before the clock was set back.
	if last, ok := a.last[node]; ok && now.Before(last.Add(later)) && !now.Before(last) {
		return false
	}
	// Clearing bounds the memory. Some nodes are then handled earlier once.
	if a.last == nil || len(a.last) >= maxReports {
		a.last = map[types.UID]time.Time{}
	}
	a.last[node] = now
	return true
}
