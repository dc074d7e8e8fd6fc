package retention

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile/catalog"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
)

const (
	// maxDeleted limits how many deleted objects stay in memory that no history contains.
	maxDeleted = 100
	// recordTrust is how long an archived record counts as existing after it was seen, so
	// that not every reconciliation reads it again.
	recordTrust = time.Hour
)

// Applied is what Apply did.
type Applied struct {
	created, deleted []string // profiles with their version
	skipped          []string // versions in the history that pools cannot get, and why
}

// Apply creates the objects of superseded versions, and last deletes the unused ones after another
// check. It runs after the inventory is written, so that pools with the current version do not wait
// for it.
func (t *Retainer) Apply(ctx context.Context, l objects.Approved, p Plan) (Applied, error) {
	out := Applied{skipped: slices.Clone(p.skipped)}
	// One failure must not stop the other versions and profiles.
	var errs []error
	for _, missing := range p.profiles {
		for _, v := range missing.versions {
			created, why, err := t.create(ctx, l, v)
			errs = append(errs, err)
			if why != "" {
				out.skipped = append(out.skipped, describeSkipped(v, why))
			}
			if created {
				out.created = append(out.created, v.Name+" "+v.Version)
			}
		}
		recreated, err := t.recreateDeleted(ctx, missing.deleted)
		out.created = append(out.created, recreated...)
		errs = append(errs, err)
	}
	deleted, err := t.deleteUnused(ctx, l, p.unused)
	out.deleted = deleted
	return out, errors.Join(append(errs, err)...)
}

// create creates the object of a superseded version. A version that the API server rejects is
// skipped and is not an error of the source. Of a long history Observe checked only the newest
// signatures, so this is where that of any other version is checked.
func (t *Retainer) create(ctx context.Context, l objects.Approved, v catalog.Version) (created bool, skipped string, err error) {
	if why, err := l.Approval.SignatureProblem(ctx, l.Snapshot, v); err != nil || why != "" {
		return false, why, err
	}
	did, err := t.Objects.Ensure(ctx, l, v)
	if _, ok := errors.AsType[*objects.ConflictError](err); ok {
		// The API server would reject the same content in each run.
		t.Archive.rejected[rejectedKey(l.Source, v)] = err.Error()
		return false, err.Error(), nil
	}
	return did.Created, "", err
}

// recreateDeleted recreates objects of one profile, and stops at the first error.
func (t *Retainer) recreateDeleted(ctx context.Context, deleted []*osm.OperatingSystemProfile) ([]string, error) {
	var made []string
	for _, o := range deleted {
		if err := t.Objects.Recreate(ctx, o); err != nil {
			return made, err
		}
		delete(t.Archive.deleted, o.Name)
		made = append(made, nameAndVersionOf(o))
	}
	return made, nil
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
func (t *Retainer) deleteUnused(ctx context.Context, l objects.Approved, unused []*osm.OperatingSystemProfile) ([]string, error) {
	unused, err := t.dropWithArchivedRecord(ctx, unused)
	if err != nil {
		return nil, err
	}
	var gone []string
	var errs []error
	for _, o := range unused {
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

// dropWithArchivedRecord drops the objects that archived records name. Observe does not read them:
// for safety they are read from the API server right before the deletions, after everything else
// was written. An error keeps all objects.
func (t *Retainer) dropWithArchivedRecord(ctx context.Context, unused []*osm.OperatingSystemProfile) ([]*osm.OperatingSystemProfile, error) {
	now := t.Now()
	// Records are deleted too, so an answer is trusted only for a time.
	maps.DeleteFunc(t.Archive.recorded, func(_ string, seen time.Time) bool { return now.Sub(seen) >= recordTrust })
	var out []*osm.OperatingSystemProfile
	for _, o := range unused {
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
