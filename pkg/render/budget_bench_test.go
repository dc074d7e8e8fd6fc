package render_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// The budget of one rendering, which BenchmarkBudget checks on the machine that it runs
// on. The product itself stops by counts.
const (
	budgetCPU    = time.Second
	budgetMemory = 32 << 20
)

// hostile are the templates that we know to need most within the limits.
func hostile() map[string]string {
	each := func(setup, body string) string {
		return setup + `{{ range 900000 }}{{ $y := ` + body + ` }}{{ end }}`
	}
	variables := func(n int, value string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{{ $x%d := %s }}`, i, value)
		}
		return b.String()
	}
	numbers, long := `{{ $x := until 10000 }}`, `{{ $x := repeat 200000 "aB" }}`
	return map[string]string{
		"fromToml":      each(`{{ $x := printf "a = %s" (repeat 131000 "[") }}`, `fromToml $x`),
		"fromToml wide": each(`{{ $x := printf "a = [%s]" (repeat 21000 "[],") }}`, `fromToml $x | len`),
		"fromYaml wide": each(`{{ $x := printf "a: [%s]" (repeat 12000 "[],") }}`, `fromYaml $x | len`),
		"fromYaml keys": each(`{{ $x := repeat 10000 "a: 1\n" }}`, `fromYaml $x`),
		"fromJson wide": each(`{{ $x := printf "[%s0]" (repeat 20000 "{},") }}`, `fromJsonArray $x | len`),
		"toYaml":        numbers + `{{ range 500 }}{{ $y := toYaml $x }}{{ end }}`,
		"toYaml once":   numbers + `{{ range 6 }}{{ $y := toYaml $x }}{{ end }}`,
		"snakecase":     long + `{{ range 300 }}{{ $y := snakecase $x }}{{ end }}`,
		"sha256sum":     each(long, `sha256sum $x`),
		"regex":         each(`{{ $x := repeat 2000 "y" }}`, `regexReplaceAllLiteral "[^x]*x|y" $x "z"`),
		"sortAlpha":     each(numbers, `sortAlpha $x | len`),
		"uniq":          each(`{{ $x := until 500 }}`, `uniq $x | len`),
		"eq":            each(`{{ $x := repeat 1000000 "x" }}{{ $z := repeat 1000000 "x" }}`, `eq $x $z`),
		"range":         `{{ range 2000000 }}{{ end }}`,
		"range of maps": `{{ $d := dict }}{{ range until 500 }}{{ $_ := set $d (toString .) . }}{{ end }}{{ range 900000 }}{{ range $d }}{{ break }}{{ end }}{{ end }}`,
		"fields":        `{{ range 900000 }}{{ $x := $.Provenance.Profile }}{{ end }}`,
		"variables":     variables(9, `repeat 900000 "x"`) + `{{ range 900000 }}{{ end }}`,
		"empty lists":   `{{ $x := list }}{{ range 900000 }}{{ $x = append $x (list) }}{{ end }}`,
		"empty dicts":   `{{ $x := list }}{{ range 900000 }}{{ $x = append $x (dict) }}{{ end }}`,
		"output":        `{{ repeat 1000000 "\x01" }}`,
		"output, quick": strings.Repeat("{{ 1 }}x", 15_000),
		"actions":       strings.Repeat("{{1}}", 26_000),
	}
}

// hostileInput has the template in two files.
func hostileInput(t testing.TB, text string) render.Input {
	in := smallInput(t, text, nil)
	in.Profile.Spec.BootstrapConfig = osm.OSPConfig{Files: []osm.File{inline("/g", text)}}
	return in
}

// BenchmarkBudget renders the profiles that need most, and fails if a rendering needs more CPU
// or memory than its limit: go test ./pkg/render -run '^$' -bench Budget -benchtime 1x.
func BenchmarkBudget(b *testing.B) {
	for name, text := range hostile() {
		in := hostileInput(b, text)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				cpu, memory, _ := rendered(in)
				b.ReportMetric(float64(cpu.Milliseconds()), "cpu-ms/op")
				b.ReportMetric(float64(memory>>10), "live-KiB/op")
				if cpu > budgetCPU || memory > budgetMemory {
					b.Errorf("one rendering takes %v of CPU and %d bytes", cpu, memory)
				}
			}
		})
	}
}

// rendered returns the CPU time that a rendering takes, and with it the most memory that
// was in use at a time, as a garbage collector finds it that runs all the time.
func rendered(in render.Input) (cpu time.Duration, live uint64, err error) {
	engine := render.NewEngine()
	begin := cpuTime()
	_, err = engine.Render(in)
	cpu = cpuTime() - begin

	defer debug.SetGCPercent(debug.SetGCPercent(5))
	runtime.GC()
	before := heap()
	var most atomic.Uint64
	done, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		for {
			select {
			case <-done:
				return
			default:
				runtime.GC()
				most.Store(max(most.Load(), heap()))
			}
		}
	}()
	_, _ = render.NewEngine().Render(in)
	close(done)
	<-sampled
	return cpu, max(most.Load(), before) - before, err
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// cpuTime returns the CPU time of this process, including the garbage collector.
func cpuTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
