package boots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/auditlog"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/nodecache"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/nodes/observe"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/shard"
)

const (
	// writeRate, in runs per second, and writeBurst limit the runs of one pool that write, or read
	// more than caches: its machines can report at any rate.
	writeRate, writeBurst = 1, 40
	// writeRetry is the time until a run that exceeded the rate is tried again.
	writeRetry = 2 * time.Second
	// auditInterval and auditBurst limit the entries of one pool in the audit log, and its events: a
	// machine can report another cause, or another boot, each time.
	auditInterval, auditBurst = time.Minute, 64
	// faultRetry is the time until a line, or an entry of the audit log, is tried again after an
	// error that others report.
	faultRetry = time.Minute
)

// AuditLog is an audit log, such as *auditlog.Writer.
type AuditLog interface {
	// Append returns when the entries are durable.
	Append(entries ...auditlog.Event) error
	// Record stores entries as soon as it can.
	Record(entries ...auditlog.Event)
}

// Reconciler maintains the BootReports of pools. Its fields are set once, before Setup.
type Reconciler struct {
	// Reader reads both clusters: Management, and Worker, which has pools and machines.
	observe.Reader

	// Reports reads BootReports, from a cache of cloud-init-settings.
	Reports client.Reader
	// Recorder writes events into the worker cluster.
	Recorder events.EventRecorder
	// Clock is used for the time of a first report, and for the age of machines.
	Clock clock.PassiveClock
	// AuditLog stores an entry for each cause; nil disables it.
	AuditLog AuditLog
	// Metrics counts boots; nil disables it.
	Metrics *metrics.Metrics
	// Profiles reads the files of profiles.
	Profiles Profiles
	// Shard has the pools that are handled.
	Shard shard.Shard
	// SharedToken says that machines of all pools have the same token, which cannot report.
	SharedToken bool

	known *cache.LRUExpireCache // what was found about causes

	mu      sync.Mutex
	paces   map[string]*pace             // by pool
	booting map[types.UID]bootingMachine // machines without a Node, for metrics
}

// pace limits what the machines of one pool can cause.
type pace struct{ runs, audit *rate.Limiter }

func (r *Reconciler) paceOf(pool string) *pace {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paces == nil {
		r.paces = map[string]*pace{}
	}
	if r.paces[pool] == nil {
		r.paces[pool] = &pace{rate.NewLimiter(writeRate, writeBurst), rate.NewLimiter(rate.Every(auditInterval), auditBurst)}
	}
	return r.paces[pool]
}

// mayRun returns errBusy if a pool has exceeded its rate.
func (r *Reconciler) mayRun(pool string) error {
	if !r.paceOf(pool).runs.AllowN(r.Clock.Now(), 1) {
		return errBusy
	}
	return nil
}

// bootingMachine is a machine that had no Node in the last run of its pool.
type bootingMachine struct {
	pool, version string
	created       time.Time
}

// errBusy says that too much was written in a short time.
var errBusy = errors.New("too many boot reports at once")

// Reconcile handles the reports of one pool.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	next, err := r.reconcile(ctx, req.NamespacedName)
	if errors.Is(err, errBusy) || apierrors.IsConflict(err) { // a machine reported meanwhile
		return ctrl.Result{RequeueAfter: wait.Jitter(writeRetry, 1)}, nil
	}
	return ctrl.Result{RequeueAfter: next}, err
}

func (r *Reconciler) reconcile(ctx context.Context, pool types.NamespacedName) (time.Duration, error) {
	var md cluster.MachineDeployment
	found, err := kubeclient.Find(ctx, r.Worker, pool, &md)
	if err != nil {
		return 0, err
	}
	md.Namespace, md.Name = pool.Namespace, pool.Name
	var report *api.BootReport
	var stored api.BootReport
	if has, err := kubeclient.Find(ctx, r.Reports, types.NamespacedName{Namespace: api.NamespaceCloudInitSettings, Name: lineage.AccessName(pool)}, &stored); err != nil {
		return 0, err
	} else if has {
		report = &stored
	}
	switch {
	case !found && !r.Shard.IncludesUnlabeled(), found && !r.Shard.Includes(&md):
		return 0, nil
	case !found || !md.DeletionTimestamp.IsZero() || md.Annotations[api.AnnotationOSP] == "" || r.SharedToken,
		report != nil && report.Annotations[api.AnnotationPoolUID] != string(md.UID):
		r.forgetMachines(pool.String())
		if report == nil {
			return 0, nil
		}
		if gone := r.unlogged(&observed{md: &md, report: report}, nil); len(gone.leaving) > 0 {
			r.AuditLog.Record(gone.leaving...)
		}
		// The deletion starts another run, for a pool that was created again.
		return 0, r.deleteReport(ctx, report)
	}
	seen, err := r.observe(ctx, &md, report)
	if err != nil {
		return 0, err
	}
	r.countBoots(seen)
	todo := newPlan(seen)
	pending, err := r.apply(ctx, seen, todo)
	if pending {
		return wait.Jitter(faultRetry, 1), err
	}
	return todo.next, err
}

// observed is what is known of a pool.
type observed struct {
	md  *cluster.MachineDeployment
	now time.Time
	// report is nil if there is none.
	report *api.BootReport
	// machines of the pool by name. If one is being replaced by another of its name, the younger.
	machines map[string]machine
	timeline lineage.Timeline
	// gone are the report's entries, by index, of machines that joined or were deleted.
	gone []bool
	// causes are those of the report's failing entries, by index; nil for entries without one.
	causes []*located
	// entries are the configurations of the report's entries, nil for those that do not count.
	entries []*api.ProvenanceConfiguration
}

// machine is a Machine with the revision of its MachineSet.
type machine struct {
	*cluster.Machine
	revision string
}

// joined reports whether a machine has a Node.
func (m machine) joined() bool { return m.Status.NodeRef != nil && m.Status.NodeRef.Name != "" }

// observe reads what is known of a pool, and finds the causes of its report.
func (r *Reconciler) observe(ctx context.Context, md *cluster.MachineDeployment, report *api.BootReport) (*observed, error) {
	pool := client.ObjectKeyFromObject(md)
	seen := &observed{md: md, now: r.Clock.Now(), report: report, machines: map[string]machine{}}
	var sets cluster.MachineSetList // belongs to the cache, like the next list: do not modify it
	if err := r.Worker.List(ctx, &sets, client.MatchingFields{poolIndex: pool.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the MachineSets of pool %s: %w", pool, err)
	}
	for i := range sets.Items {
		var list cluster.MachineList
		if err := r.Worker.List(ctx, &list, client.MatchingFields{nodecache.SetIndex: string(sets.Items[i].UID)}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the Machines of pool %s: %w", pool, err)
		}
		for k := range list.Items {
			seen.machines[list.Items[k].Name] = machine{&list.Items[k], sets.Items[i].Annotations[api.AnnotationMDRevision]}
		}
	}
	var err error
	// The index of records is absent in shards, and before the kind NodeProvenance is installed.
	seen.timeline, err = r.TimelineOf(ctx, pool, false)
	if report == nil || len(report.Spec.Machines) == 0 && len(report.Status.Machines) == 0 {
		return seen, nil // without a timeline only metrics lack the version
	}
	if err != nil {
		if err := r.mayRun(pool.String()); err != nil {
			return nil, err
		}
		if seen.timeline, err = r.TimelineOf(ctx, pool, true); err != nil {
			return nil, err
		}
	}
	seen.gone = make([]bool, len(report.Spec.Machines))
	seen.causes = make([]*located, len(report.Spec.Machines))
	seen.entries = make([]*api.ProvenanceConfiguration, len(report.Spec.Machines))
	for i := range report.Spec.Machines {
		entry := &report.Spec.Machines[i]
		m, ok := seen.machines[entry.Machine]
		if !ok || m.joined() || seen.isEarlier(entry, m) {
			seen.gone[i] = true
			continue
		}
		// After the time that a boot can take, nothing new counts. Such entries must not fill the report.
		if seen.isLate(m) {
			seen.gone[i] = len(report.Spec.Machines) > maxLate
			continue
		}
		g, found := seen.generationOf(entry, m)
		if !found {
			continue
		}
		if seen.entries[i], err = r.ConfigurationOf(ctx, pool, &g); err != nil {
			return nil, err
		}
		if entry.Outcome != api.BootFailing {
			continue
		}
		if seen.causes[i], err = r.locate(ctx, pool, &g, seen.entries[i], entry); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// isLate reports whether a machine was created longer ago than a boot takes.
func (seen *observed) isLate(m machine) bool {
	return seen.now.Sub(m.CreationTimestamp.Time) >= bootLimit
}

// isEarlier reports whether an entry is of a machine that had the same name before: it was written
// before the machine was created, by the API server's clock, or in the boot of the earlier one.
func (seen *observed) isEarlier(entry *api.MachineBoot, m machine) bool {
	for _, f := range seen.report.ManagedFields {
		if f.Manager == entry.Machine && f.Operation == metav1.ManagedFieldsOperationApply && f.Time != nil && f.Time.Before(&m.CreationTimestamp) {
			return true
		}
	}
	before := seen.statusOf(entry.Machine, entry.Stage)
	return before != nil && before.MachineUID != m.UID && before.BootID == entry.BootID
}

// statusOf returns what was concluded about a stage of a machine, nil for nothing.
func (seen *observed) statusOf(name string, stage api.BootStage) *api.MachineBootStatus {
	all := seen.report.Status.Machines
	i := slices.IndexFunc(all, func(s api.MachineBootStatus) bool { return s.Machine == name && s.Stage == stage })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// generationOf finds the configuration that an entry names, if the pool had it since the machine was
// created.
func (seen *observed) generationOf(entry *api.MachineBoot, m machine) (lineage.Generation, bool) {
	window := api.ProvenanceWindow{From: &m.CreationTimestamp, Until: metav1.NewTime(seen.now)}
	for _, g := range slices.Backward(seen.timeline) {
		if g.ConfigLabel() == entry.Config && g.WasCurrentDuring(window, lineage.Leeway) {
			return g, true
		}
	}
	return lineage.Generation{}, false
}

// countBoots counts machines that joined or were deleted since the last run.
func (r *Reconciler) countBoots(seen *observed) {
	pool := client.ObjectKeyFromObject(seen.md).String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.booting == nil {
		r.booting = map[types.UID]bootingMachine{}
	}
	exists := map[types.UID]bool{}
	for _, m := range seen.machines {
		exists[m.UID] = true
		before, known := r.booting[m.UID]
		switch {
		case !m.joined() && !known:
			g, _ := seen.timeline.ForMachine(m.CreationTimestamp.Time, m.revision)
			r.booting[m.UID] = bootingMachine{pool: pool, version: g.Version, created: m.CreationTimestamp.Time}
		case m.joined() && known:
			r.Metrics.BootCounted(pool, before.version, metrics.BootJoined)
			r.Metrics.BootMeasured(seen.now.Sub(before.created))
			delete(r.booting, m.UID)
		}
	}
	for uid, m := range r.booting {
		if m.pool == pool && !exists[uid] {
			r.Metrics.BootCounted(pool, m.version, metrics.BootLost)
			delete(r.booting, uid)
		}
	}
}

// forgetMachines drops the machines and counts of a deleted pool.
func (r *Reconciler) forgetMachines(pool string) {
	r.Metrics.ForgetBoots(pool)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.paces, pool)
	for uid, m := range r.booting {
		if m.pool == pool {
			delete(r.booting, uid)
		}
	}
}

// poolOfBooting returns the pool of a machine whose MachineSet is gone.
func (r *Reconciler) poolOfBooting(uid types.UID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.booting[uid].pool
}

func (r *Reconciler) deleteReport(ctx context.Context, report *api.BootReport) error {
	err := r.Worker.Delete(ctx, report, client.Preconditions{UID: &report.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting BootReport %s: %w", report.Name, err)
	}
	return nil
}

// apply writes what was planned. The audit log and the event come before the status: a run that ends
// in between is repeated. It returns whether entries of the audit log wait for another run.
func (r *Reconciler) apply(ctx context.Context, seen *observed, p plan) (pending bool, err error) {
	pool := client.ObjectKeyFromObject(seen.md)
	if seen.report == nil {
		if !p.create {
			return false, nil
		}
		if err := r.mayRun(pool.String()); err != nil {
			return false, err
		}
		err := r.Worker.Create(ctx, &api.BootReport{ObjectMeta: lineage.AccessMeta(seen.md)}, client.FieldOwner(api.FieldManager))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("creating BootReport %s: %w", lineage.AccessName(pool), err)
		}
		return false, nil
	}
	unlogged := r.unlogged(seen, p.status)
	if len(unlogged.indexes) == 0 && !p.trim && equality.Semantic.DeepEqual(p.status, seen.report.Status.Machines) {
		return false, nil
	}
	if err := r.mayRun(pool.String()); err != nil {
		return false, err
	}
	pending = r.reportFailures(ctx, seen, p, &unlogged)
	report := seen.report.DeepCopy()
	if p.trim {
		if err := kubeclient.MergePatchWithLock(ctx, r.Worker, report, map[string]any{"spec": map[string]any{"machines": p.retained}}); err != nil {
			return pending, err
		}
	}
	if !equality.Semantic.DeepEqual(p.status, seen.report.Status.Machines) {
		patch, err := statusPatch(report, p.status)
		if err == nil {
			err = r.Worker.Status().Patch(ctx, report, patch, client.FieldOwner(api.FieldManager))
		}
		if err != nil {
			return pending, fmt.Errorf("writing the status of BootReport %s: %w", report.Name, err)
		}
	}
	if len(unlogged.leaving) > 0 { // no status names them now
		r.AuditLog.Record(unlogged.leaving...)
	}
	for _, f := range p.failures { // after the status: a run that another report interrupts is repeated
		if f.firstOfBoot {
			r.Metrics.BootCounted(pool.String(), f.status.Version, metrics.BootFailing)
		}
	}
	return pending, nil
}

// unlogged are causes that the audit log lacks: in the new conclusions, by index, and those that they
// replace or remove.
type unlogged struct {
	indexes []int
	leaving []auditlog.Event
}

// unlogged compares conclusions with the audit log entries that they name.
func (r *Reconciler) unlogged(seen *observed, status []api.MachineBootStatus) (out unlogged) {
	if r.AuditLog == nil {
		return out
	}
	ids := map[string]bool{}
	for i, s := range status {
		if s.Cause == nil {
			continue
		}
		id := seen.auditEvent(s).ID()
		if ids[id] = true; id != s.Journaled {
			out.indexes = append(out.indexes, i)
		}
	}
	for _, s := range seen.report.Status.Machines {
		if s.Cause == nil {
			continue
		}
		if e := seen.auditEvent(s); e.ID() != s.Journaled && !ids[e.ID()] {
			out.leaving = append(out.leaving, e)
		}
	}
	return out
}

// reportFailures writes the audit log, names its entries in the conclusions of a plan, and emits
// events, with the pool's pace. It omits from missing.leaving the entries beyond this pace. It returns
// whether entries have to wait: the audit log says why.
func (r *Reconciler) reportFailures(ctx context.Context, seen *observed, p plan, missing *unlogged) (pending bool) {
	limit := r.paceOf(client.ObjectKeyFromObject(seen.md).String()).audit
	allowed := int(limit.TokensAt(seen.now))
	said := p.failures[:min(len(p.failures), allowed)]
	indexes := missing.indexes[:min(len(missing.indexes), allowed)]
	missing.leaving = missing.leaving[:min(len(missing.leaving), allowed-len(indexes))]
	var entries []auditlog.Event
	for _, i := range indexes {
		e := seen.auditEvent(p.status[i])
		e.Is = r.auditConfiguration(ctx, seen, &p.status[i])
		entries = append(entries, e)
	}
	if len(entries) > 0 && r.AuditLog.Append(entries...) != nil {
		entries = nil
	}
	for k := range entries {
		p.status[indexes[k]].Journaled = entries[k].ID()
	}
	limit.AllowN(seen.now, max(len(said), len(entries)+len(missing.leaving)))
	for _, f := range said {
		if f.firstOfCause {
			r.Recorder.Eventf(seen.md, nil, corev1.EventTypeWarning, api.EventBootFailing, "Boot", "%s", sentence(f.status))
		}
	}
	return len(entries) < len(missing.indexes)
}

// auditConfiguration returns the configuration of a conclusion, as far as it is still known.
func (r *Reconciler) auditConfiguration(ctx context.Context, seen *observed, s *api.MachineBootStatus) *auditlog.Configuration {
	for _, g := range seen.timeline {
		if g.ConfigLabel() != s.Config {
			continue
		}
		from, err := r.ConfigurationOf(ctx, client.ObjectKeyFromObject(seen.md), &g)
		if err != nil { // its record was deleted
			break
		}
		return &auditlog.Configuration{
			InputDigest: from.InputDigest, Profile: from.Profile, Version: from.Version, ProfileDigest: from.ProfileDigest, Repository: from.Repository,
			Path: from.Path, Commit: from.Commit, Change: from.Change, Author: from.Author, Signature: from.Signature,
		}
	}
	return &auditlog.Configuration{Profile: s.Profile, Version: s.Version, Commit: s.Cause.Commit, Author: s.Cause.Author}
}
