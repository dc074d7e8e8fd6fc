package shellrules

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

// options are the shell options that a script sets with "set" and in its first line.
type options struct {
	errexit, pipefail bool
	some              bool // the script sets or clears a relevant option, so its author made a decision
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
	for _, e := range s.setOptions() {
		switch e.name {
		case "errexit":
			o.errexit, o.some = o.errexit || e.on, true
		case "pipefail":
			o.pipefail, o.some = o.pipefail || e.on, true
		case "nounset":
			o.some = true
		}
	}
	return o
}

// setOption is an option of the shell that a script turns on or off.
type setOption struct {
	name string
	on   bool
	line int
}

// setOptions returns the calls of "set" with an option that rules use.
func (s *script) setOptions() []setOption {
	short := map[rune]string{'e': "errexit", 'u': "nounset", 'x': "xtrace"}
	var out []setOption
	for _, c := range s.Calls {
		if c.Name != "set" {
			continue
		}
		for i, w := range c.Args {
			on := strings.HasPrefix(w.Text, "-")
			if i+1 < len(c.Args) && longOption.MatchString(w.Text) {
				out = append(out, setOption{c.Args[i+1].Text, on, c.Line})
			}
			if !shortOptions.MatchString(w.Text) {
				continue
			}
			for _, letter := range w.Text[1:] {
				if name, ok := short[letter]; ok {
					out = append(out, setOption{name, on, c.Line})
				}
			}
		}
	}
	return out
}

// goesOn finds scripts that continue after a failed command.
func goesOn(s *script) []found {
	if s.command || s.shebang == "" {
		return nil
	}
	o := s.options()
	if !o.errexit && !o.some && s.steps() > 1 {
		return []found{{lint.RuleGoesOn, 1, "the script continues after a failed command",
			"begin it with \"set -euo pipefail\" (sh: \"set -eu\"); if it must continue, write \"set -uo pipefail\""}}
	}
	if !s.bash || o.pipefail || !o.errexit {
		return nil
	}
	for _, c := range s.Calls {
		if c.Pipe != nil && !s.decides(c) {
			return []found{{lint.RuleGoesOn, c.Pipe.Line, "only the last command of a pipe ends the script: failures of the others are ignored", "write \"set -euo pipefail\""}}
		}
	}
	return nil
}

// decides reports whether failures of the first command of a pipe are irrelevant: echo and
// printf, which only pass a text on.
func (s *script) decides(c *shell.Call) bool {
	first := c.Pipe.Calls[0]
	return len(first) == 1 && (first[0].Name == "echo" || first[0].Name == "printf") && len(c.Pipe.Calls) == 2
}

// steps counts the commands of a script that can fail. After a single one nothing continues.
func (s *script) steps() int {
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

// evaluates finds values that are run as programs.
func evaluates(s *script) []found {
	var out []found
	for _, c := range s.Calls {
		if c.Name != "eval" || !slices.ContainsFunc(c.Args, func(w shell.Word) bool { return w.Dynamic }) {
			continue
		}
		out = append(out, found{lint.RuleEval, c.Line, "eval runs a value as a program: anyone who controls the value is root", "use an array for arguments, \"${!name}\" or \"declare -n\" for a variable by its name, and \"source FILE\" for a file"})
	}
	return out
}
