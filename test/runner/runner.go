// Package runner parses a job's log like the runner of GitHub Actions, by the rules of
// https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs:
// a line is a command if it begins with "::" after trimming blanks, or if it contains "##["
// followed by "]" and the name up to the first blank is a known command. "##vso[" of Azure
// Pipelines is parsed in the same way.
package runner

import (
	"slices"
	"strings"
)

var workflowCommands = []string{
	"add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group", "internal-set-repo-path",
	"notice", "remove-matcher", "save-state", "set-env", "set-output", "stop-commands", "warning",
}

// Commands are the lines of a log that are commands, with their blanks trimmed.
func Commands(log string) []string {
	var out []string
	for line := range strings.FieldsFuncSeq(log, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = strings.TrimSpace(line)
		if isCommand(line) {
			out = append(out, line)
		}
	}
	return out
}

func isCommand(line string) bool {
	if rest, ok := strings.CutPrefix(line, "::"); ok {
		if info, _, ok := strings.Cut(rest, "::"); ok && isKnown(info) {
			return true
		}
	}
	if strings.Contains(line, "##vso[") {
		return true
	}
	_, rest, ok := strings.Cut(line, "##[")
	if !ok {
		return false
	}
	info, _, ok := strings.Cut(rest, "]")
	return ok && isKnown(info)
}

func isKnown(info string) bool {
	name, _, _ := strings.Cut(info, " ")
	return slices.ContainsFunc(workflowCommands, func(k string) bool { return strings.EqualFold(k, name) })
}

// Hostile are names of files that would be commands.
var Hostile = []string{
	"::stop-commands::x/a.yaml", "  ::add-mask::error.yaml", "z ##[set-output name=verdict]a.yaml", "##[error]b.yaml",
	"\u00a0::warning::c.yaml", "##vso[task.setvariable variable=x]d.yaml", "::::stop-commands::e.yaml", "x\r::notice::f.yaml",
}
