package pools

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
)

const (
	// racedRetry is the wait after a write that lost a race, in which the cache catches up.
	racedRetry = 50 * time.Millisecond
	// reportAfterRaces is the number of races in a row after which an event reports them.
	reportAfterRaces = 8
	// sourceRetry is the longest wait for the first reconciliation of a source.
	sourceRetry = 2 * time.Second
	// waitRetry is the wait for an object that no watch reports.
	waitRetry = 30 * time.Second
	// collisionRetry is the wait for an object that is in the way to go.
	collisionRetry = time.Minute
	// tokenPoll is the time between two reads of a token that another controller maintains.
	tokenPoll = 10 * time.Minute
)

// raceBackoff is the wait after a write that lost a race, and for objects that appear soon. It
// grows with each race in a row, because an apparent race can be an object that another client
// changes all the time. After reportAfterRaces of them it emits an event.
func (r reporter) raceBackoff(md *cluster.MachineDeployment, reason string, err error) time.Duration {
	times := r.cache.get(md).races
	r.cache.update(md, func(m *cachedPool) { m.races++ })
	if times == reportAfterRaces {
		r.reportRejection(md, reason, err)
	}
	return min(racedRetry<<min(times, reportAfterRaces), waitRetry)
}

// untilRenewal is the time until a token's end has to be moved; 0 is never.
func untilRenewal(expires, now time.Time) time.Duration {
	if expires.IsZero() {
		return 0
	}
	return wait.Jitter(max(expires.Sub(now)-token.RenewBefore, time.Second), token.Jitter)
}

// durationUntil returns the time until a moment that is jittered already; 0 is never.
func durationUntil(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), time.Second)
}

// earliestNonZeroTime is the first of some moments, zero being never.
func earliestNonZeroTime(moments ...time.Time) time.Time {
	var out time.Time
	for _, t := range moments {
		if out.IsZero() || !t.IsZero() && t.Before(out) {
			out = t
		}
	}
	return out
}

// earliestNonZero is the shorter of two waits; 0 is for ever.
func earliestNonZero(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
