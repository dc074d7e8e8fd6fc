package ownership

import (
	"cmp"
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Kinds of appliers.
const (
	Kustomization = "Kustomization"
	Application   = "Application"
)

// Labels that kustomize-controller sets on the objects it applies (SetOwnerLabels in
// github.com/fluxcd/pkg/ssa), and the labels and annotation by which Argo CD tracks
// objects: the annotation names its own object, so that a copy of it on another object
// means nothing.
const (
	labelFluxName      = "kustomize.toolkit.fluxcd.io/name"
	labelFluxNamespace = "kustomize.toolkit.fluxcd.io/namespace"
	annotationTracking = "argocd.argoproj.io/tracking-id"
	labelInstance      = "app.kubernetes.io/instance"
)

// Applier is the object of Flux or Argo CD that applied an object.
type Applier struct {
	Kind, Namespace, Name string

	// unsure reports that the mark is ambiguous: it counts only if the applier itself
	// lists the object.
	unsure bool
}

func (a Applier) String() string { return a.Kind + " " + a.Namespace + "/" + a.Name }

// Marks returns the appliers whose marks an object has. argoNamespace is the namespace of
// Applications that are marked without one.
func Marks(osp *osm.OperatingSystemProfile, argoNamespace string) []Applier {
	var out []Applier
	for _, a := range marks(osp, argoNamespace) {
		if !a.unsure {
			out = append(out, a)
		}
	}
	return out
}

func marks(osp *osm.OperatingSystemProfile, argoNamespace string) []Applier {
	var out []Applier
	if name := osp.Labels[labelFluxName]; name != "" {
		out = append(out, Applier{Kind: Kustomization, Namespace: osp.Labels[labelFluxNamespace], Name: name})
	}
	if name, sure := tracking(osp); name != "" {
		namespace, app, qualified := strings.Cut(name, "_") // names never contain "_"
		if !qualified {
			namespace, app = argoNamespace, name
		}
		out = append(out, Applier{Kind: Application, Namespace: namespace, Name: app, unsure: !sure})
	}
	return out
}

// tracking returns the Application in the annotation, if that names this object, or
// otherwise in the label, which others also set.
func tracking(osp *osm.OperatingSystemProfile) (app string, sure bool) {
	if id := osp.Annotations[annotationTracking]; id != "" {
		app, rest, _ := strings.Cut(id, ":")
		kind := cmp.Or(osp.Kind, "OperatingSystemProfile") // or CustomOperatingSystemProfile
		if rest == osm.GroupVersion.Group+"/"+kind+":"+osp.Namespace+"/"+osp.Name {
			return app, true
		}
		return "", false
	}
	return osp.Labels[labelInstance], false
}

// lists finds an object in an applier's list of objects.
func lists(items []any, osp *osm.OperatingSystemProfile) (map[string]any, bool) {
	for _, item := range items {
		if r, ok := item.(map[string]any); ok && r["group"] == osm.GroupVersion.Group && r["kind"] == "OperatingSystemProfile" &&
			r["namespace"] == osp.Namespace && r["name"] == osp.Name {
			return r, true
		}
	}
	return nil, false
}
