package render

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp/syntax"
	"strings"
	"text/template/parse"
)

// Limits on what functions make, so that no template takes the controller's
// memory: `repeat`, `until`, `join`, `printf` and their like grow without end.
const (
	// maxValueBytes is the largest result of a function, 1 MiB as for a file. An
	// item of a list counts itemBytes and an entry of a map entryBytes more than
	// its content, which is what they take in memory.
	maxValueBytes = 1 << 20
	itemBytes     = 16
	entryBytes    = 64
	// maxItems is the longest list that until, untilStep, seq and the functions
	// that split text make.
	maxItems = 10_000
	// maxValueDepth is how deep lists and maps may lie in one another. Printing
	// what contains itself would take all of the stack and end the process.
	maxValueDepth = 100
	// maxWork is how many bytes the functions of one rendering may read and make
	// together, 256 MiB; callBytes is the least that a call counts. It bounds what
	// variables hold, too.
	maxWork   = 256 << 20
	callBytes = 64
	// maxDecodedBytes is the longest text to decode from YAML, JSON or TOML, 256 KiB:
	// the tree of it takes fifty times as much.
	maxDecodedBytes = 256 << 10
	// maxPatternBytes is the longest regular expression.
	maxPatternBytes = 1000
)

// mutators are the functions that change a map in place. What contains that map
// grows without any function making it.
var mutators = map[string]bool{"set": true, "merge": true, "mergeOverwrite": true, "mustMerge": true, "mustMergeOverwrite": true}

// printedName is a function that templates with mutators get: it weighs what an
// action prints.
const printedName = "printed"

func printed(v any) any { return v }

// bind gives a template the functions it calls, limited.
func (g *gate) bind(p *program) {
	mutates := false
	var actions []*parse.ActionNode
	used := map[string]any{}
	for _, t := range p.Templates() {
		if t.Tree == nil {
			continue
		}
		walk(t.Root, func(n parse.Node) bool {
			switch n := n.(type) {
			case *parse.ActionNode:
				if len(n.Pipe.Decl) == 0 {
					actions = append(actions, n)
				}
			case *parse.IdentifierNode:
				mutates = mutates || mutators[n.Ident]
				if f, ok := funcs[n.Ident]; ok {
					used[n.Ident] = g.limit(n.Ident, f)
				}
			}
			return true
		})
	}
	if mutates {
		used[printedName] = g.limit(printedName, printed)
		for _, a := range actions {
			call := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: a.Pos, Args: []parse.Node{parse.NewIdentifier(printedName).SetPos(a.Pos).SetTree(p.Tree)}}
			a.Pipe.Cmds = append(a.Pipe.Cmds, call)
		}
	}
	p.Funcs(used)
}

var errorType = reflect.TypeFor[error]()

// limit wraps a function so that the meter of the rendering at the gate is
// charged, and returns an error where a limit is passed. It is made once for all
// templates of a profile.
func (g *gate) limit(name string, fn any) any {
	if f, ok := g.limited[name]; ok {
		return f
	}
	f := reflect.ValueOf(fn)
	typ := f.Type()
	in := make([]reflect.Type, typ.NumIn())
	for i := range in {
		in[i] = typ.In(i)
	}
	none := reflect.Zero(errorType)
	call := f.Call
	if typ.IsVariadic() {
		call = f.CallSlice
	}
	wrapped := reflect.MakeFunc(reflect.FuncOf(in, []reflect.Type{typ.Out(0), errorType}, typ.IsVariadic()), func(args []reflect.Value) []reflect.Value {
		if seeing[name] {
			seeValues(args)
		}
		if err := g.meter.before(name, args); err != nil {
			return []reflect.Value{reflect.Zero(typ.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		out := call(args)
		if len(out) == 1 {
			out = append(out, none)
		} else if !out[1].IsNil() {
			return out
		}
		if err := g.meter.after(out[0]); err != nil {
			out[1] = reflect.ValueOf(&err).Elem()
		}
		return out
	}).Interface()
	if g.limited == nil {
		g.limited = map[string]any{}
	}
	g.limited[name] = wrapped
	return wrapped
}

var (
	errTooBig  = fmt.Errorf("a value of more than %d bytes (an item of a list counts %d, an entry of a map %d)", maxValueBytes, itemBytes, entryBytes)
	errTooDeep = fmt.Errorf("a value that is more than %d levels deep, or contains itself", maxValueDepth)
	errTooMuch = fmt.Errorf("the functions of this rendering read and make more than %d bytes together", maxWork)
)

// before charges a call, and refuses what its result would be too big for.
func (m *meter) before(name string, args []reflect.Value) error {
	work := callBytes
	for _, arg := range args {
		n, err := m.weighed(arg)
		if err != nil {
			return err
		}
		work += n
	}
	if b, ok := bounds[name]; ok {
		more, err := b(args)
		if err != nil {
			return err
		}
		work = sum(work, more)
	}
	return m.spend(work)
}

func (m *meter) after(result reflect.Value) error {
	n, err := m.weighed(result)
	if err != nil {
		return err
	}
	return m.spend(n)
}

// weighed returns how many bytes a value counts.
func (m *meter) weighed(v reflect.Value) (int, error) {
	n := weigh(v, maxValueBytes, 0)
	switch {
	case n == math.MaxInt:
		return 0, errTooDeep
	case n > maxValueBytes:
		return 0, errTooBig
	}
	m.largest = max(m.largest, n)
	return n, nil
}

func (m *meter) spend(work int) error {
	if m.work = sum(m.work, work); m.work > maxWork {
		return errTooMuch
	}
	return nil
}

// weigh returns how many bytes a value counts: more than limit, without looking
// further, where it is more, and the largest number where it is too deep.
func weigh(v reflect.Value, limit, depth int) int {
	if depth > maxValueDepth {
		return math.MaxInt
	}
	n := 0
	switch v.Kind() {
	case reflect.Invalid:
	case reflect.String:
		n = v.Len()
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			n = weigh(v.Elem(), limit, depth+1)
		}
	case reflect.Slice, reflect.Array:
		if isFlat(v.Type().Elem().Kind()) {
			return v.Len() * int(v.Type().Elem().Size())
		}
		for i := 0; i < v.Len() && n <= limit; i++ {
			n = sum(n+itemBytes, weigh(v.Index(i), limit, depth+1))
		}
	case reflect.Map:
		for it := v.MapRange(); n <= limit && it.Next(); {
			n = sum(n+entryBytes, weigh(it.Key(), limit, depth+1))
			n = sum(n, weigh(it.Value(), limit, depth+1))
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && n <= limit; i++ {
			n = sum(n, weigh(v.Field(i), limit, depth+1))
		}
	default:
		n = 8
	}
	return n
}

// isFlat reports whether all values of a kind take the same.
func isFlat(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Complex128 }

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
	pattern := func(args []reflect.Value) (int, error) { return matching(text(args, 0), text(args, 1)) }
	replaced := func(args []reflect.Value) (int, error) {
		s, repl := text(args, 1), text(args, 2)
		// Each match inserts the replacement, and of the text at most what it matches
		// for each "$".
		if sum(sum(len(s), product(len(s)+1, len(repl))), product(strings.Count(repl, "$"), len(s))) > 64*maxValueBytes {
			return 0, errTooBig
		}
		return matching(text(args, 0), s)
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
	for _, name := range strings.Fields("regexMatch regexFind regexFindAll regexSplit") {
		out[name] = pattern
	}
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
// time in proportion to the product of their lengths.
func matching(pattern, s string) (int, error) {
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
	return product(len(prog.Inst), len(s)+callBytes), nil
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
