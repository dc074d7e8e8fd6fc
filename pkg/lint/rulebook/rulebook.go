// Package rulebook lists the rules of all parts of lint.
package rulebook

import (
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/mirrored"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellcheck"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules"
	"github.com/osm-gitops/osm-gitops/pkg/lint/versions"
)

// Chapter is the rules of one part.
type Chapter struct {
	Title string
	Rules []lint.Rule
}

// Chapters are the rules part by part, in the order of the pages about them.
func Chapters() []Chapter {
	return []Chapter{
		{"Whether a profile renders and a node takes it", lint.Rules()},
		{"What a reviewer would object to", shellrules.Rules()},
		{"Scripts", shellcheck.Rules()},
		{"Versions, with --base", versions.Rules()},
		{"Downloads, with --mirrors", mirrored.Rules()},
		{"The file .osm-gitops.yaml", lint.ConfigRules()},
	}
}

// All are the rules in the order of their names.
func All() []lint.Rule {
	var out []lint.Rule
	for _, c := range Chapters() {
		out = append(out, c.Rules...)
	}
	slices.SortFunc(out, func(a, b lint.Rule) int { return strings.Compare(a.Name, b.Name) })
	return out
}
