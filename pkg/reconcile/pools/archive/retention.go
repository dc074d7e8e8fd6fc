package archive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// sweepInterval is the least time between two sweeps, and the time after which a change of
// records is followed by one. Without a change, and without a record that gets too old,
// there is none.
const sweepInterval = 10 * time.Minute

// Retention limits how long records of replaced configurations are stored. Records that a
// NodeProvenance names are always retained.
type Retention struct {
	// Limit is the number per pool; the oldest go first.
	Limit int
	// Gone applies to deleted pools: the time since they had a generation.
	Gone time.Duration
}

// Run sweeps until ctx ends.
func (a Archive) Run(ctx context.Context) error {
	a.State.Changed.Store(true)
	var due time.Time
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		// Changed is reset before the sweep, so that a change during the sweep starts another
		// one.
		if overdue := !due.IsZero() && !a.Clock.Now().Before(due); !a.State.Changed.Swap(false) && !overdue {
			continue
		}
		next, err := a.DeleteExpired(ctx)
		if err != nil {
			a.State.Changed.Store(true)
			if ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "removing old records")
			}
			continue
		}
		due = next
	}
}

// archivedEntry is the part of an archived record that a sweep needs. It is small because ten
// thousand pools can have twenty records each.
type archivedEntry struct {
	name, resourceVersion string
	uid                   types.UID
	digest                string // of the input
	settings              string // the name of the settings
	lastUsed              time.Time
}

// DeleteExpired deletes records that are too many or too old, and settings that no record has
// any more. It returns when the next record gets too old; zero for never.
func (a Archive) DeleteExpired(ctx context.Context) (next time.Time, err error) {
	// Configurations come first: of one that is replaced meanwhile the record is archived
	// before it goes, so that its settings are found here or there.
	used, err := a.settingsOfConfigs(ctx)
	if err != nil {
		return next, err
	}
	entries, err := a.archivedEntries(ctx)
	if err != nil {
		return next, err
	}
	var old []archivedEntry
	for pool, records := range entries {
		alive, err := a.isPoolActive(ctx, pool)
		if err != nil {
			return next, err
		}
		slices.SortFunc(records, func(x, y archivedEntry) int { // newest first
			return cmp.Or(y.lastUsed.Compare(x.lastUsed), strings.Compare(x.name, y.name))
		})
		for i, e := range records {
			end := e.lastUsed.Add(a.Retention.Gone)
			switch {
			case i >= a.Retention.Limit, !alive && !a.Clock.Now().Before(end):
				old = append(old, e)
			default:
				used[e.settings] = true
				if !alive && (next.IsZero() || end.Before(next)) {
					next = end
				}
			}
		}
	}
	named, err := a.deleteRecords(ctx, old)
	if err != nil {
		return next, err
	}
	// A record that remains needs its settings.
	for _, e := range named {
		used[e.settings] = true
	}
	if !a.Complete {
		return next, nil // another controller can be about to name settings that no object names yet
	}
	return next, a.sweepSettings(ctx, used)
}

// archivedEntries lists the archived records by pool, without their data.
func (a Archive) archivedEntries(ctx context.Context) (map[string][]archivedEntry, error) {
	out := map[string][]archivedEntry{}
	empty := kubeclient.MetadataList(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
	for list, err := range kubeclient.Pages(ctx, a.Live, empty, client.InNamespace(a.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}) {
		if err != nil {
			return nil, fmt.Errorf("listing archived records: %w", err)
		}
		for _, obj := range list.Items {
			pool := lineage.PoolOf(&obj)
			if pool == "" || obj.Annotations[api.AnnotationInputDigest] == "" {
				continue
			}
			last := obj.CreationTimestamp.Time
			if intervals := lineage.DecodeIntervals(obj.Annotations); len(intervals) > 0 {
				last = intervals[len(intervals)-1].Until.Time
			}
			out[pool] = append(out[pool], archivedEntry{
				name: obj.Name, resourceVersion: obj.ResourceVersion, uid: obj.UID,
				digest:   obj.Annotations[api.AnnotationInputDigest],
				settings: lineage.SettingsName(obj.Annotations[api.AnnotationSettingsDigest]),
				lastUsed: last,
			})
		}
	}
	return out, nil
}

// isPoolActive reports whether the MachineDeployment of a pool exists and requests a profile.
func (a Archive) isPoolActive(ctx context.Context, pool string) (bool, error) {
	key, ok := lineage.ParsePool(pool)
	if !ok {
		return false, nil
	}
	var md cluster.MachineDeployment
	found, err := kubeclient.Find(ctx, a.Pools, key, &md)
	return found && md.Annotations[api.AnnotationOSP] != "", err
}

// deleteRecords deletes records, but those that a NodeProvenance names, which it returns.
func (a Archive) deleteRecords(ctx context.Context, old []archivedEntry) (remaining []archivedEntry, err error) {
	if len(old) == 0 {
		return nil, nil
	}
	named, err := a.digestsInProvenances(ctx, old)
	if err != nil {
		return nil, err
	}
	for _, e := range old {
		if named[e.digest] || named[render.ShortDigest(e.digest)] {
			remaining = append(remaining, e)
			continue
		}
		// Delete only the state that was read: a pool can return to the generation at this moment.
		only := client.Preconditions{UID: &e.uid, ResourceVersion: &e.resourceVersion}
		record := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: e.name}}
		err := client.IgnoreNotFound(a.Management.Delete(ctx, record, only))
		// The record changed since it was listed, so a pool uses it again.
		if apierrors.IsConflict(err) {
			remaining = append(remaining, e)
			a.State.Changed.Store(true)
		} else if err != nil {
			return nil, fmt.Errorf("deleting ControllerRevision %s: %w", client.ObjectKeyFromObject(record), err)
		}
	}
	return remaining, nil
}

// digestsInProvenances returns the digests among those of records that a NodeProvenance names
// anywhere, whole or by their first 12 digits.
func (a Archive) digestsInProvenances(ctx context.Context, records []archivedEntry) (map[string]bool, error) {
	isNamed := map[string]bool{}
	for _, e := range records {
		isNamed[e.digest], isNamed[render.ShortDigest(e.digest)] = false, false
	}
	empty := &unstructured.UnstructuredList{}
	empty.SetGroupVersionKind(api.GroupVersion.WithKind("NodeProvenanceList"))
	for list, err := range kubeclient.Pages(ctx, a.Provenances, empty) {
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return nil, nil // a cluster without that kind
		}
		if err != nil {
			return nil, fmt.Errorf("listing NodeProvenances: %w", err)
		}
		for _, item := range list.Items {
			visitStrings(item.Object, func(text string) {
				if _, ok := isNamed[text]; ok {
					isNamed[text] = true
				}
			})
		}
	}
	return isNamed, nil
}

// visitStrings visits every text of a decoded object.
func visitStrings(v any, visit func(string)) {
	switch v := v.(type) {
	case string:
		visit(v)
	case []any:
		for _, e := range v {
			visitStrings(e, visit)
		}
	case map[string]any:
		for _, e := range v {
			visitStrings(e, visit)
		}
	}
}

// settingsOfConfigs names the settings that a configuration has.
func (a Archive) settingsOfConfigs(ctx context.Context) (map[string]bool, error) {
	used := map[string]bool{}
	configs, err := kubeclient.ListConfigMetadata(ctx, a.Management, a.Namespace)
	if err != nil {
		return nil, err
	}
	for i := range configs {
		rec, _ := lineage.ParseRecordAnnotation(&configs[i])
		used[lineage.SettingsName(rec.SettingsDigest)] = true
	}
	return used, nil
}
