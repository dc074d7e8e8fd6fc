package desired

import (
	"slices"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
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

// has reports whether a generation is of the profile that is asked for, and of a version
// that would do.
func has(want selection.Request, rec render.Record) bool {
	return rec.Object != "" && want.IsSatisfiedBy(rec.Profile, rec.Version)
}
