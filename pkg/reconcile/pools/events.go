package pools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/source"
)

// reporter turns the outcome of a run into events, metrics, entries of the audit log and the
// time of the next run. It is a value, made for one use.
type reporter struct {
	recorder events.EventRecorder
	metrics  *metrics.Metrics
	auditLog *auditlog.Writer // nil is none
	cache    *poolCache
	routine  *rate.Limiter // nil for none
	clock    clock.PassiveClock
	// archived reads the records of the namespace.
	archived  client.Reader
	namespace string
}

// The rate of the events ConfigCreated and ConfigRotated: if many pools change at once, an event for
// each of them would be a fifth of the requests.
const (
	routineBurst     = 25
	routinePerSecond = 1
)

// NewRoutineEventLimiter returns the limiter of a controller for Reconciler.Routine.
func NewRoutineEventLimiter() *rate.Limiter { return rate.NewLimiter(routinePerSecond, routineBurst) }

// allowAnnouncement reports whether an event about the configuration that a plan creates is emitted.
// It takes a token of the rate limiter, unless the event says what differs from the documents of
// another controller, or ends a warning.
func (r reporter) allowAnnouncement(md *cluster.MachineDeployment, p plan, done *applied) bool {
	exempt := p.hasOSMDocument || done.wasRejected != "" || r.cache.get(md).reported != ""
	return !p.restoresConfig && (exempt || r.routine == nil || r.routine.AllowN(r.clock.Now(), 1))
}

// reportOutcome reports the outcome of apply. If a generation cannot replace the present one, nothing is
// reported yet: the next run maintains the present one, because this is known now.
func (r reporter) reportOutcome(seen *observed, planned plan, done *applied, err error) (ctrl.Result, error) {
	if r.cache.cacheRejection(seen, planned, err, r.clock.Now()) {
		return ctrl.Result{RequeueAfter: racedRetry}, nil
	}
	return r.report(seen.md, planned, done, err)
}

// report turns the outcome of a run into events, metrics and the time of the next run; done is nil if
// nothing was applied. Errors that only a change can fix wait for that change; all others back off.
func (r reporter) report(md *cluster.MachineDeployment, planned plan, done *applied, err error) (ctrl.Result, error) {
	if raced := errors.Is(err, fault.ErrRaced); raced != r.cache.get(md).raced {
		r.cache.update(md, func(cached *cachedPool) { cached.raced = raced })
	}
	if errors.Is(err, fault.ErrRaced) {
		return ctrl.Result{RequeueAfter: r.raceBackoff(md, api.EventWriteRefused, err)}, nil
	}
	if errors.Is(err, desired.ErrSourceNotReconciled) {
		return ctrl.Result{RequeueAfter: min(r.raceBackoff(md, api.EventWaiting, err), sourceRetry)}, nil
	}
	if r.cache.get(md).races > 0 {
		r.cache.update(md, func(cached *cachedPool) { cached.races = 0 })
	}
	if done != nil && done.auditPending {
		planned.poll = earliestNonZero(planned.poll, auditLogRetry)
	}
	now := r.clock.Now()
	renewal := earliestNonZero(earliestNonZero(untilRenewal(planned.expires, now), wait.Jitter(planned.poll, token.Jitter)), durationUntil(planned.nextRun, now))
	if waiting, ok := errors.AsType[*fault.Wait](err); ok {
		r.reportRejection(md, api.EventWaiting, waiting)
		return ctrl.Result{RequeueAfter: wait.Jitter(waitRetry, token.Jitter)}, nil
	}
	if reason, final := fault.PermanentReason(err); final {
		r.reportRejection(md, reason, err)
		if reason == api.EventNameCollision {
			// No watch reports the object that is in the way.
			return ctrl.Result{RequeueAfter: wait.Jitter(collisionRetry, token.Jitter)}, nil
		}
		if reason == api.EventWriteRefused {
			// Another admission policy can accept the object later, and no watch reports that:
			// the queue backs off.
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: renewal}, nil
	}
	if err != nil {
		if fault.RejectedByServer(err) {
			r.reportRejection(md, api.EventWriteRefused, err)
		}
		return ctrl.Result{}, err
	}
	if done != nil {
		r.reportAppliedPlan(md, planned, done)
	}
	if planned.readError != nil {
		// What could be applied is reported above; the error only makes the queue retry.
		return ctrl.Result{}, planned.readError
	}
	// This token changes without an event that would start the pool.
	if planned.bootstrapToken.Poll {
		renewal = earliestNonZero(renewal, wait.Jitter(tokenPoll, token.Jitter))
	}
	return ctrl.Result{RequeueAfter: renewal}, nil
}

// reportWithoutFinalizer reports why a pool could not be reconciled and why it did not get the
// finalizer: neither hides the other, and the finalizer is retried.
func (r reporter) reportWithoutFinalizer(md *cluster.MachineDeployment, planned plan, err, finalizerErr error) (ctrl.Result, error) {
	reason, rejected := fault.PermanentReason(err)
	if _, ok := errors.AsType[*fault.Wait](err); !rejected && ok {
		reason, rejected = api.EventWaiting, true
	}
	if !rejected || finalizerErr == nil || errors.Is(finalizerErr, fault.ErrRaced) {
		return r.report(md, planned, nil, errors.Join(err, finalizerErr))
	}
	r.reportRejection(md, reason, fmt.Errorf("%w; and its finalizer cannot be set: %w", err, finalizerErr))
	return ctrl.Result{}, finalizerErr
}

// reportRejection reports why a pool does not have what it requests, as an event and a metric.
func (r reporter) reportRejection(md *cluster.MachineDeployment, reason string, err error) {
	r.reportProblem(md, reason, err)
	r.metrics.SetPoolRejection(client.ObjectKeyFromObject(md), reason)
}

// reportProblem emits an event about a problem of a pool, once until the problem changes.
func (r reporter) reportProblem(md *cluster.MachineDeployment, reason string, err error) {
	message := err.Error()
	if r.cache.get(md).reported == message {
		return
	}
	r.cache.update(md, func(m *cachedPool) { m.reported = message })
	r.event(md, corev1.EventTypeWarning, reason, message)
}

// formatAtCommit returns " at commit <12 digits>" for a message, "" without a commit.
func formatAtCommit(commit string) string {
	if commit == "" {
		return ""
	}
	if _, err := source.ParseCommit(commit); err != nil {
		return " at " + commit // an artifact's revision
	}
	return " at commit " + commit[:12]
}

func (r reporter) event(md *cluster.MachineDeployment, kind, reason, note string) {
	r.recorder.Eventf(md, nil, kind, reason, "Render", "%s", redact.Shorten(note, redact.MaxEvent))
}

// applied is what a report says of a run besides its plan.
type applied struct {
	before objects // that the plan changed
	// wasRejected is what the configuration said of a newer one before.
	wasRejected string
	// replacedSpec is that of the configuration that was replaced, nil if it was not read.
	replacedSpec *osm.OperatingSystemConfigSpec
	// announce is true if an event reports the new configuration.
	announce bool
	// auditPending is true if the audit log lacks the present configuration.
	auditPending bool
}

// appliedTo copies what apply changes on the objects themselves.
func appliedTo(have objects) *applied {
	done := &applied{before: have}
	if have.osc != nil {
		done.wasRejected = have.osc.Annotations[api.AnnotationRefused]
	}
	return done
}

// rejectedMessage is what a configuration says while a newer one is rejected.
func rejectedMessage(p plan) string {
	message := p.rejection.Error()
	if p.unrenewed != nil {
		message += "; its Secrets remain unchanged: " + p.unrenewed.Error()
	}
	return redact.Shorten(redact.RemoveControlChars(message), redact.MaxCondition)
}

// reportAppliedPlan reports the result of an applied plan: what was created, rotated or restored, and
// whether the pool has what it requests.
func (r reporter) reportAppliedPlan(md *cluster.MachineDeployment, planned plan, done *applied) {
	switch {
	case planned.osc != nil && !planned.restoresConfig:
		r.reportCreatedOrRotated(md, planned, done)
	case len(planned.drifted) > 0:
		r.metrics.CountDocumentWrite(metrics.Restored)
	case planned.provisioning.write != nil || planned.bootstrap.write != nil:
		r.metrics.CountDocumentWrite(metrics.Credentials)
	}
	if len(planned.drifted) > 0 {
		r.event(md, corev1.EventTypeNormal, api.EventConfigRestored, "restored changed objects: "+strings.Join(planned.drifted, ", "))
	}
	reason := ""
	switch {
	case planned.rejection != nil:
		reason = r.reportLastGood(md, planned, done)
	case planned.readError == nil:
		r.reportRecovered(md, planned, done)
	}
	r.metrics.SetPool(client.ObjectKeyFromObject(md), planned.poolMetrics(done.before, reason))
}

// reportLastGood reports why the last good configuration remains, once until the reason changes. The
// annotations of the configuration contain what was reported before a restart.
func (r reporter) reportLastGood(md *cluster.MachineDeployment, planned plan, done *applied) string {
	reason, _ := fault.PermanentReason(planned.rejection)
	problem := planned.rejection
	if planned.unrenewed != nil {
		problem = fmt.Errorf("%w; the last good configuration remains unchanged: %w", planned.rejection, planned.unrenewed)
	}
	if done.wasRejected == rejectedMessage(planned) {
		r.cache.update(md, func(cached *cachedPool) { cached.reported = cmp.Or(cached.reported, problem.Error()) })
	}
	r.reportProblem(md, reason, problem)
	return reason
}

func (r reporter) reportRecovered(md *cluster.MachineDeployment, planned plan, done *applied) {
	wasReported := r.cache.get(md).reported != ""
	if wasReported {
		r.cache.update(md, func(cached *cachedPool) { cached.reported = "" })
	}
	if suspended, _ := isSuspended(md); suspended {
		return // what it cannot have does not matter now
	}
	if (wasReported || done.wasRejected != "") && planned.osc == nil {
		r.event(md, corev1.EventTypeNormal, api.EventConfigHealed,
			fmt.Sprintf("the requested profile is active again: profile %q %s%s", planned.serving.Profile, planned.serving.Version, formatAtCommit(planned.serving.Commit)))
	}
}

func (r reporter) reportCreatedOrRotated(md *cluster.MachineDeployment, planned plan, done *applied) {
	from, to := planned.replaced, planned.serving
	if from.Object == "" {
		r.metrics.CountDocumentWrite(metrics.Created)
		if !done.announce {
			r.metrics.EventDropped(api.EventConfigCreated)
			return
		}
		r.event(md, corev1.EventTypeNormal, api.EventConfigCreated,
			fmt.Sprintf("made the configuration of profile %q %s%s%s", to.Profile, to.Version, formatAtCommit(to.Commit), planned.describeDifferences()))
		return
	}
	why := rotationReason(from, to)
	r.metrics.CountDocumentWrite(why)
	if !done.announce {
		r.metrics.EventDropped(api.EventConfigRotated)
		return
	}
	text := fmt.Sprintf("rotated from profile %q %s%s to %q %s%s", from.Profile, from.Version, formatAtCommit(from.Commit), to.Profile, to.Version, formatAtCommit(to.Commit))
	switch why {
	case metrics.Pool:
		text = fmt.Sprintf("rotated for a change of the pool; profile %q is still %s%s", to.Profile, to.Version, formatAtCommit(to.Commit))
	case metrics.Settings:
		text = fmt.Sprintf("rotated for a change of the controller's settings; profile %q is still %s%s", to.Profile, to.Version, formatAtCommit(to.Commit))
	}
	if done.replacedSpec != nil {
		text += "; " + describeChanges(*done.replacedSpec, planned.osc.Spec)
	}
	r.event(md, corev1.EventTypeNormal, api.EventConfigRotated, text)
}

// rotationReason returns the reason for metrics why one generation followed another: the pool, the
// settings or the profile changed.
func rotationReason(from, to render.Record) string {
	sameProfile := from.Profile == to.Profile && from.Version == to.Version && from.ObjectDigest == to.ObjectDigest && from.Commit == to.Commit
	switch {
	case sameProfile && !reflect.DeepEqual(from.Pool, to.Pool):
		return metrics.Pool
	case sameProfile && from.SettingsDigest != to.SettingsDigest:
		return metrics.Settings
	}
	return metrics.Profile
}

// poolMetrics returns the values that a pool's metrics have: its profile and commit, why its
// request was rejected, the size of its user data, and when its tokens expire.
func (p plan) poolMetrics(before objects, rejection string) metrics.PoolMetrics {
	values := metrics.PoolMetrics{
		Profile: p.serving.Profile, Version: p.serving.Version, Commit: p.serving.Commit,
		RejectionReason: rejection, TokenEnds: p.expires,
	}
	bootstrap := p.bootstrap.write
	if bootstrap == nil {
		bootstrap = before.bootstrap
	}
	if bootstrap == nil {
		return values
	}
	values.NodeTokenEnds = lineage.AnnotatedTime(bootstrap.Annotations, api.AnnotationCredentialsExpireAt)
	// Documents of earlier releases do not say how large they are.
	if size, err := strconv.Atoi(bootstrap.Annotations[api.AnnotationUserDataBytes]); err == nil {
		values.UserData, values.Limit = size, p.serving.Pool.UserDataLimit()
	}
	return values
}

// maxChanges bounds the part of an event that names what differs, in bytes.
const maxChanges = 600

// describeChanges names the differences between two configurations, by stage: files by path, units by
// name, the rest of a stage by field. "+" is added, "-" is removed.
func describeChanges(before, after osm.OperatingSystemConfigSpec) string {
	var names []string
	for _, stage := range []struct {
		name          string
		before, after osm.OSCConfig
	}{
		{stageBootstrap, before.BootstrapConfig, after.BootstrapConfig},
		{stageProvision, before.ProvisioningConfig, after.ProvisioningConfig},
	} {
		for _, name := range changedParts(stage.before, stage.after) {
			names = append(names, stage.name+" "+name)
		}
	}
	if len(names) == 0 {
		return "the files and units are the same"
	}
	out := "changed: "
	for i, name := range names {
		if i > 0 {
			out += ", "
		}
		if len(out)+len(name) > maxChanges {
			return out + fmt.Sprintf("and %d more", len(names)-i)
		}
		out += name
	}
	return out
}

// changedParts names the differences between two stages, in their order, removed parts last.
func changedParts(before, after osm.OSCConfig) []string {
	type part struct {
		name  string
		value any
	}
	parts := func(stage osm.OSCConfig) (out []part) {
		for _, file := range stage.Files {
			out = append(out, part{file.Path, file})
		}
		for _, unit := range stage.Units {
			out = append(out, part{"unit " + unit.Name, unit})
		}
		if len(stage.UserSSHKeys) > 0 {
			out = append(out, part{"SSH keys", stage.UserSSHKeys})
		}
		if modules := stage.CloudInitModules; modules != nil {
			fields := reflect.ValueOf(*modules)
			for i := range fields.NumField() {
				if !fields.Field(i).IsZero() {
					name, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
					out = append(out, part{"module " + name, fields.Field(i).Interface()})
				}
			}
		}
		return out
	}
	// If a path is listed twice, the last entry counts.
	valuesBefore, valuesNow := map[string]any{}, map[string]any{}
	old, now := parts(before), parts(after)
	for _, part := range old {
		valuesBefore[part.name] = part.value
	}
	for _, part := range now {
		valuesNow[part.name] = part.value
	}
	var out []string
	listed := map[string]bool{}
	add := func(mark, name string) {
		if !listed[name] {
			listed[name] = true
			out = append(out, mark+redact.PrintableLine(name))
		}
	}
	for _, part := range now {
		if value, ok := valuesBefore[part.name]; !ok {
			add("+", part.name)
		} else if !reflect.DeepEqual(value, valuesNow[part.name]) {
			add("", part.name)
		}
	}
	for _, part := range old {
		if _, ok := valuesNow[part.name]; !ok {
			add("-", part.name)
		}
	}
	return out
}

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

// auditLogRetry is the wait before an event that could not be written is tried again.
const auditLogRetry = time.Minute

// recordCurrentConfig writes to the audit log which configuration a pool has, after its Secrets
// have it, and returns the id of the entry. It returns "" if the configuration names an entry already, or
// if the entry cannot be written now. A configuration that names no entry is logged again, so an
// interruption before the entry is named loses nothing.
func (r reporter) recordCurrentConfig(ctx context.Context, seen *observed, osc *osm.OperatingSystemConfig, planned plan, done *applied) string {
	rec := recordOf(osc)
	if r.auditLog == nil || rec.Object == "" || osc.Annotations[api.AnnotationJournaled] != "" {
		return ""
	}
	entry := configEvent(osc, seen.md.Name, seen.md.Namespace)
	entry.Is = auditConfiguration(rec, string(osc.UID))
	if planned.osc != nil && planned.replaced.Object != "" {
		entry.Kind, entry.Reason = auditlog.ConfigurationRotated, rotationReason(planned.replaced, rec)
		entry.Was = auditConfiguration(planned.replaced, osc.Annotations[api.AnnotationReplaces])
	} else if planned.osc == nil || seen.unserved && !planned.restoresConfig {
		entry.Kind, entry.Was = r.replacedConfiguration(ctx, osc)
	}
	if planned.restoresConfig {
		entry.Reason = metrics.Restored
	}
	events := []auditlog.Event{entry}
	if planned.hasOSMDocument || seen.objects.hasOSMDocuments() {
		takeover := entry
		takeover.Kind = auditlog.PoolTakenOver
		takeover.Was = nil
		takeover.Reason = ""
		takeover.Message = redact.PrintableText("another controller had served it"+planned.describeDifferences(), redact.MaxEvent)
		events = append(events, takeover)
	}
	if r.auditLog.Append(events...) != nil { // it logs why
		// report schedules a run that writes the entry.
		done.auditPending = true
		return ""
	}
	return entry.ID()
}

// recordUnloggedConfig logs a configuration that is about to be replaced and is missing from the
// audit log.
func (r reporter) recordUnloggedConfig(ctx context.Context, osc *osm.OperatingSystemConfig) {
	rec := recordOf(osc)
	pool, ok := lineage.ParsePool(lineage.PoolOf(osc))
	if r.auditLog == nil || osc.Annotations[api.AnnotationJournaled] != "" || rec.Object == "" || !ok {
		return
	}
	entry := configEvent(osc, pool.Name, pool.Namespace)
	entry.Is = auditConfiguration(rec, string(osc.UID))
	entry.Kind, entry.Was = r.replacedConfiguration(ctx, osc)
	r.auditLog.Record(entry)
}

// recordDeleted logs that the configuration of a former pool was deleted, including its content if
// its record can be trusted.
func (r reporter) recordDeleted(md *cluster.MachineDeployment, osc *osm.OperatingSystemConfig, believed bool) {
	rec := recordOf(osc)
	if r.auditLog == nil || rec.Object == "" {
		return
	}
	entry := configEvent(osc, md.Name, md.Namespace)
	entry.Kind = auditlog.ConfigurationDeleted
	entry.Since = ""
	entry.Was = &auditlog.Configuration{UID: string(osc.UID)}
	if believed {
		entry.Was = auditConfiguration(rec, string(osc.UID))
	}
	if md.UID != "" && md.DeletionTimestamp.IsZero() {
		entry.Message = "the pool has no profile any more"
	}
	r.auditLog.Record(entry)
}

// configEvent is an event about the configuration of a pool. The caller sets its kind and content.
func configEvent(osc *osm.OperatingSystemConfig, name, namespace string) auditlog.Event {
	return auditlog.Event{
		Kind: auditlog.ConfigurationCreated, Key: string(osc.UID),
		Object: auditlog.Object{Kind: "MachineDeployment", Namespace: namespace, Name: name, UID: osc.Annotations[api.AnnotationPoolUID]},
		Since:  lineage.FormatTime(osc.CreationTimestamp.Time),
	}
}

// replacedConfiguration finds the configuration that another one replaced, among the archived records. If its
// record is not available any more, the result has only its uid.
func (r reporter) replacedConfiguration(ctx context.Context, osc *osm.OperatingSystemConfig) (auditlog.Kind, *auditlog.Configuration) {
	uid := osc.Annotations[api.AnnotationReplaces]
	if uid == "" {
		return auditlog.ConfigurationCreated, nil
	}
	pool := lineage.PoolOf(osc)
	list := kubeclient.MetadataList(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
	err := r.archived.List(ctx, list, client.InNamespace(r.namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager, api.LabelPool: archive.PoolLabelValue(pool)})
	if err != nil {
		log.FromContext(ctx).Error(err, "looking for the configuration before, for the audit log", "pool", pool)
	}
	was := &auditlog.Configuration{UID: uid}
	for i := range list.Items {
		obj := &list.Items[i]
		for _, interval := range lineage.DecodeIntervals(obj.Annotations) {
			if string(interval.UID) == uid && lineage.PoolOf(obj) == pool {
				annotations := obj.Annotations
				was.InputDigest = annotations[api.AnnotationInputDigest]
				was.Profile = annotations[api.AnnotationProfile]
				was.Version = annotations[api.AnnotationVersion]
				was.Repository = annotations[api.AnnotationRepository]
				was.Path = annotations[api.AnnotationPath]
				was.Commit = annotations[api.AnnotationCommit]
				was.Change = annotations[api.AnnotationChange]
				was.SelectedBy = interval.SelectedBy
			}
		}
	}
	return auditlog.ConfigurationRotated, was
}

func auditConfiguration(rec render.Record, uid string) *auditlog.Configuration {
	return &auditlog.Configuration{
		UID: uid, InputDigest: rec.Digests.Input, Profile: rec.Profile, Version: rec.Version, ProfileDigest: rec.ObjectDigest,
		Repository: rec.Repository, Path: rec.Path, Commit: rec.Commit, Change: rec.Change, SelectedBy: rec.SelectedBy, Engine: rec.Engine,
	}
}

// reportSuspendedOrResumed emits an event when a pool is suspended, and one when it is resumed, each once while this
// process runs. It emits none if nothing can be planned.
func (r reporter) reportSuspendedOrResumed(seen *observed, planned plan) {
	if planned.err != nil {
		return
	}
	md := seen.md
	suspended, err := isSuspended(md)
	if err != nil {
		return // that is reported already
	}
	if !suspended {
		if r.cache.get(md).suspended {
			r.cache.update(md, func(cached *cachedPool) { cached.suspended = false })
			r.event(md, corev1.EventTypeNormal, api.EventConfigResumed, "the pool follows its profile again")
		}
		return
	}
	if seen.objects.osc == nil {
		return // the creation of the OperatingSystemConfig starts another run
	}
	if r.cache.get(md).suspended {
		return
	}
	r.cache.update(md, func(cached *cachedPool) {
		cached.suspended = true
		cached.reported = ""
	}) // a failure is reported again after it resumes
	rec := recordOf(seen.objects.osc)
	r.event(md, corev1.EventTypeNormal, api.EventConfigSuspended,
		fmt.Sprintf("the configuration is frozen at profile %q %s%s; tokens, the CA and the revision are still updated. To resume, remove annotation %s", rec.Profile, rec.Version, formatAtCommit(rec.Commit), api.AnnotationSuspend))
}
