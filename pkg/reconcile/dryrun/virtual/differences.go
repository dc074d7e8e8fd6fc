package virtual

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// changedFieldNames names the differences between two states of an object.
func changedFieldNames(part string, before, after []byte) (what []string) {
	if before == nil || after == nil || part != "" {
		return nil
	}
	was, is := flattenComparableFields(before), flattenComparableFields(after)
	for _, name := range sets.List(sets.KeySet(was).Union(sets.KeySet(is))) {
		if !slices.Equal(was[name], is[name]) {
			what = append(what, name)
		}
	}
	return what
}

// flattenComparableFields returns the fields of an object in JSON, those of its metadata, labels,
// annotations and data by key, without fields that every write changes.
func flattenComparableFields(doc []byte) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	each := func(doc json.RawMessage, prefix string, skip ...string) {
		var m map[string]json.RawMessage
		if json.Unmarshal(doc, &m) != nil {
			return
		}
		for k, v := range m {
			if !slices.Contains(skip, k) {
				out[prefix+k] = v
			}
		}
	}
	each(doc, "", "metadata", "data", "apiVersion", "kind")
	each(jsonField(doc, "data"), "data ")
	metadata := jsonField(doc, "metadata")
	each(metadata, "", "labels", "annotations", "resourceVersion", "generation", "managedFields", "creationTimestamp", "uid")
	each(jsonField(metadata, "labels"), "label ")
	each(jsonField(metadata, "annotations"), "annotation ")
	return out
}

// jsonField returns a field of an object in JSON, nil if it is absent.
func jsonField(doc []byte, name string) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(doc, &m) != nil {
		return nil
	}
	return m[name]
}
