package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/osm-gitops/osm-gitops/test/platforms"
)

// hack/generate was run, and KubeOne finds nothing that is not generated.
func TestFilesAreCurrent(t *testing.T) {
	files, err := manifests("..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("deploy/%s is not current, run hack/generate (-want +got):\n%s", name, diff)
		}
	}
	found, err := filepath.Glob(filepath.Join("..", addon+"*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if name := strings.TrimPrefix(filepath.ToSlash(path), "../"); files[name] == nil {
			t.Errorf("deploy/%s is not generated", name)
		}
	}
}

// deployments are those of the addon.
func deployments(t *testing.T, d platforms.Data) (out []appsv1.Deployment, all []*unstructured.Unstructured, err error) {
	t.Helper()
	all, err = platforms.Execute(d)
	for _, o := range all {
		if o.GetKind() == "Deployment" {
			var d appsv1.Deployment
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
				t.Fatal(err)
			}
			out = append(out, d)
		}
	}
	return out, all, err
}

// What a node gets is what KubeOne configures, and a setting that KubeOne's data does not have in
// every release has to be made.
func TestTemplates(t *testing.T) {
	full := platforms.Data{
		Certificates: map[string]string{"OSMWebhookCert": "cert", "OSMWebhookKey": "key", "KubernetesCA": "ca"},
		Resources:    map[string]string{"NodeLocalDNSVirtualIP": "169.254.20.10"}, Params: map[string]string{"image": "registry.example.com/osm-gitops:v1"},
	}
	full.Config.CloudProvider.External, full.Config.OperatingSystemManager.EnableNonRootDeviceOwnership = true, true
	full.Config.Proxy.HTTP, full.Config.Proxy.HTTPS, full.Config.Proxy.NoProxy = "http://proxy", "https://proxy", "10.0.0.0/8,.local"
	full.Config.RegistryConfiguration = &platforms.Registry{Insecure: "registry:5000"}
	full.Config.ContainerRuntime.Flags = []string{"-node-containerd-registry-mirrors=docker.io=https://mirror", "-node-containerd-registry-mirrors=quay.io=https://mirror"}
	full.Config.Features.NodeLocalDNS = &platforms.NodeLocalDNS{Deploy: true}
	found, all, err := deployments(t, full)
	if err != nil || len(found) != 2 {
		t.Fatalf("%d Deployments, %v", len(found), err)
	}
	want := []string{
		"controller", "--namespace=$(POD_NAMESPACE)", "--cache-dir=/var/cache/osm-gitops/mirrors", "--health-probe-address=:8085", "--metrics-address=:8080", "--webhook-address=0",
		"--cluster-dns=169.254.20.10", "--pause-image=registry.k8s.io/pause:3.10", "--external-cloud-provider=true", "--node-insecure-registries=registry:5000",
		"--node-http-proxy=http://proxy", "--node-no-proxy=10.0.0.0/8,.local", "--device-ownership-from-security-context=true",
		"-node-containerd-registry-mirrors=docker.io=https://mirror", "-node-containerd-registry-mirrors=quay.io=https://mirror",
	}
	if diff := cmp.Diff(want, found[0].Spec.Template.Spec.Containers[0].Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	wantAnnotations := map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "prometheus.io/path": "/metrics", "kubectl.kubernetes.io/default-container": "controller"}
	if diff := cmp.Diff(wantAnnotations, found[0].Spec.Template.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	for _, d := range found {
		if image := d.Spec.Template.Spec.Containers[0].Image; image != "registry.example.com/osm-gitops:v1" {
			t.Errorf("%s has image %s", d.Name, image)
		}
	}
	bundles := 0
	for _, o := range all {
		webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		for _, w := range webhooks {
			bundles++
			if got, _, _ := unstructured.NestedString(w.(map[string]any), "clientConfig", "caBundle"); got != "Y2E=" {
				t.Errorf("%s has caBundle %q", o.GetName(), got)
			}
		}
		if key, _, _ := unstructured.NestedString(o.Object, "data", "tls.key"); o.GetName() == servingCert && key != "a2V5" {
			t.Errorf("the key is %q", key)
		}
	}
	if bundles != 3 {
		t.Errorf("found %d webhooks", bundles)
	}

	bare := full
	bare.Config = platforms.Config{}
	bare.Config.Features.NodeLocalDNS = &platforms.NodeLocalDNS{}
	if _, _, err := deployments(t, bare); err == nil || !strings.Contains(err.Error(), "set params.clusterDNS") {
		t.Errorf("without NodeLocalDNS: %v", err)
	}
	bare.Params = map[string]string{"clusterDNS": "10.96.0.10"}
	if _, _, err := deployments(t, bare); err == nil || !strings.Contains(err.Error(), "set params.image") {
		t.Errorf("without an image: %v", err)
	}
	bare.Params["image"] = "i"
	if found, _, err = deployments(t, bare); err != nil || found[0].Spec.Template.Spec.Containers[0].Args[6] != "--cluster-dns=10.96.0.10" {
		t.Errorf("without proxy and registries: %v", err)
	}
}

// In a seed the controller can connect to what it can elsewhere, and nobody to it.
func TestSeedNetworkPolicy(t *testing.T) {
	policies := map[string]networkingv1.NetworkPolicy{}
	var pods map[string]string
	for _, name := range []string{"controller.yaml", "kkp/seed.yaml"} {
		objects, err := read("..", name)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			switch o.GetKind() {
			case "NetworkPolicy":
				var p networkingv1.NetworkPolicy
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &p); err != nil {
					t.Fatal(err)
				}
				policies[name] = p
			case "Deployment":
				if pods, _, err = unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	seed, ok := policies["kkp/seed.yaml"]
	if !ok {
		t.Fatal("the seed has no NetworkPolicy")
	}
	if diff := cmp.Diff(policies["controller.yaml"].Spec.Egress, seed.Spec.Egress); diff != "" {
		t.Errorf("egress (-controller +seed):\n%s", diff)
	}
	if len(seed.Spec.Ingress) != 0 || len(seed.Spec.PolicyTypes) != 2 || seed.Namespace != "kubermatic" || !maps.Equal(seed.Spec.PodSelector.MatchLabels, pods) {
		t.Errorf("the policy is %+v, the Pods have %v", seed, pods)
	}
}
