package meter

import (
	"fmt"
	"math"
	"reflect"
)

// A rendering pays for its work in units of about one nanosecond. The cost of each function is
// measured (costs_table.go), so the units are those of the machine that measured. A rendering
// is stopped after a number of units, never by a clock, so that a profile that renders once
// renders always.
const (
	// MaxCost is the work of one execution of a profile's templates. Rendering executes them
	// for the placeholders and for the real values, and both together can take one second of
	// CPU.
	MaxCost = 200_000_000
	// MaxMade is how many bytes the functions can return and the templates can write together
	// in one execution. It limits the size of variables.
	MaxMade = 8 << 20 // 8 MiB
	// MaxCallBytes is how many bytes one call can allocate, for its result and for temporary
	// values.
	MaxCallBytes = 16 << 20 // 16 MiB
)

// Limits on the arguments and results of functions.
const (
	// MaxValueBytes is the largest value, 1 MiB as for a file. An item of a list counts
	// ItemBytes and an entry of a map entryBytes in addition to its content, which is their
	// size in memory.
	MaxValueBytes = 1 << 20
	ItemBytes     = 16
	entryBytes    = 64
	mapBytes      = 48 // of a map without entries
	// CallBytes is the minimum that the arguments or the result of a call count.
	CallBytes = 64
	// MaxValueDepth is the nesting of lists and maps. Printing a value that contains itself
	// would use up the stack and end the process.
	MaxValueDepth = 100
)

var (
	ErrTooBig  = fmt.Errorf("a value of more than %d bytes (an item of a list counts %d, an entry of a map %d)", MaxValueBytes, ItemBytes, entryBytes)
	ErrTooDeep = fmt.Errorf("a value that is more than %d levels deep, or contains itself", MaxValueDepth)
)

// The cost of text/template itself: at least the costs that BenchmarkNodes reports.
const (
	StepCost = 100 // the body of a range, or a template
	NodeCost = 200 // an argument, a field of one, a text
	// VariablesPerNode is how many declared variables are searched in the time of one node.
	VariablesPerNode = 32
	// CompareBytes are compared, or hashed, in one unit.
	CompareBytes = 8
	// mapCost is the cost of sorting a map, for each byte that it counts.
	mapCost = 20
)

// Meter counts the work and the bytes of one execution.
type Meter struct {
	Cost        int // of MaxCost
	Made        int // of MaxMade
	largest     int // bytes that an argument or a result had
	largestMap  int // the same of those with a map in them
	Invocations int // of maxInvocations, at this moment
	// Memory is the limit after which the rendering begins again with more; nil has no limit.
	Memory *Memory
}

var (
	ErrTooMuch = fmt.Errorf("the templates of this rendering take more than %d units of work together: do less, or on less text", MaxCost)
	errTooMade = fmt.Errorf("the functions of this rendering make more than %d bytes together", MaxMade)
)

// Spend counts units.
func (m *Meter) Spend(cost int) error {
	m.Cost = SaturatingSum(m.Cost, cost)
	return m.check()
}

// Allocate counts bytes that a function or a template creates.
func (m *Meter) Allocate(n int) error {
	m.Made = SaturatingSum(m.Made, n)
	return m.check()
}

func (m *Meter) check() error {
	switch {
	case m.Cost > MaxCost:
		return ErrTooMuch
	case m.Made > MaxMade:
		return errTooMade
	}
	return m.Memory.RequireFit(m.Cost <= SmallCost && m.Made <= SmallMade)
}

// WeighWithinLimit returns how many bytes a value counts, and an error if it is too big or nested
// too deep.
func (m *Meter) WeighWithinLimit(v reflect.Value) (int, error) {
	s := scale{limit: MaxValueBytes}
	n := s.estimateBytes(v, 0)
	switch {
	case n == math.MaxInt:
		return 0, ErrTooDeep
	case n > MaxValueBytes:
		return 0, ErrTooBig
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

// estimateBytes returns how many bytes a value counts. It stops at the limit and returns more than the
// limit, or the largest number if the value is nested too deep.
func (s *scale) estimateBytes(v reflect.Value, depth int) int {
	if depth > MaxValueDepth {
		return math.MaxInt
	}
	n := 0
	switch v.Kind() {
	case reflect.Invalid:
	case reflect.String:
		n = v.Len()
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			n = s.estimateBytes(v.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		if isFlat(v.Type().Elem().Kind()) {
			return v.Len() * int(v.Type().Elem().Size())
		}
		for i := 0; i < v.Len() && n <= s.limit; i++ {
			n = SaturatingSum(n+ItemBytes, s.estimateBytes(v.Index(i), depth+1))
		}
	case reflect.Map:
		s.maps = true
		n = mapBytes
		for it := v.MapRange(); n <= s.limit && it.Next(); {
			n = SaturatingSum(n+entryBytes, s.estimateBytes(it.Key(), depth+1))
			n = SaturatingSum(n, s.estimateBytes(it.Value(), depth+1))
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && n <= s.limit; i++ {
			n = SaturatingSum(n, s.estimateBytes(v.Field(i), depth+1))
		}
	default:
		n = 8
	}
	return n
}

// WeighUpToLimit returns how many bytes a value counts. It stops at MaxValueBytes and returns more
// than that for a larger value.
func WeighUpToLimit(v reflect.Value) int { return (&scale{limit: MaxValueBytes}).estimateBytes(v, 0) }

// isFlat reports whether all values of a kind have the same size.
func isFlat(k reflect.Kind) bool { return k >= reflect.Bool && k <= reflect.Complex128 }

// Steps is an upper bound of the steps to execute a list, as far as it is known before
// execution: some steps depend on the size of the largest values at that time.
type Steps struct {
	Units int
	// Compares are arguments that are compared or looked up, and Sorts the pipelines that can
	// sort a map: those of a range, and of printed values.
	Compares, Sorts int
}

// Cost is what the steps take now.
func (s Steps) Cost(m *Meter) int {
	return SaturatingSum(s.Units, SaturatingSum(SaturatingProduct(s.Compares, m.largest/CompareBytes), SaturatingProduct(s.Sorts, SaturatingProduct(m.largestMap, mapCost))))
}

// SaturatingSum returns a+b, or math.MaxInt if that overflows. The arguments are not negative.
func SaturatingSum(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// SaturatingProduct returns a*b, or math.MaxInt if that overflows.
func SaturatingProduct(a, b int) int {
	if b != 0 && a > math.MaxInt/b {
		return math.MaxInt
	}
	return a * b
}
