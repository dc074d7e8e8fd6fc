package appliers

import (
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Of Kustomizations and what they are made from the fields below are read, as kustomize-controller
// v1.9 writes them; the version is in every release of Flux since 2.0.
var kustomizationKind = schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: Kustomization}

// sourceOfKustomization is the object of Flux that a Kustomization applies.
func sourceOfKustomization(k *unstructured.Unstructured) (kind, namespace, name string) {
	ref, _, _ := unstructured.NestedStringMap(k.Object, "spec", "sourceRef")
	namespace = ref["namespace"]
	if namespace == "" {
		namespace = k.GetNamespace()
	}
	return ref["kind"], namespace, ref["name"]
}

// fluxRevision is the revision from which a Kustomization applied an object; why says that it
// did not.
func fluxRevision(k *unstructured.Unstructured, osp *osm.OperatingSystemProfile) (revision, why string) {
	status := func(field string) string {
		s, _, _ := unstructured.NestedString(k.Object, "status", field)
		return s
	}
	attempted, applied := status("lastAttemptedRevision"), status("lastAppliedRevision")
	// The inventory is written after everything was applied.
	if _, working := condition(k, meta.ReconcilingCondition); !working && !inInventory(k, osp) {
		return "", "it does not list the profile in status.inventory: the labels are of another object, or of before"
	}
	ready, _ := condition(k, meta.ReadyCondition)
	switch ready {
	case meta.ArtifactFailedReason, meta.BuildFailedReason, meta.DependencyNotReadyReason:
		attempted = applied // the attempt ended before anything was applied
	}
	if attempted == "" {
		attempted = applied
	}
	if attempted == "" {
		return "", "it has applied no revision yet"
	}
	return attempted, ""
}

// inInventory looks for the id that Flux gives an object: namespace, name, group and kind
// between underscores.
func inInventory(k *unstructured.Unstructured, osp *osm.OperatingSystemProfile) bool {
	id := strings.Join([]string{osp.Namespace, osp.Name, osm.GroupVersion.Group, "OperatingSystemProfile"}, "_")
	entries, _, _ := unstructured.NestedSlice(k.Object, "status", "inventory", "entries")
	for _, entry := range entries {
		if e, ok := entry.(map[string]any); ok && e["id"] == id {
			return true
		}
	}
	return false
}

// condition is the reason of a condition that is not False, or of Ready whatever it is.
func condition(u *unstructured.Unstructured, kind string) (reason string, is bool) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			reason, _ = c["reason"].(string)
			return reason, c["status"] == "True"
		}
	}
	return "", false
}
