package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/phrase"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/notify"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

const (
	// maxDeleted limits how many deleted objects stay in memory that no history contains.
	maxDeleted = 100
	// recordTrust is how long an archived record counts as existing after it was seen, so
	// that not every reconciliation reads it again.
	recordTrust = time.Hour
)

// Retainer decides which versions exist as objects in addition to the current ones: versions
// that pools request or use, and the newest others. It creates those that are missing, deletes
// those without references, and lists all of them in the inventory.
type Retainer struct {
	Objects  *objects.Writer
	Archive  *Archive // nil when the source is deleted
	Pools    *Pools
	Recorder events.EventRecorder
	Now      func() time.Time
}

// Archive is what the controller remembers about the versions of a source between
// reconciliations.
type Archive struct {
	rejected map[string]string                      // rejectedKey -> why the API server rejects the version
	skipped  string                                 // text of the last event about skipped versions
	recorded map[string]time.Time                   // objects that archived records name, and when they were last seen
	deleted  map[string]*osm.OperatingSystemProfile // deleted objects that no history contains
	failed   string                                 // text of the last event about rejected writes
}

func NewArchive() *Archive {
	return &Archive{rejected: map[string]string{}, recorded: map[string]time.Time{}, deleted: map[string]*osm.OperatingSystemProfile{}}
}

// VersionIndexes lists all versions that one reconciliation found: one versionIndex for each
// profile that the source offers, has in its inventory or has objects of.
type VersionIndexes struct {
	byName  map[string]*versionIndex
	current map[string]catalog.Version
	skipped []string        // versions in the history that pools cannot get, and why
	foreign map[string]bool // objects that inventories of other sources name
}

func (s *VersionIndexes) skip(v catalog.Version, why string) {
	s.skipped = append(s.skipped, fmt.Sprintf("%s %s (%s)", v.Name, v.Version, why))
}

// IndexVersions finds the existing versions of every profile, and what refers to them. It deletes
// nothing in the cluster.
func (t *Retainer) IndexVersions(ctx context.Context, l objects.Approved, cat *catalog.Catalog, current map[string]catalog.Version, unchanged map[string]bool) (*VersionIndexes, error) {
	existing, err := t.objectsOf(ctx, l.Source, current, l.Others)
	if err != nil {
		return nil, err
	}
	used, err := listUsesByConfigs(ctx, t.Objects.Client, l.Source.Namespace)
	if err != nil {
		return nil, err
	}
	rolled := selection.ObjectsOfRollouts(l.Source)
	s := &VersionIndexes{byName: map[string]*versionIndex{}, current: current, foreign: objectsInInventories(l.Others)}
	names := map[string]bool{}
	for name := range current {
		names[name] = true
	}
	for name := range existing {
		names[name] = true
	}
	for _, e := range l.Source.Status.Profiles {
		names[e.Name] = true
	}
	known := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		pins, err := t.Pools.pins(ctx, l.Source.Namespace, name)
		if err != nil {
			return nil, err
		}
		version, live := current[name]
		index := &versionIndex{name: name, live: live, current: version, sourceUnknown: unchanged[name], references: references{pins: pins, used: used, rolled: rolled}}
		all := storedVersions(l.Source, cat.History[name], existing[name])
		for _, e := range all {
			if e.history != nil {
				known[rejectedKey(l.Source, *e.history)] = true
			}
		}
		index.stored, err = t.filterServable(ctx, l, s, all)
		if err != nil {
			return nil, err
		}
		s.byName[name] = index
	}
	// Versions that left the history are forgotten, so that memory is bounded.
	maps.DeleteFunc(t.Archive.rejected, func(key, _ string) bool { return !known[key] })
	for _, ref := range cat.Skipped {
		s.skipped = append(s.skipped, fmt.Sprintf("%s %s (%v)", ref.Profile, ref.Version, ref))
	}
	return s, nil
}

// rejectedKey is the key of a version of the history in archive.rejected.
func rejectedKey(ps *api.ProfileSource, v catalog.Version) string {
	return objects.VersionedObjectName(ps, v) + v.Digest
}

// objectsOf lists the objects of a source by profile: those that it created, and those
// that a deleted source created of a profile that this source offers now.
func (t *Retainer) objectsOf(ctx context.Context, ps *api.ProfileSource, current map[string]catalog.Version, others []api.ProfileSource) (map[string][]*osm.OperatingSystemProfile, error) {
	var list osm.OperatingSystemProfileList
	err := t.Objects.Client.List(ctx, &list, client.InNamespace(ps.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing OperatingSystemProfiles: %w", err)
	}
	otherSources := map[string]bool{api.DefaultsName: true}
	for _, other := range others {
		otherSources[other.Name] = true
	}
	out := map[string][]*osm.OperatingSystemProfile{}
	for i := range list.Items {
		o := &list.Items[i]
		name, from := o.Labels[api.LabelProfile], o.Labels[api.LabelSource]
		_, isCurrent := current[name]
		if name != "" && (from == ps.Name || isCurrent && !otherSources[from]) {
			out[name] = append(out[name], o)
		}
	}
	return out, nil
}

// filterServable drops the versions of the history that cannot become objects, because the API
// server rejects them or no trusted signature covers them. It checks signatures of only
// the newest api.MaxListedVersions versions that have no object.
func (t *Retainer) filterServable(ctx context.Context, l objects.Approved, s *VersionIndexes, all []storedVersion) ([]storedVersion, error) {
	var out []storedVersion
	checked := 0
	for _, e := range all {
		if e.object == nil && !e.is(s.current[e.history.Name]) {
			why := t.Archive.rejected[rejectedKey(l.Source, *e.history)]
			if checked++; why == "" && checked <= api.MaxListedVersions {
				var err error
				if why, err = l.Approval.SignatureProblem(ctx, l.Snapshot, *e.history); err != nil {
					return nil, err
				}
			}
			if why != "" {
				s.skip(*e.history, why)
				continue
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// AddVersionsAndPruneEntries adds to each inventory entry the other versions that pools can
// request. It drops the entry of a profile that left the source when no configuration uses it and
// no pool names it.
func (t *Retainer) AddVersionsAndPruneEntries(ctx context.Context, ps *api.ProfileSource, entries []api.ProfileEntry, s *VersionIndexes) ([]api.ProfileEntry, error) {
	was := map[string]bool{}
	for _, e := range ps.Status.Profiles {
		was[e.Name] = e.Removed
	}
	var out []api.ProfileEntry
	// All entries are in the status of one object, which must stay below the etcd size limit.
	listed := min(api.MaxListedVersions, max(historyLimit(ps), api.MaxListedTotal/max(len(entries), 1)))
	for _, e := range entries {
		index := s.byName[e.Name]
		if e.Removed && was[e.Name] && prunes(ps) && len(index.references.used[e.Name]) == 0 {
			named, err := t.Pools.isPossiblyNamedByPool(ctx, ps.Namespace, e.Name)
			if err != nil {
				return nil, err
			}
			if !named {
				continue
			}
		}
		index.entry = e
		e.Versions = slices.DeleteFunc(index.requestableVersions(listed), func(v string) bool { return v == e.Version })
		if e.Removed || len(e.Versions) == 0 {
			e.Versions = nil // pools cannot get them, or the list is empty
		}
		out = append(out, e)
	}
	return out, nil
}

// CreateAndPrune creates and deletes superseded versions according to what refers to them. It runs
// after the inventory is written, so that pools with the current version do not wait for it.
func (t *Retainer) CreateAndPrune(ctx context.Context, l objects.Approved, s *VersionIndexes) error {
	var made, gone []string
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		index := s.byName[name]
		retained := index.markRetained(historyLimit(l.Source))
		for i, e := range index.stored {
			if !retained[i] || e.object != nil || e.history == nil || e.is(index.current) {
				continue // the object exists, or apply handled it
			}
			created, err := t.createOrSkip(ctx, l, s, *e.history)
			// One failure must not stop the other versions and profiles.
			errs = append(errs, err)
			if created {
				made = append(made, name+" "+e.version)
			}
		}
		back, err := t.recreateDeleted(ctx, index)
		made, errs = append(made, back...), append(errs, err)
	}
	if prunes(l.Source) {
		var err error
		gone, err = t.deleteUnused(ctx, l, s)
		errs = append(errs, err)
	}
	if len(made) > 0 {
		notify.EmitSourceEvent(t.Recorder, l.Source, corev1.EventTypeNormal, api.EventProfileCreated, "%s in the cluster: %s", notify.PluralizeWithVerb(len(made), "earlier version"), strings.Join(made, ", "))
	}
	if len(gone) > 0 {
		notify.EmitSourceEvent(t.Recorder, l.Source, corev1.EventTypeNormal, api.EventProfilePruned, "%s deleted, to which nothing refers: %s", notify.PluralizeWithVerb(len(gone), "version"), strings.Join(gone, ", "))
	}
	t.emitSkipped(l, s)
	return t.reportPermanentWriteError(ctx, l.Source, errors.Join(errs...))
}

// createOrSkip creates the object of a superseded version. A version that the API server
// rejects is skipped and is not an error of the source.
func (t *Retainer) createOrSkip(ctx context.Context, l objects.Approved, s *VersionIndexes, v catalog.Version) (bool, error) {
	if why, err := l.Approval.SignatureProblem(ctx, l.Snapshot, v); err != nil || why != "" {
		if why != "" {
			s.skip(v, why)
		}
		return false, err
	}
	did, err := t.Objects.Ensure(ctx, l, v)
	if _, ok := errors.AsType[*objects.ConflictError](err); ok {
		// The API server would reject the same content in each run.
		t.Archive.rejected[rejectedKey(l.Source, v)] = err.Error()
		s.skip(v, err.Error())
		return false, nil
	}
	return did.Created, err
}

// recreateDeleted recreates objects that were deleted just before a configuration began to use
// them, and that the source no longer contains.
func (t *Retainer) recreateDeleted(ctx context.Context, index *versionIndex) ([]string, error) {
	var made []string
	for name, o := range t.Archive.deleted {
		if o.Labels[api.LabelProfile] != index.name || !index.references.used.includes(o) {
			continue
		}
		if err := t.Objects.Recreate(ctx, o); err != nil {
			return made, err
		}
		delete(t.Archive.deleted, name)
		made = append(made, index.name+" "+objects.VersionOf(o))
	}
	return made, nil
}

// emitSkipped emits one event about the versions of the history that pools cannot get,
// and another only when they change.
func (t *Retainer) emitSkipped(l objects.Approved, s *VersionIndexes) {
	text := strings.Join(s.skipped, "; ")
	if text == t.Archive.skipped {
		return
	}
	t.Archive.skipped = text
	if text != "" {
		notify.EmitSourceEvent(t.Recorder, l.Source, corev1.EventTypeWarning, api.EventProfileSkipped, "%s of the history cannot be used by pools: %s", phrase.Count(len(s.skipped), "version"), text)
	}
}

// reportPermanentWriteError reports a write that the API server will reject again, because a
// permission is missing or a policy forbids it. It returns nil then, so that reconciling
// continues: every current version is applied. Other errors are returned.
func (t *Retainer) reportPermanentWriteError(ctx context.Context, ps *api.ProfileSource, err error) error {
	if err == nil {
		t.Archive.failed = ""
		return nil
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		return err
	}
	if text := err.Error(); text != t.Archive.failed {
		t.Archive.failed = text
		log.FromContext(ctx).Error(err, "storing earlier versions of profiles")
		notify.EmitSourceEvent(t.Recorder, ps, corev1.EventTypeWarning, api.EventWriteRefused, "%v", err)
	}
	return nil
}

// nameAndVersionOf is the name of an object's version in events.
func nameAndVersionOf(o *osm.OperatingSystemProfile) string {
	return cmp.Or(o.Labels[api.LabelProfile], o.Name) + " " + objects.VersionOf(o)
}

// deleteUnused deletes the versions that are not in the source, exceed the limit and have no
// references. It returns their names.
//
// A pool may begin to use a version between the check and the deletion. The deletion
// starts another reconciliation, which finds the pool's configuration and recreates the
// object: from the history or, if the source has none, from the deleted object.
func (t *Retainer) deleteUnused(ctx context.Context, l objects.Approved, s *VersionIndexes) ([]string, error) {
	if t.Pools.awaited() {
		return nil, nil // a pool that is not known yet may request any version
	}
	var candidates []*osm.OperatingSystemProfile
	for _, index := range s.byName {
		if index.sourceUnknown {
			continue
		}
		retained := index.markRetained(historyLimit(l.Source))
		for i, e := range index.stored {
			if e.object != nil && !retained[i] && !s.foreign[e.object.Name] {
				candidates = append(candidates, e.object)
			}
		}
	}
	candidates, err := t.dropWithArchivedRecord(ctx, candidates)
	if err != nil {
		return nil, err
	}
	var gone []string
	var errs []error
	for _, o := range candidates {
		deleted, err := t.Objects.Delete(ctx, o)
		errs = append(errs, err)
		if !deleted {
			continue
		}
		gone = append(gone, nameAndVersionOf(o))
		if len(l.Snapshot.Line) == 0 && len(t.Archive.deleted) < maxDeleted {
			t.Archive.deleted[o.Name] = o.DeepCopy()
		}
	}
	slices.Sort(gone)
	return gone, errors.Join(errs...)
}

// dropWithArchivedRecord drops the objects that archived records name.
func (t *Retainer) dropWithArchivedRecord(ctx context.Context, candidates []*osm.OperatingSystemProfile) ([]*osm.OperatingSystemProfile, error) {
	now := t.Now()
	// Records are deleted too, so an answer is trusted only for a time.
	maps.DeleteFunc(t.Archive.recorded, func(_ string, seen time.Time) bool { return now.Sub(seen) >= recordTrust })
	var out []*osm.OperatingSystemProfile
	for _, o := range candidates {
		if _, ok := t.Archive.recorded[o.Name]; ok {
			continue
		}
		recorded, err := hasArchivedRecord(ctx, t.Objects.Live, o)
		if err != nil {
			return nil, err
		}
		if recorded {
			t.Archive.recorded[o.Name] = now
			continue
		}
		out = append(out, o)
	}
	return out, nil
}

// DeleteAllUnretained deletes the objects of a source, and names those that remain. It bypasses the
// cache: an object that the cache does not contain yet would never be deleted.
func (t *Retainer) DeleteAllUnretained(ctx context.Context, ps *api.ProfileSource) ([]string, error) {
	var list osm.OperatingSystemProfileList
	err := t.Objects.Live.List(ctx, &list, client.InNamespace(ps.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager, api.LabelSource: ps.Name})
	if err != nil {
		return nil, fmt.Errorf("listing OperatingSystemProfiles: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	needed, err := t.retainedOnDeletion(ctx, ps)
	if err != nil {
		return nil, err
	}
	var left []string
	for i := range list.Items {
		o := &list.Items[i]
		isRetained := needed(o)
		if !isRetained {
			isRetained, err = hasArchivedRecord(ctx, t.Objects.Live, o)
		}
		if !isRetained && err == nil {
			_, err = t.Objects.Delete(ctx, o)
		}
		switch {
		case isRetained, apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			left = append(left, o.Name)
		case err != nil:
			return nil, err
		}
	}
	slices.Sort(left)
	return left, nil
}

// retainedOnDeletion returns a predicate for objects that must remain when their source is
// deleted: those that configurations use or that another source has in its inventory, and
// all of them if the source does not prune.
func (t *Retainer) retainedOnDeletion(ctx context.Context, ps *api.ProfileSource) (func(*osm.OperatingSystemProfile) bool, error) {
	used, err := listUsesByConfigs(ctx, t.Objects.Client, ps.Namespace)
	if err != nil {
		return nil, err
	}
	others, err := OtherSources(ctx, t.Objects.Client, ps)
	if err != nil {
		return nil, err
	}
	named := objectsInInventories(others)
	return func(o *osm.OperatingSystemProfile) bool {
		return !prunes(ps) || used.includes(o) || named[o.Name]
	}, nil
}
