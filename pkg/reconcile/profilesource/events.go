package profilesource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/fetcher"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/commitstatus"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/approval"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/inventory"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

const (
	// intervalJitter spreads the reconciliations of many sources, as a share of the interval.
	intervalJitter = 0.1
	// racedRetry is the delay after a conflicting write, in which the cache catches up.
	racedRetry = 50 * time.Millisecond
	// maxNamed limits the rejected items that a condition names, and the events about them.
	maxNamed = 20
)

// outcome is the result of one reconciliation of a source.
type outcome struct {
	revision               string             // the revision that was read
	from                   string             // its repository
	approval               approval.Result    // why it can be applied
	requestedAt            time.Time          // when the server was asked; zero without a server
	entries                []api.ProfileEntry // the new inventory
	created                []catalog.Version  // versions that became objects
	restored               []string           // objects that others had changed
	rejected               []error            // what was not applied from the revision
	slow                   string             // why edits are noticed with a delay
	webhookWithoutReceiver bool               // the spec has a webhook, but the controller does not listen for pushes
	conflicts              []string           // messages about others that apply a profile of this source
}

// outcome returns what is known of a revision that may not have been approved, nothing if none was read.
func (o observed) outcome() outcome {
	if o.Snapshot == nil {
		return outcome{}
	}
	return outcome{revision: o.Snapshot.Revision, from: o.Snapshot.Repository, approval: o.Approval}
}

// newOutcome returns the outcome of a revision that was approved. Rejected files are part of it and
// not an error.
func (r *Reconciler) newOutcome(seen observed, want inventory.Plan, did applied, entries []api.ProfileEntry, conflicts []string) outcome {
	out := seen.outcome()
	out.requestedAt = seen.Snapshot.RequestedAt
	out.entries = entries
	out.created = did.created
	out.restored = did.restored
	out.rejected = slices.Concat(want.Rejected, did.rejected)
	out.slow = seen.slow
	out.webhookWithoutReceiver = seen.Source.Spec.Webhook != nil && !r.Hooks
	out.conflicts = conflicts
	return out
}

// report is the only place that turns an outcome into conditions, events and the time of
// the next reconciliation. It writes the status once, and only if it changed.
func (r *Reconciler) report(ctx context.Context, ps *api.ProfileSource, out outcome, err error) (ctrl.Result, error) {
	if err != nil && ctx.Err() != nil {
		return ctrl.Result{}, err // the controller is stopping
	}
	before := ps.DeepCopy()
	next := ps.Spec.Interval.Duration
	if err != nil {
		v := classify(err)
		setFailed(ps, v, err.Error())
		if findCommitError(err) != nil {
			ps.Status.HeldRevision = out.revision
		}
		if !v.final {
			next = r.retryDelay(ps, v)
		}
	} else {
		setOutcome(ps, out)
	}
	setVerified(ps, out.approval, err)
	apimeta.RemoveStatusCondition(&ps.Status.Conditions, api.ObservedCondition) // only a controller with --observe sets it
	if token, ok := meta.ReconcileAnnotationValue(ps.Annotations); ok {
		ps.Status.SetLastHandledReconcileRequest(token)
	}
	// Without another change, write LastLook only once per LastLookWriteInterval, to save writes.
	last, now := ps.Status.LastLook, r.now()
	if last == nil || now.Sub(last.Time) >= ps.LastLookWriteInterval() || last.After(now) || !equality.Semantic.DeepEqual(before.Status, ps.Status) {
		ps.Status.LastLook = &metav1.Time{Time: now.Truncate(time.Second)}
	}
	r.emitCreatedAndRestored(ps, out)         // now, because a later run does not create the object again
	r.recordAuditEvents(before, ps, out, err) // before the status is written, which removes the difference
	// Without the new status, the next run would emit the same events again.
	if result, done, err := r.writeStatus(ctx, before, ps); !done {
		return result, err
	}
	r.exportMetrics(ps)
	r.emitChanges(before, ps, out, err)
	if rejected := findCommitError(err); r.Statuses != nil && (err == nil || rejected != nil) {
		r.Statuses.EnqueueReconciliation(commitstatus.Reconciliation{Source: ps, Revision: out.revision, Changed: inventory.ChangesOf(before, ps).Current, Problems: out.rejected, Rejected: rejected})
	}
	if spec, ok := errors.AsType[*fetcher.SpecError](err); ok && spec.Reason != api.ReasonAccessDenied {
		return ctrl.Result{}, nil // a change of the spec triggers the next run
	}
	// Zero would mean never.
	if next <= 0 {
		next = time.Minute
	}
	return ctrl.Result{RequeueAfter: untilNext(wait.Jitter(next, intervalJitter), out.requestedAt)}, nil
}

// untilNext counts an interval from the time of the request to the server. A source that shared
// the response of another one thus does not rely on it for longer than its own interval.
func untilNext(interval time.Duration, requestedAt time.Time) time.Duration {
	if requestedAt.IsZero() {
		return interval
	}
	return max(interval-time.Since(requestedAt), time.Second)
}

// writeStatus writes a changed status. If done is false, report must stop: the write
// conflicted and the reconciliation is repeated, the write failed, or the source is deleted.
func (r *Reconciler) writeStatus(ctx context.Context, before, ps *api.ProfileSource) (result ctrl.Result, done bool, err error) {
	ps.Summarize()
	if equality.Semantic.DeepEqual(before.Status, ps.Status) {
		return ctrl.Result{}, true, nil
	}
	// Lock on the version that was read: a stale cache would set times to earlier values.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err = r.Client.Status().Patch(ctx, ps, patch, client.FieldOwner(api.FieldManager))
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: racedRetry}, false, nil
	}
	return ctrl.Result{}, err == nil, client.IgnoreNotFound(err)
}

// suspendedPrefix begins the message of the Ready condition of a suspended source.
const suspendedPrefix = "suspended; "

// reportSuspended adds to the message of the Ready condition that the source is suspended,
// because kubectl get shows that message. Status and reason remain those of the last
// reconciliation. It removes Reconciling: a suspended source is not retried, and a client
// that waits for the condition to end would wait forever.
func (r *Reconciler) reportSuspended(ctx context.Context, ps *api.ProfileSource) (ctrl.Result, error) {
	before := ps.DeepCopy()
	ps.Status.ObservedGeneration = ps.Generation
	apimeta.RemoveStatusCondition(&ps.Status.Conditions, meta.ReconcilingCondition)
	ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition)
	switch {
	case ready == nil:
		setCondition(ps, meta.ReadyCondition, metav1.ConditionUnknown, meta.SuspendedReason, suspendedPrefix+"never reconciled")
	case ready.Reason == meta.SuspendedReason || strings.HasPrefix(ready.Message, suspendedPrefix):
		setCondition(ps, meta.ReadyCondition, ready.Status, ready.Reason, ready.Message)
	case ready.Status == metav1.ConditionTrue:
		setCondition(ps, meta.ReadyCondition, ready.Status, ready.Reason, suspendedPrefix+"last "+ready.Message)
	default:
		setCondition(ps, meta.ReadyCondition, ready.Status, ready.Reason, suspendedPrefix+"last result: "+ready.Message)
	}
	if result, done, err := r.writeStatus(ctx, before, ps); !done {
		return result, err
	}
	r.exportMetrics(ps)
	return ctrl.Result{}, nil
}

// retryDelay returns the delay after a failure that can pass without a change. For an
// unreachable host it equals the duration of the outage so far, so that it doubles from
// retryInterval up to the interval. The start of the outage is in the status: a restart
// during an outage does not begin again with short delays.
func (r *Reconciler) retryDelay(ps *api.ProfileSource, v failureClass) time.Duration {
	first := ps.Spec.RetryInterval.Duration
	since := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReconcilingCondition)
	if v.reason != api.ReasonUnreachable || since == nil {
		return first
	}
	away := r.now().Sub(since.LastTransitionTime.Time)
	return max(first, min(away, ps.Spec.Interval.Duration))
}

// setFailed reports that the source could not be read. Applied profiles are unchanged.
func setFailed(ps *api.ProfileSource, v failureClass, message string) {
	setCondition(ps, meta.ReadyCondition, metav1.ConditionFalse, v.reason, message)
	if v.final {
		apimeta.RemoveStatusCondition(&ps.Status.Conditions, meta.ReconcilingCondition)
		setCondition(ps, meta.StalledCondition, metav1.ConditionTrue, v.reason, message)
		// A failure that is retried has not observed the generation yet.
		ps.Status.ObservedGeneration = ps.Generation
		return
	}
	apimeta.RemoveStatusCondition(&ps.Status.Conditions, meta.StalledCondition)
	setCondition(ps, meta.ReconcilingCondition, metav1.ConditionTrue, meta.ProgressingWithRetryReason, message)
}

// setOutcome reports what was applied. Rejected files stall the source, because only
// another commit fixes them; the source is still polled.
func setOutcome(ps *api.ProfileSource, out outcome) {
	ps.Status.LastAttemptedRevision, ps.Status.HeldRevision = out.revision, ""
	ps.Status.Repository = out.from
	if out.approval.Rewrite != nil {
		ps.Status.LastRewrite = out.approval.Rewrite
	}
	ps.Status.Profiles = out.entries
	ps.Status.ObservedGeneration = ps.Generation
	apimeta.RemoveStatusCondition(&ps.Status.Conditions, meta.ReconcilingCondition)
	if len(out.rejected) > 0 {
		message := rejectedMessage(out) + rewriteMessage(ps) + out.webhookWarning() + out.conflictMessage()
		setCondition(ps, meta.ReadyCondition, metav1.ConditionFalse, api.ReasonProfilesInvalid, message)
		setCondition(ps, meta.StalledCondition, metav1.ConditionTrue, api.ReasonProfilesInvalid, message)
		return
	}
	ps.Status.Revision = out.revision
	apimeta.RemoveStatusCondition(&ps.Status.Conditions, meta.StalledCondition)
	setCondition(ps, meta.ReadyCondition, metav1.ConditionTrue, meta.SucceededReason, appliedMessage(out)+rewriteMessage(ps)+out.webhookWarning()+out.conflictMessage())
}

// webhookWarning returns the warning that a configured webhook has no effect, "" if it has.
func (o outcome) webhookWarning() string {
	if !o.webhookWithoutReceiver {
		return ""
	}
	return "; spec.webhook is set, but the controller does not listen for pushes and reads the repository every spec.interval only: start it with --hooks-address"
}

// rewriteMessage repeats a force-push in the Ready condition until the next commit.
func rewriteMessage(ps *api.ProfileSource) string {
	if last := ps.Status.LastRewrite; last != nil && last.To == ps.Status.LastAttemptedRevision {
		return "; " + approval.DescribeRewrite(*last)
	}
	return ""
}

// setVerified reports whether the current revision has the required signatures. If that
// could not be checked, the last result remains, because nothing was applied since.
func setVerified(ps *api.ProfileSource, a approval.Result, err error) {
	var unverified *approval.UnverifiedError
	switch git := ps.Spec.Git; {
	case git == nil || git.Verify == nil:
		apimeta.RemoveStatusCondition(&ps.Status.Conditions, api.SourceVerifiedCondition)
	case errors.As(err, &unverified):
		setCondition(ps, api.SourceVerifiedCondition, metav1.ConditionFalse, unverified.Reason, err.Error())
	case a.Required():
		setCondition(ps, api.SourceVerifiedCondition, metav1.ConditionTrue, meta.SucceededReason, a.DescribeSignatures())
	}
}

func setCondition(ps *api.ProfileSource, kind string, status metav1.ConditionStatus, reason, message string) {
	apimeta.SetStatusCondition(&ps.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: redact.Shorten(redact.RemoveControlChars(message), redact.MaxCondition),
		ObservedGeneration: ps.Generation,
	})
}

func appliedMessage(out outcome) string {
	removed := 0
	for _, e := range out.entries {
		if e.Removed {
			removed++
		}
	}
	s := fmt.Sprintf("applied %s: %s", out.revision, phrase.Count(len(out.entries)-removed, "profile"))
	if removed > 0 {
		s += fmt.Sprintf(", %s no longer in the source", phrase.Count(removed, "profile"))
	}
	if out.slow != "" {
		s += "; edits are detected only every 10 seconds: " + out.slow
	}
	return s
}

func rejectedMessage(out outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s (the rest is applied, earlier versions remain current):", phrase.Count(len(out.rejected), "problem"), out.revision)
	for i, err := range out.rejected {
		if i == maxNamed {
			fmt.Fprintf(&b, "\nand %d more", len(out.rejected)-maxNamed)
			break
		}
		b.WriteString("\n- ")
		b.WriteString(err.Error())
	}
	return b.String()
}

// emitCreatedAndRestored sends an event for each version that became an object, and for each object that
// was restored.
func (r *Reconciler) emitCreatedAndRestored(ps *api.ProfileSource, out outcome) {
	for _, v := range out.created {
		from := v.Path
		if v.Commit != "" {
			from += " at commit " + string(v.Commit)
		}
		notify.EmitSourceEvent(r.Recorder, ps, corev1.EventTypeNormal, api.EventProfileCreated, "profile %q %s is in the cluster, from %s", v.Name, v.Version, from)
	}
	for _, what := range out.restored {
		notify.EmitSourceEvent(r.Recorder, ps, corev1.EventTypeWarning, api.EventProfileRestored, "%s", what)
	}
}

// emitChanges emits the other events. An event about the same cause is not repeated.
func (r *Reconciler) emitChanges(before, ps *api.ProfileSource, out outcome, err error) {
	if err != nil {
		if isReadyReasonOrMessageChanged(before, ps) {
			notify.EmitSourceEvent(r.Recorder, ps, corev1.EventTypeWarning, eventReason(err), "%v", err)
			if rewrite := out.approval.Rewrite; rewrite != nil && eventReason(err) != api.EventHistoryRewritten {
				notify.EmitSourceEvent(r.Recorder, ps, corev1.EventTypeWarning, api.EventHistoryRewritten, "%s; nothing of it is applied", approval.DescribeRewrite(*rewrite))
			}
		}
		return
	}
	if last := ps.Status.LastRewrite; last != nil && !equality.Semantic.DeepEqual(before.Status.LastRewrite, last) {
		notify.EmitSourceEvent(r.Recorder, ps, corev1.EventTypeWarning, api.EventHistoryRewritten, "%s; it is followed, as spec.git.onRewrite or the annotation %s says", approval.DescribeRewrite(*last), api.AnnotationAcceptRewrite)
	}
	if len(out.rejected) > 0 && isReadyReasonOrMessageChanged(before, ps) {
		for _, rejection := range out.rejected[:min(len(out.rejected), maxNamed)] {
			reason := api.EventProfileRefused
			if conflict, ok := errors.AsType[*objects.ConflictError](rejection); ok && conflict.TwoAppliers {
				reason = api.EventTwoAppliers
			}
			notify.EmitSourceEvent(r.Recorder, ps, corev1.EventTypeWarning, reason, "%v", rejection)
		}
	}
	for _, message := range out.conflicts {
		// The message contains the conflicts that were reported before.
		if was := apimeta.FindStatusCondition(before.Status.Conditions, meta.ReadyCondition); was == nil || !strings.Contains(was.Message, message) {
			notify.EmitSourceEvent(r.Recorder, ps, corev1.EventTypeWarning, api.EventTwoAppliers, "%s", message)
		}
	}
	for _, e := range inventory.ChangesOf(before, ps).Removed {
		consequence := fmt.Sprintf("pools with %s retain it, new pools are rejected", e.Version)
		if r.Custom {
			consequence = fmt.Sprintf("CustomOperatingSystemProfile %s remains: delete it when no user cluster needs it", e.Object)
		}
		notify.EmitSourceEvent(r.Recorder, ps, corev1.EventTypeWarning, api.EventProfileRemoved, "profile %q is no longer in the source; %s", e.Name, consequence)
	}
	switch {
	case before.Status.Revision != ps.Status.Revision:
		notify.EmitSourceEvent(r.Recorder, ps, corev1.EventTypeNormal, api.EventRevisionApplied, "%s", appliedMessage(out))
	case lastReadFailed(before) && !lastReadFailed(ps):
		notify.EmitSourceEvent(r.Recorder, ps, corev1.EventTypeNormal, api.EventSourceRecovered, "the source can be read again: %s", out.revision)
	}
}

// lastReadFailed reports whether the last reconciliation failed to read a revision.
func lastReadFailed(ps *api.ProfileSource) bool {
	ready := apimeta.FindStatusCondition(ps.Status.Conditions, meta.ReadyCondition)
	return ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason != api.ReasonProfilesInvalid
}

// findCommitError returns the part of an error that concerns the commit itself, and that its
// author should see; nil if the cause is another one.
func findCommitError(err error) error {
	var unverified *source.UnverifiedError
	var rewrite *approval.RewriteError
	switch {
	case errors.As(err, &unverified):
		return unverified
	case errors.As(err, &rewrite):
		return rewrite
	}
	return nil
}

// eventReason returns the reason of the event about an error.
func eventReason(err error) string {
	var unverified *approval.UnverifiedError
	var rewrite *approval.RewriteError
	switch {
	case errors.As(err, &unverified):
		return api.EventVerificationFailed
	case errors.As(err, &rewrite):
		return api.EventHistoryRewritten
	}
	return api.EventSourceFailed
}

// isReadyReasonOrMessageChanged reports whether reason or message of the Ready condition changed.
func isReadyReasonOrMessageChanged(before, after *api.ProfileSource) bool {
	a := apimeta.FindStatusCondition(before.Status.Conditions, meta.ReadyCondition)
	b := apimeta.FindStatusCondition(after.Status.Conditions, meta.ReadyCondition)
	return a == nil || b == nil || a.Reason != b.Reason || a.Message != b.Message
}

// failureClass states how a failure appears in the conditions.
type failureClass struct {
	reason string
	final  bool // only another spec or another commit fixes it
}

// classify returns the class of an error that report is called with.
func classify(err error) failureClass {
	var spec *fetcher.SpecError
	var wait *fetcher.WaitError
	var unverified *approval.UnverifiedError
	var rewrite *approval.RewriteError
	var artifact *fetcher.ArtifactError
	// Types of this program come first, because they can wrap a class of package source.
	switch {
	case errors.As(err, &spec):
		return failureClass{spec.Reason, true}
	case errors.As(err, &unverified) && !unverified.Wait:
		return failureClass{api.ReasonVerificationFailed, true}
	case errors.As(err, &unverified):
		return failureClass{"DependencyNotReady", false}
	case errors.As(err, &rewrite):
		return failureClass{api.ReasonHistoryRewritten, true}
	case errors.As(err, &wait):
		return failureClass{"DependencyNotReady", false}
	case errors.As(err, &artifact):
		return failureClass{meta.ArtifactFailedReason, false}
	case errors.Is(err, source.ErrAuthentication):
		return failureClass{api.ReasonAuthenticationFailed, true}
	case errors.Is(err, source.ErrHostKey):
		return failureClass{api.ReasonHostKeyRefused, true}
	case errors.Is(err, source.ErrNotFound):
		return failureClass{api.ReasonReferenceNotFound, true}
	case errors.Is(err, source.ErrUnsupported):
		return failureClass{api.ReasonUnsupported, true}
	case errors.Is(err, source.ErrInvalid):
		return failureClass{api.ReasonSourceInvalid, true}
	case errors.Is(err, source.ErrUnreachable):
		return failureClass{api.ReasonUnreachable, false}
	}
	return failureClass{meta.FailedReason, false}
}

// conflictMessage repeats rivals in the Ready condition as long as they exist.
func (o outcome) conflictMessage() string {
	if len(o.conflicts) == 0 {
		return ""
	}
	return "; " + strings.Join(o.conflicts[:min(len(o.conflicts), maxNamed)], "; ")
}
