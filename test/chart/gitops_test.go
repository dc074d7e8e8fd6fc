package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// example is an object of examples/.
func example(t *testing.T, path, kind, name string) *unstructured.Unstructured {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../examples", path))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, string(b)) {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("examples/%s has no %s %s", path, kind, name)
	return nil
}

// field is one of an example, which has to be there.
func field[T any](t *testing.T, o *unstructured.Unstructured, path ...string) T {
	t.Helper()
	value, found, err := unstructured.NestedFieldNoCopy(o.Object, path...)
	typed, ok := value.(T)
	if err != nil || !found || !ok {
		t.Fatalf("%s %s has no %s: %v", o.GetKind(), o.GetName(), strings.Join(path, "."), err)
	}
	return typed
}

// The Application of examples/argocd installs what helm install does: Argo CD renders the chart of
// its path with the values of the Application, and applies the result with its own field manager
// and tracking annotation. The API server accepts all of it, next to Argo CD's own definition of
// Applications; a second sync changes nothing, and ignoreDifferences lists the fields that the
// controller writes.
func TestApplicationInstalls(t *testing.T) {
	application := example(t, "argocd/application.yaml", "Application", "osm-gitops")
	if path := field[string](t, application, "spec", "source", "path"); path != "deploy/chart/osm-gitops" {
		t.Fatalf("the path %s is not the chart", path)
	}
	if name := field[string](t, application, "spec", "source", "helm", "releaseName"); name != "osm-gitops" {
		t.Errorf("the release is called %s, and in docs/install.md osm-gitops", name)
	}
	values, err := yaml.Marshal(field[map[string]any](t, application, "spec", "source", "helm", "valuesObject"))
	if err != nil {
		t.Fatal(err)
	}
	namespace := field[string](t, application, "spec", "destination", "namespace")
	list := chart(t, namespace, string(values))
	plain := "image: {repository: registry.example.com/platform/osm-gitops, tag: v0.1.0}"
	if diff := cmp.Diff(byName(t, chart(t, "kube-system", plain)), byName(t, list)); diff != "" {
		t.Errorf("-helm install +Application:\n%s", diff)
	}

	c := cluster.Start(t, cluster.Options{})
	if err := c.Apply(t.Context(), "../argocd/crds"); err != nil {
		t.Fatal(err)
	}
	cl := c.Client(t)
	if err := cl.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "argocd"}}); err != nil {
		t.Fatal(err)
	}
	if err := client.WithFieldValidation(cl, metav1.FieldValidationStrict).Create(t.Context(), application.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	sync := func() map[string]map[string]any {
		content := map[string]map[string]any{}
		for _, o := range list {
			o = o.DeepCopy()
			name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			annotations := o.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations["argocd.argoproj.io/tracking-id"] = "osm-gitops:" + o.GroupVersionKind().Group + "/" + o.GetKind() + ":" + o.GetNamespace() + "/" + o.GetName()
			o.SetAnnotations(annotations)
			if err := cl.Patch(t.Context(), o, client.Apply, client.FieldOwner("argocd-controller"), client.ForceOwnership); err != nil { //nolint:staticcheck // an object of any kind has no typed apply
				t.Errorf("%s: %v", name, err)
			}
			content[name] = settled(o)
		}
		return content
	}
	first := sync()
	if t.Failed() {
		return
	}
	// The writes of a running controller.
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: kind})
		key := client.ObjectKey{Name: "osm-gitops"}
		if err := cl.Get(t.Context(), key, o); err != nil {
			t.Fatal(err)
		}
		webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		for _, w := range webhooks {
			if err := unstructured.SetNestedField(w.(map[string]any), "Q0E=", "clientConfig", "caBundle"); err != nil {
				t.Fatal(err)
			}
		}
		if err := unstructured.SetNestedSlice(o.Object, webhooks, "webhooks"); err != nil {
			t.Fatal(err)
		}
		if err := cl.Update(t.Context(), o, client.FieldOwner("osm-gitops")); err != nil {
			t.Fatal(err)
		}
		first[kind+" /osm-gitops"] = settled(o)
		ignored := false
		for _, d := range field[[]any](t, application, "spec", "ignoreDifferences") {
			d := d.(map[string]any)
			paths, _, _ := unstructured.NestedStringSlice(d, "jqPathExpressions")
			ignored = ignored || d["group"] == "admissionregistration.k8s.io" && d["kind"] == kind && cmp.Equal(paths, []string{".webhooks[].clientConfig.caBundle"})
		}
		if !ignored {
			t.Errorf("the Application does not ignore caBundle of %s", kind)
		}
	}
	if diff := cmp.Diff(first, sync()); diff != "" {
		t.Errorf("the next sync changes something, or takes away what the controller wrote (-first +second):\n%s", diff)
	}
}

// settled is an object without what the control plane writes by and by: versions, status, and the
// token of the ServiceAccount that cloud-init reads with.
func settled(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	o.SetResourceVersion("")
	o.SetManagedFields(nil)
	delete(o.Object, "status")
	if o.GetKind() == "Secret" {
		delete(o.Object, "data")
		annotations := o.GetAnnotations()
		delete(annotations, corev1.ServiceAccountUIDKey)
		o.SetAnnotations(annotations)
	}
	return o.Object
}

// The Kustomization of examples/flux installs what kustomize makes of deploy/, with an image that
// can be had.
func TestKustomizationInstalls(t *testing.T) {
	k := example(t, "flux/kustomizations.yaml", "Kustomization", "osm-gitops")
	source := field[string](t, k, "spec", "sourceRef", "name")
	example(t, "flux/source.yaml", "GitRepository", source)
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(dir, "repository")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "built"), 0o700); err != nil {
		t.Fatal(err)
	}
	// As kustomize-controller does: images of the Kustomization go into that of the folder.
	text, err := yaml.Marshal(map[string]any{
		"resources": []string{filepath.Join("../repository", field[string](t, k, "spec", "path"))},
		"images":    field[[]any](t, k, "spec", "images"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "built", "kustomization.yaml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, err := render(t, "", "kustomize", filepath.Join(dir, "built"))
	if err != nil {
		t.Fatalf("%v\n%s", err, errs)
	}
	if image := deployment(t, objects(t, out)).Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/platform/osm-gitops:v0.1.0" {
		t.Errorf("it runs %s", image)
	}
	if got, want := len(objects(t, out)), len(kustomize(t, ".")); got != want {
		t.Errorf("it has %d objects, deploy/ has %d", got, want)
	}
}
