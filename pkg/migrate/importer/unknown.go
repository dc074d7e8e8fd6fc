package importer

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

var freeForm = reflect.TypeFor[runtime.RawExtension]()

// known returns a copy of a decoded value with the fields that a type has, and the
// paths of those that it has not, sorted. What is of another kind than the type says
// is left for the decoder, which has a message for it.
func known(v any, t reflect.Type, path string) (out any, unknown []string) {
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
					unknown = append(unknown, join(path, key))
					continue
				}
			case reflect.Map:
				child = t.Elem()
			default:
				return v, unknown
			}
			kept, more := known(value, child, join(path, key))
			out[key], unknown = kept, append(unknown, more...)
		}
		slices.Sort(unknown)
		return out, unknown
	case []any:
		if t.Kind() != reflect.Slice {
			return v, nil
		}
		out := make([]any, 0, len(v))
		for i, value := range v {
			kept, more := known(value, t.Elem(), path+"["+strconv.Itoa(i)+"]")
			out, unknown = append(out, kept), append(unknown, more...)
		}
		return out, unknown
	}
	return v, nil
}

// fieldType is the type of a struct's field by its JSON name, nil where it has none.
func fieldType(t reflect.Type, name string) reflect.Type {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name {
			return t.Field(i).Type
		}
	}
	return nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
