package api_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// With the rights of a kubelet a node reports about its own files, not for another node (security.md 47).
func TestNodeReportsForItselfOnly(t *testing.T) {
	c := cluster.Shared(t)
	admin := c.Client(t)
	for _, name := range []string{"one", "two"} {
		if err := admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:one", Groups: []string{"system:nodes", "system:authenticated"}}
	node, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{api.AnnotationMatch: "{}"}}})
	if err != nil {
		t.Fatal(err)
	}
	report := func(name string) error {
		return node.Patch(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, body))
	}
	if err := report("one"); err != nil {
		t.Errorf("its own: %v", err)
	}
	if err := report("two"); !apierrors.IsForbidden(err) {
		t.Errorf("another: %v", err)
	}
	var other corev1.Node
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "two"}, &other); err != nil || other.Annotations[api.AnnotationMatch] != "" {
		t.Errorf("the other has %v, error %v", other.Annotations, err)
	}
}
