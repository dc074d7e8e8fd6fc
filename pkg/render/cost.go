package render

import (
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"text/template/parse"
)

// A rendering pays for what it does in units of about one nanosecond. What each
// function costs is measured (costs_table.go), so the units are those of the machine
// that measured; a rendering is stopped by what it has used up of them, never by a
// clock, and what renders once renders always.
const (
	// maxCost is what one execution of a profile's templates may use up. Rendering
	// executes them for the placeholders and for the real values, and both together
	// may take one second of CPU.
	maxCost = 200_000_000
	// maxMade is how many bytes the functions may make and the templates may write
	// together in one execution. It bounds what variables hold.
	maxMade = 8 << 20 // 8 MiB
	// maxCallBytes is how many bytes one call may allocate, for its result and on the
	// way to it.
	maxCallBytes = 16 << 20 // 16 MiB
)

// What text/template itself takes: at least what BenchmarkNodes reports.
const (
	tickCost = 100 // the body of a range, or a template
	nodeCost = 200 // an argument, a field of one, a text
	// variablesPerNode is how many declared variables are looked through in the time of a node.
	variablesPerNode = 32
	// compareBytes are compared, or hashed, in one unit.
	compareBytes = 8
	// mapCost is what sorting a map takes, for each byte that it counts.
	mapCost = 20
)

// price is what calling a function takes. Work is what its arguments and its result
// count in bytes, and what the function's bound adds.
type price struct {
	call  int // units for each call
	kib   int // units for each KiB of work
	alloc int // bytes that are allocated for each byte of arguments and result
}

// cost is what some work takes.
func (p price) cost(work int) int {
	if work >= math.MaxInt>>20 {
		return math.MaxInt
	}
	return sum(p.call, product(work, p.kib)>>10)
}

// meter counts what one execution has used up.
type meter struct {
	cost        int // of maxCost
	made        int // of maxMade
	largest     int // bytes that an argument or a result had
	largestMap  int // the same of those with a map in them
	invocations int // of maxInvocations, at this moment
	// room is what it may take before it has to begin again with more; nil for all.
	room *room
}

var (
	errTooMuch = fmt.Errorf("the templates of this rendering take more than %d units of work together: do less, or on less text", maxCost)
	errTooMade = fmt.Errorf("the functions of this rendering make more than %d bytes together", maxMade)
)

// spend counts units.
func (m *meter) spend(cost int) error {
	m.cost = sum(m.cost, cost)
	return m.check()
}

// make counts bytes that a function or a template makes.
func (m *meter) make(n int) error {
	m.made = sum(m.made, n)
	return m.check()
}

func (m *meter) check() error {
	switch {
	case m.cost > maxCost:
		return errTooMuch
	case m.made > maxMade:
		return errTooMade
	}
	return m.room.check(m.cost <= smallCost && m.made <= smallMade)
}

// weighed returns how many bytes a value counts.
func (m *meter) weighed(v reflect.Value) (int, error) {
	s := scale{limit: maxValueBytes}
	n := s.weigh(v, 0)
	switch {
	case n == math.MaxInt:
		return 0, errTooDeep
	case n > maxValueBytes:
		return 0, errTooBig
	}
	m.largest = max(m.largest, n)
	if s.maps {
		m.largestMap = max(m.largestMap, n)
	}
	return n, nil
}

// scale weighs a value.
type scale struct {
	limit int
	maps  bool // there was a map in it
}

// weigh returns how many bytes a value counts: more than the limit, without looking
// further, where it is more, and the largest number where it is too deep.
func (s *scale) weigh(v reflect.Value, depth int) int {
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
			n = s.weigh(v.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		if isFlat(v.Type().Elem().Kind()) {
			return v.Len() * int(v.Type().Elem().Size())
		}
		for i := 0; i < v.Len() && n <= s.limit; i++ {
			n = sum(n+itemBytes, s.weigh(v.Index(i), depth+1))
		}
	case reflect.Map:
		s.maps = true
		n = mapBytes
		for it := v.MapRange(); n <= s.limit && it.Next(); {
			n = sum(n+entryBytes, s.weigh(it.Key(), depth+1))
			n = sum(n, s.weigh(it.Value(), depth+1))
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && n <= s.limit; i++ {
			n = sum(n, s.weigh(v.Field(i), depth+1))
		}
	default:
		n = 8
	}
	return n
}

func weigh(v reflect.Value) int { return (&scale{limit: maxValueBytes}).weigh(v, 0) }

// isFlat reports whether all values of a kind take the same.
func isFlat(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Complex128 }

// steps is what executing a list takes at most, as far as it can be told before:
// some of it depends on the largest values that there are by then.
type steps struct {
	units int
	// compares are arguments that are compared or looked up, and sorts the pipelines
	// that may sort a map: those of a range, and of what is printed.
	compares, sorts int
}

// cost is what the steps take now.
func (s steps) cost(m *meter) int {
	return sum(s.units, sum(product(s.compares, m.largest/compareBytes), product(s.sorts, product(m.largestMap, mapCost))))
}

// comparing are the functions of text/template that read their arguments to the end.
var comparing = map[string]bool{"eq": true, "ne": true, "lt": true, "le": true, "gt": true, "ge": true, "index": true}

// stepsOf counts what a list executes once. What it repeats or invokes counts itself.
func stepsOf(list *parse.ListNode, variables int) steps {
	s := steps{units: tickCost}
	lookup := nodeCost * (1 + variables/variablesPerNode)
	names := func(idents []string) {
		for _, name := range idents {
			s.units += nodeCost + len(name)/compareBytes
		}
	}
	var count func(parse.Node) bool
	count = func(n parse.Node) bool {
		switch n := n.(type) {
		case *parse.TextNode, *parse.ActionNode, *parse.TemplateNode, *parse.IfNode, *parse.WithNode:
			s.units += nodeCost
			if a, ok := n.(*parse.ActionNode); ok && len(a.Pipe.Decl) == 0 {
				s.sorts++
			}
		case *parse.RangeNode:
			s.units += nodeCost
			s.sorts++
			walk(n.Pipe, count)
			if n.ElseList != nil {
				walk(n.ElseList, count)
			}
			return false
		case *parse.CommandNode:
			s.units += nodeCost
			if f, ok := n.Args[0].(*parse.IdentifierNode); ok && comparing[f.Ident] {
				s.compares += len(n.Args)
			}
		case *parse.FieldNode:
			names(n.Ident)
		case *parse.ChainNode:
			names(n.Field)
		case *parse.VariableNode:
			s.units += lookup
			names(n.Ident[1:])
		case *parse.StringNode:
			s.units += nodeCost + len(n.Text)/compareBytes
		case *parse.PipeNode:
			s.units += len(n.Decl) * lookup
		case *parse.ListNode: // its nodes count
		default:
			s.units += nodeCost
		}
		return true
	}
	walk(list, count)
	return s
}

// sorted is how often sorting n items compares one of them.
func sorted(n int) int { return bits.Len(uint(max(n, 1))) }
