package desired

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lineage"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// parseRequest parses the profile, version and wave that the annotations of a pool request.
func (p Profiles) parseRequest(md *cluster.MachineDeployment) (selection.Request, error) {
	w, err := selection.RequestOf(md.Annotations, md.Labels, p.Namespace)
	if !p.mayServe(w.Namespace) {
		return w, foreignNamespaceError(w.Namespace)
	}
	if err != nil {
		return w, fault.Reject("%w", err)
	}
	return w, nil
}

// mayServe reports whether pools may take profiles from a namespace (security.md 24).
func (p Profiles) mayServe(namespace string) bool {
	return namespace == p.Namespace || slices.Contains(p.Namespaces, namespace) || slices.Contains(p.Namespaces, AllNamespaces)
}

// foreignNamespaceError returns the error about a pool that requests a profile of a namespace that
// pools must not use.
func foreignNamespaceError(namespace string) error {
	return fault.Reject("annotation %s: pools must not take profiles from namespace %q: remove the annotation, or start the controller with --allow-cross-namespace-profiles=%s",
		api.AnnotationOSPNamespace, namespace, selection.TruncateAnnotation(namespace))
}

// FormatRef names an OperatingSystemProfile in a record: by its name, prefixed with "<namespace>/"
// if that is not the controller's namespace.
func (p Profiles) FormatRef(namespace, name string) string {
	if namespace == p.Namespace {
		return name
	}
	return namespace + "/" + name
}

// has reports whether a generation is of the profile that is asked for, and of a version
// that would do.
func has(want selection.Request, rec render.Record) bool {
	return rec.Object != "" && want.IsSatisfiedBy(rec.Profile, rec.Version)
}

// pinnedObject finds the object of the version that a pool requests, among the objects in the cluster
// and those that the inventory names. If only the inventory names it, the source creates it after
// it has seen the pool; sources of other namespaces do not see the pool.
func (p Profiles) pinnedObject(ctx context.Context, want selection.Request, o selection.Candidate) (string, error) {
	objects, err := p.objectsByVersion(ctx, want, o)
	if err != nil {
		return "", err
	}
	versions := append(slices.Collect(maps.Keys(objects)), o.Entry.Version)
	if want.Namespace == p.Namespace {
		versions = append(versions, o.Entry.Versions...)
	}
	best, err := want.BestVersion(fmt.Sprintf("ProfileSource %q", o.Source.Name), versions)
	switch {
	case err != nil:
		return "", fault.Reject("%w", err)
	case best == o.Entry.Version:
		return p.FormatRef(want.Namespace, o.Entry.Object), nil
	case objects[best] != "":
		return p.FormatRef(want.Namespace, objects[best]), nil
	}
	how := "creates it when it next reads its repository"
	if o.Source.Spec.Suspend {
		how = "is suspended, and creates it when spec.suspend is false"
	}
	return "", &fault.Rejection{Reason: api.EventWaiting, Err: fmt.Errorf("version %s of profile %q, for annotation %s: %q, is not in the cluster yet: ProfileSource %q %s",
		best, want.Name, api.AnnotationVersionPin, want.Pin, o.Source.Name, how)}
}

// objectsByVersion returns the names of a profile's objects by version. If two have the same
// version, the newer one wins. Built-in profiles and profiles from a repository are separate.
func (p Profiles) objectsByVersion(ctx context.Context, want selection.Request, o selection.Candidate) (map[string]string, error) {
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
		if (osp.Labels[api.LabelSource] == api.DefaultsName) != (o.Source.Name == api.DefaultsName) {
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

// entryForWave is the inventory's entry with the version that the pool's wave gets. Until the rollout
// has decided, a pool retains the version it has. Inventory and decision are in one object, so
// no pool adopts a version before it is allowed to.
func (p Profiles) entryForWave(want selection.Request, o selection.Candidate, have render.Record) (api.ProfileEntry, error) {
	entry, decided := selection.EntryForWave(o.Source, o.Entry, want.Wave)
	if decided {
		return entry, nil
	}
	if !has(want, have) || lineage.ProfileKey(p.Namespace, have.Object).Namespace != want.Namespace {
		return entry, &fault.Rejection{Reason: api.EventWaiting, Err: fmt.Errorf("which version of profile %q wave %d gets is not decided yet: ProfileSource %q rolls out in waves", want.Name, want.Wave, o.Source.Name)}
	}
	entry.Version, entry.Object, entry.SelectedBy = have.Version, lineage.ProfileKey(p.Namespace, have.Object).Name, have.SelectedBy
	return entry, nil
}
