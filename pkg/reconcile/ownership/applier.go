package ownership

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
// means nothing. helm-controller sets its labels on all objects of a HelmRelease
// (github.com/fluxcd/helm-controller/pull/238).
const (
	labelFluxName      = "kustomize.toolkit.fluxcd.io/name"
	labelFluxNamespace = "kustomize.toolkit.fluxcd.io/namespace"
	labelHelmName      = "helm.toolkit.fluxcd.io/name"
	labelHelmNamespace = "helm.toolkit.fluxcd.io/namespace"
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

// CertainAppliers returns the appliers whose marks an object has. argoNamespace is the namespace of
// Applications that are marked without one.
func CertainAppliers(osp *osm.OperatingSystemProfile, argoNamespace string) []Applier {
	return slices.DeleteFunc(possibleAppliers(osp, argoNamespace), func(a Applier) bool { return a.unsure })
}

// Owner returns the object of Flux or Argo CD that applied an object of any kind. If that is
// uncertain, it returns the label that suggests Argo CD, which others also set.
func Owner(obj metav1.Object, kind schema.GroupKind, argoNamespace string) (by, label string) {
	labels := obj.GetLabels()
	if name := labels[labelHelmName]; name != "" {
		return Applier{Kind: "HelmRelease", Namespace: labels[labelHelmNamespace], Name: name}.String(), ""
	}
	for _, a := range marksOf(obj, kind, argoNamespace) {
		if !a.unsure {
			return a.String(), ""
		}
		label = labelInstance + "=" + labels[labelInstance]
	}
	return "", label
}

func possibleAppliers(osp *osm.OperatingSystemProfile, argoNamespace string) []Applier {
	return marksOf(osp, kindOf(osp), argoNamespace)
}

// kindOf is OperatingSystemProfile or CustomOperatingSystemProfile.
func kindOf(osp *osm.OperatingSystemProfile) schema.GroupKind {
	return schema.GroupKind{Group: osm.GroupVersion.Group, Kind: cmp.Or(osp.Kind, "OperatingSystemProfile")}
}

func marksOf(obj metav1.Object, kind schema.GroupKind, argoNamespace string) []Applier {
	var out []Applier
	if name := obj.GetLabels()[labelFluxName]; name != "" {
		out = append(out, Applier{Kind: Kustomization, Namespace: obj.GetLabels()[labelFluxNamespace], Name: name})
	}
	if name, sure := trackedApplication(obj, kind); name != "" {
		namespace, app, qualified := strings.Cut(name, "_") // names never contain "_"
		if !qualified {
			namespace, app = argoNamespace, name
		}
		out = append(out, Applier{Kind: Application, Namespace: namespace, Name: app, unsure: !sure})
	}
	return out
}

// trackedApplication returns the Argo CD Application in the annotation, if that names this object,
// or otherwise in the label, which others also set.
func trackedApplication(obj metav1.Object, kind schema.GroupKind) (app string, sure bool) {
	if id := obj.GetAnnotations()[annotationTracking]; id != "" {
		app, rest, _ := strings.Cut(id, ":")
		if rest == kind.Group+"/"+kind.Kind+":"+obj.GetNamespace()+"/"+obj.GetName() {
			return app, true
		}
		return "", false
	}
	return obj.GetLabels()[labelInstance], false
}

// findInList finds an object in an applier's list of objects.
func findInList(items []any, osp *osm.OperatingSystemProfile) (map[string]any, bool) {
	for _, item := range items {
		if r, ok := item.(map[string]any); ok && r["group"] == osm.GroupVersion.Group && r["kind"] == "OperatingSystemProfile" &&
			r["namespace"] == osp.Namespace && r["name"] == osp.Name {
			return r, true
		}
	}
	return nil, false
}
