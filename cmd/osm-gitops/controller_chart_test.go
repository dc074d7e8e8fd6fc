package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

const chartSchema = "../../deploy/chart/osm-gitops/values.schema.json"

// chartSets are the flags that the chart sets from values other than "flags", which
// test/chart has one by one.
var chartSets = map[string]bool{
	"namespace": true, "cache-dir": true, "leader-elect": true, "worker-cluster-kubeconfig": true,
	"health-probe-address": true, "metrics-address": true, "worker-health-probe-address": true, "worker-metrics-address": true,
	"webhook-address": true, "hooks-address": true, "hooks-cert-file": true, "hooks-key-file": true,
	"ui-address": true, "ui-tls-cert": true, "ui-tls-key": true, "observe": true,
	"cloud-provider-references": true,
}

// notForPods are the flags without a chart value, with the reason.
var notForPods = map[string]string{
	"dry-run": "it prints and ends: a Pod would begin anew",
	"output":  "it is what --dry-run prints",

	"profiles-only": "it needs the rights and the Deployment of deploy/kkp/seed.yaml",
}

// flagSchemas are how flags of each type are written in values.
var flagSchemas = map[string]map[string]any{
	"string":      {"type": "string"},
	"bool":        {"type": "boolean"},
	"int":         {"type": "integer"},
	"duration":    {"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`},
	"stringArray": {"type": "array", "items": map[string]any{"type": "string"}},
}

// Every flag of the controller is a value of the chart, with its type: a misspelt one is
// refused by helm. With -update the schema follows.
func TestChartHasEveryFlag(t *testing.T) {
	b, err := os.ReadFile(chartSchema)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(b, &schema); err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("controller", pflag.ContinueOnError)
	newControllerFlags().bind(fs)
	want, set := map[string]any{}, 0
	fs.VisitAll(func(f *pflag.Flag) {
		switch {
		case chartSets[f.Name], notForPods[f.Name] != "":
			set++
		case !f.Hidden:
			s, ok := flagSchemas[f.Value.Type()]
			if !ok {
				t.Fatalf("--%s has the type %s: say in flagSchemas how it is written", f.Name, f.Value.Type())
			}
			value := map[string]any{"description": f.Usage}
			for k, v := range s {
				value[k] = v
			}
			want[f.Name] = value
		}
	})
	if all := len(chartSets) + len(notForPods); set != all || len(want) < 30 {
		t.Fatalf("%d of %d flags that chartSets and notForPods name exist, and %d others", set, all, len(want))
	}
	flags := schema["properties"].(map[string]any)["flags"].(map[string]any)
	if cmp.Equal(flags["properties"], want) {
		return
	}
	if !*update {
		t.Fatalf(`the flags of the controller and what the chart takes under "flags" are not the same.
Whoever adds, renames or describes a flag runs
	go test ./cmd/osm-gitops -run '^TestChartHasEveryFlag$' -update
and commits what it writes to %s. A flag that the chart should set by itself, such as a port, goes to
chartSets above instead, and to deploy/chart/osm-gitops/templates and TestArguments of test/chart; one that
makes no sense in a Pod goes to notForPods.
-flags of the controller +values.schema.json:
%s`, strings.TrimPrefix(chartSchema, "../../"), cmp.Diff(want, flags["properties"]))
	}
	flags["properties"] = want
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(schema); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(chartSchema, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
