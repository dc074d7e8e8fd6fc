package symbolic

import (
	"mvdan.cc/sh/v3/syntax"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell/execution"
)

// testClause evaluates [[ ... ]]. If the result is unknown, both results are followed, and
// each state assumes its result.
func (k *Walker) testClause(c *syntax.TestClause, w *execution.State) []*execution.State {
	return execution.SetExitStatuses(k.evaluateTest(w, c.X))
}

// evaluateTest returns the states in which an expression is true, and those in which it is
// false.
func (k *Walker) evaluateTest(w *execution.State, x syntax.TestExpr) (yes, no []*execution.State) {
	switch x := x.(type) {
	case *syntax.ParenTest:
		return k.evaluateTest(w, x.X)
	case *syntax.Word:
		return k.textTest(w, x, func(s string) execution.Status { return execution.Negate(execution.CheckEmpty(s)) })
	case *syntax.UnaryTest:
		switch x.Op {
		case syntax.TsNot:
			no, yes = k.evaluateTest(w, x.X)
			return yes, no
		case syntax.TsEmpStr, syntax.TsNempStr:
			if word, ok := x.X.(*syntax.Word); ok {
				return k.textTest(w, word, func(s string) execution.Status {
					if x.Op == syntax.TsEmpStr {
						return execution.CheckEmpty(s)
					}
					return execution.Negate(execution.CheckEmpty(s))
				})
			}
		}
	case *syntax.BinaryTest:
		return k.binaryTest(w, x)
	}
	return execution.SplitByCondition(w, execution.Unknown)
}

func (k *Walker) binaryTest(w *execution.State, x *syntax.BinaryTest) (yes, no []*execution.State) {
	switch x.Op {
	case syntax.AndTest:
		left, failed := k.evaluateTest(w, x.X)
		for _, w := range left {
			y, n := k.evaluateTest(w, x.Y)
			yes, failed = append(yes, y...), append(failed, n...)
		}
		return yes, failed
	case syntax.OrTest:
		succeeded, right := k.evaluateTest(w, x.X)
		for _, w := range right {
			y, n := k.evaluateTest(w, x.Y)
			succeeded, no = append(succeeded, y...), append(no, n...)
		}
		return succeeded, no
	}
	left, ok1 := x.X.(*syntax.Word)
	right, ok2 := x.Y.(*syntax.Word)
	if !ok1 || !ok2 {
		return execution.SplitByCondition(w, execution.Unknown)
	}
	for _, l := range k.expandText(w, left) {
		value := l.fields[0]
		switch x.Op {
		case syntax.TsReMatch:
			for _, r := range k.expandText(l.State, right) {
				y, n := execution.SplitByRegexp(r.State, value, r.fields[0])
				yes, no = append(yes, y...), append(no, n...)
			}
		case syntax.TsMatch, syntax.TsMatchShort, syntax.TsNoMatch:
			for _, r := range k.pattern(l.State, right) {
				y, n := execution.SplitByMatch(r.State, value, r.fields[0])
				if x.Op == syntax.TsNoMatch {
					y, n = n, y
				}
				yes, no = append(yes, y...), append(no, n...)
			}
		default:
			y, n := execution.SplitByCondition(l.State, execution.Unknown)
			yes, no = append(yes, y...), append(no, n...)
		}
	}
	return yes, no
}

func (k *Walker) textTest(w *execution.State, word *syntax.Word, evaluate func(string) execution.Status) (yes, no []*execution.State) {
	for _, e := range k.expandText(w, word) {
		y, n := execution.SplitByCondition(e.State, evaluate(e.fields[0]))
		yes, no = append(yes, y...), append(no, n...)
	}
	return yes, no
}
