package nodes

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
)

// Retention limits how long the NodeProvenances of deleted nodes are retained.
type Retention struct {
	// Age is the maximum time since the node was deleted.
	Age time.Duration
	// Max is the maximum number of NodeProvenances. If there are more, the oldest of
	// deleted nodes are deleted first; those of existing nodes always remain.
	Max int
}

// Reconciler maintains NodeProvenances. Its fields are set once, before Setup.
type Reconciler struct {
	// Reader reads both clusters: Management, and Worker, which has the nodes.
	observe.Reader

	// Recorder writes events into the worker cluster.
	Recorder events.EventRecorder
	// Clock is used for the time at which a node was deleted.
	Clock clock.PassiveClock
	// Retention limits the NodeProvenances of deleted nodes.
	Retention Retention
	// AuditLog is the audit log; nil disables it. No object is deleted before the audit
	// log has its entries.
	AuditLog *auditlog.Writer
	// Metrics counts NodeProvenances; nil disables it.
	Metrics *metrics.Metrics

	// handled are the nodes whose changed report was handled, suspected those whose silence was checked
	// against the API server, both in the last minute; silent are those that seemed to report no more: since
	// when.
	handled, suspected, silent *cache.LRUExpireCache

	counts nodeCounts
	pace   flowcontrol.RateLimiter // limits writes that a push causes
}

// Reconcile updates the NodeProvenances of all nodes with one name: the node that has it
// now, and those that had it before.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	seen, observeErr := r.observe(ctx, req.Name)
	todo, err := r.planAndApply(ctx, seen)
	if err == nil && observeErr == nil {
		// Only now, because it can use up the node's turn in this minute: a failed write about an earlier
		// node must not.
		observeErr = r.observeNode(ctx, seen)
		todo, err = r.planAndApply(ctx, seen)
	}
	if err == nil && todo.create != nil {
		// What follows needs the object that exists now: the first one counts, and entries of the audit log
		// have the UID that the API server gave it.
		seen, observeErr = r.observeCreated(ctx, seen, todo.create)
		_, err = r.planAndApply(ctx, seen)
	}
	if err == nil {
		err = observeErr
	}
	return report(seen, err)
}

// planAndApply writes what follows from what was read so far.
func (r *Reconciler) planAndApply(ctx context.Context, seen *observed) (plan, error) {
	todo := newPlan(seen)
	pending, err := r.apply(ctx, seen, todo)
	seen.pending = seen.pending || pending
	return todo, err
}

// report returns when the nodes with one name are handled again. If entries of the audit log
// have to wait, the audit log has reported why.
func report(seen *observed, err error) (ctrl.Result, error) {
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case seen.pending, seen.postponed, seen.match.postponed:
		return ctrl.Result{RequeueAfter: wait.Jitter(later, 1)}, nil
	}
	return ctrl.Result{RequeueAfter: seen.match.next}, seen.match.err
}

// later is the minimum time between two reactions to changing reports of one node,
// and the time until entries that could not be written are retried.
const later = time.Minute

// maxNodes is the maximum number of nodes that a cache has, which is more than a cluster does.
const maxNodes = 1 << 17

// oncePerMinute reports whether a cache does not have a node, and adds it for a minute.
func oncePerMinute(recent *cache.LRUExpireCache, node types.UID) bool {
	if _, recently := recent.Get(node); recently {
		return false
	}
	recent.Add(node, nil, later)
	return true
}

// mayReact reports whether a change of a node's report is handled now: root on a node can change it
// at any rate, and each change would cause a write, an event and an audit log entry.
func (r *Reconciler) mayReact(seen *observed) bool {
	if (seen.match.changed || seen.isReportOrNameChanged()) && !oncePerMinute(r.handled, seen.node.UID) {
		return false
	}
	// One mistake can concern every node.
	return !seen.match.changed || r.pace.TryAccept()
}
