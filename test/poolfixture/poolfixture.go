// Package poolfixture has what the reconciler of pools finds in a cluster, for tests that run it step by step.
package poolfixture

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
)

// Ensure creates an object that does not exist.
func Ensure(t testing.TB, c client.Client, obj client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), obj); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
}

// Cluster creates what all pools of a cluster need: the address of the API server, which is that of its ready
// endpoint, and the token with which nodes fetch their Secrets.
func Cluster(t testing.TB, c client.Client) {
	t.Helper()
	Ensure(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.NamespaceCloudInitSettings}})
	Ensure(t, c, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes-test", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv6,
		Ports:       []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(6443))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"fd00::2"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
			{Addresses: []string{"fd00::1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}},
		},
	})
	Ensure(t, c, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceCloudInitSettings, Name: api.SecretGetterToken},
		Data:       map[string][]byte{"token": []byte("getter")},
	})
}

// Profile is osp-hand, which no source created, for some cloud providers.
func Profile(namespace string, providers ...osm.CloudProvider) *osm.OperatingSystemProfile {
	osp := &osm.OperatingSystemProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "osp-hand"},
		Spec: osm.OperatingSystemProfileSpec{
			OSName: "ubuntu", OSVersion: "24.04", Version: "v1.0.0",
			ProvisioningConfig: osm.OSPConfig{Files: []osm.File{{Path: "/kubeconfig", Permissions: 600,
				Content: osm.FileContent{Inline: &osm.FileContentInline{Data: "{{ .BootstrapKubeconfig }}"}}}}},
		},
	}
	for _, p := range providers {
		osp.Spec.SupportedCloudProviders = append(osp.Spec.SupportedCloudProviders, osm.CloudProviderSpec{Name: p})
	}
	return osp
}

// Pool is a pool of that profile.
func Pool(namespace, name, provider string) *machines.MachineDeployment {
	spec := fmt.Sprintf(`{"cloudProvider":%q,"cloudProviderSpec":{},"operatingSystem":"ubuntu","operatingSystemSpec":{}}`, provider)
	return &machines.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{api.AnnotationOSP: "osp-hand"}},
		Spec: machines.MachineDeploymentSpec{Template: machines.MachineTemplateSpec{Spec: machines.MachineSpec{
			Versions:     machines.MachineVersion{Kubelet: "1.35.0"},
			ProviderSpec: machines.ProviderSpec{Value: &runtime.RawExtension{Raw: []byte(spec)}},
		}}},
	}
}

// Source creates a source that offers versions of profiles.
func Source(t testing.TB, c client.Client, namespace string, entries ...api.ProfileEntry) {
	t.Helper()
	minute := metav1.Duration{Duration: time.Minute}
	ps := &api.ProfileSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "source", Finalizers: []string{"gitops.k8c.io/profiles", "example.com/other"}},
		Spec:       api.ProfileSourceSpec{Directory: &api.DirectorySource{Path: "profiles"}, Interval: minute, RetryInterval: minute},
	}
	Ensure(t, c, ps)
	ps.Status.Profiles = entries
	if err := c.Status().Update(t.Context(), ps); err != nil {
		t.Fatal(err)
	}
}
