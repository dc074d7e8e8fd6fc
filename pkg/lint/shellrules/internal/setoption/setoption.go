// Package setoption knows the options of the shell that a script sets with "set" and in its first
// line. It judges nothing. Start with ReadOptions.
package setoption

import (
	"regexp"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

// Options are the shell options that a script sets with "set" and in its first line.
type Options struct {
	Errexit, Pipefail bool
	Some              bool // the script sets or clears a relevant option, so its author made a decision
}

var (
	shebangErrexit = regexp.MustCompile(`\s-[a-zA-Z]*e`)
	longOption     = regexp.MustCompile(`^[-+][a-zA-Z]*o$`)
	shortOptions   = regexp.MustCompile(`^[-+][a-zA-Z]+$`)
)

// ReadOptions returns the options of a script with this first line.
func ReadOptions(s *shell.Commands, shebang string) Options {
	var o Options
	if shebangErrexit.MatchString(shebang) {
		o.Errexit, o.Some = true, true
	}
	for _, e := range Calls(s) {
		switch e.Name {
		case "errexit":
			o.Errexit, o.Some = o.Errexit || e.On, true
		case "pipefail":
			o.Pipefail, o.Some = o.Pipefail || e.On, true
		case "nounset":
			o.Some = true
		}
	}
	return o
}

// Call is a call of "set" for an option of the shell that a script turns on or off.
type Call struct {
	Name string
	On   bool
	Line int
}

// Calls returns the calls of "set" with an option that rules use.
func Calls(s *shell.Commands) []Call {
	short := map[rune]string{'e': "errexit", 'u': "nounset", 'x': "xtrace"}
	var out []Call
	for _, c := range s.Calls {
		if c.Name != "set" {
			continue
		}
		for i, w := range c.Args {
			on := strings.HasPrefix(w.Text, "-")
			if i+1 < len(c.Args) && longOption.MatchString(w.Text) {
				out = append(out, Call{c.Args[i+1].Text, on, c.Line})
			}
			if !shortOptions.MatchString(w.Text) {
				continue
			}
			for _, letter := range w.Text[1:] {
				if name, ok := short[letter]; ok {
					out = append(out, Call{name, on, c.Line})
				}
			}
		}
	}
	return out
}
