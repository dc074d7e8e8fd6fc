package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/osm-gitops/osm-gitops/test/platforms"
)

// The arguments of the addon for KubeOne mean what those of KubeOne's own Deployment mean: the same
// settings for nodes, probes, metrics and log.
func TestKubeOneArguments(t *testing.T) {
	d := platforms.Data{
		Certificates: map[string]string{"OSMWebhookCert": "cert", "OSMWebhookKey": "key", "KubernetesCA": "ca"},
		Resources:    map[string]string{"NodeLocalDNSVirtualIP": "169.254.20.10"}, Params: map[string]string{"image": "registry.example.com/osm-gitops:v1"},
	}
	d.Config.CloudProvider.External = true
	d.Config.Features.NodeLocalDNS = &platforms.NodeLocalDNS{Deploy: true}
	theirs, err := platforms.Read("test", "platforms", "kubeone", "deployments.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := platforms.Execute(d)
	if err != nil {
		t.Fatal(err)
	}
	want, got := controllerArguments(t, theirs), controllerArguments(t, ours)
	meaningOf(t, got, want)

	// The flags that KubeOne adds for further settings of a KubeOneCluster.
	d.Config.OperatingSystemManager.EnableNonRootDeviceOwnership = true
	d.Config.Proxy.HTTP, d.Config.Proxy.NoProxy = "http://proxy.example.com:3128", "10.0.0.0/8,.local"
	d.Config.RegistryConfiguration = &platforms.Registry{Insecure: "registry:5000"}
	d.Config.ContainerRuntime.Flags = []string{"-node-containerd-registry-mirrors=docker.io=https://mirror.example.com"}
	if ours, err = platforms.Execute(d); err != nil {
		t.Fatal(err)
	}
	meaningOf(t, controllerArguments(t, ours), append(want, "-device-ownership-from-security-context", "-node-http-proxy=http://proxy.example.com:3128", "-node-no-proxy=10.0.0.0/8,.local",
		"-node-insecure-registries=registry:5000", "-node-containerd-registry-mirrors=docker.io=https://mirror.example.com"))
}

// controllerArguments are those of the Deployment operating-system-manager.
func controllerArguments(t *testing.T, objects []*unstructured.Unstructured) []string {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() != "Deployment" || o.GetName() != "operating-system-manager" {
			continue
		}
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d); err != nil {
			t.Fatal(err)
		}
		args := strings.Split(strings.ReplaceAll(strings.Join(d.Spec.Template.Spec.Containers[0].Args, "\n"), "$(POD_NAMESPACE)", d.Namespace), "\n")
		if args[0] == "controller" {
			args = args[1:]
		}
		return args
	}
	t.Fatal("there is no Deployment operating-system-manager")
	return nil
}

// meaningOf compares what two lists of arguments mean to the controller.
func meaningOf(t *testing.T, got, want []string) {
	t.Helper()
	meaning := func(args []string) []any {
		f := newControllerFlags()
		set := pflag.NewFlagSet("controller", pflag.ContinueOnError)
		f.bind(set)
		if err := set.Parse(toDoubleDashes(args)); err != nil {
			t.Fatal(err)
		}
		if err := f.parseAndValidate(); err != nil {
			t.Fatal(err)
		}
		port := func(address string) string { return address[strings.LastIndex(address, ":"):] }
		return []any{f.Settings, f.Namespace, f.LeaderElect, f.WorkerCount, f.DisableDefaultOSPs, port(f.HealthAddress), port(f.MetricsAddress), f.logDebug, strings.ToLower(f.logFormat)}
	}
	if diff := cmp.Diff(meaning(want), meaning(got)); diff != "" {
		t.Errorf("settings (-KubeOne's +ours):\n%s", diff)
	}
}
