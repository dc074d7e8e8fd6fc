package render_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// What templates get when they encode a part of the data as a whole, as in operating-system-manager
// and docs/template-data.md. Keys of YAML are the fields' names in lower case, since yaml.v3 does not
// read the names of JSON.
func TestEncodedStructures(t *testing.T) {
	network := func(n render.NetworkConfig) func(*render.Input) {
		return func(in *render.Input) { in.Pool.Network = &n }
	}
	static := network(render.NetworkConfig{
		CIDR: "10.0.0.2/24", Gateway: "10.0.0.1", DNS: render.DNSConfig{Servers: []string{"1.1.1.1"}}, IPFamily: "IPv4+IPv6",
	})
	system := func(name osm.OperatingSystem, spec render.OperatingSystemSpec) func(*render.Input) {
		return func(in *render.Input) {
			in.Profile.Spec.OSName, in.Pool.OperatingSystem, in.Pool.OperatingSystemSpec = name, name, spec
			in.Profile.Spec.ProvisioningUtility = ""
		}
	}
	flatcar := func(spec render.FlatcarSpec) func(*render.Input) {
		spec.ProvisioningUtility = osm.ProvisioningUtilityCloudInit
		return func(in *render.Input) {
			system(osm.OperatingSystemFlatcar, render.OperatingSystemSpec{Flatcar: &spec})(in)
			in.Profile.Spec.ProvisioningUtility = osm.ProvisioningUtilityCloudInit
		}
	}
	rhel := system(osm.OperatingSystemRHEL, render.OperatingSystemSpec{DistUpgradeOnBoot: true, RHEL: &render.RHELSpec{
		RHELSubscriptionManagerUser: "u", RHELSubscriptionManagerPassword: "p", RHSMOfflineToken: "t", AttachSubscription: true,
		RHELUseSatelliteServer: true, RHELSatelliteServer: "s.example.com", RHELOrganizationName: "o", RHELActivationKey: "k",
	}})
	tests := map[string]struct {
		change                    func(*render.Input)
		field                     string
		json, yaml, toml, printed string
	}{
		"no network": {network(render.NetworkConfig{}), ".NetworkConfig",
			`{"cidr":"","gateway":"","dns":{"servers":null}}`,
			"cidr: \"\"\ngateway: \"\"\ndns:\n    servers: []\nipfamily: \"\"",
			"CIDR = \"\"\nGateway = \"\"\nIPFamily = \"\"\n\n[DNS]\n", "{  {[]} }"},
		"an absent network": {func(in *render.Input) { in.Pool.Network = nil }, ".NetworkConfig", "null", "null", "", "<nil>"},
		"a family only": {network(render.NetworkConfig{IPFamily: "IPv4"}), ".NetworkConfig",
			`{"cidr":"","gateway":"","dns":{"servers":null},"ipFamily":"IPv4"}`,
			"cidr: \"\"\ngateway: \"\"\ndns:\n    servers: []\nipfamily: IPv4",
			"CIDR = \"\"\nGateway = \"\"\nIPFamily = \"IPv4\"\n\n[DNS]\n", "{  {[]} IPv4}"},
		"a static address": {func(in *render.Input) { flatcar(render.FlatcarSpec{})(in); static(in) }, ".NetworkConfig",
			`{"cidr":"10.0.0.2/24","gateway":"10.0.0.1","dns":{"servers":["1.1.1.1"]},"ipFamily":"IPv4+IPv6"}`,
			"cidr: 10.0.0.2/24\ngateway: 10.0.0.1\ndns:\n    servers:\n        - 1.1.1.1\nipfamily: IPv4+IPv6",
			"CIDR = \"10.0.0.2/24\"\nGateway = \"10.0.0.1\"\nIPFamily = \"IPv4+IPv6\"\n\n[DNS]\n  Servers = [\"1.1.1.1\"]\n", "{10.0.0.2/24 10.0.0.1 {[1.1.1.1]} IPv4+IPv6}"},
		"DNS": {func(in *render.Input) { flatcar(render.FlatcarSpec{})(in); static(in) }, ".NetworkConfig.DNS",
			`{"servers":["1.1.1.1"]}`, "servers:\n    - 1.1.1.1", "Servers = [\"1.1.1.1\"]\n", "{[1.1.1.1]}"},
		"Flatcar elsewhere": {nil, ".FlatcarConfig",
			`{"disableAutoUpdate":false,"disableLocksmithD":false,"disableUpdateEngine":false}`,
			"disableautoupdate: false\ndisablelocksmithd: false\ndisableupdateengine: false\nprovisioningutility: \"\"",
			"DisableAutoUpdate = false\nDisableLocksmithD = false\nDisableUpdateEngine = false\nProvisioningUtility = \"\"\n", "{false false false }"},
		"Flatcar": {flatcar(render.FlatcarSpec{DisableLocksmithD: true}), ".FlatcarConfig",
			`{"disableAutoUpdate":false,"disableLocksmithD":true,"disableUpdateEngine":false,"provisioningUtility":"cloud-init"}`,
			"disableautoupdate: false\ndisablelocksmithd: true\ndisableupdateengine: false\nprovisioningutility: cloud-init",
			"DisableAutoUpdate = false\nDisableLocksmithD = true\nDisableUpdateEngine = false\nProvisioningUtility = \"cloud-init\"\n", "{false true false cloud-init}"},
		"RHEL elsewhere": {nil, ".RhelConfig",
			`{"distUpgradeOnBoot":false,"attachSubscription":false,"rhelUseSatelliteServer":false,"rhelSatelliteServer":"","rhelOrganizationName":"","rhelActivationKey":""}`,
			"distupgradeonboot: false\nrhelsubscriptionmanageruser: \"\"\nrhelsubscriptionmanagerpassword: \"\"\nrhsmofflinetoken: \"\"\nattachsubscription: false\n" +
				"rhelusesatelliteserver: false\nrhelsatelliteserver: \"\"\nrhelorganizationname: \"\"\nrhelactivationkey: \"\"",
			"DistUpgradeOnBoot = false\nRHELSubscriptionManagerUser = \"\"\nRHELSubscriptionManagerPassword = \"\"\nRHSMOfflineToken = \"\"\nAttachSubscription = false\n" +
				"RHELUseSatelliteServer = false\nRHELSatelliteServer = \"\"\nRHELOrganizationName = \"\"\nRHELActivationKey = \"\"\n", "{false    false false   }"},
		"RHEL": {rhel, ".RhelConfig",
			`{"distUpgradeOnBoot":true,"rhelSubscriptionManagerUser":"u","rhelSubscriptionManagerPassword":"p","rhsmOfflineToken":"t","attachSubscription":true,` +
				`"rhelUseSatelliteServer":true,"rhelSatelliteServer":"s.example.com","rhelOrganizationName":"o","rhelActivationKey":"k"}`,
			"distupgradeonboot: true\nrhelsubscriptionmanageruser: u\nrhelsubscriptionmanagerpassword: p\nrhsmofflinetoken: t\nattachsubscription: true\n" +
				"rhelusesatelliteserver: true\nrhelsatelliteserver: s.example.com\nrhelorganizationname: o\nrhelactivationkey: k",
			"DistUpgradeOnBoot = true\nRHELSubscriptionManagerUser = \"u\"\nRHELSubscriptionManagerPassword = \"p\"\nRHSMOfflineToken = \"t\"\nAttachSubscription = true\n" +
				"RHELUseSatelliteServer = true\nRHELSatelliteServer = \"s.example.com\"\nRHELOrganizationName = \"o\"\nRHELActivationKey = \"k\"\n", "{true u p t true true s.example.com o k}"},
		"Ubuntu": {nil, ".UbuntuConfig", `{"distUpgradeOnBoot":false}`, "distupgradeonboot: false", "DistUpgradeOnBoot = false\n", "{false}"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for encoder, want := range map[string]string{"toJson": test.json, "toYaml": test.yaml, "toToml": test.toml, "print": test.printed} {
				in := smallInput(t, "{{ "+encoder+" "+test.field+" }}", nil)
				if encoder == "toToml" && want == "" {
					continue // what TOML cannot say
				}
				if test.change != nil {
					test.change(&in)
				}
				if got := provisioned(t, in); got != want {
					t.Errorf("%s gives\n%s\nwant\n%s", encoder, got, want)
				}
			}
		})
	}
}

// provisioned is the text of the first file that nodes get in the provisioning stage.
func provisioned(t *testing.T, in render.Input) string {
	t.Helper()
	out, err := render.NewEngine().Render(in)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		WriteFiles []struct {
			Encoding, Content string
		} `json:"write_files"`
	}
	if err := yaml.Unmarshal(out.Provisioning, &document); err != nil {
		t.Fatal(err)
	}
	return document.WriteFiles[0].Content
}

// The data as a whole has the fields of operating-system-manager, each once and at the top, and
// those that it lacks.
func TestEncodedData(t *testing.T) {
	osmFields := strings.Fields(`KubeVersion ClusterDNSIPs KubernetesCACert HostCACert CloudConfig CloudProviderName ExternalCloudProvider
		InTreeCCMAvailable ContainerRuntime ContainerRuntimeConfig ContainerRuntimeAuthConfig PauseImage InitialTaints HTTPProxy NoProxy
		KubeletFeatureGates NetworkConfig NetworkIPFamily BootstrapKubeconfig Token ServerURL SecretName BootstrapKubeconfigSecretName
		KubeReserved SystemReserved EvictionHard MaxPods ContainerLogMaxSize ContainerLogMaxFiles ImageGCHighThresholdPercent
		ImageGCLowThresholdPercent ImageMinimumGCAge ImageMaximumGCAge UbuntuConfig AmazonLinuxConfig RockyLinuxConfig FlatcarConfig RhelConfig
		KubeletConfiguration KubeletSystemdUnit CNIVersion ServerAddress RHSubscription`)
	in := smallInput(t, "{{ toJson . }}", nil)
	in.Pool.Network = &render.NetworkConfig{IPFamily: "IPv4"}
	var got map[string]json.RawMessage
	if err := json.Unmarshal([]byte(provisioned(t, in)), &got); err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(append(osmFields, "DownloadDigests", "DownloadMirrors", "Provenance")))
	var names []string
	for name := range got {
		names = append(names, name)
	}
	if slices.Sort(names); !slices.Equal(names, want) {
		t.Errorf("the fields are\n%v\nwant\n%v", names, want)
	}
	for name, want := range map[string]string{
		"NetworkConfig": `{"cidr":"","gateway":"","dns":{"servers":null},"ipFamily":"IPv4"}`,
		"FlatcarConfig": `{"disableAutoUpdate":false,"disableLocksmithD":false,"disableUpdateEngine":false}`,
		"RhelConfig":    `{"distUpgradeOnBoot":false,"attachSubscription":false,"rhelUseSatelliteServer":false,"rhelSatelliteServer":"","rhelOrganizationName":"","rhelActivationKey":""}`,
	} {
		if string(got[name]) != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}

	// yaml.v3 encodes no struct with an embedded one of an unexported type.
	if _, err := render.NewEngine().Render(smallInput(t, "{{ toYaml . }}", nil)); err == nil || !strings.Contains(err.Error(), "calling toYaml") {
		t.Errorf("toYaml of the whole data: %v", err)
	}
}
