// Package api_test shows what a real API server does with our kinds: what it
// refuses, what it adds, and that nothing an existing fleet writes is lost.
package api_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// The API server restricts kubelets as those of kubeadm do.
func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{APIServerArgs: []string{"--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction"}}))
}

// root is the path of the repository's root from here.
const root = "../.."

func readObject(t *testing.T, path string) *unstructured.Unstructured {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parseObject(t, string(b))
}

func parseObject(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// placed returns a copy of an object under another name, with nothing but its
// labels and annotations left of its metadata.
func placed(o *unstructured.Unstructured, namespace, name string) *unstructured.Unstructured {
	c := o.DeepCopy()
	labels, annotations := c.GetLabels(), c.GetAnnotations()
	delete(c.Object, "metadata")
	c.SetNamespace(namespace)
	c.SetName(name)
	c.SetLabels(labels)
	c.SetAnnotations(annotations)
	return c
}

// set writes a value at a path of keys and list indices, such as
// "spec.bootstrapConfig.files.0.path"; a nil value removes the key.
func set(t *testing.T, o *unstructured.Unstructured, path string, value any) {
	t.Helper()
	keys := strings.Split(path, ".")
	var at any = o.Object
	for _, key := range keys[:len(keys)-1] {
		at = child(t, at, key, path)
	}
	m, ok := at.(map[string]any)
	if !ok {
		t.Fatalf("%s: no map above the last key", path)
	}
	if last := keys[len(keys)-1]; value == nil {
		delete(m, last)
	} else {
		m[last] = value
	}
}

func child(t *testing.T, at any, key, path string) any {
	t.Helper()
	switch v := at.(type) {
	case map[string]any:
		if _, ok := v[key]; !ok {
			v[key] = map[string]any{}
		}
		return v[key]
	case []any:
		var i int
		if _, err := fmt.Sscan(key, &i); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	t.Fatalf("%s: nothing at %q", path, key)
	return nil
}

// wantRefused checks that the API server refused an object as invalid and that
// its message holds each of these words.
func wantRefused(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Error("it was accepted")
		return
	}
	if !apierrors.IsInvalid(err) {
		t.Errorf("it was refused as %q, not as invalid: %v", apierrors.ReasonForError(err), err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the message does not tell %q: %v", word, err)
		}
	}
}

// glob lists files, at least one.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("found %d files at %s (err %v): an empty glob must not pass", len(paths), pattern, err)
	}
	return paths
}
