package examples_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// TestBesideFluxAndArgoCD: the API server accepts every example with Flux's and Argo CD's own
// definitions, and knows every field. It refuses what the notes call impossible.
func TestBesideFluxAndArgoCD(t *testing.T) {
	c := cluster.Shared(t)
	root := "../"
	if err := c.Apply(t.Context(), root+"test/flux/crds", root+"pkg/reconcile/profilesource/testdata/flux", root+"test/argocd/crds"); err != nil {
		t.Fatal(err)
	}
	cl := c.Client(t)
	for _, name := range []string{"flux-system", "argocd"} {
		ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		ns.SetName(name)
		if err := cl.Create(t.Context(), ns); err != nil {
			t.Fatal(err)
		}
	}
	strict := client.NewDryRunClient(client.WithFieldValidation(cl, metav1.FieldValidationStrict))
	kinds := map[string]int{}
	for _, path := range files(t, "flux/*.yaml", "argocd/*.yaml", "argocd/fleet/*.yaml") {
		for _, o := range objects(t, path) {
			kinds[o.GetKind()]++
			named := o.DeepCopy()
			named.SetName(o.GetName() + "-beside") // other tests make objects of these names
			if err := strict.Create(t.Context(), named); err != nil {
				t.Errorf("%s: %s %s: %v", path, o.GetKind(), o.GetName(), err)
			}
			switch o.GetKind() {
			case "Receiver":
				onlyOwnKinds(t, strict, o, "resources")
			case "Alert":
				onlyOwnKinds(t, strict, o, "eventSources")
			}
		}
	}
	for kind, least := range map[string]int{"GitRepository": 2, "Kustomization": 3, "ProfileSource": 3, "Receiver": 1, "Alert": 1, "Application": 2, "MachineDeployment": 1, "ConfigMap": 1} {
		if kinds[kind] < least {
			t.Errorf("the examples have %d of %s", kinds[kind], kind)
		}
	}
}

// onlyOwnKinds: Flux's definitions have a list of kinds, in which ours cannot be.
func onlyOwnKinds(t *testing.T, cl client.Client, o *unstructured.Unstructured, field string) {
	t.Helper()
	o = o.DeepCopy()
	list, _, _ := unstructured.NestedSlice(o.Object, "spec", field)
	ref, ok := list[0].(map[string]any)
	if !ok {
		t.Fatalf("spec.%s is %v", field, list)
	}
	ref["kind"] = "ProfileSource"
	if err := unstructured.SetNestedSlice(o.Object, list, "spec", field); err != nil {
		t.Fatal(err)
	}
	if err := cl.Create(t.Context(), o); err == nil || !strings.Contains(err.Error(), "Unsupported value") {
		t.Errorf("%s with a ProfileSource: %v", o.GetKind(), err)
	}
}

// TestWaves: what others need comes first, in Argo CD as in Flux.
func TestWaves(t *testing.T) {
	wave := map[string]int{}
	for _, path := range files(t, "argocd/fleet/*.yaml") {
		for _, o := range objects(t, path) {
			n, err := strconv.Atoi(o.GetAnnotations()["argocd.argoproj.io/sync-wave"])
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			wave[o.GetKind()] = n
		}
	}
	if wave["ProfileSource"] >= wave["MachineDeployment"] {
		t.Errorf("the waves are %v", wave)
	}
	needs := map[string][]string{}
	for _, o := range objects(t, "flux/kustomizations.yaml") {
		on, _, _ := unstructured.NestedSlice(o.Object, "spec", "dependsOn")
		for _, d := range on {
			if d, ok := d.(map[string]any); ok {
				needs[o.GetName()] = append(needs[o.GetName()], d["name"].(string))
			}
		}
	}
	if !slices.Equal(needs["osm-profiles"], []string{"osm-gitops"}) || !slices.Equal(needs["osm-pools"], []string{"osm-profiles"}) {
		t.Errorf("Kustomizations depend on %v", needs)
	}
}
