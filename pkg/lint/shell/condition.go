package shell

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// testClause evaluates [[ ... ]]. If the result is unknown, both results are followed, and
// each state assumes its result.
func (k *Walker) testClause(c *syntax.TestClause, w *State) []*State {
	return decided(k.test(w, c.X))
}

// decided returns the states in which a condition is true, and those in which it is false.
func decided(yes, no []*State) []*State {
	for _, w := range yes {
		w.status = succeeded
	}
	for _, w := range no {
		w.status = failed
	}
	return append(yes, no...)
}

// test returns the states in which an expression is true, and those in which it is
// false.
func (k *Walker) test(w *State, x syntax.TestExpr) (yes, no []*State) {
	switch x := x.(type) {
	case *syntax.ParenTest:
		return k.test(w, x.X)
	case *syntax.Word:
		return k.textTest(w, x, func(s string) status { return not(empty(s)) })
	case *syntax.UnaryTest:
		switch x.Op {
		case syntax.TsNot:
			no, yes = k.test(w, x.X)
			return yes, no
		case syntax.TsEmpStr, syntax.TsNempStr:
			if word, ok := x.X.(*syntax.Word); ok {
				return k.textTest(w, word, func(s string) status {
					if x.Op == syntax.TsEmpStr {
						return empty(s)
					}
					return not(empty(s))
				})
			}
		}
	case *syntax.BinaryTest:
		return k.binaryTest(w, x)
	}
	return either(w, unknown)
}

func (k *Walker) binaryTest(w *State, x *syntax.BinaryTest) (yes, no []*State) {
	switch x.Op {
	case syntax.AndTest:
		left, failed := k.test(w, x.X)
		for _, w := range left {
			y, n := k.test(w, x.Y)
			yes, failed = append(yes, y...), append(failed, n...)
		}
		return yes, failed
	case syntax.OrTest:
		holds, right := k.test(w, x.X)
		for _, w := range right {
			y, n := k.test(w, x.Y)
			holds, no = append(holds, y...), append(no, n...)
		}
		return holds, no
	}
	left, ok1 := x.X.(*syntax.Word)
	right, ok2 := x.Y.(*syntax.Word)
	if !ok1 || !ok2 {
		return either(w, unknown)
	}
	for _, l := range k.text(w, left) {
		value := l.fields[0]
		switch x.Op {
		case syntax.TsReMatch:
			for _, r := range k.text(l.State, right) {
				y, n := regexMatch(r.State, value, r.fields[0])
				yes, no = append(yes, y...), append(no, n...)
			}
		case syntax.TsMatch, syntax.TsMatchShort, syntax.TsNoMatch:
			for _, r := range k.pattern(l.State, right) {
				y, n := equal(r.State, value, r.fields[0])
				if x.Op == syntax.TsNoMatch {
					y, n = n, y
				}
				yes, no = append(yes, y...), append(no, n...)
			}
		default:
			y, n := either(l.State, unknown)
			yes, no = append(yes, y...), append(no, n...)
		}
	}
	return yes, no
}

func (k *Walker) textTest(w *State, word *syntax.Word, holds func(string) status) (yes, no []*State) {
	for _, e := range k.text(w, word) {
		y, n := either(e.State, holds(e.fields[0]))
		yes, no = append(yes, y...), append(no, n...)
	}
	return yes, no
}

// either returns a state on the side of its result, or a copy on both sides if it is unknown.
func either(w *State, holds status) (yes, no []*State) {
	switch holds {
	case succeeded:
		return []*State{w.Clone()}, nil
	case failed:
		return nil, []*State{w.Clone()}
	}
	return []*State{w.Clone()}, []*State{w.Clone()}
}

// equal compares a value with a pattern. In the state in which they are equal, unknown parts
// of one get the value of the other.
func equal(w *State, value, pattern string) (yes, no []*State) {
	holds := matches(value, pattern)
	yes, no = either(w, holds)
	if holds == unknown {
		plain := strings.ReplaceAll(pattern, `\`, "")
		switch {
		case IsUnknown(value) && !HasUnknown(pattern) && !strings.ContainsAny(plain, "*?["):
			yes[0].assume(value, plain)
		case IsUnknown(plain) && !HasUnknown(value):
			yes[0].assume(plain, value)
		}
	}
	return yes, no
}

// matches compares a value with a shell pattern.
func matches(value, pat string) status {
	// Every value matches *, also an unknown one.
	if HasUnknown(pat) || HasUnknown(value) && pat != "*" {
		return unknown
	}
	expr, err := pattern.Regexp(pat, pattern.EntireString)
	if err != nil {
		return unknown
	}
	re, err := regexp.Compile(expr)
	switch {
	case err != nil:
		return unknown
	case re.MatchString(value):
		return succeeded
	}
	return failed
}

// regexMatch evaluates =~, which sets BASH_REMATCH.
func regexMatch(w *State, value, expr string) (yes, no []*State) {
	if HasUnknown(value) || HasUnknown(expr) {
		yes, no = either(w, unknown)
		yes[0].setText("BASH_REMATCH", UnknownText("BASH_REMATCH"))
		return yes, no
	}
	re, err := regexp.CompilePOSIX(expr)
	if err != nil {
		return either(w, unknown)
	}
	m := re.FindStringSubmatch(value)
	if m == nil {
		return either(w, failed)
	}
	yes, _ = either(w, succeeded)
	yes[0].set("BASH_REMATCH", expand.Variable{Set: true, Kind: expand.Indexed, List: m})
	return yes, nil
}

// empty compares a text with the empty string.
func empty(s string) status {
	switch {
	case s == "":
		return succeeded
	case KnownParts(s) == "":
		return unknown
	}
	return failed
}

func not(s status) status {
	return map[status]status{unknown: unknown, succeeded: failed, failed: succeeded}[s]
}

// bracket evaluates [ ... ] and test with the given arguments.
func bracket(w *State, args []string) []*State {
	if len(args) > 0 && args[0] == "!" {
		out := bracket(w, args[1:])
		for _, w := range out {
			w.status = not(w.status)
		}
		return out
	}
	yes, no := either(w, unknown)
	switch {
	case slices.Contains(args, "-a") || slices.Contains(args, "-o"):
	case len(args) == 1:
		yes, no = either(w, not(empty(args[0])))
	case len(args) == 2 && args[0] == "-z":
		yes, no = either(w, empty(args[1]))
	case len(args) == 2 && args[0] == "-n":
		yes, no = either(w, not(empty(args[1])))
	case len(args) == 3 && (args[1] == "=" || args[1] == "=="):
		yes, no = equal(w, args[0], pattern.QuoteMeta(args[2], 0))
	case len(args) == 3 && args[1] == "!=":
		no, yes = equal(w, args[0], pattern.QuoteMeta(args[2], 0))
	}
	return decided(yes, no)
}
