package api_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/conformance"
)

// TestEveryFieldSurvives writes objects that have every field of their kind and
// reads them back: nothing is dropped, changed or added.
func TestEveryFieldSurvives(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	ns := c.Namespace(t)
	for file, tc := range map[string]struct {
		crd string
		not []string // fields that exclude those the object has
	}{
		"profile.yaml":    {crd: "operatingsystemmanager.k8c.io_operatingsystemprofiles.yaml"},
		"provenance.yaml": {crd: "gitops.k8c.io_nodeprovenances.yaml"},
		"bootreport.yaml": {crd: "gitops.k8c.io_bootreports.yaml"},
		"config.yaml":     {crd: "operatingsystemmanager.k8c.io_operatingsystemconfigs.yaml"},
		"source.yaml": {crd: "gitops.k8c.io_profilesources.yaml", not: []string{
			"spec.builtin", "spec.directory", "spec.directory.path", "spec.sourceRef", "spec.sourceRef.kind", "spec.sourceRef.name", "spec.sourceRef.namespace",
			"spec.git.ref.tag", "spec.git.ref.semver", "spec.git.ref.name", "spec.git.ref.commit",
		}},
	} {
		t.Run(file, func(t *testing.T) {
			want := readObject(t, filepath.Join("testdata", file))
			missing := fieldsOf(t, filepath.Join(root, "deploy/crds", tc.crd))
			for _, field := range tc.not {
				if !missing[field] {
					t.Errorf("the schema has no field %s to leave out", field)
				}
				delete(missing, field)
			}
			for _, field := range present("spec", want.Object["spec"]) {
				delete(missing, field)
			}
			if len(missing) > 0 {
				t.Errorf("testdata/%s does not have %q, so nothing shows that they survive", file, sorted(missing))
			}
			place := ns
			if want.GetKind() == "NodeProvenance" {
				place = "" // it lies in no namespace
			}
			wantStored(t, cl, placed(want, place, want.GetName()), nil)
		})
	}
}

// TestConformanceSurvives does the same with the objects of the conformance corpus, if it is next
// to the repository.
func TestConformanceSurvives(t *testing.T) {
	corpus := conformance.Dir(t)
	c := cluster.Shared(t)
	cl := c.Client(t)
	ns := c.Namespace(t)
	t.Run("profiles", func(t *testing.T) {
		for _, path := range glob(t, filepath.Join(corpus, "profiles", "*.yaml")) {
			t.Run(filepath.Base(path), func(t *testing.T) {
				name := strings.TrimSuffix(filepath.Base(path), ".yaml")
				wantStored(t, cl, placed(readObject(t, path), ns, name), defaulted)
			})
		}
	})
	t.Run("configs", func(t *testing.T) {
		for _, path := range glob(t, filepath.Join(corpus, "cases", "*", "expected", "osc.yaml")) {
			name := filepath.Base(filepath.Dir(filepath.Dir(path)))
			t.Run(name, func(t *testing.T) {
				osc := readObject(t, path)
				osc.SetAPIVersion("operatingsystemmanager.k8c.io/v1alpha1")
				osc.SetKind("OperatingSystemConfig")
				wantStored(t, cl, placed(osc, ns, "case-"+name), defaulted)
			})
		}
	})
	t.Run("machine deployments", func(t *testing.T) {
		for _, path := range glob(t, filepath.Join(corpus, "cases", "*", "machinedeployment.yaml")) {
			name := filepath.Base(filepath.Dir(path))
			t.Run(name, func(t *testing.T) {
				md := placed(readObject(t, path), ns, "case-"+name)
				delete(md.Object, "status") // a subresource
				wantStored(t, cl, md, nil)
			})
		}
	})
}

// defaulted reports if the API server can add a field that was not written.
func defaulted(path string, value any) bool {
	return strings.HasSuffix(path, ".permissions") && value == int64(644) ||
		path == "spec.provisioningUtility" && value == "cloud-init"
}

// wantStored creates an object and compares the stored object with it; fields for which mayAdd
// returns true can be added as defaults.
func wantStored(t *testing.T, cl client.Client, want *unstructured.Unstructured, mayAdd func(path string, value any) bool) {
	t.Helper()
	if err := cl.Create(t.Context(), want.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(want.GroupVersionKind())
	if err := cl.Get(t.Context(), client.ObjectKeyFromObject(want), got); err != nil {
		t.Fatal(err)
	}
	for _, difference := range differences("spec", want.Object["spec"], got.Object["spec"], mayAdd) {
		t.Error(difference)
	}
	if !reflect.DeepEqual(got.GetLabels(), want.GetLabels()) || !reflect.DeepEqual(got.GetAnnotations(), want.GetAnnotations()) {
		t.Errorf("labels or annotations are not what was written: %v %v", got.GetLabels(), got.GetAnnotations())
	}
}

func differences(path string, want, got any, mayAdd func(string, any) bool) []string {
	var found []string
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: a map was written, %T came back", path, got)}
		}
		for key, value := range w {
			if _, ok := g[key]; !ok {
				found = append(found, fmt.Sprintf("%s.%s was dropped", path, key))
				continue
			}
			found = append(found, differences(path+"."+key, value, g[key], mayAdd)...)
		}
		for key, value := range g {
			if _, ok := w[key]; !ok && (mayAdd == nil || !mayAdd(path+"."+key, value)) {
				found = append(found, fmt.Sprintf("%s.%s was added", path, key))
			}
		}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{fmt.Sprintf("%s: a list of %d was written, %v came back", path, len(w), got)}
		}
		for i := range w {
			found = append(found, differences(fmt.Sprintf("%s.%d", path, i), w[i], g[i], mayAdd)...)
		}
	default:
		// The API server returns numbers as int64 or float64, depending on their value.
		if fmt.Sprint(want) != fmt.Sprint(got) {
			found = append(found, fmt.Sprintf("%s: %q was written, %q came back", path, want, got))
		}
	}
	sort.Strings(found)
	return found
}

// fieldsOf lists the fields below spec in a CustomResourceDefinition's schema; items of lists and
// values of maps have the path of their list or map.
func fieldsOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	o := readObject(t, path)
	var crd apiextensionsv1.CustomResourceDefinition
	if err := scheme(t).Convert(o, &crd, nil); err != nil {
		t.Fatal(err)
	}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	found := map[string]bool{}
	addFields(found, "spec", &spec)
	if len(found) < 10 {
		t.Fatalf("%s: found only %q", path, sorted(found))
	}
	return found
}

func addFields(found map[string]bool, path string, s *apiextensionsv1.JSONSchemaProps) {
	if s.Items != nil && s.Items.Schema != nil {
		addFields(found, path, s.Items.Schema)
	}
	for name, p := range s.Properties {
		found[path+"."+name] = true
		addFields(found, path+"."+name, &p)
	}
}

// present lists the fields that a value has, in the terms of fieldsOf.
func present(path string, value any) []string {
	var found []string
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			found = append(found, path+"."+key)
			found = append(found, present(path+"."+key, inner)...)
		}
	case []any:
		for _, inner := range v {
			found = append(found, present(path, inner)...)
		}
	}
	return found
}

func sorted(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
