package shell

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// AssignedVariables returns the variables that a part of a script can change, including changes in
// functions that it calls.
func AssignedVariables(n syntax.Node, funcs map[string]*syntax.Stmt) map[string]bool {
	out, seen := map[string]bool{}, map[string]bool{}
	var visit func(syntax.Node) bool
	words := func(c *syntax.CallExpr) {
		first := ""
		if len(c.Args) > 0 {
			first = c.Args[0].Lit()
		}
		switch first {
		case "read", "mapfile", "readarray", "getopts", "unset", "printf":
			for _, a := range c.Args[1:] {
				if IsVariableName(a.Lit()) {
					out[a.Lit()] = true
				}
			}
		}
		// A function can call itself.
		if body := funcs[first]; body != nil && !seen[first] {
			seen[first] = true
			syntax.Walk(body, visit)
		}
	}
	arithmetic := func(x syntax.ArithmExpr) {
		if w, ok := x.(*syntax.Word); ok && IsVariableName(w.Lit()) {
			out[w.Lit()] = true
		}
	}
	visit = func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil && !n.Naked {
				out[n.Name.Value] = true
			}
		case *syntax.WordIter:
			out[n.Name.Value] = true
		case *syntax.CallExpr:
			words(n)
		case *syntax.UnaryArithm:
			arithmetic(n.X)
		case *syntax.BinaryArithm:
			// Comparisons end in "=" too, and assign nothing.
			if strings.HasSuffix(n.Op.String(), "=") && !slices.Contains([]string{"==", "!=", "<=", ">="}, n.Op.String()) {
				arithmetic(n.X)
			}
		}
		return true
	}
	syntax.Walk(n, visit)
	return out
}

// VariablesWithDefault returns the variables for which words have a default. If such a variable is never
// set, it is unset in these words; elsewhere it is unknown.
func VariablesWithDefault(words []*syntax.Word) map[string]bool {
	out := map[string]bool{}
	for _, w := range words {
		syntax.Walk(w, func(n syntax.Node) bool {
			p, ok := n.(*syntax.ParamExp)
			if ok && p.Param != nil && p.Exp != nil {
				switch p.Exp.Op {
				case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
					syntax.AssignUnset, syntax.AssignUnsetOrNull:
					out[p.Param.Value] = true
				}
			}
			return true
		})
	}
	return out
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// IsVariableName reports whether a text can be the name of a variable.
func IsVariableName(s string) bool { return variableName.MatchString(s) }
