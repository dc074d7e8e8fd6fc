package pools

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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
	"github.com/osm-gitops/osm-gitops/pkg/redact"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// auditLogRetry is the wait before an event that could not be written is tried again.
const auditLogRetry = time.Minute

// AuditLog stores events for auditors. *auditlog.Writer implements it.
type AuditLog interface {
	// Append returns after the events are stored permanently.
	Append(events ...auditlog.Event) error
	// Record stores events immediately, or as soon as it can.
	Record(events ...auditlog.Event)
}

// recordCurrentConfig writes to the audit log which configuration a pool has, after its Secrets
// have it, and returns the id of the entry. It returns "" if the configuration names an entry already, or
// if the entry cannot be written now. A configuration that names no entry is logged again, so an
// interruption before the entry is named loses nothing.
func (r reporter) recordCurrentConfig(ctx context.Context, seen *observed, osc *osm.OperatingSystemConfig, p plan, done *applied) string {
	rec := recordOf(osc)
	if r.auditLog == nil || rec.Object == "" || osc.Annotations[api.AnnotationJournaled] != "" {
		return ""
	}
	f := configEvent(osc, seen.md.Name, seen.md.Namespace)
	f.Is = auditConfiguration(rec, string(osc.UID))
	if p.osc != nil && p.replaced.Object != "" {
		f.Kind, f.Reason = auditlog.ConfigurationRotated, rotationReason(p.replaced, rec)
		f.Was = auditConfiguration(p.replaced, osc.Annotations[api.AnnotationReplaces])
	} else if p.osc == nil || seen.unserved && !p.restoresConfig {
		f.Kind, f.Was = r.replacedConfiguration(ctx, osc)
	}
	if p.restoresConfig {
		f.Reason = metrics.Restored
	}
	events := []auditlog.Event{f}
	if p.hasOSMDocument || seen.objects.hasOSMDocuments() {
		takeover := f
		takeover.Kind, takeover.Was, takeover.Reason = auditlog.PoolTakenOver, nil, ""
		takeover.Message = redact.PrintableText("another controller had served it"+p.describeDifferences(), redact.MaxEvent)
		events = append(events, takeover)
	}
	if r.auditLog.Append(events...) != nil { // it logs why
		// report schedules a run that writes the entry.
		done.auditPending = true
		return ""
	}
	return f.ID()
}

// recordUnloggedConfig logs a configuration that is about to be replaced and is missing from the
// audit log.
func (r reporter) recordUnloggedConfig(ctx context.Context, osc *osm.OperatingSystemConfig) {
	rec := recordOf(osc)
	namespace, name, ok := cutKey(ownerOf(osc))
	if r.auditLog == nil || osc.Annotations[api.AnnotationJournaled] != "" || rec.Object == "" || !ok {
		return
	}
	f := configEvent(osc, name, namespace)
	f.Is = auditConfiguration(rec, string(osc.UID))
	f.Kind, f.Was = r.replacedConfiguration(ctx, osc)
	r.auditLog.Record(f)
}

// recordDeleted logs that the configuration of a former pool was deleted, including its content if
// its record can be trusted.
func (r reporter) recordDeleted(md *cluster.MachineDeployment, osc *osm.OperatingSystemConfig, believed bool) {
	rec := recordOf(osc)
	if r.auditLog == nil || rec.Object == "" {
		return
	}
	f := configEvent(osc, md.Name, md.Namespace)
	f.Kind, f.Since, f.Was = auditlog.ConfigurationDeleted, "", &auditlog.Configuration{UID: string(osc.UID)}
	if believed {
		f.Was = auditConfiguration(rec, string(osc.UID))
	}
	if md.UID != "" && md.DeletionTimestamp.IsZero() {
		f.Message = "the pool has no profile any more"
	}
	r.auditLog.Record(f)
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
	pool := ownerOf(osc)
	list := kubeclient.MetadataList(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
	err := r.archived.List(ctx, list, client.InNamespace(r.namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager, api.LabelPool: archive.PoolLabelValue(pool)})
	if err != nil {
		log.FromContext(ctx).Error(err, "looking for the configuration before, for the audit log", "pool", pool)
	}
	was := &auditlog.Configuration{UID: uid}
	for i := range list.Items {
		obj := &list.Items[i]
		for _, in := range lineage.DecodeIntervals(obj.Annotations) {
			if string(in.UID) == uid && ownerOf(obj) == pool {
				a := obj.Annotations
				was.InputDigest, was.Profile, was.Version = a[api.AnnotationInputDigest], a[api.AnnotationProfile], a[api.AnnotationVersion]
				was.Repository, was.Path, was.Commit, was.Change = a[api.AnnotationRepository], a[api.AnnotationPath], a[api.AnnotationCommit], a[api.AnnotationChange]
				was.SelectedBy = in.SelectedBy
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
