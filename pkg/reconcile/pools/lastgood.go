package pools

import (
	"context"
	"errors"
	"fmt"
	"maps"

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
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/access"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/archive"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/desired"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/token"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// lastRecord is the record of the generation that a pool has: its configuration's, or
// where that is gone or edited, that of the documents that stand: as the configuration
// had it when it was taken away, as it was archived, or as the pool gives it again. It is
// zero where nobody knows.
func (r *Reconciler) lastRecord(ctx context.Context, seen *observed) (render.Record, error) {
	osc := seen.objects.osc
	rec := recordOf(osc)
	if lineage.Intact(rec) && !seen.unserved && (osc.Annotations[api.AnnotationInputDigest] == rec.Digests.Input || seen.objects.madeWith(rec.Digests.Input)) {
		return corrected(seen, rec), nil
	}
	for _, s := range []*corev1.Secret{seen.objects.bootstrap, seen.objects.provisioning} {
		if !madeOf(s) {
			continue
		}
		for _, find := range []func(context.Context, *observed, *corev1.Secret) (render.Record, error){r.takenRecord, r.archivedRecordOf, r.remadeRecord} {
			found, err := find(ctx, seen, s)
			if err != nil {
				return render.Record{}, err
			}
			if lineage.Intact(found) && found.Digests.Input == s.Annotations[api.AnnotationInputDigest] {
				return found, nil
			}
		}
	}
	if lineage.Intact(rec) {
		return render.Record{}, nil // edited together with its digest, and perhaps its annotation
	}
	return rec, nil
}

// disagrees says what of a configuration contradicts its record, "" for nothing.
// None of ours is ever changed where it stands; the object and the engine are nowhere else.
func disagrees(osc *osm.OperatingSystemConfig, rec render.Record) string {
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

// corrected is an intact record whose SelectedBy was perhaps edited. The digests of the
// outputs are made anew with the configuration.
func corrected(seen *observed, rec render.Record) render.Record {
	by := seen.objects.osc.Annotations[api.AnnotationSelectedBy]
	for _, s := range []*corev1.Secret{seen.objects.bootstrap, seen.objects.provisioning} {
		if s != nil && s.Annotations[api.AnnotationInputDigest] == rec.Digests.Input && s.Annotations[api.AnnotationSelectedBy] == by {
			rec.SelectedBy = by // two say so
		}
	}
	return rec
}

// madeOf reports whether a document says what it was made of, as the reference's do not.
func madeOf(s *corev1.Secret) bool { return s != nil && s.Annotations[api.AnnotationInputDigest] != "" }

// takenRecord is what the watch of configurations saw last.
func (r *Reconciler) takenRecord(_ context.Context, seen *observed, _ *corev1.Secret) (render.Record, error) {
	return parseRecord(r.memories.recall(seen.md).taken.record), nil
}

// archivedRecordOf finds the record where a controller was cut off between two
// configurations.
func (r *Reconciler) archivedRecordOf(ctx context.Context, seen *observed, s *corev1.Secret) (render.Record, error) {
	archived, err := r.archivedOf(ctx, seen, s)
	if err != nil || archived == nil {
		return render.Record{}, err
	}
	return archive.Record(archived), nil
}

// archivedOf finds the archived record of what a document was made of, nil where there is
// none.
func (r *Reconciler) archivedOf(ctx context.Context, seen *observed, s *corev1.Secret) (*appsv1.ControllerRevision, error) {
	return r.archive().Find(ctx, keyOf(seen.md), s.Annotations[api.AnnotationInputDigest])
}

// remadeRecord is what the pool, as it is now, would have of the version that a document
// is of. The digest tells whether that is what it was made of.
func (r *Reconciler) remadeRecord(ctx context.Context, seen *observed, s *corev1.Secret) (render.Record, error) {
	md := seen.md.DeepCopy()
	md.Annotations[api.AnnotationOSP] = s.Annotations[api.AnnotationProfile]
	md.Annotations[api.AnnotationVersionPin] = s.Annotations[api.AnnotationVersion]
	in, err := r.inputOf(ctx, md, render.Record{}, seen.settings, seen.values)
	if err == nil {
		in.Pool, _, err = r.cloudConfigs().Add(ctx, md, in)
	}
	if _, final := fault.Permanent(err); final || errors.Is(err, desired.ErrSourceNotReconciled) {
		return render.Record{}, nil
	}
	rec := in.Record()
	rec.SelectedBy = s.Annotations[api.AnnotationSelectedBy]
	return rec, err
}

// parseRecord is zero if the text is no record.
func parseRecord(text string) render.Record {
	rec, err := lineage.ParseRecord([]byte(text))
	if err != nil {
		return render.Record{}
	}
	return rec
}

// servedBy is what the documents of a pool say of themselves.
func servedBy(have objects) render.Record {
	for _, s := range []*corev1.Secret{have.bootstrap, have.provisioning} {
		if madeOf(s) {
			a := s.Annotations
			return render.Record{Profile: a[api.AnnotationProfile], Version: a[api.AnnotationVersion], Commit: a[api.AnnotationCommit]}
		}
	}
	return render.Record{}
}

// taken is the record of a configuration that somebody took away.
type taken struct {
	uid    types.UID // of the configuration
	record string
}

// keepTaken maps a configuration to its pool, and keeps the record of one that is deleted
// or edited, which nobody else has.
type keepTaken struct {
	handler.EventHandler
	memories *memories
}

func (k keepTaken) Update(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[crreconcile.Request]) {
	if e.ObjectOld.GetAnnotations()[api.AnnotationRecord] != e.ObjectNew.GetAnnotations()[api.AnnotationRecord] {
		k.keep(e.ObjectOld)
	}
	k.EventHandler.Update(ctx, e, q)
}

func (k keepTaken) Delete(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[crreconcile.Request]) {
	k.keep(e.Object)
	k.EventHandler.Delete(ctx, e, q)
}

func (k keepTaken) keep(was client.Object) {
	namespace, name, ok := cutKey(ownerOf(was))
	record := was.GetAnnotations()[api.AnnotationRecord]
	if !ok || !lineage.Intact(parseRecord(record)) {
		return
	}
	md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(was.GetAnnotations()[api.AnnotationPoolUID])}}
	k.memories.remember(md, func(m *memory) { m.taken = taken{was.GetUID(), record} })
}

// dropTaken forgets the record of a configuration of which the next one stands.
func (r *Reconciler) dropTaken(seen *observed) {
	was, osc := r.memories.recall(seen.md).taken, seen.objects.osc
	if was.record != "" && osc != nil && osc.UID != was.uid && lineage.Intact(recordOf(osc)) {
		r.memories.remember(seen.md, func(m *memory) { m.taken = taken{} })
	}
}

// exchange plans for documents that cannot be rendered again, because what they were
// made from is gone, that a token which is due gives way to another all the same. It
// is found by what it says of itself, and only where it stands as it is: a profile
// that encodes it has to be put right before it ends. The plan needs a token where
// there is none to put in its place.
func (r *Reconciler) exchange(ctx context.Context, seen *observed, p plan) (plan, error) {
	for _, d := range []struct {
		have *corev1.Secret
		into *secretPlan
	}{{seen.objects.provisioning, &p.provisioning}, {seen.objects.bootstrap, &p.bootstrap}} {
		if d.have == nil || lineage.AnnotatedTime(d.have.Annotations, api.AnnotationCredentialsExpireAt).IsZero() {
			continue // none, or one with the getter's token
		}
		if t, stays := seen.standingToken(d.have); stays {
			p.look = earliest(p.look, t.Renew)
			continue
		}
		if seen.node.Value == "" {
			return plan{needsNodeToken: true}, nil
		}
		write, err := r.exchanged(ctx, seen, d.have)
		if err != nil {
			return plan{}, err
		}
		if write == nil && p.unrenewed == nil {
			continue // it is tried again
		}
		if write == nil {
			p.unrenewed = fmt.Errorf("%w; the token in Secret %s ends at %s", p.unrenewed, d.have.Name, d.have.Annotations[api.AnnotationCredentialsExpireAt])
			continue
		}
		d.into.write = write
		p.look = earliest(p.look, seen.node.Renew)
	}
	return p, nil
}

// exchanged is a document with another token, nil where the one in it is not found.
// It has no tokens digest, so that it is rendered as soon as that is possible.
func (r *Reconciler) exchanged(ctx context.Context, seen *observed, have *corev1.Secret) (*corev1.Secret, error) {
	var live corev1.Secret
	if err := r.Worker.Live.Get(ctx, client.ObjectKeyFromObject(have), &live); err != nil {
		return nil, fault.Raced(fmt.Errorf("reading Secret %s: %w", client.ObjectKeyFromObject(have), err))
	}
	document, found := token.Replace(live.Data[api.UserDataKey], access.Name(seen.md), seen.node.Value)
	if !found {
		return nil, nil
	}
	annotations := maps.Clone(live.Annotations)
	for _, key := range []string{api.AnnotationTokensDigest, api.AnnotationCredentialsExpireAt, api.AnnotationCredentialsRenewAt} {
		delete(annotations, key)
	}
	seen.node.Annotate(annotations)
	annotations[api.AnnotationDataDigest] = dataDigest(document)
	return secretFor(live.Name, &live, annotations, map[string][]byte{api.UserDataKey: document}), nil
}
