package render_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Inputs that cannot be rendered at all, and the remedy in the error.
func TestRenderRefuses(t *testing.T) {
	flatcar := func(in *render.Input, profile, pool osm.ProvisioningUtility) {
		in.Profile.Spec.OSName, in.Pool.OperatingSystem = osm.OperatingSystemFlatcar, osm.OperatingSystemFlatcar
		in.Profile.Spec.ProvisioningUtility = profile
		in.Pool.OperatingSystemSpec.Flatcar = &render.FlatcarSpec{ProvisioningUtility: pool}
	}
	tests := map[string]struct {
		change func(*render.Input)
		want   string // none for what is rendered
	}{
		"nothing": {change: func(*render.Input) {}},
		"another operating system": {func(in *render.Input) { in.Pool.OperatingSystem = osm.OperatingSystemRHEL },
			`value.operatingSystem: is "rhel", but the profile is for "ubuntu": choose another profile`},
		"another provider": {func(in *render.Input) { in.Pool.CloudProvider = "azure" },
			`value.cloudProvider: is "azure", which the profile does not list in supportedCloudProviders`},
		"ignition outside flatcar":                  {func(in *render.Input) { in.Profile.Spec.ProvisioningUtility = "ignition" }, "spec.provisioningUtility: is \"ignition\", which ubuntu does not have"},
		"flatcar resolves to ignition":              {func(in *render.Input) { flatcar(in, "", "") }, `resolves to "ignition", but the profile is for "cloud-init"`},
		"flatcar with units as cloud-init has them": {func(in *render.Input) { flatcar(in, "ignition", "ignition") }, "bootstrapConfig.units[0].content: the unit is enabled but has no [Install] section"},
		"flatcar with ignition": {change: func(in *render.Input) {
			flatcar(in, "ignition", "ignition")
			in.Profile.Spec.BootstrapConfig.Units, in.Profile.Spec.ProvisioningConfig.Units = nil, nil
		}},
		"flatcar with a version of Ignition that came by another way": {func(in *render.Input) {
			flatcar(in, "ignition", "ignition")
			in.Pool.IgnitionVersion = "3.9.0"
		}, `metadata.annotations[gitops.k8c.io/ignition-version]: "3.9.0" is not a supported version`},
		"flatcar with a profile for another utility": {func(in *render.Input) { flatcar(in, "cloud-init", "") }, `resolves to "ignition", but the profile is for "cloud-init"`},
		"flatcar with an unknown utility":            {func(in *render.Input) { flatcar(in, "", "butane") }, `is "butane": write cloud-init or ignition`},
		"flatcar with cloud-init":                    {change: func(in *render.Input) { flatcar(in, "cloud-init", "cloud-init") }},
		"a static address":                           {func(in *render.Input) { in.Pool.Network = &render.NetworkConfig{Gateway: "10.0.0.1"} }, "value.network: sets a static address, which only flatcar supports"},
		"a static address of flatcar": {change: func(in *render.Input) {
			flatcar(in, "cloud-init", "cloud-init")
			in.Pool.Network = &render.NetworkConfig{Gateway: "10.0.0.1"}
		}},
		"a setting":           {func(in *render.Input) { in.Settings.ClusterDNS = []string{"x"} }, `settings.clusterDNS: -cluster-dns: "x" is not an IP address`},
		"an in-tree provider": {func(in *render.Input) { in.Pool.CloudProvider, in.Pool.KubeletVersion = "aws", "1.28.9" }, "was not read: kubelet 1.28.9 takes the configuration of aws"},
		"an in-tree provider, external": {change: func(in *render.Input) {
			in.Pool.CloudProvider, in.Pool.KubeletVersion, in.Settings.ExternalCloudProvider = "aws", "1.28.9", true
		}},
		"an in-tree provider, overwritten": {change: func(in *render.Input) {
			s := ""
			in.Pool.CloudProvider, in.Pool.KubeletVersion, in.Pool.OverwriteCloudConfig = "aws", "1.28.9", &s
		}},
		"an old kubelet without in-tree provider":    {change: func(in *render.Input) { in.Pool.KubeletVersion = "1.28.9" }},
		"a pre-release does not count as new enough": {func(in *render.Input) { in.Pool.CloudProvider, in.Pool.KubeletVersion = "aws", "1.36.0-rc.1" }, "was not read: kubelet 1.36.0-rc.1"},
		"a kubelet version that is none":             {func(in *render.Input) { in.Pool.KubeletVersion = "latest" }, `versions.kubelet: "latest" is not a version`},
		"an annotation that came by another way":     {func(in *render.Input) { in.Pool.KubeletAnnotations = map[string]string{"MaxPods": "x"} }, `MaxPods]: "x" is not a 32-bit integer`},
		"several at once are all named":              {func(in *render.Input) { in.Settings.ClusterDNS = []string{"x"}; in.Pool.CloudProvider = "azure" }, "supportedCloudProviders"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := sampleInput(t)
			test.change(&in)
			_, err := render.NewEngine().Render(in)
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var invalid *render.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q in it", err, test.want)
			}
		})
	}
}

// A RHEL node registers with the pool's values, in both stages.
func TestRHSubscription(t *testing.T) {
	in := sampleInput(t)
	in.Profile.Spec.OSName, in.Pool.OperatingSystem = osm.OperatingSystemRHEL, osm.OperatingSystemRHEL
	in.Profile.Spec.ProvisioningConfig.CloudInitModules = nil
	in.Profile.Spec.BootstrapConfig.CloudInitModules.RHSubscription = map[string]string{"service-level": "overwritten"}
	for name, test := range map[string]struct {
		spec *render.RHELSpec
		want map[string]string
	}{
		"nothing given": {nil, map[string]string{"username": "", "password": "", "auto-attach": "false"}},
		"an account":    {&render.RHELSpec{RHELSubscriptionManagerUser: "u", RHELSubscriptionManagerPassword: "p", AttachSubscription: true}, map[string]string{"username": "u", "password": "p", "auto-attach": "true"}},
		"a satellite": {&render.RHELSpec{RHELUseSatelliteServer: true, RHELSatelliteServer: "s.example.com", RHELOrganizationName: "o", RHELActivationKey: "k"},
			map[string]string{"org": "o", "activation-key": "k", "server-hostname": "s.example.com", "rhsm-baseurl": "https://s.example.com/pulp/repos"}},
	} {
		t.Run(name, func(t *testing.T) {
			in.Pool.OperatingSystemSpec.RHEL = test.spec
			osc, err := render.RealOSC(render.NewEngine(), in)
			if err != nil {
				t.Fatal(err)
			}
			for _, stage := range []osm.OSCConfig{osc.BootstrapConfig, osc.ProvisioningConfig} {
				if diff := cmp.Diff(test.want, stage.CloudInitModules.RHSubscription); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// Values of strangers cannot change the structure of a document. security.md 20
func TestInjection(t *testing.T) {
	const evil = "x'\"\nEOF\nruncmd: [evil]\n{{ .Token }}\n#"
	in := sampleInput(t)
	in.Profile.Digest = ""
	in.Pool.SSHPublicKeys = []string{evil}
	in.Settings.HostCACert, in.Settings.InitialTaints, in.Settings.PauseImage, in.Settings.NodeNoProxy = evil, evil, evil, evil
	in.Profile.Spec.BootstrapConfig.Templates = map[string]string{"evil": "{{ .HostCACert }}{{ .InitialTaints }}{{ .NoProxy }}"}
	in.Profile.Spec.BootstrapConfig.Files = []osm.File{inline("/"+evil, `{{ template "evil" }}`), inline("/toml", "{{ .ContainerRuntimeConfig }}")}
	out, err := render.NewEngine().Render(in)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Keys  []string                 `json:"ssh_authorized_keys"`
		Files []map[string]interface{} `json:"write_files"`
		Run   []string                 `json:"runcmd"`
	}
	if err := yaml.Unmarshal(out.Bootstrap, &doc); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{evil}, doc.Keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"systemctl restart systemd-timesyncd", "systemctl daemon-reload && systemctl start --no-block bootstrap.service"}, doc.Run); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if got, want := doc.Files[0]["content"], "\n"+evil+evil+evil; got != want || doc.Files[0]["path"] != "/"+evil {
		t.Errorf("file %q, want %q", got, want)
	}
	if strings.Contains(fmt.Sprint(doc.Files), in.Cluster.APIServerToken) {
		t.Error("a value was executed as a template")
	}
}

// A template reads .Provenance; labels made of it are valid.
func TestProvenanceLabels(t *testing.T) {
	in := smallInput(t, "{{ .Provenance.VersionLabel }} {{ .Provenance.CommitLabel }} {{ .Provenance.PathLabel }} {{ .Provenance.ProfileLabel }}|", nil)
	in.Profile.Provenance = render.Provenance{Profile: "osp-x", Version: "v1.2.3+build.4", Commit: "main@sha256:" + strings.Repeat("a", 64), Path: "profiles/ü/" + strings.Repeat("x", 49) + "-y.yaml"}
	out, err := render.NewEngine().Render(in)
	if err != nil {
		t.Fatal(err)
	}
	want := "v1.2.3_build.4 main-sha256-" + strings.Repeat("a", 51) + " profiles---" + strings.Repeat("x", 49) + "-y osp-x|"
	if got := out.OSC.ProvisioningConfig.Files[0].Content.Inline.Data; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if out.Record.Digests.Input != in.InputDigest() || out.Record.SettingsDigest != in.SettingsDigest() {
		t.Errorf("the record has other digests than the input: %+v", out.Record)
	}
}

func ExampleEngine_Render() {
	var md cluster.MachineDeployment
	_ = yaml.Unmarshal([]byte(`
metadata: {name: workers, namespace: shop}
spec:
  template:
    spec:
      versions: {kubelet: 1.36.2}
      providerSpec: {value: {cloudProvider: aws, operatingSystem: ubuntu}}
`), &md)
	pool, err := render.DecodePool(&md)
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := osm.OperatingSystemProfileSpec{
		OSName: "ubuntu", Version: "v1.0.0",
		SupportedCloudProviders: []osm.CloudProviderSpec{{Name: "aws"}},
		BootstrapConfig:         osm.OSPConfig{Files: []osm.File{inline("/etc/version", "kubelet {{ .KubeVersion }}\n")}},
	}
	out, err := render.NewEngine().Render(render.Input{
		Profile: render.Profile{Spec: spec, Object: "osp-example"},
		Pool:    pool,
		Cluster: render.Cluster{Server: "https://api.example.com"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(out.Bootstrap))
	// Output:
	// #cloud-config
	// ssh_pwauth: false
	// write_files:
	//   - path: /etc/version
	//     permissions: '0644'
	//     content: |
	//       kubelet v1.36.2
}
