package shellrules

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shellrules/internal/setoption"
)

// missingStrictMode finds scripts that continue after a failed command.
func missingStrictMode(s *script) []found {
	if s.command || s.shebang == "" {
		return nil
	}
	o := setoption.ReadOptions(s.Commands, s.shebang)
	if !o.Errexit && !o.Some && s.countFailableCommands() > 1 {
		return []found{{lint.RuleGoesOn, 1, "the script continues after a failed command",
			"begin it with \"set -euo pipefail\" (sh: \"set -eu\"); if it must continue, write \"set -uo pipefail\""}}
	}
	if !s.bash || o.Pipefail || !o.Errexit {
		return nil
	}
	for _, c := range s.Calls {
		if c.Pipe != nil && !s.isInEchoPipe(c) {
			return []found{{lint.RuleGoesOn, c.Pipe.Line, "only the last command of a pipe ends the script: failures of the others are ignored", "write \"set -euo pipefail\""}}
		}
	}
	return nil
}

// isInEchoPipe reports whether a call is in a pipe of two commands that begins with echo or printf,
// whose failure is irrelevant.
func (s *script) isInEchoPipe(c *shell.Call) bool {
	first := c.Pipe.Calls[0]
	return len(first) == 1 && (first[0].Name == "echo" || first[0].Name == "printf") && len(c.Pipe.Calls) == 2
}

// countFailableCommands counts the commands of a script that can fail. After a single one nothing continues.
func (s *script) countFailableCommands() int {
	n := 0
	for _, stmt := range s.File.Stmts {
		switch cmd := stmt.Cmd.(type) {
		case *syntax.FuncDecl, *syntax.DeclClause:
		case *syntax.CallExpr:
			if len(cmd.Args) > 0 && !slices.Contains([]string{"echo", "set", "exit", "umask", "trap", "true", ":", "cd", "shift"}, cmd.Args[0].Lit()) {
				n++
			}
		default:
			n += 2 // a list, a loop or a branch has several
		}
	}
	return n
}

// unsafeEval finds calls of eval with a value that is not constant.
func unsafeEval(s *script) []found {
	var out []found
	for _, c := range s.Calls {
		if c.Name != "eval" || !slices.ContainsFunc(c.Args, func(w shell.Word) bool { return w.Dynamic }) {
			continue
		}
		out = append(out, found{lint.RuleEval, c.Line, "eval runs a value as a program: anyone who controls the value is root", "use an array for arguments, \"${!name}\" or \"declare -n\" for a variable by its name, and \"source FILE\" for a file"})
	}
	return out
}
