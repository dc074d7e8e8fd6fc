package appliers

import (
	"cmp"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Of Applications the fields below are read, as Argo CD 3.5 writes them.
var applicationKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: Application}

// argoSource is what an Application syncs. One with several sources does not say which of
// them an object is from.
type argoSource struct {
	repository, path, target string
}

func sourceOfApplication(app *unstructured.Unstructured) (from argoSource, why string) {
	if several, _, _ := unstructured.NestedSlice(app.Object, "spec", "sources"); len(several) > 0 {
		return argoSource{}, "it has several sources, and does not say which of them the profile is from"
	}
	field := func(name string) string {
		s, _, _ := unstructured.NestedString(app.Object, "spec", "source", name)
		return s
	}
	return argoSource{repository: field("repoURL"), path: field("path"), target: field("targetRevision")}, ""
}

// hashes are commits as Git names them.
var hashes = regexp.MustCompile("^([0-9a-f]{40}|[0-9a-f]{64})$")

// argoRevision is the revision from which an Application synced an object, in the form of
// Flux's (RFC-0005), so that it is told from a commit whose history somebody has seen.
func argoRevision(app *unstructured.Unstructured, osp *osm.OperatingSystemProfile, target string) (revision, why string) {
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(app.Object, append([]string{"status"}, fields...)...)
		return s
	}
	synced, _, _ := unstructured.NestedSlice(app.Object, "status", "operationState", "syncResult", "resources")
	result, applied := lists(synced, osp)
	all, _, _ := unstructured.NestedSlice(app.Object, "status", "resources")
	_, listed := lists(all, osp)
	running := text("operationState", "phase") == "Running"
	switch {
	case !listed && !applied && !running:
		return "", "it does not list the profile in status.resources: the mark is of another object, or of before"
	case running:
		revision = cmp.Or(text("operationState", "syncResult", "revision"), text("operationState", "operation", "sync", "revision"), text("sync", "revision"))
	case applied && result["status"] == "Synced":
		revision = text("operationState", "syncResult", "revision")
	default: // the last sync left the profile out, or failed with it
		revision = cmp.Or(lastSynced(app), text("sync", "revision"))
	}
	if revision == "" {
		return "", "it has synced no revision yet"
	}
	return rfc0005(target, revision), ""
}

func lastSynced(app *unstructured.Unstructured) string {
	history, _, _ := unstructured.NestedSlice(app.Object, "status", "history")
	if len(history) == 0 {
		return ""
	}
	last, _ := history[len(history)-1].(map[string]any)
	revision, _ := last["revision"].(string)
	return revision
}

// rfc0005 writes a commit as Flux does: main@sha1:<40 hex>. Versions of charts stay.
func rfc0005(target, revision string) string {
	if !hashes.MatchString(revision) {
		return revision
	}
	algorithm := "sha1:"
	if len(revision) == 64 {
		algorithm = "sha256:"
	}
	switch target {
	case revision:
		return algorithm + revision
	case "":
		target = "HEAD"
	}
	return target + "@" + algorithm + revision
}
