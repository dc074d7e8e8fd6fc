package render

import (
	"fmt"
	"math"
	"reflect"
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
