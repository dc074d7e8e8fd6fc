package ownership

import (
	"cmp"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/redact"
)

// Of Applications the fields below are read, as Argo CD 3.5 writes them.
var applicationKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: Application}

// argoFound is what an Application says of an object: nothing that counts where it does not
// list it. Of a mark that is not sure the list alone counts, not that it is at work.
func argoFound(app *unstructured.Unstructured, osp *osm.OperatingSystemProfile, sure bool) (Found, claim) {
	operation := at(app.Object, "status", "operationState")
	result := at(operation, "syncResult")
	synced, applied := lists(items(result, "resources"), osp)
	_, listed := lists(items(app.Object, "status", "resources"), osp)
	running := text(operation, "phase") == "Running"
	var last map[string]any // what it was made of: the spec may have been changed since
	switch {
	case !listed && !applied && (!running || !sure):
		return Found{Why: "it does not list the profile in status.resources: the mark is of another object, or of before"}, denied
	case running:
		last = result
		for _, next := range []map[string]any{at(operation, "operation", "sync"), at(app.Object, "status", "sync")} {
			if revisionless(last) {
				last = next
			}
		}
	case applied && synced["status"] == "Synced":
		last = result
	default: // the last sync left the profile out, or failed with it
		if last = lastSynced(app); revisionless(last) {
			last = at(app.Object, "status", "sync")
		}
	}
	source := cmp.Or(part(last, "source"), part(at(last, "comparedTo"), "source"), part(at(app.Object, "spec"), "source"))
	switch {
	case len(items(last, "revisions"))+len(items(last, "sources")) > 0 || source == nil && len(items(app.Object, "spec", "sources")) > 0:
		return Found{Why: "it has several sources, and does not say which of them the profile is from"}, claimed
	case revisionless(last):
		return Found{Why: "it has synced no revision yet"}, claimed
	}
	return source.found(text(last, "revision")), claimed
}

// argoSource is what an Application syncs.
type argoSource map[string]any

// part is a source, nil where there is none, by which two can be compared.
func part(of map[string]any, field string) *argoSource {
	if from := argoSource(at(of, field)); len(from) > 0 {
		return &from
	}
	return nil
}

// found is where an object is from at a revision. A chart is in no folder.
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

// at, items and text read what others wrote, where it is of that type.
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

// hashes are commits as Git names them.
var hashes = regexp.MustCompile("^([0-9a-f]{40}|[0-9a-f]{64})$")

// rfc0005 writes a commit as Flux does (RFC-0005), main@sha1:<40 hex>, so that it is told
// from a commit whose history somebody has seen. Versions of charts stay.
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
