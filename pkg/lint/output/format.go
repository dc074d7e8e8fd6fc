// Package output prints the findings of lint for users and for programs that display findings
// next to a change: text, JSON, SARIF, GitHub's workflow commands, JUnit.
//
// Messages and paths can quote text from an untrusted commit. The output escapes it, so that it
// cannot control a terminal, the runner of a job or a parser of the format (security.md 28, 39,
// 45).
//
// Start with Write.
package output

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
)

// Run is the input of a format.
type Run struct {
	// Report of the engine.
	Report *lint.Report
	// Rules are all rules of the run, for the formats that describe them.
	Rules []lint.Rule
	// Version of osm-gitops.
	Version string
	// Printed are findings that PrintText printed already.
	Printed map[lint.Finding]bool
}

// writers are the formats by name.
var writers = map[string]func(io.Writer, Run) error{
	"text": writeText, "json": writeJSON, "yaml": writeYAML, "sarif": writeSARIF, "github": writeGitHub, "junit": writeJUnit,
}

// Names returns the formats, the default one first.
func Names() []string { return []string{"text", "json", "yaml", "sarif", "github", "junit"} }

// Write prints a run in a format that Names lists. Equal runs give equal bytes.
func Write(w io.Writer, name string, run Run) error {
	write, ok := writers[name]
	if !ok {
		return fmt.Errorf("unknown format %q: use one of %s", name, strings.Join(Names(), ", "))
	}
	if err := write(w, run); err != nil {
		return fmt.Errorf("writing findings as %s: %w", name, err)
	}
	return nil
}

// maxMessage limits a message, which can quote a template.
const maxMessage = 4 << 10 // 4 KiB

// shortenToOneLine returns s on one line: line breaks and tabs become blanks, other characters that are not
// graphic are dropped, and a text of more than maxMessage bytes is truncated.
func shortenToOneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r == utf8.RuneError || !unicode.IsGraphic(r):
			return -1
		}
		return r
	}, s)
	if len(s) <= maxMessage {
		return s
	}
	cut := maxMessage
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// nodeFileAndPools returns the file on a node and the pools that a finding is about, and "" if its place
// names them.
func nodeFileAndPools(f lint.Finding) string {
	var parts []string
	if f.File != "" {
		parts = append(parts, f.File)
	}
	if f.Where != "" {
		parts = append(parts, f.Where)
	}
	return shortenToOneLine(strings.Join(parts, ", "))
}

// countBySeverity returns the number of findings of each severity.
func countBySeverity(r *lint.Report) map[lint.Severity]int {
	out := map[lint.Severity]int{}
	for _, f := range r.Findings {
		out[f.Severity]++
	}
	return out
}
