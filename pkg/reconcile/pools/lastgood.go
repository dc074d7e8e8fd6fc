package pools

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// lastGood is the generation that a pool has. It is observed if the pool cannot have what it requests.
type lastGood struct {
	record render.Record
	input  render.Input // made from the record again
	err    error        // why it cannot be
}

// observeLastGood reads the generation from which the pool's documents were made. The rejection is
// about the requested generation, so that it is not rendered in vain again.
func (r *Reconciler) observeLastGood(ctx context.Context, seen *observed, rejection error) error {
	rec, err := r.lastRecord(ctx, seen)
	if err != nil {
		return err
	}
	if seen.desiredErr == nil {
		seen.desiredErr = rejection
	}
	seen.lastGood = &lastGood{record: rec}
	if !seen.hasNothingToBootFrom() {
		seen.lastGood.input, seen.lastGood.err = r.records().RestoreInput(ctx, seen.md, rec, seen.values)
	}
	return nil
}

// hasNothingToBootFrom reports whether a pool has nothing to boot from.
func (seen *observed) hasNothingToBootFrom() bool {
	return seen.objects.osc == nil && seen.lastGood.record.Object == "" && !hasInputDigest(seen.objects.bootstrap)
}

// lastRecord is the record of the generation that a pool has. It is read from the configuration.
// If that is deleted or edited, lastRecord finds the record of the existing documents: as the
// configuration had it when it was deleted, as it was archived, or as the pool produces it again.
// It is zero if none of these has it.
func (r *Reconciler) lastRecord(ctx context.Context, seen *observed) (render.Record, error) {
	osc := seen.objects.osc
	rec := recordOf(osc)
	// The configuration is the best evidence, unless it was edited or the documents are of
	// another one.
	if lineage.Intact(rec) && !seen.unserved && (osc.Annotations[api.AnnotationInputDigest] == rec.Digests.Input || seen.objects.hasDocumentWithInput(rec.Digests.Input)) {
		return withConfirmedSelectedBy(seen, rec), nil
	}
	for _, document := range []*corev1.Secret{seen.objects.bootstrap, seen.objects.provisioning} {
		if !hasInputDigest(document) {
			continue
		}
		// The order is that of costs: memory, the archive, then what the pool would produce now.
		for _, find := range []func(context.Context, *observed, *corev1.Secret) (render.Record, error){r.deletedRecord, r.archivedRecordOf, r.recomputedRecord} {
			found, err := find(ctx, seen, document)
			if err != nil {
				return render.Record{}, err
			}
			// The digest on the document proves that it was made from this record.
			if lineage.Intact(found) && found.Digests.Input == document.Annotations[api.AnnotationInputDigest] {
				return found, nil
			}
		}
	}
	if lineage.Intact(rec) {
		return render.Record{}, nil // edited together with its digest, and perhaps its annotation
	}
	return rec, nil
}

// mismatchedAnnotation returns the annotation of a configuration that contradicts its record, "" if
// there is none. The controller never edits its configurations in place; object and engine are only
// in the record.
func mismatchedAnnotation(osc *osm.OperatingSystemConfig, rec render.Record) string {
	const annotationRecord = "annotation " + api.AnnotationRecord
	switch {
	case !lineage.Intact(rec):
		return annotationRecord
	case rec.SelectedBy != osc.Annotations[api.AnnotationSelectedBy]:
		return annotationRecord + " or " + api.AnnotationSelectedBy
	case rec.Digests.Input != osc.Annotations[api.AnnotationInputDigest]:
		return annotationRecord + " or " + api.AnnotationInputDigest
	}
	return ""
}

// withConfirmedSelectedBy returns an intact record with the SelectedBy of the documents, since that
// of the record can have been edited. The digests of the outputs are computed again with the
// configuration.
func withConfirmedSelectedBy(seen *observed, rec render.Record) render.Record {
	by := seen.objects.osc.Annotations[api.AnnotationSelectedBy]
	for _, s := range []*corev1.Secret{seen.objects.bootstrap, seen.objects.provisioning} {
		if s != nil && s.Annotations[api.AnnotationInputDigest] == rec.Digests.Input && s.Annotations[api.AnnotationSelectedBy] == by {
			rec.SelectedBy = by // two say so
		}
	}
	return rec
}

// hasInputDigest reports whether a document names the input that it was made from, which documents
// of OSM do not.
func hasInputDigest(s *corev1.Secret) bool {
	return s != nil && s.Annotations[api.AnnotationInputDigest] != ""
}

// deletedRecord is what the watch of configurations saw last.
func (r *Reconciler) deletedRecord(_ context.Context, seen *observed, _ *corev1.Secret) (render.Record, error) {
	rec, _ := lineage.ParseUnverifiedRecord([]byte(r.cache.get(seen.md).deleted.record)) // zero for none
	return rec, nil
}

// archivedRecordOf finds the record if the controller was interrupted between deleting one
// configuration and creating the next.
func (r *Reconciler) archivedRecordOf(ctx context.Context, seen *observed, s *corev1.Secret) (render.Record, error) {
	archived, err := r.archivedOf(ctx, seen, s)
	if err != nil || archived == nil {
		return render.Record{}, err
	}
	return archive.Record(archived), nil
}

// archivedOf finds the archived record of the generation of a document, nil if there is none.
func (r *Reconciler) archivedOf(ctx context.Context, seen *observed, s *corev1.Secret) (*appsv1.ControllerRevision, error) {
	return r.newArchive().FindRecord(ctx, keyOf(seen.md), s.Annotations[api.AnnotationInputDigest])
}

// recomputedRecord returns the record that the pool in its current state would have with the
// version that a document names. The caller compares the digest: only if it is equal is the record
// the right one.
func (r *Reconciler) recomputedRecord(ctx context.Context, seen *observed, document *corev1.Secret) (render.Record, error) {
	md := seen.md.DeepCopy()
	md.Annotations[api.AnnotationOSP] = document.Annotations[api.AnnotationProfile]
	md.Annotations[api.AnnotationVersionPin] = document.Annotations[api.AnnotationVersion]
	input, err := r.inputOf(ctx, md, render.Record{}, seen.settings, seen.values)
	if err == nil {
		input.Pool, _, err = r.cloudConfigs().AddCloudConfig(ctx, md, input)
	}
	// A version that no longer exists is not an error here: this way just does not find the
	// record.
	if _, final := fault.PermanentReason(err); final || errors.Is(err, desired.ErrSourceNotReconciled) {
		return render.Record{}, nil
	}
	rec := input.Record()
	rec.SelectedBy = document.Annotations[api.AnnotationSelectedBy]
	return rec, err
}

// recordFromDocuments returns a record with the profile, version and commit in the annotations of a
// pool's documents; zero if they have none.
func recordFromDocuments(have objects) render.Record {
	for _, s := range []*corev1.Secret{have.bootstrap, have.provisioning} {
		if hasInputDigest(s) {
			a := s.Annotations
			return render.Record{Profile: a[api.AnnotationProfile], Version: a[api.AnnotationVersion], Commit: a[api.AnnotationCommit]}
		}
	}
	return render.Record{}
}

// deletedConfig is the record of a configuration that a user deleted or edited.
type deletedConfig struct {
	uid    types.UID // of the configuration
	record string
}

// deletedRecordHandler maps a configuration to its pool, and stores the record of a configuration that
// is deleted or edited, because no other object has it.
type deletedRecordHandler struct {
	handler.EventHandler
	cache     *poolCache
	ownWrites *ownWrites
}

func (k deletedRecordHandler) Update(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[crreconcile.Request]) {
	if e.ObjectOld.GetAnnotations()[api.AnnotationRecord] != e.ObjectNew.GetAnnotations()[api.AnnotationRecord] {
		k.cacheDeletedRecord(e.ObjectOld)
	}
	k.EventHandler.Update(ctx, e, q)
}

func (k deletedRecordHandler) Delete(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[crreconcile.Request]) {
	if !k.ownWrites.hasDeleted(e.Object) { // what a run replaces, it archives
		k.cacheDeletedRecord(e.Object)
	}
	k.EventHandler.Delete(ctx, e, q)
}

func (k deletedRecordHandler) cacheDeletedRecord(was client.Object) {
	pool, ok := lineage.ParsePool(lineage.PoolOf(was))
	rec, _ := lineage.ParseRecordAnnotation(was)
	if !ok || !lineage.Intact(rec) {
		return
	}
	md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: pool.Namespace, Name: pool.Name, UID: types.UID(was.GetAnnotations()[api.AnnotationPoolUID])}}
	k.cache.update(md, func(m *cachedPool) {
		m.deleted = deletedConfig{was.GetUID(), was.GetAnnotations()[api.AnnotationRecord]}
	})
}
