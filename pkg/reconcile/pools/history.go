package pools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

const (
	// sweepInterval is the least time between two looks at the archived records, and
	// the time after which a change of them is followed by one. Where nothing changes
	// and nothing gets too old there is none.
	sweepInterval = 10 * time.Minute
)

// History is how long records of replaced configurations are kept. Those that a
// NodeProvenance names stay in any case.
type History struct {
	// Limit is the number per pool; the oldest go first.
	Limit int
	// Retention is for pools that are gone: the time since they had a generation.
	Retention time.Duration
}

// keepHistory sweeps until ctx ends.
func (r *Reconciler) keepHistory(ctx context.Context) error {
	r.historyChanged.Store(true)
	var due time.Time
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if overdue := !due.IsZero() && !r.Clock.Now().Before(due); !r.historyChanged.Swap(false) && !overdue {
			continue
		}
		next, err := r.sweep(ctx)
		if err != nil {
			r.historyChanged.Store(true)
			if ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "removing old records")
			}
			continue
		}
		due = next
	}
}

// archivedEntry is what a sweep has to know of an archived record, and no more: ten
// thousand pools may have twenty each.
type archivedEntry struct {
	name, resourceVersion string
	uid                   types.UID
	digest                string // of the input
	settings              string // the name of the settings
	lastUsed              time.Time
}

// sweep deletes records that are too many or too old, and settings that no record has
// any more. It returns when the next record gets too old; zero for never.
func (r *Reconciler) sweep(ctx context.Context) (next time.Time, err error) {
	// Configurations come first: of one that is replaced meanwhile the record is archived
	// before it goes, so that its settings are found here or there.
	used, err := r.settingsInUse(ctx)
	if err != nil {
		return next, err
	}
	entries, err := r.archivedEntries(ctx)
	if err != nil {
		return next, err
	}
	var old []archivedEntry
	for pool, of := range entries {
		alive, err := r.alive(ctx, pool)
		if err != nil {
			return next, err
		}
		slices.SortFunc(of, func(a, b archivedEntry) int { // newest first
			return cmp.Or(b.lastUsed.Compare(a.lastUsed), strings.Compare(a.name, b.name))
		})
		for i, e := range of {
			end := e.lastUsed.Add(r.History.Retention)
			switch {
			case i >= r.History.Limit, !alive && !r.Clock.Now().Before(end):
				old = append(old, e)
			default:
				used[e.settings] = true
				if !alive && (next.IsZero() || end.Before(next)) {
					next = end
				}
			}
		}
	}
	named, err := r.deleteRecords(ctx, old)
	if err != nil {
		return next, err
	}
	for _, e := range named {
		used[e.settings] = true
	}
	if !r.Shard.Whole() {
		return next, nil // another controller may be about to name settings that nothing names yet
	}
	return next, r.sweepSettings(ctx, used)
}

// archivedEntries lists the archived records by pool, without their data.
func (r *Reconciler) archivedEntries(ctx context.Context) (map[string][]archivedEntry, error) {
	out := map[string][]archivedEntry{}
	settings := map[string]string{} // of many records they are the same
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
	err := kubeclient.EachPage(ctx, r.Management.Live, list, func() {
		for _, obj := range list.Items {
			pool := ownerOf(&obj)
			if pool == "" || obj.Annotations[api.AnnotationInputDigest] == "" {
				continue
			}
			last := obj.CreationTimestamp.Time
			if intervals := intervalsOf(&obj); len(intervals) > 0 {
				last = intervals[len(intervals)-1].Until.Time
			}
			name := lineage.SettingsName(obj.Annotations[api.AnnotationSettingsDigest])
			if _, ok := settings[name]; !ok {
				settings[name] = name
			}
			out[pool] = append(out[pool], archivedEntry{
				name: obj.Name, resourceVersion: obj.ResourceVersion, uid: obj.UID,
				digest: obj.Annotations[api.AnnotationInputDigest], settings: settings[name], lastUsed: last,
			})
		}
	}, client.InNamespace(r.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager})
	if err != nil {
		return nil, fmt.Errorf("listing archived records: %w", err)
	}
	return out, nil
}

func (r *Reconciler) alive(ctx context.Context, pool string) (bool, error) {
	namespace, name, ok := cutKey(pool)
	if !ok {
		return false, nil
	}
	var md cluster.MachineDeployment
	found, err := kubeclient.Find(ctx, r.Worker, types.NamespacedName{Namespace: namespace, Name: name}, &md)
	return found && md.Annotations[api.AnnotationOSP] != "", err
}

// deleteRecords deletes records, but those that a NodeProvenance names, which it returns.
func (r *Reconciler) deleteRecords(ctx context.Context, old []archivedEntry) (kept []archivedEntry, err error) {
	if len(old) == 0 {
		return nil, nil
	}
	named, err := r.provenances(ctx, old)
	if err != nil {
		return nil, err
	}
	for _, e := range old {
		if named[e.digest] || named[render.ShortDigest(e.digest)] {
			kept = append(kept, e)
			continue
		}
		// Of exactly what was read: a pool may return to the generation just now.
		only := client.Preconditions{UID: ptr(e.uid), ResourceVersion: ptr(e.resourceVersion)}
		record := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: e.name}}
		err := client.IgnoreNotFound(r.Management.Delete(ctx, record, only))
		if apierrors.IsConflict(err) {
			kept = append(kept, e)
			r.historyChanged.Store(true)
		} else if err != nil {
			return nil, fmt.Errorf("deleting ControllerRevision %s: %w", client.ObjectKeyFromObject(record), err)
		}
	}
	return kept, nil
}

// provenances returns the digests among those of records that a NodeProvenance names
// anywhere, whole or by their first 12 digits.
func (r *Reconciler) provenances(ctx context.Context, records []archivedEntry) (map[string]bool, error) {
	asked := map[string]bool{}
	for _, e := range records {
		asked[e.digest], asked[render.ShortDigest(e.digest)] = false, false
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(api.GroupVersion.WithKind("NodeProvenanceList"))
	err := kubeclient.EachPage(ctx, r.Worker.Live, list, func() {
		for _, item := range list.Items {
			texts(item.Object, func(s string) {
				if _, ok := asked[s]; ok {
					asked[s] = true
				}
			})
		}
	})
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil // a cluster without that kind
	}
	if err != nil {
		return nil, fmt.Errorf("listing NodeProvenances: %w", err)
	}
	return asked, nil
}

// texts visits every text of a decoded object.
func texts(v any, visit func(string)) {
	switch v := v.(type) {
	case string:
		visit(v)
	case []any:
		for _, e := range v {
			texts(e, visit)
		}
	case map[string]any:
		for _, e := range v {
			texts(e, visit)
		}
	}
}

// settingsInUse names the settings that a configuration has.
func (r *Reconciler) settingsInUse(ctx context.Context) (map[string]bool, error) {
	used := map[string]bool{}
	var configs osm.OperatingSystemConfigList
	if err := r.Management.List(ctx, &configs, client.InNamespace(r.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing OperatingSystemConfigs: %w", err)
	}
	for i := range configs.Items {
		used[lineage.SettingsName(recordOf(&configs.Items[i]).SettingsDigest)] = true
	}
	return used, nil
}

// sweepSettings deletes settings that neither a configuration nor a record has. Those
// that some pool was just given are not in what was read.
func (r *Reconciler) sweepSettings(ctx context.Context, used map[string]bool) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	var unused []metav1.PartialObjectMetadata
	err := kubeclient.EachPage(ctx, r.Management.Live, list, func() {
		for _, cm := range list.Items {
			if strings.HasPrefix(cm.Name, lineage.SettingsPrefix) && !used[cm.Name] {
				unused = append(unused, cm)
			}
		}
	}, client.InNamespace(r.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager})
	if err != nil {
		return fmt.Errorf("listing settings: %w", err)
	}
	for _, cm := range unused {
		if err := r.deleteSettings(ctx, cm); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) deleteSettings(ctx context.Context, cm metav1.PartialObjectMetadata) error {
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	now := r.Clock.Now()
	if at, ok := r.settings.Load(cm.Name); ok && now.Sub(at.(time.Time)) < 2*settingsTrust || now.Sub(cm.CreationTimestamp.Time) < 2*settingsTrust {
		r.historyChanged.Store(true) // look again
		return nil
	}
	r.settings.Delete(cm.Name)
	err := r.Management.Delete(ctx, &corev1.ConfigMap{ObjectMeta: cm.ObjectMeta}, client.Preconditions{UID: ptr(cm.UID)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting ConfigMap %s: %w", client.ObjectKeyFromObject(&cm), err)
	}
	return nil
}
