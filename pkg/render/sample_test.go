package render_test

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// sampleInput is the profile, pool and cluster of testdata/sample.
func sampleInput(t testing.TB) render.Input {
	t.Helper()
	var osp osm.OperatingSystemProfile
	readYAML(t, "profile.yaml", &osp)
	var md cluster.MachineDeployment
	readYAML(t, "machinedeployment.yaml", &md)
	in := render.Input{Profile: render.Profile{
		Spec: osp.Spec, Object: "osp-sample-v1.2.3", Digest: "v1:sha256:sample", SelectedBy: "main",
		Provenance: render.Provenance{
			Profile: osp.Name, Version: osp.Spec.Version, Repository: "https://git.example.com/osps.git", Path: "profiles/sample.yaml",
			Commit: "3f2a9c1d5e6f708192a3b4c5d6e7f8091a2b3c4d", Change: "0123456789abcdef0123456789abcdef01234567",
		},
	}}
	var err error
	if in.Pool, err = render.DecodePool(&md); err != nil {
		t.Fatal(err)
	}
	var file struct {
		Settings render.Settings `json:"settings"`
		Cluster  render.Cluster  `json:"cluster"`
	}
	readYAML(t, "cluster.yaml", &file)
	in.Settings, in.Cluster = file.Settings, file.Cluster
	return in
}

func readYAML(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "sample", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(b, into); err != nil {
		t.Fatal(err)
	}
}
