package pools

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

const (
	// racedRetry is the wait after a write that came too late, for the cache to follow.
	racedRetry = 50 * time.Millisecond
	// racesTold is the number of races in a row after which the pool is told.
	racesTold = 8
	// unlookedRetry is the longest wait for a source to be looked at for the first time.
	unlookedRetry = 2 * time.Second
	// waitRetry is the wait for an object whose appearance nobody watches.
	waitRetry = 30 * time.Second
	// collisionRetry is the wait for an object that is in the way to go.
	collisionRetry = time.Minute
	// tokenPoll is the time between two looks at a token that somebody else keeps.
	tokenPoll = 10 * time.Minute
)

// report is the one place where an outcome becomes an event and a time of the
// next run. What only a change can heal waits for that change; everything else
// backs off.
func (r *Reconciler) report(md *cluster.MachineDeployment, p plan, err error) (ctrl.Result, error) {
	if errors.Is(err, fault.ErrRaced) {
		return ctrl.Result{RequeueAfter: r.lost(md, api.EventWriteRefused, err)}, nil
	}
	if errors.Is(err, desired.ErrSourceNotReconciled) {
		return ctrl.Result{RequeueAfter: min(r.lost(md, api.EventWaiting, err), unlookedRetry)}, nil
	}
	if r.memories.recall(md).races > 0 {
		r.memories.remember(md, func(m *memory) { m.races = 0 })
	}
	now := r.Clock.Now()
	renewal := sooner(sooner(untilRenewal(p.expires, now), wait.Jitter(p.poll, token.Jitter)), until(p.look, now))
	var waiting *fault.Wait
	if errors.As(err, &waiting) {
		r.refused(md, api.EventWaiting, waiting)
		return ctrl.Result{RequeueAfter: wait.Jitter(waitRetry, token.Jitter)}, nil
	}
	if reason, final := fault.Permanent(err); final {
		r.refused(md, reason, err)
		if reason == api.EventNameCollision {
			// The object in the way belongs to nobody we watch for.
			return ctrl.Result{RequeueAfter: wait.Jitter(collisionRetry, token.Jitter)}, nil
		}
		if reason == api.EventWriteRefused {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: renewal}, nil
	}
	if err != nil {
		if fault.RefusedByServer(err) {
			r.refused(md, api.EventWriteRefused, err)
		}
		return ctrl.Result{}, err
	}
	if p.was != nil {
		r.tellDone(md, p)
	}
	if p.unread != nil {
		return ctrl.Result{}, p.unread
	}
	if p.token.Poll {
		renewal = sooner(renewal, wait.Jitter(tokenPoll, token.Jitter))
	}
	return ctrl.Result{RequeueAfter: renewal}, nil
}

// reportUnheld reports what kept a pool from being looked at, and why it did not get
// the finalizer: neither hides the other, and the finalizer is tried again.
func (r *Reconciler) reportUnheld(md *cluster.MachineDeployment, p plan, err, unheld error) (ctrl.Result, error) {
	reason, refused := fault.Permanent(err)
	var waiting *fault.Wait
	if !refused && errors.As(err, &waiting) {
		reason, refused = api.EventWaiting, true
	}
	if !refused || unheld == nil || errors.Is(unheld, fault.ErrRaced) {
		return r.report(md, p, errors.Join(err, unheld))
	}
	r.refused(md, reason, fmt.Errorf("%w; and its finalizer cannot be set: %w", err, unheld))
	return ctrl.Result{}, unheld
}

// lost is the wait after a write that came too late, and for what is about to come:
// longer each time in a row, for what looks like a race may be an object that somebody
// else holds on to. After some time it is told.
func (r *Reconciler) lost(md *cluster.MachineDeployment, reason string, err error) time.Duration {
	times := r.memories.recall(md).races
	r.memories.remember(md, func(m *memory) { m.races++ })
	if times == racesTold {
		r.refused(md, reason, err)
	}
	return min(racedRetry<<min(times, racesTold), waitRetry)
}

// untilRenewal is the time until a token's end has to be moved; 0 is never.
func untilRenewal(expires, now time.Time) time.Duration {
	if expires.IsZero() {
		return 0
	}
	return wait.Jitter(max(expires.Sub(now)-token.RenewBefore, time.Second), token.Jitter)
}

// until is the time until a moment that is jittered already; 0 is never.
func until(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), time.Second)
}

// earliest is the first of some moments, zero being never.
func earliest(moments ...time.Time) time.Time {
	var out time.Time
	for _, t := range moments {
		if out.IsZero() || !t.IsZero() && t.Before(out) {
			out = t
		}
	}
	return out
}

// sooner is the shorter of two waits; 0 is for ever.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// refused reports why a pool does not have what it asks for.
func (r *Reconciler) refused(md *cluster.MachineDeployment, reason string, err error) {
	r.tell(md, reason, err)
	r.Metrics.PoolRefused(client.ObjectKeyFromObject(md), reason)
}

// tell reports what is wrong with a pool, once until it changes.
func (r *Reconciler) tell(md *cluster.MachineDeployment, reason string, err error) {
	message := err.Error()
	if r.memories.recall(md).told == message {
		return
	}
	r.memories.remember(md, func(m *memory) { m.told = message })
	r.event(md, corev1.EventTypeWarning, reason, message)
}

func at(commit string) string {
	if commit == "" {
		return ""
	}
	if _, err := source.ParseCommit(commit); err != nil {
		return " at " + commit // an artifact's revision
	}
	return " at commit " + commit[:12]
}

func (r *Reconciler) event(md *cluster.MachineDeployment, kind, reason, note string) {
	r.Recorder.Eventf(md, nil, kind, reason, "Render", "%s", redact.Shorten(note, redact.MaxEvent))
}
