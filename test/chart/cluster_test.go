package chart

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
)

// patience bounds every wait. A test that reaches it fails, so it is generous.
const patience = time.Minute

// The API server takes every object of every half, by server-side apply, which refuses
// fields that a kind does not have; and once more, as an upgrade does.
func TestAPIServerTakesIt(t *testing.T) {
	c := cluster.Shared(t)
	cl := c.Client(t)
	// The last is the namespace of a reference implementation that is being observed.
	for _, ns := range []string{"osm", "cluster-a", api.NamespaceCloudInitSettings} {
		if err := cl.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
			t.Fatal(err)
		}
	}
	all := "hooks: {enabled: true}\nui: {enabled: true, tlsSecret: ui}\nnetworkPolicy: {metricsFrom: [{podSelector: {}}], uiFrom: [{podSelector: {}}]}\n"
	taken := map[string]map[string]any{} // what was applied last under each name, and not once more if it is the same
	for name, list := range map[string][]*unstructured.Unstructured{
		"one cluster":          chart(t, "kube-system", image),
		"everything":           chart(t, "kube-system", image+all),
		"another namespace":    chart(t, "osm", image),
		"management":           chart(t, "cluster-a", image+"mode: management\nworkerCluster: {kubeconfigSecret: {name: w}}\nwebhook: {enabled: false}\nadmission: {policies: false}\n"),
		"worker":               chart(t, "kube-system", "mode: worker\nwebhook: {url: \"https://10.0.0.1:9443\"}\n"),
		"appliers":             chart(t, "kube-system", image+"appliers: {enabled: true}\n"),
		"observe":              chart(t, "osm", image+"observe: true\n"),
		"observing management": chart(t, "cluster-a", image+"observe: true\nmode: management\nworkerCluster: {kubeconfigSecret: {name: w}}\n"),
		"observing worker":     chart(t, "kube-system", "observe: true\nmode: worker\n"),
		"shard":                release(t, "osm-gitops-a", "osm", selecting("gitops.k8c.io/shard=a")+all),
		"shard of a worker":    release(t, "osm-gitops-a", "kube-system", "mode: worker\nflags: {watch-label-selector: gitops.k8c.io/shard=a}\n"),
		"kustomize":            kustomize(t, "."),
		"kustomize appliers":   kustomize(t, "appliers"),
		"kustomize observe":    kustomize(t, "observe"),
		"kustomize management": kustomize(t, "two-clusters/management"),
		"kustomize worker":     kustomize(t, "two-clusters/worker"),
	} {
		changed := slices.DeleteFunc(list, func(o *unstructured.Unstructured) bool {
			name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			same := reflect.DeepEqual(taken[name], o.Object)
			taken[name] = o.Object
			return same
		})
		for range 2 {
			copies := make([]*unstructured.Unstructured, len(changed)) // what is applied is filled in
			for i, o := range changed {
				copies[i] = o.DeepCopy()
			}
			if err := c.ApplyObjects(t.Context(), copies...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A Deployment that was made with the standard strategy, which the API server fills in, may run
// one replica without a lease later, and two with one again, by server-side apply too.
func TestStrategyFollowsLeaderElect(t *testing.T) {
	c := cluster.Shared(t)
	namespace := c.Namespace(t)
	for _, step := range []struct{ values, want string }{
		{"", "RollingUpdate"}, {"replicas: 1\nleaderElect: false\n", "Recreate"}, {"", "RollingUpdate"},
	} {
		for _, o := range chart(t, namespace, image+step.values) {
			if o.GetKind() != "Deployment" {
				continue
			}
			if err := c.ApplyObjects(t.Context(), o); err != nil {
				t.Fatalf("with %q: %v", step.values, err)
			}
			var d appsv1.Deployment
			if err := c.Client(t).Get(t.Context(), client.ObjectKeyFromObject(o), &d); err != nil {
				t.Fatal(err)
			}
			if got := string(d.Spec.Strategy.Type); got != step.want || (d.Spec.Strategy.RollingUpdate != nil) != (got == "RollingUpdate") {
				t.Errorf("with %q the strategy is %+v", step.values, d.Spec.Strategy)
			}
		}
	}
}

// pool is one of a built-in profile.
func pool(namespace, name string, labels map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": machines.GroupVersion.String(), "kind": "MachineDeployment",
		"metadata": map[string]any{"name": name, "namespace": namespace, "labels": labels, "annotations": map[string]any{
			api.AnnotationOSP: "osp-ubuntu", api.AnnotationMDRevision: "1",
		}},
		"spec": map[string]any{
			"replicas": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"pool": name}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"pool": name}},
				"spec": map[string]any{
					"providerSpec": map[string]any{"value": map[string]any{
						"cloudProvider": "hetzner", "cloudProviderSpec": map[string]any{},
						"operatingSystem": "ubuntu", "operatingSystemSpec": map[string]any{"distUpgradeOnBoot": false},
					}},
					"versions": map[string]any{"kubelet": "1.35.0"},
				},
			},
		},
	}}
}

// kubeconfig is one of a ServiceAccount.
func kubeconfig(t *testing.T, c *cluster.Cluster, namespace, account string) string {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}}
	token := &authenticationv1.TokenRequest{}
	if err := c.Client(t).SubResource("token").Create(t.Context(), sa, token); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: c.Config.Host, CertificateAuthorityData: c.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"c": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
