// Package phrase puts numbers and lists of names into messages.
package phrase

import (
	"fmt"
	"strings"
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
