package pools

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/reconcile/pools/fault"

	"sigs.k8s.io/controller-runtime/pkg/client"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/pkg/selection"
)

// AllNamespaces in Reconciler.ProfileNamespaces stands for every namespace.
const AllNamespaces = "*"

// wishOf reads the annotations of a pool.
func (r *Reconciler) wishOf(md *cluster.MachineDeployment) (selection.Request, error) {
	w, err := selection.RequestOf(md.Annotations, md.Labels, r.Namespace)
	if !r.mayServe(w.Namespace) {
		return w, foreign(w.Namespace)
	}
	if err != nil {
		return w, fault.Refuse("%w", err)
	}
	return w, nil
}

// mayServe reports whether pools may take profiles from a namespace (security.md 24).
func (r *Reconciler) mayServe(namespace string) bool {
	return namespace == r.Namespace || slices.Contains(r.ProfileNamespaces, namespace) || slices.Contains(r.ProfileNamespaces, AllNamespaces)
}

func foreign(namespace string) error {
	return fault.Refuse("annotation %s: pools may not take profiles from namespace %q: remove the annotation, or have the controller started with --allow-cross-namespace-profiles=%s",
		api.AnnotationOSPNamespace, namespace, selection.Shortened(namespace))
}

// refTo names an OperatingSystemProfile in a record: by its name, with "<namespace>/"
// before it where that is not the controller's.
func (r *Reconciler) refTo(namespace, name string) string {
	if namespace == r.Namespace {
		return name
	}
	return namespace + "/" + name
}

// namespaceOf is the namespace of what refTo named.
func (r *Reconciler) namespaceOf(ref string) string {
	if namespace, _, ok := strings.Cut(ref, "/"); ok {
		return namespace
	}
	return r.Namespace
}

// has reports whether a generation is of the profile that is asked for, and of a version
// that would do.
func has(want selection.Request, rec render.Record) bool {
	return rec.Object != "" && want.Has(rec.Profile, rec.Version)
}

// pinned finds the object of the version that a pool asks for, of those that are in the
// cluster or that the inventory names. What is there in name only, its source makes once
// it has seen the pool; sources of other namespaces do not see it.
func (r *Reconciler) pinned(ctx context.Context, want selection.Request, o selection.Candidate) (string, error) {
	objects, err := r.versionObjects(ctx, want, o)
	if err != nil {
		return "", err
	}
	versions := append(slices.Collect(maps.Keys(objects)), o.Entry.Version)
	if want.Namespace == r.Namespace {
		versions = append(versions, o.Entry.Versions...)
	}
	best, err := want.Version(fmt.Sprintf("ProfileSource %q", o.Source.Name), versions)
	switch {
	case err != nil:
		return "", fault.Refuse("%w", err)
	case best == o.Entry.Version:
		return r.refTo(want.Namespace, o.Entry.Object), nil
	case objects[best] != "":
		return r.refTo(want.Namespace, objects[best]), nil
	}
	how := "makes it when it next looks at its repository"
	if o.Source.Spec.Suspend {
		how = "is suspended, and makes it once spec.suspend is false"
	}
	return "", &fault.Refusal{Reason: api.EventWaiting, Err: fmt.Errorf("version %s of profile %q, for annotation %s: %q, is not in the cluster yet: ProfileSource %q %s",
		best, want.Name, api.AnnotationVersionPin, want.Pin, o.Source.Name, how)}
}

// versionObjects are the objects of a profile by version. Of two the newer counts; what
// comes from the built-in profiles and what does not are apart.
func (r *Reconciler) versionObjects(ctx context.Context, want selection.Request, o selection.Candidate) (map[string]string, error) {
	var list osm.OperatingSystemProfileList // of the cache: not to be changed
	err := r.Management.List(ctx, &list, client.InNamespace(want.Namespace), client.MatchingLabels{
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
