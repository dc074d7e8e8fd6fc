package execution

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"

	"github.com/osm-gitops/osm-gitops/pkg/lint/shell"
)

// SetExitStatuses sets the exit status of states in which a condition is true or false, and returns
// all of them.
func SetExitStatuses(yes, no []*State) []*State {
	for _, w := range yes {
		w.Status = Succeeded
	}
	for _, w := range no {
		w.Status = Failed
	}
	return append(yes, no...)
}

// SplitByCondition returns a state on the side of its result, or a copy on both sides if it is unknown.
func SplitByCondition(w *State, result Status) (yes, no []*State) {
	switch result {
	case Succeeded:
		return []*State{w.Clone()}, nil
	case Failed:
		return nil, []*State{w.Clone()}
	}
	return []*State{w.Clone()}, []*State{w.Clone()}
}

// SplitByMatch returns the states in which a value matches a pattern, and those in which it does
// not. In the former, an unknown value gets the other's text.
func SplitByMatch(w *State, value, pattern string) (yes, no []*State) {
	matched := MatchPattern(value, pattern)
	yes, no = SplitByCondition(w, matched)
	if matched == Unknown {
		plain := strings.ReplaceAll(pattern, `\`, "")
		switch {
		case shell.IsUnknown(value) && !shell.HasUnknown(pattern) && !strings.ContainsAny(plain, "*?["):
			yes[0].ReplaceUnknownInVariables(value, plain)
		case shell.IsUnknown(plain) && !shell.HasUnknown(value):
			yes[0].ReplaceUnknownInVariables(plain, value)
		}
	}
	return yes, no
}

// MatchPattern compares a value with a shell pattern.
func MatchPattern(value, pat string) Status {
	// Every value matches *, also an unknown one.
	if shell.HasUnknown(pat) || shell.HasUnknown(value) && pat != "*" {
		return Unknown
	}
	expr, err := pattern.Regexp(pat, pattern.EntireString)
	if err != nil {
		return Unknown
	}
	re, err := regexp.Compile(expr)
	switch {
	case err != nil:
		return Unknown
	case re.MatchString(value):
		return Succeeded
	}
	return Failed
}

// SplitByRegexp evaluates =~, which sets BASH_REMATCH.
func SplitByRegexp(w *State, value, expr string) (yes, no []*State) {
	if shell.HasUnknown(value) || shell.HasUnknown(expr) {
		yes, no = SplitByCondition(w, Unknown)
		yes[0].SetText("BASH_REMATCH", shell.UnknownText("BASH_REMATCH"))
		return yes, no
	}
	re, err := regexp.CompilePOSIX(expr)
	if err != nil {
		return SplitByCondition(w, Unknown)
	}
	m := re.FindStringSubmatch(value)
	if m == nil {
		return SplitByCondition(w, Failed)
	}
	yes, _ = SplitByCondition(w, Succeeded)
	yes[0].SetVariable("BASH_REMATCH", expand.Variable{Set: true, Kind: expand.Indexed, List: m})
	return yes, nil
}

// CheckEmpty compares a text with the empty string: it succeeds if the text is empty.
func CheckEmpty(s string) Status {
	switch {
	case s == "":
		return Succeeded
	case shell.KnownParts(s) == "":
		return Unknown
	}
	return Failed
}

// Negate returns the opposite status; that of an unknown one is unknown.
func Negate(s Status) Status {
	return map[Status]Status{Unknown: Unknown, Succeeded: Failed, Failed: Succeeded}[s]
}

// EvaluateTest evaluates [ ... ] and test with the given arguments.
func EvaluateTest(w *State, args []string) []*State {
	if len(args) > 0 && args[0] == "!" {
		out := EvaluateTest(w, args[1:])
		for _, w := range out {
			w.Status = Negate(w.Status)
		}
		return out
	}
	yes, no := SplitByCondition(w, Unknown)
	switch {
	case slices.Contains(args, "-a") || slices.Contains(args, "-o"):
	case len(args) == 1:
		yes, no = SplitByCondition(w, Negate(CheckEmpty(args[0])))
	case len(args) == 2 && args[0] == "-z":
		yes, no = SplitByCondition(w, CheckEmpty(args[1]))
	case len(args) == 2 && args[0] == "-n":
		yes, no = SplitByCondition(w, Negate(CheckEmpty(args[1])))
	case len(args) == 3 && (args[1] == "=" || args[1] == "=="):
		yes, no = SplitByMatch(w, args[0], pattern.QuoteMeta(args[2], 0))
	case len(args) == 3 && args[1] == "!=":
		no, yes = SplitByMatch(w, args[0], pattern.QuoteMeta(args[2], 0))
	}
	return SetExitStatuses(yes, no)
}
