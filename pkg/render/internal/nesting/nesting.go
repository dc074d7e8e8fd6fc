// Package nesting measures the nesting of a text before it is decoded: decoders need most memory
// for nesting. It decodes only YAML, to count what its aliases stand for. Start with IsDeepYAML.
package nesting

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
)

// MaxTextBytes is the longest text to decode from YAML, JSON or TOML, 64 KiB: the decoded tree
// needs a hundred times as much.
const MaxTextBytes = 64 << 10

// IsDeepJSON reports whether brackets are nested too deep.
func IsDeepJSON(s string) bool {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			if depth++; depth > meter.MaxValueDepth {
				return true
			}
		case ']', '}':
			depth--
		}
	}
	return false
}

// IsDeepTOML reports whether brackets are nested too deep, or a key has too many parts. It
// handles the four kinds of strings and comments (https://toml.io/en/v1.0.0).
func IsDeepTOML(s string) bool {
	depth, parts := 0, 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\'':
			i = endOfTOMLString(s, i)
		case '#':
			if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
				i += n - 1
			} else {
				return false
			}
		case '[', '{':
			parts = 0
			if depth++; depth > meter.MaxValueDepth {
				return true
			}
		case ']', '}':
			depth--
		case '.':
			if parts++; parts > meter.MaxValueDepth {
				return true
			}
		case '\n', ',', '=':
			parts = 0
		}
	}
	return false
}

// endOfTOMLString returns the index of the last quote of the string that begins at i.
func endOfTOMLString(s string, i int) int {
	quote := s[i : i+1]
	if long := strings.Repeat(quote, 3); strings.HasPrefix(s[i:], long) {
		for i += 3; i < len(s); i++ {
			switch {
			case s[i] == '\\' && quote == `"`:
				i++
			case strings.HasPrefix(s[i:], long):
				i += 2
				for range 2 { // two more may belong to the text
					if strings.HasPrefix(s[i+1:], quote) {
						i++
					}
				}
				return i
			}
		}
		return i
	}
	for i++; i < len(s) && s[i] != quote[0] && s[i] != '\n'; i++ {
		if s[i] == '\\' && quote == `"` {
			i++
		}
	}
	return i
}

// IsDeepYAML reports whether brackets, or the dashes and question marks of a line, are nested
// too deep. Brackets in strings count as well, so a text can be nested less than the result
// suggests. The decoder itself stops at 10,000 levels.
func IsDeepYAML(s string) bool {
	depth := 0
	marks := 0
	start := true
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '[', '{':
			if depth++; depth > meter.MaxValueDepth {
				return true
			}
		case ']', '}':
			depth = max(depth-1, 0)
		case '-', '?':
			if start && (i+1 == len(s) || strings.IndexByte(" \t\n", s[i+1]) >= 0) {
				if marks++; marks > meter.MaxValueDepth {
					return true
				}
				continue
			}
		case '\n':
			marks, start = 0, true
			continue
		case ' ', '\t':
			continue
		}
		start = false
	}
	return false
}

// Limits on the work of the YAML decoder beyond reading: it expands aliases at every use, and
// compares each key of a mapping with all others, recording every two that are equal.
const (
	maxAliased      = 10_000 // values after the expansion of aliases
	maxRepeatedKeys = 100    // pairs of keys that are alike
)

// YAMLDecodeCost returns the work of decoding a YAML text beyond reading it.
func YAMLDecodeCost(s string) (int, error) {
	var root yaml.Node
	if yaml.Unmarshal([]byte(s), &root) != nil {
		return len(s), nil //nolint:nilerr // the function itself says what is wrong
	}
	aliased := 0
	repeated := 0
	compared := 0
	var visit func(node *yaml.Node, alias bool)
	visit = func(node *yaml.Node, alias bool) {
		if alias {
			aliased++
		}
		// Nested aliases can stand for exponentially many values, so the visit ends at the limit.
		if aliased > maxAliased || repeated > maxRepeatedKeys {
			return
		}
		switch node.Kind {
		case yaml.AliasNode:
			visit(node.Alias, true)
		case yaml.MappingNode:
			keys := len(node.Content) / 2
			compared = meter.SaturatingSum(compared, meter.SaturatingProduct(keys, keys))
			seen := map[string]int{}
			for i := 0; i+1 < len(node.Content); i += 2 {
				key := node.Content[i].Value
				repeated += seen[key]
				seen[key]++
			}
		}
		for _, child := range node.Content {
			visit(child, alias)
		}
	}
	visit(&root, false)
	switch {
	case aliased > maxAliased:
		return 0, fmt.Errorf("the aliases of the text stand for more than %d values", maxAliased)
	case repeated > maxRepeatedKeys:
		return 0, fmt.Errorf("the text repeats the keys of a mapping more than %d times", maxRepeatedKeys)
	}
	return meter.SaturatingSum(len(s), meter.SaturatingSum(meter.SaturatingProduct(aliased, meter.CallBytes), compared/8)), nil
}
