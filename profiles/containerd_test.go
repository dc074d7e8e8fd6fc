package profiles_test

import (
	"encoding/base64"
	"os"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// TestContainerd17: containerd 1.7, which reads version 2 of config.toml, gets the same settings
// as the others get in version 3.
func TestContainerd17(t *testing.T) {
	credentials := map[string]render.RegistryCredential{
		"https://registry.example.com": {Username: "node", Password: `a'"b\ {{ .Token }}`},
		"id.example.com:5000":          {IdentityToken: "identity", Auth: "bm9kZTpi"},
	}
	for name, settings := range map[string]render.Settings{
		"nothing is set": {},
		"everything is": {
			PauseImage: "registry.example.com/pause:3.10", DeviceOwnershipFromSecurityContext: true, RegistryCredentials: credentials,
		},
	} {
		t.Run(name, func(t *testing.T) {
			two := containerdConfig(t, "osp-amzn2", osm.OperatingSystemAmazon2, settings)
			three := containerdConfig(t, "osp-rockylinux", osm.OperatingSystemRockyLinux, settings)

			cri := at(two, "plugins", "io.containerd.grpc.v1.cri")
			images, runtime := at(three, "plugins", "io.containerd.cri.v1.images"), at(three, "plugins", "io.containerd.cri.v1.runtime")
			want := map[string]any{
				"registry":                               images["registry"],
				"device_ownership_from_security_context": runtime["device_ownership_from_security_context"],
				"containerd": map[string]any{
					"discard_unpacked_layers": images["discard_unpacked_layers"],
					"runtimes":                at(runtime, "containerd")["runtimes"],
				},
				"cni": map[string]any{"bin_dir": "/opt/cni/bin", "conf_dir": at(runtime, "cni")["conf_dir"]},
			}
			if settings.PauseImage != "" {
				want["sandbox_image"] = settings.PauseImage
			}
			if diff := cmp.Diff(want, cri); diff != "" {
				t.Errorf("version 2 differs from what version 3 says (-want +got):\n%s", diff)
			}
			// The keys that are spelled out above are all there are: a new one in
			// version 3 has to be thought of here too.
			for where, want := range map[string]map[string]any{
				"images":  without(images, "discard_unpacked_layers", "pinned_images", "registry"),
				"runtime": without(runtime, "cni", "containerd", "device_ownership_from_security_context"),
				"cni":     without(at(runtime, "cni"), "bin_dirs", "conf_dir"),
			} {
				if len(want) > 0 {
					t.Errorf("version 3 has in %s also %v", where, want)
				}
			}
			delete(two, "plugins")
			delete(three, "plugins")
			three["version"] = int64(2)
			if diff := cmp.Diff(three, two); diff != "" {
				t.Errorf("outside of plugins (-want +got):\n%s", diff)
			}
			if auth := at(cri, "registry", "configs", "registry.example.com", "auth"); settings.RegistryCredentials != nil &&
				auth["password"] != credentials["https://registry.example.com"].Password {
				t.Errorf("the password of registry.example.com became %q", auth["password"])
			}
		})
	}
}

// containerdConfig renders a shipped profile for AWS and reads its config.toml.
func containerdConfig(t *testing.T, name string, system osm.OperatingSystem, settings render.Settings) map[string]any {
	t.Helper()
	path := name + ".yaml"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	docs, err := profile.Decode(path, b)
	if err != nil || len(docs) != 1 {
		t.Fatalf("%s holds %d profiles (err %v), want 1", path, len(docs), err)
	}
	settings.KubernetesCACert = "a certificate"
	out, err := render.NewEngine().Render(render.Input{
		Profile:  render.Profile{Spec: docs[0].Spec, Object: name, Digest: docs[0].Digest, Provenance: render.Provenance{Profile: name, Version: docs[0].Spec.Version}},
		Pool:     render.Pool{Name: "workers", Namespace: "kube-system", KubeletVersion: "1.36.0", CloudProvider: "aws", OperatingSystem: system},
		Settings: settings,
		Cluster:  render.Cluster{Server: "https://api.example.com:6443", APIServerToken: "token", BootstrapToken: "abcdef.0123456789abcdef"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Files []struct{ Path, Encoding, Content string } `yaml:"write_files"`
	}
	if err := yaml.Unmarshal(out.Provisioning, &document); err != nil {
		t.Fatal(err)
	}
	for _, f := range document.Files {
		if f.Path != "/etc/containerd/config.toml" {
			continue
		}
		if f.Encoding == "b64" {
			raw, err := base64.StdEncoding.DecodeString(f.Content)
			if err != nil {
				t.Fatal(err)
			}
			f.Content = string(raw)
		}
		config := map[string]any{}
		if err := toml.Unmarshal([]byte(f.Content), &config); err != nil {
			t.Fatalf("%s: %v in\n%s", name, err, f.Content)
		}
		return config
	}
	t.Fatalf("%s writes no /etc/containerd/config.toml", name)
	return nil
}

// at returns the table at a path of keys, or an empty one if it does not exist.
func at(table map[string]any, path ...string) map[string]any {
	for _, key := range path {
		table, _ = table[key].(map[string]any)
	}
	return table
}

// without returns a table without the keys that are known.
func without(table map[string]any, known ...string) map[string]any {
	out := map[string]any{}
	for k, v := range table {
		out[k] = v
	}
	for _, k := range known {
		delete(out, k)
	}
	return out
}
