package retention

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/kubeclient"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/profilesource/objects"
)

// uses contains the versions from which configurations were rendered, by the name in their
// pool: that of the profile, or that of the object. If two profiles have the same name and
// version, both count as used.
type uses map[string]map[string]bool

// includes reports whether a configuration was rendered from an object.
func (u uses) includes(o *osm.OperatingSystemProfile) bool {
	return u[o.Labels[api.LabelProfile]][objects.VersionOf(o)] || u[o.Name][objects.VersionOf(o)]
}

// listUsesByConfigs reads the configurations of a namespace.
func listUsesByConfigs(ctx context.Context, from client.Reader, namespace string) (uses, error) {
	configs, err := kubeclient.ListConfigMetadata(ctx, from, namespace)
	if err != nil {
		return nil, err
	}
	out := uses{}
	for i := range configs {
		a := configs[i].Annotations
		name := a[api.AnnotationProfile]
		if out[name] == nil {
			out[name] = map[string]bool{}
		}
		out[name][a[api.AnnotationVersion]] = true
	}
	return out, nil
}

// hasArchivedRecord reports whether an archived record of a pool names an object. A version that
// a NodeProvenance names has a record, too, or a configuration uses it.
func hasArchivedRecord(ctx context.Context, from client.Reader, o *osm.OperatingSystemProfile) (bool, error) {
	for _, name := range []string{o.Labels[api.LabelProfile], o.Name} {
		if len(name) > validation.LabelValueMaxLength {
			continue // no record has such a label
		}
		list := kubeclient.MetadataList(appsv1.SchemeGroupVersion.WithKind("ControllerRevision"))
		err := from.List(ctx, list, client.InNamespace(o.Namespace), client.Limit(1), client.MatchingLabels{
			api.LabelManagedBy: api.FieldManager, api.LabelProfile: name, api.LabelVersion: profile.LabelVersion(objects.VersionOf(o)),
		})
		if err != nil {
			return false, fmt.Errorf("listing the archived records of %s, ControllerRevisions of namespace %s: %w", nameAndVersionOf(o), o.Namespace, err)
		}
		if len(list.Items) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// OtherSources lists the other ProfileSources of a source's namespace.
func OtherSources(ctx context.Context, from client.Reader, ps *api.ProfileSource) ([]api.ProfileSource, error) {
	var list api.ProfileSourceList
	if err := from.List(ctx, &list, client.InNamespace(ps.Namespace)); err != nil {
		return nil, fmt.Errorf("listing ProfileSources: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(other api.ProfileSource) bool { return other.UID == ps.UID }), nil
}

// objectsInInventories returns the names of the objects that the inventories of sources name.
func objectsInInventories(sources []api.ProfileSource) map[string]bool {
	out := map[string]bool{}
	for _, ps := range sources {
		for _, e := range ps.Status.Profiles {
			out[e.Object] = true
		}
	}
	return out
}
