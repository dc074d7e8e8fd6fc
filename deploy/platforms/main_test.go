package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
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
	full.Config.CloudProvider.External = true
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
		"--cluster-dns=169.254.20.10", "--pause-image=registry.k8s.io/PauseImage", "--external-cloud-provider=true", "--node-insecure-registries=registry:5000",
		"--node-http-proxy=http://proxy", "--node-no-proxy=10.0.0.0/8,.local",
		"-node-containerd-registry-mirrors=docker.io=https://mirror", "-node-containerd-registry-mirrors=quay.io=https://mirror",
	}
	if diff := cmp.Diff(want, found[0].Spec.Template.Spec.Containers[0].Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
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
