package shellrules

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint"
	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
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

// setOptions are those that calls of "set" name, as far as rules ask about them.
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
	for _, c := range s.Calls {
		if c.Pipe != nil && !s.decides(c) {
			return []found{{lint.RuleGoesOn, c.Pipe.Line, "of a pipe only the last command may end the script: what fails before it goes unnoticed", "write \"set -euo pipefail\""}}
		}
	}
	return nil
}

// decides reports whether the first command of a pipe cannot fail in a way that
// matters: echo and printf, with which a text is handed on.
func (s *script) decides(c *shell.Call) bool {
	first := c.Pipe.Calls[0]
	return len(first) == 1 && (first[0].Name == "echo" || first[0].Name == "printf") && len(c.Pipe.Calls) == 2
}

// steps counts the commands of a script that may fail. One alone has nothing after it.
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

// evaluates: a value is taken for a program.
func evaluates(s *script) []found {
	var out []found
	for _, c := range s.Calls {
		if c.Name != "eval" || !slices.ContainsFunc(c.Args, func(w shell.Word) bool { return w.Dynamic }) {
			continue
		}
		out = append(out, found{lint.RuleEval, c.Line, "eval runs a value as a program: whoever decides the value is root", "use an array for arguments, \"${!name}\" or \"declare -n\" for a variable by its name, and \"source FILE\" for a file"})
	}
	return out
}
