package ownership

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// The fields of Kustomizations and their sources below are read, as kustomize-controller
// v1.9 writes them; every release of Flux since 2.0 has this version.
var kustomizationKind = schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: Kustomization}

// sourceOfKustomization returns the Flux object that a Kustomization applies.
func sourceOfKustomization(k *unstructured.Unstructured) (kind, namespace, name string) {
	ref := nestedMap(k.Object, "spec", "sourceRef")
	return stringField(ref, "kind"), cmp.Or(stringField(ref, "namespace"), k.GetNamespace()), stringField(ref, "name")
}

// fluxManager is the field manager of kustomize-controller, which is its name.
const fluxManager = "kustomize-controller"

// fluxRevision returns the revision from which a Kustomization applied an object; why
// says why it is unknown. The inventory is written after everything was applied: until
// then a running attempt counts for objects that it applied itself.
func fluxRevision(k *unstructured.Unstructured, osp *osm.OperatingSystemProfile, by managers) (revision, why string, c claim) {
	status := nestedMap(k.Object, "status")
	attempted := stringField(status, "lastAttemptedRevision")
	applied := stringField(status, "lastAppliedRevision")
	if _, working := findCondition(k, meta.ReconcilingCondition); !inInventory(k, osp) && (!working || !by.marked[fluxManager]) {
		return "", "it does not list the profile in status.inventory: the labels belong to another object, or are outdated", denied
	}
	ready, _ := findCondition(k, meta.ReadyCondition)
	switch ready {
	case meta.ArtifactFailedReason, meta.BuildFailedReason, meta.DependencyNotReadyReason:
		attempted = applied // the attempt ended before it applied anything
	}
	if revision = cmp.Or(attempted, applied); revision == "" {
		return "", "it has applied no revision yet", claimed
	}
	return revision, "", claimed
}

// inInventory finds the id that Flux gives an object: namespace, name, group and kind
// separated by underscores.
func inInventory(k *unstructured.Unstructured, osp *osm.OperatingSystemProfile) bool {
	id := strings.Join([]string{osp.Namespace, osp.Name, osm.GroupVersion.Group, "OperatingSystemProfile"}, "_")
	return slices.ContainsFunc(nestedSlice(k.Object, "status", "inventory", "entries"), func(entry any) bool {
		e, ok := entry.(map[string]any)
		return ok && e["id"] == id
	})
}

// findCondition returns the reason of a condition, and whether its status is True.
func findCondition(u *unstructured.Unstructured, kind string) (reason string, is bool) {
	for _, c := range nestedSlice(u.Object, "status", "conditions") {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			reason, _ = c["reason"].(string)
			return reason, c["status"] == "True"
		}
	}
	return "", false
}
