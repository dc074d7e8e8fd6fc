package render

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"text/template"

	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
)

// BenchmarkNodes measures the costs that the weights of package meter represent: the time that
// text/template itself takes for one node of each kind. A weight should be at least the ns/node
// that this benchmark reports on the machine that measured costs_table.go.
func BenchmarkNodes(b *testing.B) {
	const nodes = 1000
	long := strings.Repeat("x", 64<<10)
	keys := map[string]int{}
	for i := range nodes {
		keys[fmt.Sprintf("key-%012d", i)] = i
	}
	data := map[string]any{"Items": make([]struct{}, nodes), "Keys": keys, "Long": long, "Same": strings.Clone(long), "Field": "a"}
	var variables strings.Builder
	for i := range nodes {
		fmt.Fprintf(&variables, "{{ $v%d := 1 }}", i)
	}
	for name, c := range map[string]struct {
		text string
		per  int // what the time is divided by
	}{
		"tick":             {"{{ range .Items }}{{ end }}", nodes},
		"node":             {strings.Repeat("{{ .Field }}", nodes), nodes},
		"condition":        {strings.Repeat("{{ if .Field }}{{ end }}", nodes), nodes},
		"32 variables":     {variables.String() + strings.Repeat("{{ $v0 }}", nodes), nodes * nodes / meter.VariablesPerNode},
		"8 compared bytes": {strings.Repeat("{{ eq .Long .Same }}", nodes), nodes * len(long) / meter.CompareBytes},
		"byte of a map":    {"{{ range .Keys }}{{ end }}", meter.WeighUpToLimit(reflect.ValueOf(keys))},
	} {
		b.Run(name, func(b *testing.B) {
			t := template.Must(template.New("").Parse(c.text))
			b.ResetTimer()
			for range b.N {
				if err := t.Execute(io.Discard, data); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.per), "ns/node")
		})
	}
}
