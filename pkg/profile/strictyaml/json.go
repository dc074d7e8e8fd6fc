package strictyaml

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// CanonicalJSON encodes v with sorted keys, numbers as in the API server (int64 or
// float64), and without HTML escapes.
func CanonicalJSON(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &tree); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tree); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// rawExtension wraps a decoded YAML value as free-form JSON.
func rawExtension(v any) (*runtime.RawExtension, error) {
	b, err := CanonicalJSON(v)
	if err != nil {
		return nil, fmt.Errorf("encoding free-form value: %w", err)
	}
	return &runtime.RawExtension{Raw: bytes.TrimSpace(b)}, nil
}
