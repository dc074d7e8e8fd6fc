package ownership

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// managers are the field managers of a profile, as recorded by the API server.
type managers struct {
	// marked wrote a mark of the applier.
	marked map[string]bool
	// edited names the managers that changed the profile's content after marked wrote it
	// last, and whose change still exists.
	edited []string
}

// managersOf evaluates who wrote which fields of a profile. The manager that wrote the mark
// of an applier is the applier: later changes by others are in none of its revisions.
func managersOf(osp *osm.OperatingSystemProfile, a Applier) managers {
	mark := []string{"f:metadata", "f:annotations", "f:" + annotationTracking}
	switch {
	case a.Kind == Kustomization:
		mark = []string{"f:metadata", "f:labels", "f:" + labelFluxName}
	case a.unsure:
		mark = []string{"f:metadata", "f:labels", "f:" + labelInstance}
	}
	out := managers{marked: map[string]bool{}}
	owned, last := map[string]bool{}, metav1.Time{}
	var others []metav1.ManagedFieldsEntry
	for _, entry := range osp.ManagedFields {
		fields := fieldsOf(entry)
		if nestedMap(fields, mark...) == nil {
			others = append(others, entry)
			continue
		}
		out.marked[entry.Manager] = true
		ownedPaths(nestedMap(fields, "f:spec"), "", owned)
		if entry.Time != nil && last.Before(entry.Time) {
			last = *entry.Time
		}
	}
	if len(out.marked) == 0 {
		return out
	}
	for _, entry := range others {
		theirs := map[string]bool{}
		ownedPaths(nestedMap(fieldsOf(entry), "f:spec"), "", theirs)
		// Two managers can own a value that is the same for both.
		maps.DeleteFunc(theirs, func(path string, _ bool) bool { return owned[path] })
		// Older changes, as before an adoption, were seen by the applier.
		if len(theirs) > 0 && entry.Time != nil && !entry.Time.Before(&last) && !slices.Contains(out.edited, entry.Manager) {
			out.edited = append(out.edited, entry.Manager)
		}
	}
	return out
}

func fieldsOf(entry metav1.ManagedFieldsEntry) map[string]any {
	var fields map[string]any
	if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil
	}
	return fields
}

// ownedPaths collects the paths of the values that a manager owns.
func ownedPaths(fields map[string]any, path string, into map[string]bool) {
	for name, below := range fields {
		deeper, _ := below.(map[string]any)
		switch {
		case name == ".": // the list or the map itself
		case len(deeper) == 0:
			into[strings.Join([]string{path, name}, "/")] = true
		default:
			ownedPaths(deeper, path+"/"+name, into)
		}
	}
}
