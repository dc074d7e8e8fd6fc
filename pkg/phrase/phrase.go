// Package phrase puts numbers, lists of names and suggestions into messages.
package phrase

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agext/levenshtein"
)

// Count returns a number with its noun: "1 profile", "2 profiles", "2 branches".
func Count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// First joins the first names of a list, and counts the others: "a, b and 3 more".
func First(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// maxCompared is the length in bytes up to which an unknown name is compared, with others of at most
// twice that: the time grows with the square.
const maxCompared = 250

// DidYouMean ends a message about an unknown name with the known one that is at most two edits from
// it, or for a long name a quarter of its letters: `: did you mean "KubeVersion"?` for KubeletVersion.
// It is empty if there is none. Among equally near names the first is taken.
func DidYouMean(name string, known []string) string {
	if len(name) > maxCompared {
		return ""
	}
	nearest, distance := "", max(2, utf8.RuneCountInString(name)/4)+1
	for _, k := range known {
		if len(k) > 2*maxCompared {
			continue
		}
		if d := levenshtein.Distance(strings.ToLower(name), strings.ToLower(k), nil); d < distance {
			nearest, distance = k, d
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", nearest)
}
