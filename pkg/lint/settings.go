package lint

import (
	"cmp"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// CheckSettings checks the settings in a file for --cluster. Lines are those of its keys, such
// as "settings.nodeHTTPProxy", and of the items of its lists.
func CheckSettings(path string, settings render.Settings, lines map[string]int) []Finding {
	line := func(field string) int {
		list, _, _ := strings.Cut(field, "[")
		return cmp.Or(lines[field], lines[list])
	}
	var out []Finding
	for _, p := range render.Problems(settings.Validate()) {
		out = append(out, Finding{Rule: RuleSetting, Severity: SeverityError, Path: path, Line: line(p.Field), Field: p.Field, Message: p.Err.Error()})
	}
	for _, w := range settings.Warnings() {
		out = append(out, Finding{
			Rule: RuleSetting, Severity: SeverityWarning, Path: path, Line: line(w.Field), Field: w.Field,
			Message: strings.TrimSuffix(w.String(), ": "+w.Remedy), Fix: w.Remedy,
		})
	}
	return out
}
