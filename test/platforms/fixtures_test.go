package platforms

import (
	"os"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }

// The API server accepts the objects of both platforms, and they have the names and commands that
// the platforms use.
func TestFixtures(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	cl := c.Client(t)
	for platform, namespace := range map[string]string{"kubeone": metav1.NamespaceSystem, "kkp": "cluster-example"} {
		for _, name := range []string{namespace, "cloud-init-settings"} {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := cl.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
		}
		install(t, c, platform)
		for name, command := range map[string]string{"operating-system-manager": "/usr/local/bin/osm-controller", "operating-system-manager-webhook": "/usr/local/bin/webhook"} {
			var d appsv1.Deployment
			get(t, cl, namespace, name, &d)
			if got := d.Spec.Template.Spec.Containers[0].Command; len(got) != 1 || got[0] != command {
				t.Errorf("%s: Deployment %s runs %q, want %s", platform, name, got, command)
			}
			if got := d.Spec.Template.Labels["app"]; got != name {
				t.Errorf("%s: the Pods of %s have the label app: %s", platform, name, got)
			}
		}
		get(t, cl, metav1.NamespaceSystem, "operating-system-manager", &rbacv1.Role{})
		get(t, cl, "", "operating-system-manager.kubermatic.io", &admissionregistrationv1.MutatingWebhookConfiguration{})
	}
	get(t, cl, "", "operatingsystemmanager.k8c.io", &admissionregistrationv1.ValidatingWebhookConfiguration{})
	get(t, cl, "", "operating-system-manager.kubermatic.io", &admissionregistrationv1.ValidatingWebhookConfiguration{})
	for _, kind := range []string{"operatingsystemprofiles", "operatingsystemconfigs"} {
		var crd apiextensionsv1.CustomResourceDefinition
		get(t, cl, "", kind+".operatingsystemmanager.k8c.io", &crd)
		version := crd.Spec.Versions[0]
		if version.Subresources != nil || len(version.Schema.OpenAPIV3Schema.Properties["spec"].XValidations) > 0 {
			t.Errorf("%s has subresources or rules, which the definition of the platforms does not have", kind)
		}
	}
}

// install applies the kinds of both platforms and the objects of one.
func install(t *testing.T, c *cluster.Cluster, platform string) {
	t.Helper()
	crds, err := CRDs()
	if err != nil {
		t.Fatal(err)
	}
	cl := c.Client(t)
	for _, want := range crds {
		// As KKP does: an apply would not remove fields that another manager set.
		var live apiextensionsv1.CustomResourceDefinition
		get(t, cl, "", want.GetName(), &live)
		want.SetResourceVersion(live.ResourceVersion)
		if err := cl.Update(t.Context(), want); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := Path(platform)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, cl client.Client, namespace, name string, obj client.Object) {
	t.Helper()
	if err := cl.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
		t.Fatal(err)
	}
}
