package verify

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
)

// compareValues finds the first difference between two values by their JSON: absent, null
// and empty are equal. Keys are compared in sorted order, so that the result is stable.
func compareValues(at string, want, have any) *Difference {
	w, err := toJSONTree(want)
	if err != nil {
		return newDifference(at, 0, "JSON", err.Error())
	}
	h, err := toJSONTree(have)
	if err != nil {
		return newDifference(at, 0, "JSON", err.Error())
	}
	return compareTrees(at, w, h)
}

func toJSONTree(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(b, &out)
}

func compareTrees(at string, want, have any) *Difference {
	if isNilOrEmptyContainer(want) && isNilOrEmptyContainer(have) || reflect.DeepEqual(want, have) {
		return nil
	}
	want, have = emptyLike(want, have), emptyLike(have, want)
	switch w := want.(type) {
	case map[string]any:
		if h, ok := have.(map[string]any); ok {
			for _, k := range sets.List(sets.KeySet(w).Union(sets.KeySet(h))) {
				if d := compareTrees(at+"."+k, w[k], h[k]); d != nil {
					return d
				}
			}
			return nil
		}
	case []any:
		if h, ok := have.([]any); ok {
			return compareLists(at, w, h)
		}
	case string:
		if h, ok := have.(string); ok {
			return compareText(at, w, h)
		}
	}
	if w, h := formatOnOneLine(want), formatOnOneLine(have); w != h {
		return newDifference(at, 0, w, h)
	}
	return newDifference(at, 0, fmt.Sprintf("%T %v", want, want), fmt.Sprintf("%T %v", have, have))
}

// emptyLike returns an empty value of the other's kind in place of an absent value.
func emptyLike(v, other any) any {
	if v != nil {
		return v
	}
	switch other.(type) {
	case map[string]any:
		return map[string]any{}
	case []any:
		return []any{}
	}
	return nil
}

func compareLists(at string, want, have []any) *Difference {
	for i := range max(len(want), len(have)) {
		var w, h any
		if i < len(want) {
			w = want[i]
		}
		if i < len(have) {
			h = have[i]
		}
		item := fmt.Sprintf("%s[%d]%s", at, i, itemName(w, h))
		if _, isMap := h.(map[string]any); isMap && w == nil {
			return newDifference(item, 0, "", "present")
		}
		if _, isMap := w.(map[string]any); isMap && h == nil {
			return newDifference(item, 0, "present", "")
		}
		if d := compareTrees(item, w, h); d != nil {
			return d
		}
	}
	return nil
}

// itemName names an item of a list for users: a file's path, a unit's name.
func itemName(items ...any) string {
	for _, item := range items {
		m, _ := item.(map[string]any)
		for _, k := range []string{"path", "name"} {
			if s, ok := m[k].(string); ok {
				return fmt.Sprintf(" %q", s)
			}
		}
	}
	return ""
}

// compareText finds the first line that differs. For a text of one line it reports no line
// number.
func compareText(at, want, have string) *Difference {
	if want == have {
		return nil
	}
	w, h := strings.Split(want, "\n"), strings.Split(have, "\n")
	if len(w) == 1 && len(h) == 1 {
		return newDifference(at, 0, want, have)
	}
	i := firstDifferingLine(w, h)
	// A single line of a key does not look like a secret.
	if inPrivateKey(w, i) || inPrivateKey(h, i) {
		return newDifference(at, i+1, maskNonemptyLine(w, i), maskNonemptyLine(h, i))
	}
	return newDifference(at, i+1, lineOrEmpty(w, i), lineOrEmpty(h, i))
}

// firstDifferingLine returns the index of the first line that differs.
func firstDifferingLine(a, b []string) int {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	return i
}

// inPrivateKey reports whether a line is part of a private key, which depends on the lines
// before it. If the line is part of a key in one of two texts, the other may lack the first
// line of the key, so neither is shown (security.md 15).
func inPrivateKey(lines []string, i int) bool {
	before := strings.Join(lines[:min(i, len(lines))], "\n")
	with := strings.Join(lines[:min(i+1, len(lines))], "\n")
	at := strings.LastIndex(with, "-----BEGIN ")
	return at >= 0 && privateKey.MatchString(with[at:]) && !strings.Contains(before[min(at, len(before)):], "-----END ")
}

func maskNonemptyLine(lines []string, i int) string {
	if lineOrEmpty(lines, i) == "" {
		return ""
	}
	return hidden
}

func lineOrEmpty(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

// formatOnOneLine formats a value on one line.
func formatOnOneLine(v any) string {
	if isNilOrEmptyContainer(v) {
		return ""
	}
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "a value"
	}
	return string(b)
}

func isNilOrEmptyContainer(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}
