package ownership

import (
	"cmp"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// The fields of Applications below are read, as Argo CD 3.5 writes them.
var applicationKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: Application}

// originFromArgo returns what an Application says about an object: nothing if it does not list
// the object. If the mark is not sure, only the list counts, and not a running operation.
func originFromArgo(app *unstructured.Unstructured, osp *osm.OperatingSystemProfile, sure bool) (Origin, claim) {
	operation := nestedMap(app.Object, "status", "operationState")
	result := nestedMap(operation, "syncResult")
	synced, applied := findInList(nestedSlice(result, "resources"), osp)
	_, listed := findInList(nestedSlice(app.Object, "status", "resources"), osp)
	running := stringField(operation, "phase") == "Running"
	var last map[string]any // the source of the last sync: the spec can have changed since
	switch {
	case !listed && !applied && (!running || !sure):
		return Origin{Why: "it does not list the profile in status.resources: the mark belongs to another object, or is outdated"}, denied
	case running:
		last = result
		for _, next := range []map[string]any{nestedMap(operation, "operation", "sync"), nestedMap(app.Object, "status", "sync")} {
			if revisionless(last) {
				last = next
			}
		}
	case applied && synced["status"] == "Synced":
		last = result
	default: // the last sync excluded the profile, or failed for it
		if last = lastSynced(app); revisionless(last) {
			last = nestedMap(app.Object, "status", "sync")
		}
	}
	source := cmp.Or(argoSourceOf(last), argoSourceOf(nestedMap(last, "comparedTo")), argoSourceOf(nestedMap(app.Object, "spec")))
	switch {
	case len(nestedSlice(last, "revisions"))+len(nestedSlice(last, "sources")) > 0 || source == nil && len(nestedSlice(app.Object, "spec", "sources")) > 0:
		return Origin{Why: "it has several sources, and does not say which of them has the profile"}, claimed
	case revisionless(last):
		return Origin{Why: "it has synced no revision yet"}, claimed
	}
	return source.originAt(stringField(last, "revision")), claimed
}

// argoSource is the source of an Application.
type argoSource map[string]any

// argoSourceOf returns a comparable source, nil if there is none.
func argoSourceOf(of map[string]any) *argoSource {
	if from := argoSource(nestedMap(of, "source")); len(from) > 0 {
		return &from
	}
	return nil
}

// originAt returns the origin of an object at a revision. A chart has no folder.
func (s *argoSource) originAt(revision string) Origin {
	var from argoSource
	if s != nil {
		from = *s
	}
	f := Origin{Repository: cleanURL(stringField(from, "repoURL")), Revision: redact.PrintableLine(buildFluxRevision(stringField(from, "targetRevision"), revision))}
	if f.Repository != "" && stringField(from, "chart") == "" {
		f.Path = folderPathWithSlash(stringField(from, "path"))
	}
	return f
}

func revisionless(sync map[string]any) bool {
	return stringField(sync, "revision") == "" && len(nestedSlice(sync, "revisions")) == 0
}

func lastSynced(app *unstructured.Unstructured) map[string]any {
	history := nestedSlice(app.Object, "status", "history")
	if len(history) == 0 {
		return nil
	}
	last, _ := history[len(history)-1].(map[string]any)
	return last
}

// nestedMap, nestedSlice and stringField read fields of foreign objects if they have the expected
// type.
func nestedMap(obj map[string]any, fields ...string) map[string]any {
	for _, name := range fields {
		obj, _ = obj[name].(map[string]any)
	}
	return obj
}

func nestedSlice(obj map[string]any, fields ...string) []any {
	last := len(fields) - 1
	list, _ := nestedMap(obj, fields[:last]...)[fields[last]].([]any)
	return list
}

func stringField(obj map[string]any, field string) string {
	s, _ := obj[field].(string)
	return s
}

// hashes matches the full commit ids of Git.
var hashes = regexp.MustCompile("^([0-9a-f]{40}|[0-9a-f]{64})$")

// buildFluxRevision formats a commit as Flux does (RFC-0005), main@sha1:<40 hex>, to distinguish
// it from a commit whose history was read. Versions of charts are not changed.
func buildFluxRevision(target, revision string) string {
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
