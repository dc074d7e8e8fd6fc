package docs_test

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/reconcile/metrics"
)

// metricsTable is what the code says of its metrics.
func metricsTable() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range metrics.AllMetrics() {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, labels, m.Help)
	}
	return b.String()
}

// alertCommand is a command, a flag or an address in the text of an alert.
var alertCommand = regexp.MustCompile(`kubectl (?:-n \S+ describe \w+ \w+|get np -o wide|apply --server-side -f \S+\w)|osm-gitops trace \S+|--[a-z-]+|/readyz`)

// alertsTable is what deploy/monitoring alerts of.
func alertsTable(t *testing.T) string {
	t.Helper()
	var object struct {
		Spec struct {
			Groups []struct {
				Rules []struct {
					Alert, For          string
					Labels, Annotations map[string]string
				}
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "../deploy/monitoring/alerts.yaml"), &object); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("| alert | severity | after | what it says |\n|---|---|---|---|\n")
	for _, g := range object.Spec.Groups {
		for _, r := range g.Rules {
			after := r.For
			if after == "" {
				after = "at once"
			}
			says := strings.NewReplacer("{{ $labels.namespace }}", "NAMESPACE", "{{ $labels.name }}", "NAME").Replace(r.Annotations["description"])
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Alert, r.Labels["severity"], after, alertCommand.ReplaceAllString(says, "`$0`"))
		}
	}
	return b.String()
}

// TestResourceState: the configuration of kube-state-metrics names existing kinds and fields.
func TestResourceState(t *testing.T) {
	type resource struct {
		GroupVersionKind struct{ Group, Version, Kind string }
		Metrics          []struct {
			Name           string
			LabelsFromPath map[string][]string
		}
	}
	var values struct {
		CustomResourceState struct {
			Config struct {
				Spec struct{ Resources []resource }
			}
		}
	}
	if err := yaml.UnmarshalStrict(read(t, "../deploy/monitoring/kube-state-metrics.yaml"), &struct {
		RBAC                any
		CustomResourceState any
	}{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(read(t, "../deploy/monitoring/kube-state-metrics.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	resources := values.CustomResourceState.Config.Spec.Resources
	if len(resources) != 1 || len(resources[0].Metrics) != 1 || len(resources[0].Metrics[0].LabelsFromPath) < 4 {
		t.Fatalf("found %+v", resources)
	}
	if gvk := resources[0].GroupVersionKind; gvk.Group != api.GroupVersion.Group || gvk.Version != api.GroupVersion.Version || gvk.Kind != reflect.TypeFor[api.ProfileSource]().Name() {
		t.Errorf("the kind is %+v", gvk)
	}
	for label, path := range resources[0].Metrics[0].LabelsFromPath {
		typ := reflect.TypeFor[api.ProfileSource]()
		for _, name := range path {
			if strings.HasPrefix(name, "[") { // of a list, by a field of its elements
				typ = typ.Elem()
				continue
			}
			field, ok := fieldOf(typ, name)
			if !ok {
				t.Errorf("%s: %s has no field %s", label, typ, name)
				break
			}
			typ = field
		}
	}
}

// fieldOf finds a field by its JSON name.
func fieldOf(typ reflect.Type, name string) (reflect.Type, bool) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct {
		return nil, false
	}
	for f := range typ.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f.Type, true
		}
		if f.Anonymous && tag == "" {
			if found, ok := fieldOf(f.Type, name); ok {
				return found, true
			}
		}
	}
	return nil, false
}
