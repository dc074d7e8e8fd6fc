package ownership

import (
	"strings"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Kinds of appliers.
const (
	Kustomization = "Kustomization"
	Application   = "Application"
)

// Labels that kustomize-controller puts on what it applies (SetOwnerLabels in
// github.com/fluxcd/pkg/ssa), and what Argo CD tracks objects by: the annotation names the
// object it stands on, so that a copy of it means nothing.
const (
	labelFluxName      = "kustomize.toolkit.fluxcd.io/name"
	labelFluxNamespace = "kustomize.toolkit.fluxcd.io/namespace"
	annotationTracking = "argocd.argoproj.io/tracking-id"
	labelInstance      = "app.kubernetes.io/instance"
)

// Applier is who applied an object.
type Applier struct {
	Kind, Namespace, Name string

	// unsure says that the mark may mean something else: it counts only where the applier
	// itself lists the object.
	unsure bool
}

func (a Applier) String() string { return a.Kind + " " + a.Namespace + "/" + a.Name }

// Marks are the appliers whose marks an object bears. Argo CD's namespace is where
// Applications are that name none.
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
		namespace, app, qualified := strings.Cut(name, "_") // no name has a "_" in it
		if !qualified {
			namespace, app = argoNamespace, name
		}
		out = append(out, Applier{Kind: Application, Namespace: namespace, Name: app, unsure: !sure})
	}
	return out
}

// tracking is the Application by the annotation, if that names this very object, else by
// the label, which others set as well.
func tracking(osp *osm.OperatingSystemProfile) (app string, sure bool) {
	if id := osp.Annotations[annotationTracking]; id != "" {
		app, rest, _ := strings.Cut(id, ":")
		if rest == osm.GroupVersion.Group+"/OperatingSystemProfile:"+osp.Namespace+"/"+osp.Name {
			return app, true
		}
		return "", false
	}
	return osp.Labels[labelInstance], false
}

// lists reports whether a list of what an applier made names an object.
func lists(items []any, osp *osm.OperatingSystemProfile) (map[string]any, bool) {
	for _, item := range items {
		if r, ok := item.(map[string]any); ok && r["group"] == osm.GroupVersion.Group && r["kind"] == "OperatingSystemProfile" &&
			r["namespace"] == osp.Namespace && r["name"] == osp.Name {
			return r, true
		}
	}
	return nil, false
}
