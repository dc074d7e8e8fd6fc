package execution

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

// Environment exposes a state to the expansion of words.
type Environment struct {
	*State
	// MayBeUnset are variables that are unset if the script never sets them, instead of unknown.
	MayBeUnset map[string]bool
}

// Get implements expand.Environ.
func (e *Environment) Get(name string) expand.Variable {
	text := func(s string) expand.Variable { return expand.Variable{Set: true, Kind: expand.String, Str: s} }
	switch name {
	case "@", "*":
		if !e.ArgumentsKnown {
			return expand.Variable{Set: true, Kind: expand.Indexed, List: []string{shell.UnknownText("@")}}
		}
		return expand.Variable{Set: true, Kind: expand.Indexed, List: e.Arguments}
	case "#":
		if e.ArgumentsKnown {
			return text(strconv.Itoa(len(e.Arguments)))
		}
		return text(shell.UnknownText("#"))
	case "IFS":
		return expand.Variable{} // usually it is unset
	case "0", "?", "$", "!", "-", "PPID", "RANDOM", "SECONDS", "HOSTNAME", "UID", "EUID":
		return text(shell.UnknownText(name))
	}
	if n, err := strconv.Atoi(name); err == nil {
		switch {
		case !e.ArgumentsKnown && !e.MayBeUnset[name]:
			return text(shell.UnknownText(name))
		case e.ArgumentsKnown && n <= len(e.Arguments):
			return text(e.Arguments[n-1])
		}
		return expand.Variable{}
	}
	if user, ok := strings.CutPrefix(name, "HOME "); ok { // ~user: expand asks before it reads the accounts of this machine
		return text("~" + user)
	}
	v, ok := e.Variables[name]
	if !ok && !e.MayBeUnset[name] && shell.IsVariableName(name) {
		return text(shell.UnknownText(name))
	}
	return v
}

// Set implements expand.WriteEnviron, for ${name:=default}.
func (e *Environment) Set(name string, v expand.Variable) error {
	e.SetVariable(name, v)
	return nil
}

// Each implements expand.Environ.
func (e *Environment) Each(f func(string, expand.Variable) bool) {
	for name, v := range e.Variables {
		if !f(name, v) {
			return
		}
	}
}

// sequence matches a brace expression such as {1..9}.
var sequence = regexp.MustCompile(`\{(-?\d+)\.\.(-?\d+)`)

// IsExpansionCostlyOrInexact reports expansions that would take too long, or would turn an unknown text into
// one that appears to be known.
func (e *Environment) IsExpansionCostlyOrInexact(words []*syntax.Word) bool {
	bad, braces := false, 0
	for _, w := range words {
		syntax.Walk(w, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CmdSubst, *syntax.ProcSubst:
				return false
			case *syntax.Lit:
				braces += strings.Count(n.Value, "{")
				for _, m := range sequence.FindAllStringSubmatch(n.Value, -1) {
					from, err1 := strconv.Atoi(m[1])
					to, err2 := strconv.Atoi(m[2])
					bad = bad || err1 != nil || err2 != nil || max(from, to)-min(from, to) > 100
				}
			case *syntax.ParamExp:
				if n.Param == nil || n.Excl || n.Names != 0 {
					bad = true
				} else if n.Length || n.Slice != nil {
					v := e.Get(n.Param.Value)
					bad = bad || shell.HasUnknown(v.Str) || slices.ContainsFunc(v.List, shell.HasUnknown)
				}
			case *syntax.ArithmExp:
				syntax.Walk(n.X, func(n syntax.Node) bool {
					if l, ok := n.(*syntax.Lit); ok {
						bad = bad || shell.HasUnknown(e.Get(l.Value).Str) && shell.IsVariableName(l.Value)
					}
					return true
				})
			}
			return true
		})
	}
	return bad || braces > 4
}
