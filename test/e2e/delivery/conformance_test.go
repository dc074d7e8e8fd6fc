package delivery

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/test/conformance"
	"github.com/osm-gitops/osm-gitops/test/e2e"
)

// conformanceCases are served one after the other. Between them they have other
// providers, mirrors, proxies, credentials of registries, kubelet settings, and
// cloud-init and Ignition.
var conformanceCases = []string{"008-osp-ubuntu-kubevirt", "010-osp-feature-tour-gce", "067-osp-flatcar-gce", "080-osp-ubuntu-openstack"}

// The profiles of the conformance corpus, pushed to Git and served by the
// controller, give the documents that an existing fleet has today.
func TestConformanceFromGit(t *testing.T) {
	cases := conformance.Cases(t)
	s := newSystem(t)
	files := map[string]string{}
	for _, c := range cases {
		if slices.Contains(conformanceCases, c.Name) {
			files[c.ProfileName+".yaml"] = string(c.ProfileYAML)
		}
	}
	if len(files) != 3 {
		t.Fatalf("found %d profiles of the cases %q", len(files), conformanceCases)
	}
	commit := s.Git.Push(files)
	s.Source()
	for _, c := range cases {
		if !slices.Contains(conformanceCases, c.Name) {
			continue
		}
		s.Run(c.Name, func(t *testing.T) {
			s.ClusterInfo(c.Cluster.Server, c.Settings.KubernetesCACert)
			s.registryCredentials(c)
			s.Start(s.flagsOf(c)...)
			defer s.Stop()
			s.Ready(commit)
			md := c.MachineDeployment(t)
			s.ApplyYAML(string(c.MachineDeploymentYAML))
			defer func() {
				s.NoError(s.Client.Delete(t.Context(), md))
				s.Gone(md.Namespace, md.Name, md)
			}()

			name := md.Name + "-" + md.Namespace
			var bootstrap, provisioning, getter corev1.Secret
			s.Eventually("the pool to be served", func() error {
				if err := s.Get(api.NamespaceCloudInitSettings, name+"-provisioning-config", &provisioning); err != nil {
					return err
				}
				return s.Get(api.NamespaceCloudInitSettings, name+"-bootstrap-config", &bootstrap)
			})
			s.NoError(s.Get(api.NamespaceCloudInitSettings, api.SecretGetterToken, &getter))
			for _, secret := range []corev1.Secret{bootstrap, provisioning} {
				if got := secret.Annotations[api.AnnotationCommit]; got != commit {
					t.Errorf("%s: commit is %q, want %q", secret.Name, got, commit)
				}
			}
			// The tokens are this cluster's own: put the corpus' in their place.
			known := tokenReplacer(t, s, c, string(getter.Data["token"]))
			conformance.CompareUserData(t, c.WantBootstrap, known(bootstrap.Data[api.UserDataKey]))
			conformance.CompareUserData(t, c.WantProvisioning, known(provisioning.Data[api.UserDataKey]))
		})
	}
}

// tokenReplacer replaces the cluster's tokens by those of a case, in plain text and in files
// that are base64-encoded.
func tokenReplacer(t *testing.T, s *system, c conformance.Case, getter string) func([]byte) []byte {
	t.Helper()
	tokens := s.Tokens()
	if len(tokens) != 1 {
		t.Fatalf("there are %d bootstrap tokens", len(tokens))
	}
	bootstrap := string(tokens[0].Data["token-id"]) + "." + string(tokens[0].Data["token-secret"])
	replace := strings.NewReplacer(getter, c.Cluster.APIServerToken, bootstrap, c.Cluster.BootstrapToken)
	return func(doc []byte) []byte {
		if c.Ignition {
			return []byte(replace.Replace(string(doc))) // no byte of a token is escaped there
		}
		var parsed map[string]any
		if err := yaml.Unmarshal(doc, &parsed); err != nil {
			t.Fatal(err)
		}
		files, _ := parsed["write_files"].([]any)
		for _, f := range files {
			file := f.(map[string]any)
			content, _ := file["content"].(string)
			if file["encoding"] == "b64" {
				plain, err := base64.StdEncoding.DecodeString(content)
				if err != nil {
					t.Fatal(err)
				}
				content = string(plain)
				delete(file, "encoding")
			}
			file["content"] = replace.Replace(content)
		}
		out, err := yaml.Marshal(parsed)
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte("#cloud-config\n"), out...)
	}
}

// registryCredentials creates the Secret that holds the registry credentials of a case.
func (s *system) registryCredentials(c conformance.Case) {
	s.T.Helper()
	if len(c.Settings.RegistryCredentials) == 0 {
		return
	}
	data := map[string]any{}
	auths := map[string]any{}
	for registry, credential := range c.Settings.RegistryCredentials {
		auths[registry] = credential
	}
	b, err := yaml.Marshal(map[string]any{"auths": auths})
	if err != nil {
		s.T.Fatal(err)
	}
	if b, err = yaml.YAMLToJSON(b); err != nil {
		s.T.Fatal(err)
	}
	data[corev1.DockerConfigJsonKey] = string(b)
	s.Apply(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": string(corev1.SecretTypeDockerConfigJson),
		"metadata": map[string]any{"name": "registries", "namespace": e2e.Namespace}, "stringData": data,
	})
}

// flagsOf are a case's settings as the controller's flags.
func (s *system) flagsOf(c conformance.Case) []string {
	s.T.Helper()
	set := c.Settings
	file := func(name, content string) string {
		path := filepath.Join(s.T.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			s.T.Fatal(err)
		}
		return path
	}
	var gates []string
	for gate, on := range set.KubeletFeatureGates {
		gates = append(gates, gate+"="+strconv.FormatBool(on))
	}
	flags := []string{
		"--cluster-dns=" + strings.Join(set.ClusterDNS, ","),
		"--container-runtime=" + set.ContainerRuntime,
		"--pause-image=" + set.PauseImage,
		"--initial-taints=" + set.InitialTaints,
		"--node-http-proxy=" + set.NodeHTTPProxy,
		"--node-no-proxy=" + set.NodeNoProxy,
		"--node-insecure-registries=" + set.NodeInsecureRegistries,
		"--node-registry-mirrors=" + set.NodeRegistryMirrors,
		fmt.Sprintf("--external-cloud-provider=%t", set.ExternalCloudProvider),
		fmt.Sprintf("--device-ownership-from-security-context=%t", set.DeviceOwnershipFromSecurityContext),
		"--kubernetes-ca-bundle=" + file("ca.crt", set.KubernetesCACert),
		"--node-token=shared", // as in every existing fleet
	}
	if len(gates) > 0 {
		flags = append(flags, "--node-kubelet-feature-gates="+strings.Join(gates, ","))
	}
	for _, mirror := range set.NodeContainerdRegistryMirrors {
		flags = append(flags, "--node-containerd-registry-mirrors="+mirror)
	}
	if set.HostCACert != "" {
		flags = append(flags, "--host-ca-bundle="+file("host.crt", set.HostCACert))
	}
	if len(set.RegistryCredentials) > 0 {
		flags = append(flags, "--node-registry-credentials-secret="+e2e.Namespace+"/registries")
	}
	return flags
}
