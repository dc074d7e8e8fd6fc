package funcs

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/nesting"
)

// bounds check the arguments of functions whose result can be many times as long as they are,
// and of functions that need more time than reading their arguments. Each returns that time, in
// bytes of work.
var bounds = func() map[string]func(args []reflect.Value) (int, error) {
	type bound = func(args []reflect.Value) (int, error)
	text := func(args []reflect.Value, i int) string { return args[i].String() }
	number := func(args []reflect.Value, i int) int { return int(args[i].Int()) }
	// making is the bound of results whose length is known before the call.
	making := func(size func(args []reflect.Value) int) bound {
		return func(args []reflect.Value) (int, error) {
			if size(args) > meter.MaxValueBytes {
				return 0, meter.ErrTooBig
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
		return meter.SaturatingSum(len(s), meter.SaturatingProduct(max(number(args, 0), 0), 1+strings.Count(s, "\n")))
	})
	split := pieces(func(args []reflect.Value) int { return 1 + strings.Count(text(args, 1), text(args, 0)) })
	trimmed := func(args []reflect.Value) (int, error) {
		return meter.SaturatingProduct(len(text(args, 0)), len(text(args, 1))), nil
	}
	once := func(args []reflect.Value) (int, error) { return matchCost(text(args, 0), text(args, 1), false) }
	often := func(args []reflect.Value) (int, error) { return matchCost(text(args, 0), text(args, 1), true) }
	replaced := func(args []reflect.Value) (int, error) {
		work, err := matchCost(text(args, 0), text(args, 1), true)
		if err != nil {
			return 0, err
		}
		more, err := replacementCost(text(args, 0), text(args, 1), text(args, 2), work)
		return meter.SaturatingSum(work, more), err
	}
	decoded := func(tooDeep func(string) bool) bound {
		return func(args []reflect.Value) (int, error) {
			s := text(args, 0)
			if len(s) > nesting.MaxTextBytes {
				return 0, fmt.Errorf("the text has more than %d bytes", nesting.MaxTextBytes)
			}
			if tooDeep(s) {
				return 0, meter.ErrTooDeep
			}
			return 0, nil
		}
	}
	// spaced is the bound of encoders that indent: each line has as many blanks as its depth.
	spaced := func(each int) bound {
		return func(args []reflect.Value) (int, error) {
			n := meter.SaturatingProduct(each, totalIndentation(args[0], 0, 1))
			if n > 4*meter.MaxValueBytes {
				return 0, meter.ErrTooBig
			}
			return n, nil
		}
	}
	// multiplied is the bound of decimals that grow with each argument.
	multiplied := func(args []reflect.Value) (int, error) {
		n := args[len(args)-1].Len()
		return meter.SaturatingProduct(n, n), nil
	}
	// Each item is compared with each.
	compared := func(args []reflect.Value) (int, error) {
		return meter.SaturatingProduct(meter.WeighUpToLimit(args[0]), listLength(args[0])), nil
	}
	out := map[string]bound{
		"repeat": making(func(args []reflect.Value) int {
			return meter.SaturatingProduct(max(number(args, 0), 0), len(text(args, 1)))
		}),
		"indent":  indented,
		"nindent": indented,
		"replace": making(func(args []reflect.Value) int {
			return meter.SaturatingSum(len(text(args, 2)), meter.SaturatingProduct(strings.Count(text(args, 2), text(args, 0)), len(text(args, 1))))
		}),
		"join": making(func(args []reflect.Value) int {
			return meter.SaturatingSum(meter.WeighUpToLimit(args[1]), meter.SaturatingProduct(listLength(args[1]), len(text(args, 0))))
		}),
		"wrap": making(func(args []reflect.Value) int { return 2 * len(text(args, 1)) }),
		"wrapWith": making(func(args []reflect.Value) int {
			return meter.SaturatingProduct(len(text(args, 2)), 1+len(text(args, 1)))
		}),
		"printf":    maxFormattedBytes,
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
			return meter.SaturatingProduct(meter.WeighUpToLimit(args[0]), args[1].Len()), nil
		},
		"semver":       decoded(func(string) bool { return false }),
		"toYaml":       spaced(4),
		"toPrettyJson": spaced(2), "mustToPrettyJson": spaced(2),
		"toToml": func(args []reflect.Value) (int, error) {
			n := meter.SaturatingSum(meter.SaturatingProduct(2, totalIndentation(args[0], 0, 1)), tomlHeaderBytes(args[0], 0, 0))
			if n > 4*meter.MaxValueBytes {
				return 0, meter.ErrTooBig
			}
			return n, nil
		},
		"mulf": multiplied, "divf": multiplied, "addf": multiplied, "subf": multiplied,
		"sortAlpha": func(args []reflect.Value) (int, error) {
			return meter.SaturatingProduct(meter.WeighUpToLimit(args[0]), comparisonsPerItem(listLength(args[0]))), nil
		},
		"semverCompare": func(args []reflect.Value) (int, error) {
			return meter.SaturatingProduct(64, len(text(args, 0))), nil
		},
	}
	out["mustWithout"] = out["without"]
	out["regexMatch"] = once
	out["regexFind"] = once
	out["regexFindAll"] = often
	out["regexSplit"] = often
	for _, name := range strings.Fields("regexReplaceAll regexReplaceAllLiteral") {
		out[name] = replaced
	}
	for _, name := range strings.Fields("regexMatch regexFind regexFindAll regexSplit regexReplaceAll regexReplaceAllLiteral") {
		out["mustR"+name[1:]] = out[name]
	}
	for _, name := range strings.Fields("fromJson fromJsonArray mustFromJson") {
		out[name] = decoded(nesting.IsDeepJSON)
	}
	out["fromToml"] = decoded(nesting.IsDeepTOML)
	yamlText := decoded(nesting.IsDeepYAML)
	for _, name := range strings.Fields("fromYaml fromYamlArray") {
		out[name] = func(args []reflect.Value) (int, error) {
			if _, err := yamlText(args); err != nil {
				return 0, err
			}
			return nesting.YAMLDecodeCost(text(args, 0))
		}
	}
	return out
}()

// listLength returns the length of a list, and 0 for other values.
func listLength(v reflect.Value) int {
	for v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	if k := v.Kind(); k != reflect.Slice && k != reflect.Array {
		return 0
	}
	return v.Len()
}

var errTooMany = fmt.Errorf("a list of more than %d items", maxItems)

// matchCost returns the work of matching a text with a regular expression. Go's need time in
// proportion to the product of their lengths, and to the groups that each step stores. To find all
// matches, an expression that looks ahead can read the rest of the text for each match.
func matchCost(pattern, s string, all bool) (int, error) {
	if len(pattern) > maxPatternBytes {
		return 0, fmt.Errorf("the regular expression has more than %d bytes", maxPatternBytes)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, nil //nolint:nilerr // the function itself says it better
	}
	size, groups := regexpLength(re), 1+re.MaxCap()
	if size > maxInstructions || meter.SaturatingProduct(size, groups) > 8*maxInstructions {
		return 0, fmt.Errorf("the regular expression repeats too much: written out it has more than %d steps, or %d for all of its groups", maxInstructions, 8*maxInstructions)
	}
	work := meter.SaturatingProduct(meter.SaturatingProduct(size, 1+groups/8), len(s)+meter.CallBytes)
	if all && hasPartAfterEndlessRepeat(re) {
		work = max(work, meter.SaturatingProduct(work/16, len(s)))
	}
	return work, nil
}

// regexpLength returns the length of a regular expression with its repetitions written out.
func regexpLength(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n += len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = meter.SaturatingSum(n, regexpLength(sub))
	}
	if re.Op == syntax.OpRepeat {
		n = meter.SaturatingProduct(n, max(re.Min+1, re.Max))
	}
	return n
}

// replacementCost returns the work of a replacement, and rejects one whose result is too big. If it
// could be, the matches are counted first, which takes the work of matching once more.
func replacementCost(pattern, s, repl string, work int) (int, error) {
	// Each match inserts the replacement, and for each "$" at most the matched text.
	groups := strings.Count(repl, "$")
	if meter.SaturatingSum(meter.SaturatingSum(len(s), meter.SaturatingProduct(len(s)+1, len(repl))), meter.SaturatingProduct(groups, len(s))) <= 4*meter.MaxValueBytes {
		return 0, nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return 0, nil //nolint:nilerr // the function itself says it better
	}
	size, matches := len(s), 0
	re.ReplaceAllStringFunc(s, func(match string) string {
		matches++
		size = meter.SaturatingSum(size, meter.SaturatingSum(len(repl), meter.SaturatingProduct(groups, len(match))))
		return ""
	})
	if size > 4*meter.MaxValueBytes {
		return 0, meter.ErrTooBig
	}
	return work, nil
}

// hasPartAfterEndlessRepeat reports whether an expression has something after an unlimited repetition, so that
// a match can fail, or turn out shorter, far behind its end.
func hasPartAfterEndlessRepeat(re *syntax.Regexp) bool {
	for i, sub := range re.Sub {
		if re.Op == syntax.OpConcat && i < len(re.Sub)-1 && isEndless(sub) || hasPartAfterEndlessRepeat(sub) {
			return true
		}
	}
	return false
}

func isEndless(re *syntax.Regexp) bool {
	return re.Op == syntax.OpStar || re.Op == syntax.OpPlus || re.Op == syntax.OpRepeat && re.Max < 0 || slices.ContainsFunc(re.Sub, isEndless)
}

// maxFormattedBytes returns the longest output that a call of printf can have: each verb writes its
// argument once, with the width and precision for each item of a list.
func maxFormattedBytes(args []reflect.Value) (int, error) {
	format, values := args[0].String(), args[1]
	each := 0
	all := 0
	most := 1
	for i := range values.Len() {
		n := meter.WeighUpToLimit(values.Index(i))
		each = max(each, n)
		all = meter.SaturatingSum(all, n)
		most = max(most, countScalars(values.Index(i), 0))
	}
	size := len(format)
	number := 0
	verbs := 0
	for _, c := range []byte(format) {
		switch {
		case c >= '0' && c <= '9':
			number = min(number*10+int(c-'0'), meter.MaxValueBytes+1)
			continue
		case c == '*':
			return 0, errors.New("a width or precision of * is not available: write the number")
		case c == '%':
			verbs++
		case c == '[': // one argument can be printed several times
			all = meter.SaturatingSum(all, each)
		}
		size, number = meter.SaturatingSum(size, meter.SaturatingProduct(number, most)), 0
	}
	if meter.SaturatingSum(size, all) > meter.MaxValueBytes {
		return 0, meter.ErrTooBig
	}
	return meter.SaturatingSum(size, meter.CallBytes*verbs), nil
}

// countScalars returns how many values without parts a value contains, at least 1. A value at the
// maximum depth counts as 1.
func countScalars(v reflect.Value, depth int) int {
	n := 0
	visitParts(v, func(part reflect.Value) {
		if depth < meter.MaxValueDepth {
			n = meter.SaturatingSum(n, countScalars(part, depth+1))
		}
	})
	return max(n, 1)
}

// visitParts visits the parts of a value: the items of a list, keys and values of a map,
// the fields of a struct.
func visitParts(v reflect.Value, visit func(part reflect.Value)) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			visitParts(v.Elem(), visit)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			visit(v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			visit(it.Key())
			visit(it.Value())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			visit(v.Field(i))
		}
	}
}

// totalIndentation returns the sum of the levels by which the lines of a value are indented when it
// is encoded with one line for each of its parts and for each line of a text.
func totalIndentation(v reflect.Value, depth, level int) int {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return level
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		return meter.SaturatingProduct(level, 1+strings.Count(v.String(), "\n"))
	}
	n := level
	visitParts(v, func(part reflect.Value) {
		if depth < meter.MaxValueDepth {
			n = meter.SaturatingSum(n, totalIndentation(part, depth+1, level+1))
		}
	})
	return n
}

// tomlHeaderBytes returns how many bytes the headers of TOML's tables have: each contains the names of
// all tables around it.
func tomlHeaderBytes(v reflect.Value, path, depth int) int {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return 0
		}
		v = v.Elem()
	}
	if depth > meter.MaxValueDepth {
		return 0
	}
	n := 0
	switch v.Kind() {
	case reflect.Map:
		n = path
		for it := v.MapRange(); it.Next(); {
			n = meter.SaturatingSum(n, tomlHeaderBytes(it.Value(), meter.SaturatingSum(path, 4+meter.WeighUpToLimit(it.Key())), depth+1))
		}
	case reflect.Struct:
		n = path
		for i := range v.NumField() {
			n = meter.SaturatingSum(n, tomlHeaderBytes(v.Field(i), meter.SaturatingSum(path, 4+len(v.Type().Field(i).Name)), depth+1))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			n = meter.SaturatingSum(n, tomlHeaderBytes(v.Index(i), path, depth+1))
		}
	}
	return n
}

// comparisonsPerItem returns how many times sorting n items compares one of them.
func comparisonsPerItem(n int) int { return bits.Len(uint(max(n, 1))) }

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
	first := 1
	step := 1
	last := 0
	switch len(params) {
	case 1:
		last = params[0]
	case 2:
		first, last = params[0], params[1]
	case 3:
		first = params[0]
		step = params[1]
		last = params[2]
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
