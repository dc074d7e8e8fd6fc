package downloads_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	machines "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/lint/downloads"
	"github.com/osm-gitops/osm-gitops/pkg/profile"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/profiles"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// input returns a pool with a built-in profile.
func input(t *testing.T, name, provider string) render.Input {
	t.Helper()
	b, err := fs.ReadFile(profiles.FS(), name+".yaml")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := profile.Decode("profiles/"+name+".yaml", b)
	if err != nil || len(docs) != 1 {
		t.Fatalf("%d profiles, %v", len(docs), err)
	}
	md := &machines.MachineDeployment{}
	md.Name, md.Namespace = "web", "shop"
	md.Spec.Template.Spec.Versions.Kubelet = "1.36.2"
	system := ""
	if name == "osp-flatcar-cloud-init" {
		system = `,"operatingSystemSpec":{"provisioningUtility":"cloud-init"}`
	}
	md.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"cloudProvider":%q,"cloudProviderSpec":{},"operatingSystem":%q%s}`, provider, docs[0].Spec.OSName, system)}
	in := render.Input{
		Profile: render.Profile{
			Spec: docs[0].Spec, Object: name, File: docs[0].Path, Lines: docs[0].Line,
			Provenance: render.Provenance{Profile: name, Version: docs[0].Spec.Version},
		},
		Cluster: render.Cluster{Server: "https://api.example.com:6443", APIServerToken: "secret-token", BootstrapToken: "abcdef.0123456789abcdef"},
		Settings: render.Settings{
			ClusterDNS: []string{"10.96.0.10"}, ExternalCloudProvider: true, PauseImage: "registry.k8s.io/pause:3.10.1",
			DownloadDigests: map[string]string{
				"kubelet-v1.36.2-linux-amd64": strings.Repeat("ab", 32),
				"docker.gpg":                  strings.Repeat("cd", 32),
			},
		},
	}
	if in.Pool, err = render.DecodePool(md); err != nil {
		t.Fatal(err)
	}
	return in
}

var ours = map[string]string{
	"osp-ubuntu": "vsphere", "osp-flatcar": "openstack", "osp-flatcar-cloud-init": "anexia",
	"osp-rhel": "kubevirt", "osp-rockylinux": "openstack", "osp-amzn2": "aws",
}

// TestOurProfiles records the downloads of each built-in profile.
func TestOurProfiles(t *testing.T) {
	for name, provider := range ours {
		t.Run(name, func(t *testing.T) {
			list, err := downloads.FindWithPlaceholders(render.NewEngine(), input(t, name, provider))
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range list.Unresolved() {
				t.Errorf("unresolved: %s: %s (%v)", u.Name, u.Reason, u.Positions)
			}
			var b strings.Builder
			if err := list.WriteTable(&b); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", b.String())
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
