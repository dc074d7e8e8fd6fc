package render

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp/syntax"
	"slices"
	"strings"
)

// bounds look at the arguments of functions whose result may be many times as
// long, and of those that take more time than reading their arguments does. They
// return that time, in bytes of work.
var bounds = func() map[string]func(args []reflect.Value) (int, error) {
	type bound = func(args []reflect.Value) (int, error)
	text := func(args []reflect.Value, i int) string { return args[i].String() }
	number := func(args []reflect.Value, i int) int { return int(args[i].Int()) }
	// making is for results whose length is known before.
	making := func(size func(args []reflect.Value) int) bound {
		return func(args []reflect.Value) (int, error) {
			if size(args) > maxValueBytes {
				return 0, errTooBig
			}
			return 0, nil
		}
	}
	pieces := func(count func(args []reflect.Value) int) bound {
		return func(args []reflect.Value) (int, error) {
			if count(args) > maxItems {
				return 0, errTooMany
			}
			return 0, nil
		}
	}
	indented := making(func(args []reflect.Value) int {
		s := text(args, 1)
		return sum(len(s), product(max(number(args, 0), 0), 1+strings.Count(s, "\n")))
	})
	split := pieces(func(args []reflect.Value) int { return 1 + strings.Count(text(args, 1), text(args, 0)) })
	trimmed := func(args []reflect.Value) (int, error) { return product(len(text(args, 0)), len(text(args, 1))), nil }
	once := func(args []reflect.Value) (int, error) { return matching(text(args, 0), text(args, 1), false) }
	often := func(args []reflect.Value) (int, error) { return matching(text(args, 0), text(args, 1), true) }
	replaced := func(args []reflect.Value) (int, error) {
		s, repl := text(args, 1), text(args, 2)
		// Each match inserts the replacement, and of the text at most what it matches
		// for each "$".
		if sum(sum(len(s), product(len(s)+1, len(repl))), product(strings.Count(repl, "$"), len(s))) > 64*maxValueBytes {
			return 0, errTooBig
		}
		return matching(text(args, 0), s, true)
	}
	decoded := func(args []reflect.Value) (int, error) {
		if len(text(args, 0)) > maxDecodedBytes {
			return 0, fmt.Errorf("the text has more than %d bytes", maxDecodedBytes)
		}
		return 16 * len(text(args, 0)), nil
	}
	// Each item is compared with each.
	compared := func(args []reflect.Value) (int, error) {
		return product(weigh(args[0], maxValueBytes, 0), items(args[0])), nil
	}
	out := map[string]bound{
		"repeat":  making(func(args []reflect.Value) int { return product(max(number(args, 0), 0), len(text(args, 1))) }),
		"indent":  indented,
		"nindent": indented,
		"replace": making(func(args []reflect.Value) int {
			return sum(len(text(args, 2)), product(strings.Count(text(args, 2), text(args, 0)), len(text(args, 1))))
		}),
		"join": making(func(args []reflect.Value) int {
			return sum(weigh(args[1], maxValueBytes, 0), product(items(args[1]), len(text(args, 0))))
		}),
		"wrap":      making(func(args []reflect.Value) int { return 2 * len(text(args, 1)) }),
		"wrapWith":  making(func(args []reflect.Value) int { return product(len(text(args, 2)), 1+len(text(args, 1))) }),
		"printf":    formatted,
		"split":     split,
		"splitList": split,
		"splitn": pieces(func(args []reflect.Value) int {
			n := 1 + strings.Count(text(args, 2), text(args, 0))
			if limit := number(args, 1); limit >= 0 {
				n = min(n, limit)
			}
			return n
		}),
		"trimall": trimmed, "trimAll": trimmed,
		"uniq": compared, "mustUniq": compared,
		"without": func(args []reflect.Value) (int, error) {
			return product(weigh(args[0], maxValueBytes, 0), args[1].Len()), nil
		},
		"semver": decoded,
		"semverCompare": func(args []reflect.Value) (int, error) {
			return product(64, len(text(args, 0))), nil
		},
	}
	out["mustWithout"] = out["without"]
	out["regexMatch"], out["regexFind"], out["regexFindAll"], out["regexSplit"] = once, once, often, often
	for _, name := range strings.Fields("regexReplaceAll regexReplaceAllLiteral") {
		out[name] = replaced
	}
	for _, name := range strings.Fields("regexMatch regexFind regexFindAll regexSplit regexReplaceAll regexReplaceAllLiteral") {
		out["mustR"+name[1:]] = out[name]
	}
	for _, name := range strings.Fields("fromYaml fromYamlArray fromJson fromJsonArray mustFromJson fromToml") {
		out[name] = decoded
	}
	return out
}()

// items is the length of a list, 0 of anything else.
func items(v reflect.Value) int {
	for v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	if k := v.Kind(); k != reflect.Slice && k != reflect.Array {
		return 0
	}
	return v.Len()
}

var errTooMany = fmt.Errorf("a list of more than %d items", maxItems)

// matching is the work of matching a text with a regular expression: Go's take
// time in proportion to the product of their lengths. To find all matches, one
// that looks ahead may read the rest of the text for each of them.
func matching(pattern, s string, all bool) (int, error) {
	if len(pattern) > maxPatternBytes {
		return 0, fmt.Errorf("the regular expression has more than %d bytes", maxPatternBytes)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, nil //nolint:nilerr // the function itself says it better
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0, nil //nolint:nilerr // as above
	}
	work := product(len(prog.Inst), len(s)+callBytes)
	if all && looksAhead(re) {
		work = max(work, product(work/16, len(s)))
	}
	return work, nil
}

// looksAhead reports whether something follows a repetition without end, so that
// a match may fail, or turn out shorter, far behind where it ends.
func looksAhead(re *syntax.Regexp) bool {
	for i, sub := range re.Sub {
		if re.Op == syntax.OpConcat && i < len(re.Sub)-1 && isEndless(sub) || looksAhead(sub) {
			return true
		}
	}
	return false
}

func isEndless(re *syntax.Regexp) bool {
	return re.Op == syntax.OpStar || re.Op == syntax.OpPlus || re.Op == syntax.OpRepeat && re.Max < 0 || slices.ContainsFunc(re.Sub, isEndless)
}

// formatted bounds what printf writes: each verb once its argument, and the
// widths and precisions.
func formatted(args []reflect.Value) (int, error) {
	format, values := args[0].String(), args[1]
	each, all := 0, 0
	for i := range values.Len() {
		n := weigh(values.Index(i), maxValueBytes, 0)
		each, all = max(each, n), sum(all, n)
	}
	size, number, verbs := len(format), 0, 0
	for _, c := range []byte(format) {
		switch {
		case c >= '0' && c <= '9':
			number = min(number*10+int(c-'0'), maxValueBytes+1)
			continue
		case c == '*':
			return 0, errors.New("a width or precision of * is not available: write the number")
		case c == '%':
			verbs++
		case c == '[': // an argument may be printed again and again
			all = sum(all, each)
		}
		size, number = sum(size, number), 0
	}
	if sum(size, all) > maxValueBytes {
		return 0, errTooBig
	}
	return callBytes * verbs, nil
}

// sum and product stay at the largest number instead of running over. Their
// arguments are not negative.
func sum(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

func product(a, b int) int {
	if b != 0 && a > math.MaxInt/b {
		return math.MaxInt
	}
	return a * b
}

// until, untilStep and seq are sprig's, for lists of a bounded length.
func until(count int) ([]int, error) {
	if count < 0 {
		return untilStep(0, count, -1)
	}
	return untilStep(0, count, 1)
}

func untilStep(start, stop, step int) ([]int, error) {
	list := []int{}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(list) == maxItems {
			return nil, errTooMany
		}
		list = append(list, i)
		if step > 0 && i > math.MaxInt-step || step < 0 && i < math.MinInt-step {
			break // the next one is beyond every stop
		}
	}
	return list, nil
}

// seq writes the numbers from first to last, both included, in steps.
func seq(params ...int) (string, error) {
	first, step, last := 1, 1, 0
	switch len(params) {
	case 1:
		last = params[0]
	case 2:
		first, last = params[0], params[1]
	case 3:
		first, step, last = params[0], params[1], params[2]
	default:
		return "", nil
	}
	if last < first && len(params) < 3 {
		step = -1
	}
	switch {
	case last < first && step > 0, last == math.MaxInt, last == math.MinInt:
		return "", nil
	case last < first:
		last--
	default:
		last++
	}
	list, err := untilStep(first, last, step)
	return strings.Trim(fmt.Sprint(list), "[]"), err
}
