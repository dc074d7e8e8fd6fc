package desired

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// pinnedObject finds the object of the version that a pool requests, among the objects in the cluster
// and those that the inventory names. If only the inventory names it, the source creates it after
// it has seen the pool; sources of other namespaces do not see the pool.
func (p Profiles) pinnedObject(ctx context.Context, want selection.Request, candidate selection.Candidate) (string, error) {
	objects, err := p.objectsByVersion(ctx, want, candidate)
	if err != nil {
		return "", err
	}
	versions := append(slices.Collect(maps.Keys(objects)), candidate.Entry.Version)
	if want.Namespace == p.Namespace {
		versions = append(versions, candidate.Entry.Versions...)
	}
	best, err := want.BestVersion(fmt.Sprintf("ProfileSource %q", candidate.Source.Name), versions)
	switch {
	case err != nil:
		return "", fault.Reject("%w", err)
	case best == candidate.Entry.Version:
		return p.FormatRef(want.Namespace, candidate.Entry.Object), nil
	case objects[best] != "":
		return p.FormatRef(want.Namespace, objects[best]), nil
	}
	how := "creates it when it next reads its repository"
	if candidate.Source.Spec.Suspend {
		how = "is suspended, and creates it when spec.suspend is false"
	}
	return "", &fault.Rejection{Reason: api.EventWaiting, Err: fmt.Errorf("version %s of profile %q, for annotation %s: %q, is not in the cluster yet: ProfileSource %q %s",
		best, want.Name, api.AnnotationVersionPin, want.Pin, candidate.Source.Name, how)}
}

// objectsByVersion returns the names of a profile's objects by version. If two have the same
// version, the newer one wins. Built-in profiles and profiles from a repository are separate.
func (p Profiles) objectsByVersion(ctx context.Context, want selection.Request, candidate selection.Candidate) (map[string]string, error) {
	var list osm.OperatingSystemProfileList // of the cache: not to be changed
	err := p.Cached.List(ctx, &list, client.InNamespace(want.Namespace), client.MatchingLabels{
		api.LabelManagedBy: api.FieldManager, api.LabelProfile: want.Name,
	}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing OperatingSystemProfiles: %w", err)
	}
	best := map[string]*osm.OperatingSystemProfile{}
	for i := range list.Items {
		osp := &list.Items[i]
		if (osp.Labels[api.LabelSource] == api.DefaultsName) != (candidate.Source.Name == api.DefaultsName) {
			continue
		}
		version := osp.Annotations[api.AnnotationVersion]
		if had := best[version]; had == nil || had.CreationTimestamp.Before(&osp.CreationTimestamp) {
			best[version] = osp
		}
	}
	out := map[string]string{}
	for version, osp := range best {
		out[version] = osp.Name
	}
	return out, nil
}
