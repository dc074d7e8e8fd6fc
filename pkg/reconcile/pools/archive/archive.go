package archive

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Archive reads and writes archived records. It is a value: its cached state is in State.
type Archive struct {
	// Management reads configurations through a cache, and writes; Live reads from the
	// same API server.
	Management client.Client
	Live       client.Reader
	// Pools reads MachineDeployments, Provenances the NodeProvenances.
	Pools, Provenances client.Reader
	Clock              clock.PassiveClock
	// Namespace is the controller's.
	Namespace string
	Retention Retention
	// Complete says that this controller handles every pool. If not, another controller may
	// be about to name settings that nothing names yet, and none are deleted.
	Complete bool
	State    *State
}

// Store archives the record of a configuration that is about to be deleted. Call it before the
// deletion, so that an interruption between the two loses nothing; a second call completes a
// partial archive. A *fault.Rejection says that other objects have the names of the record.
func (a Archive) Store(ctx context.Context, osc *osm.OperatingSystemConfig, rec render.Record) error {
	pool, ok := lineage.ParsePool(lineage.PoolOf(osc))
	if !ok {
		return nil
	}
	// This comes before the write, so that a failure in between starts a sweep as well.
	a.State.Changed.Store(true)
	for _, n := range lineage.RecordNames(pool, rec.Digests.Input) {
		nameInUse, err := a.storeAs(ctx, n, osc, rec)
		if err != nil || !nameInUse {
			return err
		}
	}
	return &fault.Rejection{Reason: api.EventNameCollision, Err: fmt.Errorf("archiving the record of OperatingSystemConfig %s: ControllerRevisions of other content have its names %q: delete those",
		client.ObjectKeyFromObject(osc), lineage.RecordNames(pool, rec.Digests.Input))}
}

// storeAs archives under a name, or reports that another object has it.
func (a Archive) storeAs(ctx context.Context, name string, osc *osm.OperatingSystemConfig, rec render.Record) (nameInUse bool, err error) {
	interval := api.Interval{
		From: osc.CreationTimestamp, Until: metav1.NewTime(a.Clock.Now()), UID: osc.UID,
		Replaces: types.UID(osc.Annotations[api.AnnotationReplaces]),
		Revision: osc.Annotations[api.AnnotationRevisionFor], SelectedBy: rec.SelectedBy,
	}
	if interval.Until.Before(&interval.From) {
		interval.Until = interval.From // the clocks of the API server and of this process differ
	}
	revision, err := newRecord(name, a.Namespace, osc, rec, interval)
	if err != nil {
		return false, err
	}
	err = a.Management.Create(ctx, revision, client.FieldOwner(api.FieldManager))
	if err == nil {
		return false, nil
	}
	key := client.ObjectKeyFromObject(revision)
	if !apierrors.IsAlreadyExists(err) {
		return false, fmt.Errorf("creating ControllerRevision %s: %w", key, err)
	}
	var have appsv1.ControllerRevision
	if err := a.Live.Get(ctx, key, &have); err != nil {
		return false, fault.MarkRace(fmt.Errorf("reading ControllerRevision %s: %w", key, err))
	}
	if !isRecord(lineage.ArchivedRecord(&have), lineage.PoolOf(osc), rec.Digests.Input) {
		return true, nil
	}
	return false, a.storeInterval(ctx, &have, interval)
}

// storeInterval adds an interval to a record that is archived already.
func (a Archive) storeInterval(ctx context.Context, have *appsv1.ControllerRevision, interval api.Interval) error {
	text, err := lineage.EncodeIntervals(lineage.AddInterval(lineage.DecodeIntervals(have.Annotations), interval))
	if err != nil {
		return err
	}
	return fault.MarkRace(kubeclient.MergePatchWithLock(ctx, a.Management, have, map[string]any{
		"revision": interval.Until.Unix(),
		"metadata": map[string]any{"annotations": map[string]string{api.AnnotationIntervals: text}},
	}))
}

// FindRecord reads the archived record of a pool's generation. It returns nil without an error if
// there is none.
func (a Archive) FindRecord(ctx context.Context, pool types.NamespacedName, inputDigest string) (*appsv1.ControllerRevision, error) {
	stored, err := lineage.FindArchivedRecord(ctx, kubeclient.Owners{a.Live}, a.Namespace, pool, inputDigest, func(s *lineage.StoredRecord) bool {
		return isRecord(s, pool.String(), inputDigest)
	})
	if err != nil || stored == nil {
		return nil, err
	}
	return stored.Archived, nil
}

// newRecord is the archived form of a configuration's record. Its revision is the time
// at which it was last in use, so that records sort by it.
func newRecord(name, namespace string, osc *osm.OperatingSystemConfig, rec render.Record, interval api.Interval) (*appsv1.ControllerRevision, error) {
	intervals, err := lineage.EncodeIntervals([]api.Interval{interval})
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{
		api.AnnotationIntervals:      intervals,
		api.AnnotationSettingsDigest: rec.SettingsDigest,
	}
	for _, k := range []string{
		api.AnnotationPool, api.AnnotationPoolUID, api.AnnotationProfile, api.AnnotationVersion, api.AnnotationRepository,
		api.AnnotationPath, api.AnnotationCommit, api.AnnotationChange, api.AnnotationInputDigest,
	} {
		if v := osc.Annotations[k]; v != "" {
			annotations[k] = v
		}
	}
	annotations[api.AnnotationInputDigest] = rec.Digests.Input
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, Annotations: annotations,
			Labels: recordLabels(lineage.PoolOf(osc), rec),
		},
		Data:     runtime.RawExtension{Raw: []byte(osc.Annotations[api.AnnotationRecord])},
		Revision: interval.Until.Unix(),
	}, nil
}

// recordLabels returns the labels that select records. A manually created profile can have a
// name or a version that is not a valid label value; the annotations contain them.
func recordLabels(pool string, rec render.Record) map[string]string {
	labels := map[string]string{api.LabelManagedBy: api.FieldManager, api.LabelPool: PoolLabelValue(pool)}
	for k, v := range map[string]string{api.LabelProfile: rec.Profile, api.LabelVersion: profile.LabelVersion(rec.Version)} {
		if len(validation.IsValidLabelValue(v)) == 0 {
			labels[k] = v
		}
	}
	return labels
}

// isRecord reports whether an object is the archived record of a pool's generation.
func isRecord(s *lineage.StoredRecord, pool, inputDigest string) bool {
	return lineage.PoolOf(s.Archived) == pool && s.Archived.Labels[api.LabelManagedBy] == api.FieldManager && s.Record.Digests.Input == inputDigest
}

// Record decodes the record in a ControllerRevision. It is zero if there is no valid record.
func Record(obj *appsv1.ControllerRevision) render.Record { return lineage.ArchivedRecord(obj).Record }

// PoolLabelValue returns the value of api.LabelPool on the records of a pool, "<namespace>/<name>".
func PoolLabelValue(pool string) string {
	key, _ := lineage.ParsePool(pool)
	return api.PoolLabel(key.Namespace, key.Name)
}
