package cloudprovider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// ClusterValues are the values that a cloudProviderSpec can refer to. They are read before rendering,
// which sees only the resulting configuration. The JSON names are those under `cluster` in the
// file for `osm-gitops render --cluster`.
type ClusterValues struct {
	// Environment has the controller's variables that ConfigEnvironmentNames lists.
	Environment map[string]string `json:"environment,omitempty"`
	// Secrets and ConfigMaps have values by "namespace/name" and key. They do not contain
	// objects that do not exist.
	Secrets    map[string]map[string]string `json:"secrets,omitempty"`
	ConfigMaps map[string]map[string]string `json:"configMaps,omitempty"`
}

// The kinds of object that a ConfigVarRef names.
const (
	KindSecret    = "Secret"
	KindConfigMap = "ConfigMap"
)

// ConfigVarRef names one value that a cloudProviderSpec refers to.
type ConfigVarRef struct {
	// Kind is KindSecret or KindConfigMap.
	Kind string
	// Namespace and Name of the object, and Key in its data.
	Namespace, Name, Key string
}

// objectKey is "namespace/name", the key in ClusterValues.
func (r ConfigVarRef) objectKey() string { return r.Namespace + "/" + r.Name }

func compareRefs(a, b ConfigVarRef) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Key, b.Key))
}

// configVarString is a text or a reference to one. Decoding never fails: the
// resolver reports an invalid value when it is read, with its field.
type configVarString struct {
	configVarRefs
	value string
	err   error
}

// configVarBool is a configVarString for a boolean; value is nil if none is written.
type configVarBool struct {
	configVarRefs
	value *bool
	err   error
}

// configVarRefs are the references of a value.
type configVarRefs struct{ secret, configMap keyRef }

// keyRef has the form of an ObjectReference, with a key in that object's data. Unused fields
// must be text as well.
type keyRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Key       string `json:"key"`

	Kind            string `json:"kind"`
	APIVersion      string `json:"apiVersion"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	FieldPath       string `json:"fieldPath"`
}

// effectiveRef returns the reference that counts, if there is one. A reference without a name, a
// namespace or a key counts as absent.
func (v configVarRefs) effectiveRef() (ConfigVarRef, bool) {
	switch {
	case v.secret.complete():
		return v.secret.ref(KindSecret), true
	case v.configMap.complete():
		return v.configMap.ref(KindConfigMap), true
	}
	return ConfigVarRef{}, false
}

func (r keyRef) complete() bool { return r.Namespace != "" && r.Name != "" && r.Key != "" }

func (r keyRef) ref(kind string) ConfigVarRef {
	return ConfigVarRef{Kind: kind, Namespace: r.Namespace, Name: r.Name, Key: r.Key}
}

// UnmarshalJSON takes a scalar in its written form, without quotes: 5 is "5" and null is
// "null". Text between quotes is decoded by Go's rules for string literals, which have no "\/"
// and no surrogate pairs.
func (v *configVarString) UnmarshalJSON(b []byte) error {
	*v = configVarString{}
	if !bytes.HasPrefix(b, []byte("{")) {
		inner := strings.TrimSuffix(strings.TrimPrefix(string(b), `"`), `"`)
		if v.value, v.err = strconv.Unquote(`"` + inner + `"`); v.err != nil {
			v.err = errors.New(`is not a text: write a string without "\/" and "\u" escapes of surrogate pairs, or a mapping with value, secretKeyRef or configMapKeyRef`)
		}
		return nil
	}
	var object struct {
		Value     string `json:"value"`
		Secret    keyRef `json:"secretKeyRef"`
		ConfigMap keyRef `json:"configMapKeyRef"`
	}
	if err := json.Unmarshal(b, &object); err != nil {
		v.err = invalid.FromJSONError("", err)
	}
	v.configVarRefs, v.value = configVarRefs{object.Secret, object.ConfigMap}, object.Value
	return nil
}

// UnmarshalJSON takes true, false, null, or a mapping.
func (v *configVarBool) UnmarshalJSON(b []byte) error {
	*v = configVarBool{}
	if !bytes.HasPrefix(b, []byte("{")) {
		if json.Unmarshal(b, &v.value) != nil {
			v.err = errors.New("is not a boolean: write true or false without quotes, or a mapping with value, secretKeyRef or configMapKeyRef")
		}
		return nil
	}
	var object struct {
		Value     *bool  `json:"value"`
		Secret    keyRef `json:"secretKeyRef"`
		ConfigMap keyRef `json:"configMapKeyRef"`
	}
	if err := json.Unmarshal(b, &object); err != nil {
		v.err = invalid.FromJSONError("", err)
	}
	v.configVarRefs, v.value = configVarRefs{object.Secret, object.ConfigMap}, object.Value
	return nil
}

// resolver returns the values of a cloudProviderSpec, and collects their errors and references.
type resolver struct {
	values ClusterValues
	// lines is true if a value can have several lines.
	lines bool

	refs     []ConfigVarRef
	problems []*invalid.Error
}

// resolveText returns a value; a reference to a missing one is an error.
func (r *resolver) resolveText(field string, v configVarString) string {
	s, err := r.resolveConfigVar(v)
	if err == nil {
		err = r.checkOneLine(s)
	}
	if err != nil {
		r.addProblem(field, err)
	}
	return s
}

// textOrEnv returns a value, or that of the environment if the value cannot be found or is empty.
// Neither is an error; only a value that cannot be decoded is.
func (r *resolver) textOrEnv(field string, v configVarString, variable string) string {
	if v.err != nil {
		r.addProblem(field, v.err)
		return ""
	}
	s, err := r.resolveConfigVar(v)
	if err != nil || s == "" {
		s = r.values.Environment[variable]
	}
	if err := r.checkOneLine(s); err != nil {
		r.addProblem(field, err)
	}
	return s
}

// resolveBool returns a value, false if none is written.
func (r *resolver) resolveBool(field string, v configVarBool) bool {
	b, _, err := r.findBool(v)
	if err != nil {
		r.addProblem(field, err)
	}
	return b
}

// boolOrEnv is textOrEnv for booleans.
func (r *resolver) boolOrEnv(field string, v configVarBool, variable string) bool {
	if v.err != nil {
		r.addProblem(field, v.err)
		return false
	}
	if b, found, err := r.findBool(v); found && err == nil {
		return b
	}
	b, err := strconv.ParseBool(r.values.Environment[variable])
	return err == nil && b
}

func (r *resolver) resolveConfigVar(v configVarString) (string, error) {
	if v.err != nil {
		return "", v.err
	}
	if ref, ok := v.effectiveRef(); ok {
		return r.lookupRef(ref)
	}
	return v.value, nil
}

func (r *resolver) findBool(v configVarBool) (value, found bool, err error) {
	if v.err != nil {
		return false, false, v.err
	}
	if ref, ok := v.effectiveRef(); ok {
		s, err := r.lookupRef(ref)
		if err != nil {
			return false, false, err
		}
		if value, err = strconv.ParseBool(s); err != nil {
			return false, false, fmt.Errorf("%s %s: the value of key %q is not a boolean: write true or false there", ref.Kind, ref.objectKey(), ref.Key)
		}
		return value, true, nil
	}
	return v.value != nil && *v.value, v.value != nil, nil
}

// lookupRef looks a reference up in the values.
func (r *resolver) lookupRef(ref ConfigVarRef) (string, error) {
	if !slices.Contains(r.refs, ref) {
		r.refs = append(r.refs, ref)
	}
	objects := r.values.Secrets
	if ref.Kind == KindConfigMap {
		objects = r.values.ConfigMaps
	}
	data, ok := objects[ref.objectKey()]
	if !ok {
		return "", fmt.Errorf("%s %s does not exist: create it, with key %q", ref.Kind, ref.objectKey(), ref.Key)
	}
	value, ok := data[ref.Key]
	if !ok {
		return "", fmt.Errorf("%s %s has no key %q: add it", ref.Kind, ref.objectKey(), ref.Key)
	}
	if !utf8.ValidString(value) {
		return "", fmt.Errorf("%s %s: the value of key %q is not UTF-8 text", ref.Kind, ref.objectKey(), ref.Key)
	}
	return value, nil
}

// checkOneLine rejects values that the INI form cannot contain: its parsers end a value at the end
// of the line, so they would read the rest as other settings.
func (r *resolver) checkOneLine(s string) error {
	if !r.lines && strings.ContainsAny(s, "\n\r\x00") {
		return errors.New("contains a line break, but each value of this configuration is one line: remove it where the value is stored (a Secret created from a file often ends in one)")
	}
	return nil
}

// addProblem adds an error about a field of the cloudProviderSpec.
func (r *resolver) addProblem(field string, err error) {
	field = specField + "." + field
	if wrong, ok := errors.AsType[*invalid.Error](err); ok { // of a mapping: it names what is below
		r.problems = append(r.problems, &invalid.Error{Field: field + wrong.Field, Err: wrong.Err})
		return
	}
	r.problems = append(r.problems, &invalid.Error{Field: field, Err: err})
}
