package shellrules

import (
	"regexp"
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
)

// options are what a script sets with "set" and in its first line.
type options struct {
	errexit, pipefail bool
	some              bool // it sets or clears one of those that matter here: its author has thought of them
}

var (
	shebangErrexit = regexp.MustCompile(`\s-[a-zA-Z]*e`)
	longOption     = regexp.MustCompile(`^[-+][a-zA-Z]*o$`)
	shortOptions   = regexp.MustCompile(`^[-+][a-zA-Z]+$`)
)

func (s *script) options() options {
	var o options
	if shebangErrexit.MatchString(s.shebang) {
		o.errexit, o.some = true, true
	}
	for _, c := range s.calls {
		if c.name != "set" {
			continue
		}
		for i, w := range c.args {
			long := ""
			if i+1 < len(c.args) && longOption.MatchString(w.text) {
				long = c.args[i+1].text
			}
			on := w.text != "" && w.text[0] == '-'
			short := shortOptions.MatchString(w.text)
			letter := func(l byte) bool { return short && slices.Contains([]byte(w.text), l) }
			if letter('e') || long == "errexit" {
				o.errexit, o.some = o.errexit || on, true
			}
			if letter('u') || long == "nounset" || long == "pipefail" {
				o.some = true
			}
			if long == "pipefail" && on {
				o.pipefail = true
			}
		}
	}
	return o
}

// goesOn: after a command that failed, a script goes on as if nothing had happened.
func goesOn(s *script) []found {
	if s.command || s.shebang == "" {
		return nil
	}
	o := s.options()
	if !o.errexit && !o.some && s.steps() > 1 {
		return []found{{lint.RuleGoesOn, 1, "the script goes on after a command that failed",
			"begin it with \"set -euo pipefail\" (sh: \"set -eu\"); where it shall go on, say so with \"set -uo pipefail\""}}
	}
	if !s.bash || o.pipefail || !o.errexit {
		return nil
	}
	for _, c := range s.calls {
		if c.pipe != nil && !s.decides(c) {
			return []found{{lint.RuleGoesOn, c.pipe.line, "of a pipe only the last command may end the script: what fails before it goes unnoticed", "write \"set -euo pipefail\""}}
		}
	}
	return nil
}

// decides reports whether the first command of a pipe cannot fail in a way that
// matters: echo and printf, with which a text is handed on.
func (s *script) decides(c *call) bool {
	first := c.pipe.calls[0]
	return len(first) == 1 && (first[0].name == "echo" || first[0].name == "printf") && len(c.pipe.calls) == 2
}

// steps counts the commands of a script that may fail. One alone has nothing after it.
func (s *script) steps() int {
	n := 0
	for _, stmt := range s.file.Stmts {
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

// evaluates: a value is taken for a program.
func evaluates(s *script) []found {
	var out []found
	for _, c := range s.calls {
		if c.name != "eval" || !slices.ContainsFunc(c.args, func(w word) bool { return w.dynamic }) {
			continue
		}
		out = append(out, found{lint.RuleEval, c.line, "eval runs a value as a program: whoever decides the value is root", "use an array for arguments, \"${!name}\" or \"declare -n\" for a variable by its name, and \"source FILE\" for a file"})
	}
	return out
}
