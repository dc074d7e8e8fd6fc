package funcs

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"text/template"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
)

// Limits on the results of functions, so that no template exhausts the controller's memory: the
// results of `repeat`, `until`, `join`, `printf` and similar functions are otherwise unlimited.
const (
	// maxItems is the longest list that until, untilStep, seq and the functions that split text
	// return.
	maxItems = 10_000
	// maxPatternBytes is the longest regular expression, and maxInstructions its longest
	// compiled form: a repetition multiplies the repeated part.
	maxPatternBytes = 1000
	maxInstructions = 10_000
)

// Mutators are the functions that change a map in place. A value that contains that map grows
// although no function returns it.
var Mutators = map[string]bool{"set": true, "merge": true, "mergeOverwrite": true, "mustMerge": true, "mustMergeOverwrite": true}

// passing are the functions that return one of their arguments, or a part of one, so that the
// result needs no memory of its own.
var passing = func() map[string]bool {
	out := map[string]bool{PrintedName: true}
	for _, name := range strings.Fields("get set unset first mustFirst last mustLast default coalesce ternary dig") {
		out[name] = true
	}
	return out
}()

// PrintedName is a function that is added to templates with mutators: it weighs the value that
// an action prints.
const PrintedName = "printed"

// Identity returns its argument. As the function PrintedName it is wrapped by WrapMetered, which
// weighs the value that an action prints.
func Identity(v any) any { return v }

// price is the cost of calling a function. The work is the number of bytes that its arguments
// and its result count, and what the function's bound adds.
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
	return meter.SaturatingSum(p.call, meter.SaturatingProduct(work, p.kib)>>10)
}

// Set are the functions of a profile's templates, with limits.
type Set struct {
	// Meter is that of the rendering that executes templates.
	Meter   *meter.Meter
	limited template.FuncMap // by name
}

var errorType = reflect.TypeFor[error]()

// WrapMetered wraps a function so that it charges the meter, and returns an error beyond a limit. It
// is called once for all templates of a profile.
func (f *Set) WrapMetered(name string, fn any) any {
	if limited, ok := f.limited[name]; ok {
		return limited
	}
	price := prices[name]
	function := reflect.ValueOf(fn)
	typ := function.Type()
	in := make([]reflect.Type, typ.NumIn())
	for i := range in {
		in[i] = typ.In(i)
	}
	none := reflect.Zero(errorType)
	call := function.Call
	if typ.IsVariadic() {
		call = function.CallSlice
	}
	wrapped := reflect.MakeFunc(reflect.FuncOf(in, []reflect.Type{typ.Out(0), errorType}, typ.IsVariadic()), func(args []reflect.Value) []reflect.Value {
		if seeing[name] {
			dereferenceArguments(args)
		}
		if err := chargeCall(f.Meter, name, price, args); err != nil {
			return []reflect.Value{reflect.Zero(typ.Out(0)), reflect.ValueOf(&err).Elem()}
		}
		out := call(args)
		if len(out) == 1 {
			out = append(out, none)
		} else if !out[1].IsNil() {
			return out
		}
		if err := chargeResult(f.Meter, name, price, out[0]); err != nil {
			out[1] = reflect.ValueOf(&err).Elem()
		}
		return out
	}).Interface()
	if f.limited == nil {
		f.limited = map[string]any{}
	}
	f.limited[name] = wrapped
	return wrapped
}

// chargeCall charges a call before it runs, and rejects it if its result would be too big.
func chargeCall(m *meter.Meter, name string, p price, args []reflect.Value) error {
	size, bytes, err := callCosts(m, name, args)
	if err != nil {
		return err
	}
	memory := meter.SaturatingProduct(size, p.alloc)
	if memory > meter.MaxCallBytes {
		return fmt.Errorf("it would take more than %d bytes of memory: give it less", meter.MaxCallBytes)
	}
	if err := m.Memory.RequireFit(memory <= meter.SmallMemory); err != nil {
		return err
	}
	return m.Spend(p.cost(bytes))
}

// callCosts returns the size of the arguments of a call, and the work of the call that is known
// before it, both in bytes.
func callCosts(m *meter.Meter, name string, args []reflect.Value) (size, total int, err error) {
	for _, arg := range args {
		n, err := m.WeighWithinLimit(arg)
		if err != nil {
			return 0, 0, err
		}
		size += n
	}
	total = size
	if b, ok := bounds[name]; ok {
		more, err := b(args)
		if err != nil {
			return 0, 0, err
		}
		total = meter.SaturatingSum(total, more)
	}
	return size, total, nil
}

// chargeResult charges the result of a call.
func chargeResult(m *meter.Meter, name string, p price, result reflect.Value) error {
	n, err := m.WeighWithinLimit(result)
	if err != nil {
		return err
	}
	if passing[name] {
		n = meter.CallBytes
	}
	if err := m.Allocate(n); err != nil {
		return err
	}
	return m.Spend(meter.SaturatingProduct(n, p.kib) >> 10)
}
