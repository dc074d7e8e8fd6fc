package docs_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

const chartDir = "../deploy/chart/osm-gitops/"

type valueSchema struct {
	Description string
	Properties  map[string]*valueSchema
	Enum        []any
}

// valuesTable lists the values of the chart's schema in the order of values.yaml, with their
// defaults.
func valuesTable(t *testing.T) string {
	t.Helper()
	var schema valueSchema
	if err := json.Unmarshal(read(t, chartDir+"values.schema.json"), &schema); err != nil {
		t.Fatal(err)
	}
	text := read(t, chartDir+"values.yaml")
	var values map[string]any
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| value | default | meaning |\n|---|---|---|\n")
	rows := 0
	var walk func(path string, s *valueSchema, value any)
	walk = func(path string, s *valueSchema, value any) {
		inner, isMap := value.(map[string]any)
		if isMap && len(inner) > 0 && len(s.Properties) > 0 {
			for _, key := range inOrder(string(text), inner) {
				if s.Properties[key] == nil {
					t.Errorf("values.schema.json lacks %s.%s", path, key)
					continue
				}
				walk(strings.TrimPrefix(path+"."+key, "."), s.Properties[key], inner[key])
			}
			for key := range s.Properties {
				if _, ok := inner[key]; !ok && key != "global" {
					t.Errorf("values.yaml lacks %s.%s", path, key)
				}
			}
			return
		}
		standard, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		meaning := s.Description
		if len(s.Enum) > 0 {
			meaning += fmt.Sprintf(": one of %v", s.Enum)
		}
		rows++
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", path, standard, meaning)
	}
	walk("", &schema, values)
	if rows < 40 {
		t.Fatalf("found %d values", rows)
	}
	return b.String()
}

var sizingRow = regexp.MustCompile(`(?m)^\| up to ([0-9,]+)(, the default)? \| cpu (\S+), memory (\S+) \| memory (\S+) \| (\S+) \|$`)

// What install.md says of sizes holds together: the defaults are the chart's, GOMEMLIMIT is nine
// tenths of the limit, and more pools get more.
func TestSizes(t *testing.T) {
	var values struct {
		Resources  corev1.ResourceRequirements
		GoMemLimit string
	}
	if err := yaml.Unmarshal(read(t, chartDir+"values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	rows := sizingRow.FindAllStringSubmatch(string(read(t, "install.md")), -1)
	if len(rows) < 2 {
		t.Fatalf("install.md has %d rows of sizes", len(rows))
	}
	var before int64
	for i, row := range rows {
		got := corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(row[3]), corev1.ResourceMemory: resource.MustParse(row[4])},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(row[5])},
		}
		if (i == 0) != (row[2] != "") || i == 0 && (!equality.Semantic.DeepEqual(got, values.Resources) || row[6] != values.GoMemLimit) {
			t.Errorf("%q is said to be the default, which is %+v, %s", row[0], values.Resources, values.GoMemLimit)
		}
		limit, soft := got.Limits.Memory().Value(), resource.MustParse(strings.TrimSuffix(row[6], "B"))
		if share := 100 * soft.Value() / limit; share < 89 || share > 90 {
			t.Errorf("%q: goMemLimit is %d %% of the limit", row[0], share)
		}
		if limit <= before {
			t.Errorf("%q allows no more than the row above", row[0])
		}
		before = limit
	}
}

// inOrder returns the keys of a map in the order of their first occurrence in the text.
func inOrder(text string, m map[string]any) []string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		key, _, ok := strings.Cut(strings.TrimSpace(line), ":")
		if _, known := m[key]; !ok || !known {
			continue
		}
		if !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}
