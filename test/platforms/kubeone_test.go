package platforms

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/cluster"
	"github.com/osm-gitops/osm-gitops/test/program"
	"github.com/osm-gitops/osm-gitops/test/testenv"
)

// kubeOne applies addons as "kubeone apply" does.
type kubeOne struct {
	t       *testing.T
	cluster *cluster.Cluster
	client  client.Client
	kubectl string
}

// newKubeOne starts a cluster with machine-controller's kinds, and none of the addon's.
func newKubeOne(t *testing.T) *kubeOne {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Kinds: cluster.MachineKinds})
	kubectl, err := program.Kubectl.Path(t.Context(), os.Stderr)
	if errors.Is(err, program.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &kubeOne{t, c, c.Client(t), kubectl}
}

// apply is what KubeOne does with the objects of the addon, which are labeled.
func (k *kubeOne) apply(objects []*unstructured.Unstructured) {
	k.t.Helper()
	if err := Apply(k.t.Context(), k.kubectl, k.cluster.Kubeconfig, objects); err != nil {
		k.t.Fatal(err)
	}
}

// embedded are the objects of KubeOne's own addon.
func (k *kubeOne) embedded() []*unstructured.Unstructured {
	k.t.Helper()
	out, err := Embedded()
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// ours are the objects of the folder that replaces the addon.
func (k *kubeOne) ours() []*unstructured.Unstructured {
	k.t.Helper()
	d := Data{
		Certificates: map[string]string{"OSMWebhookCert": "cert", "OSMWebhookKey": "key", "KubernetesCA": string(k.cluster.Config.CAData)},
		Resources:    map[string]string{"NodeLocalDNSVirtualIP": "169.254.20.10"}, Params: map[string]string{"image": "registry.example.com/osm-gitops:v1"},
	}
	if len(k.cluster.Config.CAData) == 0 {
		ca, err := os.ReadFile(k.cluster.Config.CAFile)
		if err != nil {
			k.t.Fatal(err)
		}
		d.Certificates["KubernetesCA"] = string(ca)
	}
	d.Config.Features.NodeLocalDNS = &NodeLocalDNS{Deploy: true}
	out, err := Execute(d)
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// writes waits until the API server accepts MachineDeployments, or rejects them because no webhook
// answers.
func (k *kubeOne) writes(accepted bool) {
	k.t.Helper()
	if err := testenv.Until(k.t.Context(), time.Minute, fmt.Sprintf("MachineDeployments are accepted: %t", accepted), func() error {
		err := k.client.Create(k.t.Context(), &machines.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "pool"}}, client.DryRunAll)
		if accepted {
			return err
		}
		if err == nil {
			return errors.New("they are")
		}
		if !strings.Contains(err.Error(), `failed calling webhook "operating-system-manager.kubermatic.io-machinedeployments"`) {
			return err
		}
		return nil
	}); err != nil {
		k.t.Error(err)
	}
}

// versions are the UID and version of each object.
func (k *kubeOne) versions(objects []*unstructured.Unstructured) (uids, versions map[string]string) {
	k.t.Helper()
	uids, versions = map[string]string{}, map[string]string{}
	for _, o := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GroupVersionKind())
		if err := k.client.Get(k.t.Context(), client.ObjectKeyFromObject(o), live); err != nil {
			k.t.Fatal(err)
		}
		name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		uids[name], versions[name] = string(live.GetUID()), live.GetResourceVersion()
		if live.GetDeletionTimestamp() != nil {
			k.t.Errorf("%s is being deleted", name)
		}
	}
	return uids, versions
}

// Copying our folder replaces KubeOne's addon in place, at every "kubeone apply" again, and taking it
// away brings KubeOne's back: no object that both have is created again, the two programs are in
// no moment in one Deployment, and MachineDeployments can be written although no webhook answers.
func TestKubeOneApply(t *testing.T) {
	k := newKubeOne(t)
	k.apply(k.embedded())
	k.writes(false)
	before, _ := k.versions(k.embedded())

	for range 2 {
		k.apply(k.ours())
		k.writes(true)
		k.checkOurs(before)
		_, first := k.versions(k.ours())
		k.apply(k.ours())
		if _, second := k.versions(k.ours()); !maps.Equal(first, second) {
			t.Errorf("the second kubeone apply changes (-first +second):\n%s", cmp.Diff(first, second))
		}

		k.apply(k.embedded())
		k.writes(false) // until a Pod of operating-system-manager answers
		after, _ := k.versions(k.embedded())
		for name, uid := range after {
			if was := before[name]; was != uid && !strings.HasPrefix(name, "Service ") {
				t.Errorf("%s is another object than before", name)
			}
		}
		for _, d := range k.deployments() {
			c := d.Spec.Template.Spec.Containers
			if len(c) != 1 || !strings.HasPrefix(c[0].Image, "quay.io/kubermatic/operating-system-manager:") || slices.Contains(c[0].Args, "controller") || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
				t.Errorf("%s is not KubeOne's again: %+v", d.Name, d.Spec)
			}
		}
	}
}

func (k *kubeOne) deployments() []appsv1.Deployment {
	k.t.Helper()
	var list appsv1.DeploymentList
	if err := k.client.List(k.t.Context(), &list, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		k.t.Fatal(err)
	}
	if len(list.Items) != 2 {
		k.t.Errorf("there are %d Deployments", len(list.Items))
	}
	return list.Items
}

// checkOurs checks what KubeOne, machine-controller and operators rely on.
func (k *kubeOne) checkOurs(before map[string]string) {
	t := k.t
	t.Helper()
	for _, d := range k.deployments() {
		if before["Deployment kube-system/"+d.Name] != string(d.UID) || d.Spec.Template.Labels["app"] != d.Name {
			t.Errorf("Deployment %s does not replace KubeOne's in place", d.Name)
		}
		pod := d.Spec.Template.Spec
		if len(pod.Containers) != 1 || pod.Containers[0].Image != "registry.example.com/osm-gitops:v1" || pod.Containers[0].LivenessProbe.HTTPGet.Path != "/healthz" || pod.ServiceAccountName != map[bool]string{true: "osm-gitops-webhook", false: "osm-gitops"}[d.Name == "operating-system-manager-webhook"] {
			t.Errorf("the Pods of %s have %+v", d.Name, pod)
		}
		if slices.Contains(pod.Containers[0].Command, "/usr/local/bin/osm-controller") {
			t.Errorf("%s runs the command of operating-system-manager", d.Name)
		}
		// Its Pods must have ended before ours begin; the webhooks are served by both meanwhile.
		if recreate := d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType; recreate != (d.Name == "operating-system-manager") {
			t.Errorf("%s has the strategy %s", d.Name, d.Spec.Strategy.Type)
		}
		var budgets policyv1.PodDisruptionBudgetList
		if err := k.client.List(t.Context(), &budgets, client.InNamespace(metav1.NamespaceSystem)); err != nil {
			t.Fatal(err)
		}
		selecting := 0
		for _, b := range budgets.Items {
			selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err != nil {
				t.Fatal(err)
			}
			if selector.Matches(labels.Set(d.Spec.Template.Labels)) {
				selecting++
			}
		}
		if selecting != 1 { // evictions fail with more
			t.Errorf("%d PodDisruptionBudgets select the Pods of %s", selecting, d.Name)
		}
	}
	for _, object := range []string{"Namespace /cloud-init-settings", "Secret cloud-init-settings/cloud-init-getter-token"} {
		now, _ := k.versions([]*unstructured.Unstructured{named(object)})
		if before[object] == "" || now[object] != before[object] {
			t.Errorf("%s is another object than before: its Secrets are lost", object)
		}
	}
	var mutating admissionregistrationv1.MutatingWebhookConfigurationList
	var validating admissionregistrationv1.ValidatingWebhookConfigurationList
	for _, list := range []client.ObjectList{&mutating, &validating} {
		if err := k.client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	policies := map[string]admissionregistrationv1.FailurePolicyType{}
	for _, c := range mutating.Items {
		for _, w := range c.Webhooks {
			policies[c.Name+": "+w.Name] = *w.FailurePolicy
		}
	}
	for _, c := range validating.Items {
		for _, w := range c.Webhooks {
			policies[c.Name+": "+w.Name] = *w.FailurePolicy
		}
	}
	want := map[string]admissionregistrationv1.FailurePolicyType{
		"operating-system-manager.kubermatic.io: default.machinedeployments.gitops.k8c.io": admissionregistrationv1.Ignore,
		"operatingsystemmanager.k8c.io: validate.machinedeployments.gitops.k8c.io":         admissionregistrationv1.Ignore,
		"operatingsystemmanager.k8c.io: validate.operatingsystemprofiles.gitops.k8c.io":    admissionregistrationv1.Ignore,
	}
	if diff := cmp.Diff(want, policies); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := k.client.Get(t.Context(), types.NamespacedName{Name: "operatingsystemconfigs.operatingsystemmanager.k8c.io"}, &crd); err != nil {
		t.Fatal(err)
	}
	if spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]; len(spec.XValidations) == 0 {
		t.Error("the definitions are not ours")
	}
	// In the order in which they are applied, the API server stops asking operating-system-manager
	// before its Pods end.
	first := map[string]int{}
	for i, o := range k.ours() {
		if _, ok := first[o.GetKind()]; !ok {
			first[o.GetKind()] = i
		}
	}
	if d := first["Deployment"]; d < first["MutatingWebhookConfiguration"] || d < first["ValidatingWebhookConfiguration"] || d < first["CustomResourceDefinition"] || d < first["ClusterRole"] {
		t.Errorf("the order of kinds is %v", first)
	}
}

// named is an object by kind, namespace and name, as in versions.
func named(text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	kind, key, _ := strings.Cut(text, " ")
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	namespace, name, _ := strings.Cut(key, "/")
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
