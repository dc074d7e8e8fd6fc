package manifest

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

var freeForm = reflect.TypeFor[runtime.RawExtension]()

// SplitUnknown returns a copy of a decoded value with the fields of a type, and the sorted paths
// of all other fields. Values of the wrong type are unchanged: the decoder reports them.
func SplitUnknown(v any, t reflect.Type, path string) (out any, unknown []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == freeForm {
		return v, nil
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			var child reflect.Type
			switch t.Kind() {
			case reflect.Struct:
				if child = fieldType(t, key); child == nil {
					unknown = append(unknown, joinFieldPath(path, key))
					continue
				}
			case reflect.Map:
				child = t.Elem()
			default:
				return v, unknown
			}
			known, more := SplitUnknown(value, child, joinFieldPath(path, key))
			out[key], unknown = known, append(unknown, more...)
		}
		slices.Sort(unknown)
		return out, unknown
	case []any:
		if t.Kind() != reflect.Slice {
			return v, nil
		}
		out := make([]any, 0, len(v))
		for i, value := range v {
			known, more := SplitUnknown(value, t.Elem(), path+"["+strconv.Itoa(i)+"]")
			out, unknown = append(out, known), append(unknown, more...)
		}
		return out, unknown
	}
	return v, nil
}

// fieldType returns the type of a struct's field by its JSON name, or nil.
func fieldType(t reflect.Type, name string) reflect.Type {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return t.Field(i).Type
		}
	}
	return nil
}

func joinFieldPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
