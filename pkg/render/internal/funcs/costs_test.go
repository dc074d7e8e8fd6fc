package funcs

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
)

var updateCosts = flag.Bool("costs", false, "measure what functions cost, for some minutes, and write costs_table.go")

// texts are slow arguments of functions: each is repeated until it is long enough.
var texts = []string{"a", "aB", "A", "_", "a_", "A-b ", "1", " ", "a ", "\n", "a\n", ",", "a,", "<", "\"", "\\", "'", "\x00", "\xff", "é", "世", "😀",
	"%41", ".", "a.", "/", "../", ":", "QUFB", "MFRA", ">=1.2.3 || ", "#\n", "- a\n", "- - a\n", "k: 1\n", "? a\n", "!!str a\n", "a: |\n a\n", "[a]\n", "[[a]]\n", "a.b.c.d=1\n",
	"x={a=1}\n", "1.0.0-", "12h", "http://a/?b=c&", "$0", "[],", "{},", "0,", "\"a\",", "x*", "(x)", "&a ", "*a "}

// documents are texts that decoders take, of n bytes.
func documents(n int) []string {
	within := func(begin, part, end string) string { return begin + strings.Repeat(part, n/len(part)) + end }
	var keys, tables, dotted strings.Builder
	for i := 0; keys.Len() < n; i++ {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
		fmt.Fprintf(&tables, "[a.t%d]\nx=1\n", i)
		fmt.Fprintf(&dotted, "a.b.c.d.k%d=1\n", i)
	}
	json := "{" + strings.TrimSuffix(strings.ReplaceAll(strings.ReplaceAll(keys.String(), "k", `"k`), ": 1\n", `":1,`), ",") + "}"
	deep := strings.Repeat("[", 99) + strings.Repeat("[],", n/3) + "0" + strings.Repeat("]", 99)
	return []string{within("[", "[],", "0]"), within("[", "{},", "0]"), within("[", "0,", "0]"), within("[", `"",`, "0]"), within("[", `"\u0041",`, "0]"), deep, json,
		within("a = [", "[],", "0]"), within("a = [", "0,", "0]"), within("a = [", "{},", "0]"), within("", "[[a]]\n", ""), within("", "[[a.b.c]]\nd=1\n", ""), "a = " + deep,
		keys.String(), tables.String(), dotted.String(), strings.ReplaceAll(strings.ReplaceAll(keys.String(), ": ", "="), "\n", "\n"), within("a: ", "x ", ""), within("a: \"", "\\n", "\""), within("a: |\n", " x\n", "")}
}

func repeated(pattern string, n int) string { return strings.Repeat(pattern, 1+n/len(pattern))[:n] }

// trees are lists and maps that count about n bytes.
func trees(n int) []any {
	list := func(size int, item func(i int) any) []any {
		out := []any{}
		for i := range max(n/size, 1) {
			out = append(out, item(i))
		}
		return out
	}
	wide := map[string]any{}
	for i := range max(n/90, 1) {
		wide[strconv.Itoa(i)] = i
	}
	var deep, deepMap any = list(meter.ItemBytes+8, func(i int) any { return i }), map[string]any{"k": repeated("a\n", n/8)}
	for range 90 {
		deep, deepMap = []any{deep}, map[string]any{"k": deepMap}
	}
	ints := make([]int, max(n/8, 1))
	return []any{list(24, func(i int) any { return i }), list(24, func(int) any { return 1e308 * 0.123456789 }), list(24, func(i int) any { return i%2 == 0 }),
		list(32, func(i int) any { return "k" + strconv.Itoa(i) }), list(80, func(i int) any { return strings.Repeat("z", 50) + strconv.Itoa(n-i) }), list(20, func(int) any { return "no" }),
		list(24, func(int) any { return "\x00\xff\"<\n" }), list(16, func(int) any { return []any{} }), list(64, func(int) any { return map[string]any{} }),
		list(150, func(i int) any { return map[string]any{"a": i} }), list(16, func(int) any { return nil }), list(16, func(int) any { return "" }),
		[]any{repeated("a", n)}, wide, map[string]any{repeated("k", n): []any{}}, map[string]any{"k": repeated("a: #\n", n)}, deep, deepMap, ints}
}

// candidates are arguments of a type that count about n bytes, and small ones.
func candidates(typ reflect.Type, n int) (large, small []reflect.Value) {
	add := func(to *[]reflect.Value, values ...any) {
		for _, v := range values {
			value := reflect.New(typ).Elem()
			if v != nil {
				value.Set(reflect.ValueOf(v))
			}
			*to = append(*to, value)
		}
	}
	switch typ {
	case reflect.TypeFor[string]():
		for _, pattern := range texts {
			add(&large, repeated(pattern, n))
		}
		for _, text := range documents(n) {
			add(&large, text)
		}
		add(&small, "", "a", ",", "k", " ", "[^x]*x|y", "(a|b)*c", "%v", "%[1]v%[1]v", ">=1.2.3-0", "$0")
	case reflect.TypeFor[int]():
		add(&small, 0, 1, 7, -1, 100, n)
	case reflect.TypeFor[bool]():
		add(&small, true)
	case reflect.TypeFor[any]():
		add(&large, trees(n)...)
		for _, pattern := range texts[:24] {
			add(&large, repeated(pattern, n))
		}
		add(&small, 1, "a", "k", map[string]any{"k": 1}, []any{1, "a"}, nil)
	case reflect.TypeFor[map[string]any]():
		for _, tree := range trees(n) {
			if m, ok := tree.(map[string]any); ok {
				add(&large, m)
			}
		}
		for _, pattern := range texts {
			add(&large, map[string]any{"scheme": "a", "host": repeated(pattern, n), "query": repeated(pattern, n)})
		}
		add(&small, map[string]any{}, map[string]any{"k": 1, "a": map[string]any{"k": "x"}})
	case reflect.TypeFor[[]any]():
		for _, tree := range trees(n) {
			if l, ok := tree.([]any); ok {
				add(&large, l)
			}
			add(&large, []any{tree, tree})
		}
		for _, pattern := range texts[:24] {
			add(&large, []any{repeated(pattern, n)})
		}
		add(&small, []any{}, []any{1}, []any{"a", map[string]any{"a": 1}})
	case reflect.TypeFor[[]string]():
		keys := []string{}
		for i := range max(n/24, 1) {
			keys = append(keys, strconv.Itoa(i))
		}
		add(&large, keys, []string{repeated("a", n)})
		add(&small, []string{}, []string{"k"})
	case reflect.TypeFor[[]map[string]any]():
		many := []map[string]any{}
		for i := range max(n/150, 1) {
			many = append(many, map[string]any{"k" + strconv.Itoa(i): i})
		}
		_, one := candidates(reflect.TypeFor[map[string]any](), n)
		large, _ := candidates(reflect.TypeFor[map[string]any](), n)
		add(&small, []map[string]any{one[0].Interface().(map[string]any)})
		var lists []reflect.Value
		add(&lists, many)
		for _, m := range large {
			add(&lists, []map[string]any{m.Interface().(map[string]any)})
		}
		return lists, small
	case reflect.TypeFor[[]int]():
		add(&small, []int{}, []int{100}, []int{0, max(n/8, 1)}, []int{1, 2, max(n/8, 1)})
	case reflect.TypeFor[[]float64]():
		add(&small, []float64{}, []float64{0.5})
	default:
		panic("no arguments of type " + typ.String())
	}
	return large, small
}

// combinations are arguments for a function, up to a number of them: each parameter
// large with the others small, and some with several large ones.
func combinations(fn reflect.Type, n, most int) [][]reflect.Value {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	large, small := make([][]reflect.Value, fn.NumIn()), make([][]reflect.Value, fn.NumIn())
	for i := range fn.NumIn() {
		large[i], small[i] = candidates(fn.In(i), n)
	}
	pick := func(values []reflect.Value) reflect.Value { return values[random.IntN(len(values))] }
	var out [][]reflect.Value
	for i := range fn.NumIn() {
		for _, v := range large[i] {
			for range 1 + min(fn.NumIn()-1, 2)*3 {
				args := make([]reflect.Value, fn.NumIn())
				for j := range args {
					switch {
					case j == i:
						args[j] = v
					case len(large[j]) > 0 && random.IntN(4) == 0:
						args[j] = pick(large[j])
					default:
						args[j] = pick(small[j])
					}
				}
				out = append(out, args)
			}
		}
	}
	if len(out) == 0 {
		for range 20 {
			args := make([]reflect.Value, fn.NumIn())
			for j := range args {
				args[j] = pick(small[j])
			}
			out = append(out, args)
		}
	}
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out[:min(len(out), most)]
}

// copied prevents that a call changes the arguments of the next one.
func copied(args []reflect.Value) []reflect.Value {
	out := slices.Clone(args)
	for i, a := range out {
		if m, ok := a.Interface().(map[string]any); ok {
			c := make(map[string]any, len(m))
			for k, v := range m {
				c[k] = v
			}
			out[i] = reflect.ValueOf(c)
		}
	}
	return out
}

// call calls a function like its wrapper, and returns the size of the result and the work. It
// reports whether the call was made at all.
func call(name string, args []reflect.Value) (size, work int, made bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p) // text/template recovers, too
		}
	}()
	var m meter.Meter
	args = slices.Clone(args)
	if seeing[name] {
		dereferenceArguments(args)
	}
	if size, work, err = callCosts(&m, name, args); err != nil {
		return size, work, false, err
	}
	made = true
	f := reflect.ValueOf(Map[name])
	var out []reflect.Value
	if f.Type().IsVariadic() {
		out = f.CallSlice(args)
	} else {
		out = f.Call(args)
	}
	if len(out) == 2 && !out[1].IsNil() {
		return size, work, made, out[1].Interface().(error)
	}
	n, err := m.WeighWithinLimit(out[0])
	return size + n, work + n, made, err
}

// used is the CPU time of this process, with that of the garbage collector.
func used() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// measured returns the cost of a call: the lowest of several measurements.
func measured(name string, args []reflect.Value, least time.Duration, times int) (took time.Duration, alloc float64, size, work int, made bool) {
	for i := range 3 { // the first call can allocate memory that the next ones reuse
		before := allocated()
		size, work, made, _ = call(name, copied(args))
		if n := float64(allocated() - before); i == 0 || n < alloc {
			alloc = n
		}
		if !made {
			break
		}
	}
	if !made {
		return 0, alloc, size, work, false
	}
	took = time.Hour
	for range times {
		n, begin := 0, used()
		var since time.Duration
		for n == 0 || since < least {
			_, _, _, _ = call(name, copied(args))
			n++
			since = used() - begin
		}
		took = min(took, since/time.Duration(n))
	}
	return took, alloc, size, work, true
}

const measuredBytes = 32 << 10

// TestCosts writes the table of prices: go test ./pkg/render/internal/funcs -run 'TestCosts$' -costs.
func TestCosts(t *testing.T) {
	if !*updateCosts {
		t.Skip("it measures, for some minutes: give -costs")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by go test ./pkg/render/internal/funcs -run 'TestCosts$' -costs; DO NOT EDIT.\n\npackage funcs\n\n")
	fmt.Fprintf(&b, `// prices are what functions take, measured with %s on %s/%s: of the arguments of
// combinations in costs_test.go, the worst. CPU time with that of the garbage
// collector, twice what was measured, so that a slower machine and what was not
// thought of have room.
var prices = map[string]price{
`, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, name := range append(slices.Sorted(maps.Keys(Map)), PrintedName) {
		if name == PrintedName {
			continue
		}
		typ := reflect.TypeOf(Map[name])
		perCall, perKiB, perByte, callBytes := 0.0, 0.0, 0.0, 0.0
		var worst string
		for _, args := range combinations(typ, 8, 40) {
			if took, alloc, _, _, made := measured(name, args, 20*time.Microsecond, 3); made {
				perCall, callBytes = max(perCall, float64(took.Nanoseconds())), max(callBytes, alloc)
			}
		}
		for _, args := range combinations(typ, measuredBytes, 150) {
			took, alloc, size, work, made := measured(name, args, 50*time.Microsecond, 2)
			if !made || work < measuredBytes/2 {
				continue
			}
			if took > 0 {
				ns := max(0, float64(took.Nanoseconds())-perCall) * 1024 / float64(work)
				if ns > perKiB*1.3 { // again, to be sure
					took, _, _, _, _ = measured(name, args, time.Millisecond, 4)
					ns = max(0, float64(took.Nanoseconds())-perCall) * 1024 / float64(work)
				}
				if ns > perKiB {
					perKiB, worst = ns, describe(args)
				}
			}
			perByte = max(perByte, (alloc-callBytes)/float64(max(size, measuredBytes/2)))
		}
		fmt.Fprintf(&b, "%q: {%d, %d, %d}, // %s\n", name, rounded(2*perCall), rounded(2*perKiB), int(perByte*1.2+1), worst)
		t.Logf("%s: %.0f ns a call, %.0f ns a KiB, %.1f bytes a byte, %s", name, perCall, perKiB, perByte, worst)
	}
	fmt.Fprintf(&b, "printedName: {500, 4000, 1},\n}\n")
	text, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("costs_table.go", text, 0o644); err != nil { //nolint:gosec // a source file
		t.Fatal(err)
	}
}

// rounded leaves two digits, so that two runs differ little.
func rounded(f float64) int {
	unit := 1
	for f/float64(unit) >= 100 {
		unit *= 10
	}
	return (int(f)/unit + 1) * unit
}

// describe names arguments in few words.
func describe(args []reflect.Value) string {
	var out []string
	for _, a := range args {
		for a.Kind() == reflect.Interface && !a.IsNil() {
			a = a.Elem()
		}
		if a.Kind() == reflect.String {
			out = append(out, fmt.Sprintf("%.12q", a.String()))
			continue
		}
		text := fmt.Sprintf("%v", a)
		out = append(out, strings.ReplaceAll(fmt.Sprintf("%.16s", strings.ToValidUTF8(text, "?")), "\n", " "))
	}
	return strings.ReplaceAll(strings.Join(out, " "), "\x00", "")
}

// Every function that templates can call has a price, and no call allocates more memory than
// its price, for any arguments (security.md 37). The arguments have other sizes than those with
// which the table was measured.
func TestPricesHold(t *testing.T) {
	if testing.Short() {
		t.Skip("it calls every function with large arguments for some seconds")
	}
	if raceDetector {
		t.Skip("the race detector makes sync.Pool drop items at random, so what calls allocate says nothing; make test runs this without it")
	}
	for _, name := range slices.Sorted(maps.Keys(Map)) {
		p, ok := prices[name]
		if !ok || p.call <= 0 || p.kib <= 0 || p.alloc <= 0 {
			t.Errorf("%s has the price %+v: run go test ./pkg/render/internal/funcs -run 'TestCosts$' -costs", name, p)
			continue
		}
		for _, n := range []int{3 << 10, 50 << 10} {
			for _, args := range combinations(reflect.TypeOf(Map[name]), n, 15) {
				var size, work int
				var made bool
				least := uint64(1 << 40)
				for range 2 { // the first call can allocate memory that the next one reuses
					before := allocated()
					size, work, made, _ = call(name, copied(args))
					least = min(least, allocated()-before)
				}
				// A call can allocate 512 KiB independent of its arguments, for example for
				// regular expressions.
				if most := uint64(2*p.alloc*max(size, work) + 512<<10); made && least > most {
					t.Errorf("%s of %s allocates %d bytes, want at most %d", name, describe(args), least, most)
				}
			}
		}
	}
	for name := range prices {
		if _, ok := Map[name]; !ok && name != PrintedName {
			t.Errorf("%s has a price, but is no function", name)
		}
	}
}
