package lint

import (
	"cmp"
	"slices"
)

// Severity of a Finding.
type Severity string

// The severities, the gravest first.
const (
	// SeverityError is what a cluster would refuse or a node would fail at.
	SeverityError Severity = "error"
	// SeverityWarning is what works but should not be merged without a reason.
	SeverityWarning Severity = "warning"
	// SeverityNote is information: what could not be checked, what an overlay would
	// now yield. It never makes the check fail.
	SeverityNote Severity = "note"
)

// Finding is one thing to change in a profile.
type Finding struct {
	// Rule is the name of the rule, lower case with dashes, such as "template" or
	// "download-without-checksum". It is part of the interface: suppressions name it.
	Rule string `json:"rule"`
	// Severity of it.
	Severity Severity `json:"severity"`
	// Path of the file, as passed on the command line or relative to the repository.
	Path string `json:"path"`
	// Line of Path, 1 being the first; 0 when the whole file is meant. Findings in
	// rendered text have the line of the profile that the text came from.
	Line int `json:"line,omitempty"`
	// Column in bytes, 1 being the first; 0 when it is not known.
	Column int `json:"column,omitempty"`
	// Profile and Version are those of the document, empty when it has none.
	Profile string `json:"profile,omitempty"`
	Version string `json:"version,omitempty"`
	// Field, as in strictyaml.Problem.
	Field string `json:"field,omitempty"`
	// File is the path on the node of the file concerned.
	File string `json:"file,omitempty"`
	// Where says for which pools it holds, such as "aws, kubelet 1.33.6, with proxy";
	// empty when for all of them.
	Where string `json:"where,omitempty"`
	// Message says what is wrong. It holds no credential: lint renders with
	// placeholders only.
	Message string `json:"message"`
	// Fix says what to do, empty when the message does.
	Fix string `json:"fix,omitempty"`
}

// SortAndCompact orders findings by path, line, column, rule and message, and drops those that
// are equal.
func SortAndCompact(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Field, b.Field))
	})
	return slices.Compact(findings)
}

// Rule describes what a rule looks for, for docs and SARIF.
type Rule struct {
	// Name, as in Finding.Rule.
	Name string `json:"name"`
	// Severity of its findings, unless one of them says otherwise.
	Severity Severity `json:"severity"`
	// Summary is one sentence: what is found.
	Summary string `json:"summary"`
	// Help says why it matters and what to do instead.
	Help string `json:"help"`
}
