package profileyaml

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
)

// Write writes an object of the API in the form that people write: metadata first, multi-line
// text as literal blocks. It does not use a library because ours write no literal block if
// a line ends with a space, which is common in scripts. The caller decodes and compares the
// result.
func Write(comment, apiVersion, kind, name string, spec any) []byte {
	var w writer
	w.comment(comment)
	w.mapping("", []field{
		{"apiVersion", apiVersion},
		{"kind", kind},
		{"metadata", []field{{"name", name}}},
		{"spec", plainValue(reflect.ValueOf(spec))},
	})
	return w.out.Bytes()
}

// field is a key with its value; a mapping is written in the order of its fields.
type field struct {
	key   string
	value any
}

// firstKeys are the keys that come before others in a mapping, in the order of the documentation.
// Other keys follow in the order of the API's types.
var firstKeys = []string{
	"profile", "version", "from", "osName", "osVersion", "provisioningUtility", "supportedCloudProviders", "bootstrapConfig", "provisioningConfig",
	"name", "templates", "supportedContainerRuntimes", "units", "files", "modules",
	"bootcmd", "runcmd", "rh_subscription", "yum_repos", "yum_repo_dir",
}

// plainValue converts a value of the API to a text, a list, the fields of a mapping, or a value to
// write as JSON. Like encoding/json it omits empty fields with the option omitempty.
func plainValue(v reflect.Value) any {
	if raw, ok := v.Interface().(runtime.RawExtension); ok {
		return json.RawMessage(raw.Raw)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return plainValue(v.Elem())
	case reflect.Struct:
		fields := []field{}
		for i := range v.NumField() {
			key, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if options != "omitempty" || !isEmpty(v.Field(i)) {
				fields = append(fields, field{key, plainValue(v.Field(i))})
			}
		}
		rank := func(f field) int { return cmp.Or(slices.Index(firstKeys, f.key)+1, len(firstKeys)+1) }
		slices.SortStableFunc(fields, func(a, b field) int { return cmp.Compare(rank(a), rank(b)) })
		return fields
	case reflect.Map:
		fields := []field{}
		for _, key := range v.MapKeys() {
			fields = append(fields, field{key.String(), plainValue(v.MapIndex(key))})
		}
		slices.SortFunc(fields, func(a, b field) int { return cmp.Compare(a.key, b.key) })
		return fields
	case reflect.Slice:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = plainValue(v.Index(i))
		}
		return items
	case reflect.String:
		return v.String()
	}
	return v.Interface()
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

// writer writes YAML with an indentation of two spaces, and lists without one.
type writer struct{ out bytes.Buffer }

func (w *writer) comment(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		w.out.WriteString(strings.TrimRight("# "+line, " ") + "\n")
	}
}

func (w *writer) mapping(indent string, fields []field) {
	for i, f := range fields {
		if i > 0 || !w.midLine() {
			w.out.WriteString(indent)
		}
		w.out.WriteString(formatScalar(f.key) + ":")
		w.valueAfterKey(indent, f.value)
	}
}

// midLine reports whether the line has begun, as after the "- " of a list.
func (w *writer) midLine() bool {
	b := w.out.Bytes()
	return len(b) > 0 && b[len(b)-1] != '\n'
}

// valueAfterKey writes the value of a key and ends the line.
func (w *writer) valueAfterKey(indent string, v any) {
	switch v := v.(type) {
	case []field:
		if len(v) == 0 {
			w.out.WriteString(" {}\n")
			return
		}
		w.out.WriteString("\n")
		w.mapping(indent+"  ", v)
	case []any:
		w.list(indent, v)
	case string:
		w.text(indent, v)
	default:
		w.out.WriteString(" " + formatFlowStyle(v) + "\n")
	}
}

func (w *writer) list(indent string, items []any) {
	if len(items) == 0 {
		w.out.WriteString(" []\n")
		return
	}
	w.out.WriteString("\n")
	for _, item := range items {
		w.out.WriteString(indent + "-")
		if fields, ok := item.([]field); ok && len(fields) > 0 {
			w.out.WriteString(" ")
			w.mapping(indent+"  ", fields)
			continue
		}
		w.valueAfterKey(indent, item)
	}
}

func (w *writer) text(indent, s string) {
	if !strings.Contains(s, "\n") || !canBeLiteralBlock(s) {
		w.out.WriteString(" " + formatScalar(s) + "\n")
		return
	}
	w.out.WriteString(" |")
	if s[0] == ' ' || s[0] == '\n' || s[0] == '\t' {
		w.out.WriteString("2")
	}
	body := strings.TrimRight(s, "\n")
	switch len(s) - len(body) {
	case 0:
		w.out.WriteString("-")
	case 1:
	default:
		w.out.WriteString("+")
	}
	w.out.WriteString("\n")
	for line := range strings.SplitSeq(body, "\n") {
		if line != "" {
			line = indent + "  " + line
		}
		w.out.WriteString(line + "\n")
	}
	for range len(s) - len(body) - 1 {
		w.out.WriteString("\n")
	}
}

// canBeLiteralBlock reports whether a text can be a literal block: it is not empty, and contains
// nothing that YAML treats as a line break or rejects.
func canBeLiteralBlock(s string) bool {
	if strings.Trim(s, " \t\n") == "" {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		switch r {
		case '\n', '\t':
			return false
		case 0x85, 0x2028, 0x2029, 0xfeff, 0xfffd:
			return true
		}
		return r < ' ' || r >= 0x7f && r < 0xa0
	})
}

// formatScalar writes a text on one line, quoted if it could be decoded as another value.
func formatScalar(s string) string {
	var v any = s
	if strings.ContainsAny(s, "\n\r") {
		v = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
	}
	b, err := yaml.Marshal(v)
	if err != nil {
		return formatFlowStyle(s)
	}
	return strings.TrimSuffix(string(b), "\n")
}

// formatFlowStyle writes a value on one line as JSON, which is valid YAML.
func formatFlowStyle(v any) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return "null"
	}
	return strings.TrimSuffix(out.String(), "\n")
}
