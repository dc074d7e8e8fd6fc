package render

import (
	"fmt"
	"reflect"
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
	mapBytes      = 48 // of a map without entries
	// callBytes is what a call counts at least.
	callBytes = 64
	// maxItems is the longest list that until, untilStep, seq and the functions
	// that split text make.
	maxItems = 10_000
	// maxValueDepth is how deep lists and maps may lie in one another. Printing
	// what contains itself would take all of the stack and end the process.
	maxValueDepth = 100
	// maxDecodedBytes is the longest text to decode from YAML, JSON or TOML, 64 KiB:
	// the tree of it takes a hundred times as much.
	maxDecodedBytes = 64 << 10
	// maxPatternBytes is the longest regular expression, and maxInstructions what it
	// may become: a repetition multiplies what it repeats.
	maxPatternBytes = 1000
	maxInstructions = 10_000
)

// mutators are the functions that change a map in place. What contains that map
// grows without any function making it.
var mutators = map[string]bool{"set": true, "merge": true, "mergeOverwrite": true, "mustMerge": true, "mustMergeOverwrite": true}

// passing are the functions whose result is one of their arguments, or a part of one,
// so that it takes no memory of its own.
var passing = func() map[string]bool {
	out := map[string]bool{printedName: true}
	for _, name := range strings.Fields("get set unset first mustFirst last mustLast default coalesce ternary dig") {
		out[name] = true
	}
	return out
}()

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
	price := prices[name]
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
		if err := g.meter.before(name, price, args); err != nil {
			return []reflect.Value{reflect.Zero(typ.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		out := call(args)
		if len(out) == 1 {
			out = append(out, none)
		} else if !out[1].IsNil() {
			return out
		}
		if err := g.meter.after(name, price, out[0]); err != nil {
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
)

// before charges a call, and refuses what its result would be too big for.
func (m *meter) before(name string, p price, args []reflect.Value) error {
	size, work, err := m.work(name, args)
	if err != nil {
		return err
	}
	memory := product(size, p.alloc)
	if memory > maxCallBytes {
		return fmt.Errorf("it would take more than %d bytes of memory: give it less", maxCallBytes)
	}
	if err := m.room.check(memory <= smallMemory); err != nil {
		return err
	}
	return m.spend(p.cost(work))
}

// work is what the arguments of a call count, and what it is known to take before it
// is made, both in bytes.
func (m *meter) work(name string, args []reflect.Value) (size, work int, err error) {
	for _, arg := range args {
		n, err := m.weighed(arg)
		if err != nil {
			return 0, 0, err
		}
		size += n
	}
	work = size
	if b, ok := bounds[name]; ok {
		more, err := b(args)
		if err != nil {
			return 0, 0, err
		}
		work = sum(work, more)
	}
	return size, work, nil
}

// after charges the result.
func (m *meter) after(name string, p price, result reflect.Value) error {
	n, err := m.weighed(result)
	if err != nil {
		return err
	}
	if passing[name] {
		n = callBytes
	}
	if err := m.make(n); err != nil {
		return err
	}
	return m.spend(product(n, p.kib) >> 10)
}
