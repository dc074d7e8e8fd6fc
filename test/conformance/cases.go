package conformance

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
	"github.com/osm-gitops/osm-gitops/test/program"
)

// Case is one case of the corpus.
type Case struct {
	// Name is the folder's name.
	Name string
	// ProfileName is the profile's file without ".yaml", and ProfileYAML its text.
	ProfileName string
	ProfileYAML []byte
	// MachineDeploymentYAML is the text of the pool.
	MachineDeploymentYAML []byte
	// Settings and Cluster are those of case.yaml; CaseYAML is its text, which
	// has a key `profile` more than `osm-gitops render --cluster` takes.
	Settings render.Settings
	Cluster  render.Cluster
	CaseYAML []byte
	// WantError is the reference's error if it refuses; the other fields are empty then.
	WantError string
	// WantOSC holds the case's credentials.
	WantOSC *osm.OperatingSystemConfig
	// WantBootstrap and WantProvisioning are the user-data; Ignition says which kind.
	WantBootstrap, WantProvisioning []byte
	Ignition                        bool
}

// Dir returns the corpus's folder. It skips the test when there is none.
func Dir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("OSM_CONFORMANCE")
	if dir == "" {
		root, err := program.Root()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(root, "..", "shared", "conformance")
	}
	if _, err := os.Stat(filepath.Join(dir, "cases")); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no conformance corpus at %s: set OSM_CONFORMANCE to its folder to run this test", dir)
	}
	return dir
}

// Cases returns the cases of the corpus, or skips the test.
func Cases(t testing.TB) []Case {
	t.Helper()
	dir := Dir(t)
	entries, err := os.ReadDir(filepath.Join(dir, "cases"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("found %d cases (err %v): an empty corpus must not pass", len(entries), err)
	}
	cases := make([]Case, 0, len(entries))
	for _, e := range entries {
		cases = append(cases, readCase(t, dir, e.Name()))
	}
	return cases
}

func readCase(t testing.TB, dir, name string) Case {
	t.Helper()
	folder := filepath.Join(dir, "cases", name)
	c := Case{Name: name}
	c.CaseYAML = read(t, filepath.Join(folder, "case.yaml"))
	var file struct {
		Profile  string          `json:"profile"`
		Settings render.Settings `json:"settings"`
		Cluster  render.Cluster  `json:"cluster"`
	}
	unmarshal(t, c.CaseYAML, &file)
	c.Settings, c.Cluster = file.Settings, file.Cluster
	c.ProfileName = strings.TrimSuffix(file.Profile, ".yaml")
	c.ProfileYAML = read(t, filepath.Join(dir, "profiles", file.Profile))
	c.MachineDeploymentYAML = read(t, filepath.Join(folder, "machinedeployment.yaml"))

	expected := filepath.Join(folder, "expected")
	if text, err := os.ReadFile(filepath.Join(expected, "error.txt")); err == nil {
		c.WantError = string(text)
		return c
	}
	c.WantOSC = &osm.OperatingSystemConfig{}
	unmarshal(t, read(t, filepath.Join(expected, "osc.yaml")), c.WantOSC)
	suffix := ".yaml"
	if _, err := os.Stat(filepath.Join(expected, "bootstrap.json")); err == nil {
		suffix, c.Ignition = ".json", true
	}
	c.WantBootstrap = read(t, filepath.Join(expected, "bootstrap"+suffix))
	c.WantProvisioning = read(t, filepath.Join(expected, "provisioning"+suffix))
	return c
}

// Profile returns the case's profile, as an object made by hand.
func (c Case) Profile(t testing.TB) render.Profile {
	t.Helper()
	var osp osm.OperatingSystemProfile
	unmarshal(t, c.ProfileYAML, &osp)
	return render.Profile{Spec: osp.Spec, Object: osp.Name, Digest: "v1:sha256:corpus-" + c.ProfileName,
		Provenance: render.Provenance{Profile: osp.Name, Version: osp.Spec.Version}}
}

// MachineDeployment returns the case's pool.
func (c Case) MachineDeployment(t testing.TB) *cluster.MachineDeployment {
	t.Helper()
	md := &cluster.MachineDeployment{}
	unmarshal(t, c.MachineDeploymentYAML, md)
	return md
}

// Input returns what to render. The error is DecodePool's or WithCloudConfig's.
func (c Case) Input(t testing.TB) (render.Input, error) {
	t.Helper()
	md := c.MachineDeployment(t)
	pool, err := render.DecodePool(md)
	if err == nil {
		pool, err = pool.WithCloudConfig(md, c.Settings, render.ClusterValues{})
	}
	return render.Input{Profile: c.Profile(t), Pool: pool, Settings: c.Settings, Cluster: c.Cluster}, err
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unmarshal(t testing.TB, b []byte, into any) {
	t.Helper()
	if err := yaml.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}
