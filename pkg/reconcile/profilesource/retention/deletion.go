package retention

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// DeleteAllUnretained deletes the objects of a deleted source, and names those that remain.
func (t *Retainer) DeleteAllUnretained(ctx context.Context, ps *api.ProfileSource) ([]string, error) {
	seen, err := t.observeDeleted(ctx, ps)
	if err != nil {
		return nil, err
	}
	left, unused := planDeletion(ps, seen)
	undeleted, err := t.deleteWithoutRecord(ctx, unused)
	if err != nil {
		return nil, err
	}
	left = append(left, undeleted...)
	slices.Sort(left)
	return left, nil
}

// observedDeleted is what was read about a deleted source.
type observedDeleted struct {
	objects []osm.OperatingSystemProfile
	used    uses
	foreign map[string]bool // objects that inventories of other sources name
}

// observeDeleted lists the objects of a deleted source and what refers to them. It bypasses the
// cache for the objects: one that the cache does not contain yet would never be deleted.
func (t *Retainer) observeDeleted(ctx context.Context, ps *api.ProfileSource) (seen observedDeleted, err error) {
	var list osm.OperatingSystemProfileList
	err = t.Objects.Live.List(ctx, &list, client.InNamespace(ps.Namespace), client.MatchingLabels{api.LabelManagedBy: api.FieldManager, api.LabelSource: ps.Name})
	if err != nil {
		return seen, fmt.Errorf("listing OperatingSystemProfiles: %w", err)
	}
	if len(list.Items) == 0 {
		return seen, nil
	}
	seen.objects = list.Items
	if seen.used, err = listUsesByConfigs(ctx, t.Objects.Client, ps.Namespace); err != nil {
		return seen, err
	}
	others, err := OtherSources(ctx, t.Objects.Client, ps)
	seen.foreign = objectsInInventories(others)
	return seen, err
}

// planDeletion names the objects that must remain when their source is deleted: those that
// configurations use or that another source has in its inventory, and all of them if the source
// does not prune. It returns the others.
func planDeletion(ps *api.ProfileSource, seen observedDeleted) (retained []string, unused []*osm.OperatingSystemProfile) {
	for i := range seen.objects {
		if o := &seen.objects[i]; !prunes(ps) || seen.used.includes(o) || seen.foreign[o.Name] {
			retained = append(retained, o.Name)
		} else {
			unused = append(unused, o)
		}
	}
	return retained, unused
}

// deleteWithoutRecord deletes the objects that no archived record names, and names those that
// remain, also because their deletion is forbidden. For safety the records of each object are
// read from the API server right before it is deleted.
func (t *Retainer) deleteWithoutRecord(ctx context.Context, unused []*osm.OperatingSystemProfile) (left []string, err error) {
	for _, o := range unused {
		recorded, err := hasArchivedRecord(ctx, t.Objects.Live, o)
		if err == nil && !recorded {
			_, err = t.Objects.Delete(ctx, o)
		}
		switch {
		case recorded, apierrors.IsForbidden(err), apierrors.IsInvalid(err):
			left = append(left, o.Name)
		case err != nil:
			return nil, err
		}
	}
	return left, nil
}
