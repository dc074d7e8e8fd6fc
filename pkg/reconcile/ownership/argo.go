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

// argoFound returns what an Application says about an object: nothing if it does not list
// the object. If the mark is not sure, only the list counts, and not a running operation.
func argoFound(app *unstructured.Unstructured, osp *osm.OperatingSystemProfile, sure bool) (Found, claim) {
	operation := at(app.Object, "status", "operationState")
	result := at(operation, "syncResult")
	synced, applied := lists(items(result, "resources"), osp)
	_, listed := lists(items(app.Object, "status", "resources"), osp)
	running := text(operation, "phase") == "Running"
	var last map[string]any // the source of the last sync: the spec can have changed since
	switch {
	case !listed && !applied && (!running || !sure):
		return Found{Why: "it does not list the profile in status.resources: the mark belongs to another object, or is outdated"}, denied
	case running:
		last = result
		for _, next := range []map[string]any{at(operation, "operation", "sync"), at(app.Object, "status", "sync")} {
			if revisionless(last) {
				last = next
			}
		}
	case applied && synced["status"] == "Synced":
		last = result
	default: // the last sync excluded the profile, or failed for it
		if last = lastSynced(app); revisionless(last) {
			last = at(app.Object, "status", "sync")
		}
	}
	source := cmp.Or(part(last, "source"), part(at(last, "comparedTo"), "source"), part(at(app.Object, "spec"), "source"))
	switch {
	case len(items(last, "revisions"))+len(items(last, "sources")) > 0 || source == nil && len(items(app.Object, "spec", "sources")) > 0:
		return Found{Why: "it has several sources, and does not say which of them has the profile"}, claimed
	case revisionless(last):
		return Found{Why: "it has synced no revision yet"}, claimed
	}
	return source.found(text(last, "revision")), claimed
}

// argoSource is the source of an Application.
type argoSource map[string]any

// part returns a comparable source, nil if there is none.
func part(of map[string]any, field string) *argoSource {
	if from := argoSource(at(of, field)); len(from) > 0 {
		return &from
	}
	return nil
}

// found returns the origin of an object at a revision. A chart has no folder.
func (s *argoSource) found(revision string) Found {
	var from argoSource
	if s != nil {
		from = *s
	}
	f := Found{Repository: address(text(from, "repoURL")), Revision: redact.Clean(rfc0005(text(from, "targetRevision"), revision))}
	if f.Repository != "" && text(from, "chart") == "" {
		f.Path = folder(text(from, "path"))
	}
	return f
}

func revisionless(sync map[string]any) bool {
	return text(sync, "revision") == "" && len(items(sync, "revisions")) == 0
}

func lastSynced(app *unstructured.Unstructured) map[string]any {
	history := items(app.Object, "status", "history")
	if len(history) == 0 {
		return nil
	}
	last, _ := history[len(history)-1].(map[string]any)
	return last
}

// at, items and text read fields of foreign objects if they have the expected type.
func at(obj map[string]any, fields ...string) map[string]any {
	for _, name := range fields {
		obj, _ = obj[name].(map[string]any)
	}
	return obj
}

func items(obj map[string]any, fields ...string) []any {
	last := len(fields) - 1
	list, _ := at(obj, fields[:last]...)[fields[last]].([]any)
	return list
}

func text(obj map[string]any, field string) string {
	s, _ := obj[field].(string)
	return s
}

// hashes matches the full commit ids of Git.
var hashes = regexp.MustCompile("^([0-9a-f]{40}|[0-9a-f]{64})$")

// rfc0005 formats a commit as Flux does (RFC-0005), main@sha1:<40 hex>, to distinguish it
// from a commit whose history was read. Versions of charts are not changed.
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
