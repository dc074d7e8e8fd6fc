package strictyaml

import (
	"fmt"
	"strings"
)

// Lines are the lines on which the texts of fields begin, by field, starting at 1.
type Lines map[string]int

// Line returns the line of a field; for one that is not in the file, that of the nearest
// field above it.
func (l Lines) Line(field string) int { return l[l.NearestWithLine(field)] }

// NearestWithLine returns the field, or the nearest one above it that has a line.
func (l Lines) NearestWithLine(field string) string {
	for field != "" {
		if _, ok := l[field]; ok {
			break
		}
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return field
}

// Element returns the field of a list element.
func Element(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
