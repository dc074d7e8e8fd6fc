package render

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	api "github.com/osm-gitops/osm-gitops/pkg/api/gitops/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

func machineDeployment(value string, annotations map[string]string) *cluster.MachineDeployment {
	md := &cluster.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "workers", Namespace: "shop", Annotations: map[string]string{}}}
	md.Spec.Template.Spec.Versions.Kubelet = "1.36.2"
	if value != "-" {
		md.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(value)}
	}
	for suffix, v := range annotations {
		md.Annotations[api.AnnotationKubeletConfigPrefix+suffix] = v
	}
	return md
}

// Provider specs are decoded by the rules of operating-system-manager: see DecodePool.
func TestDecodePool(t *testing.T) {
	const ubuntu = `"cloudProvider":"aws","operatingSystem":"ubuntu"`
	base := Pool{Name: "workers", Namespace: "shop", KubeletVersion: "1.36.2", CloudProvider: "aws", OperatingSystem: "ubuntu"}
	with := func(change func(*Pool)) Pool { p := base; change(&p); return p }
	text := func(s string) *string { return &s }
	tests := map[string]struct {
		value   string
		want    Pool
		wantErr []string
	}{
		"the least":                    {value: `{` + ubuntu + `}`, want: base},
		"keys without regard to case":  {value: `{"CLOUDPROVIDER":"aws","OperatingSystem":"ubuntu"}`, want: base},
		"trailing data is ignored":     {value: `{` + ubuntu + `} {"x":`, want: base},
		"free-form parts are not read": {value: `{` + ubuntu + `,"cloudProviderSpec":{"x":{"y":1}},"operatingSystemSpec":{"foo":1,"distUpgradeOnBoot":true},"caPublicKey":"x"}`, want: with(func(p *Pool) { p.OperatingSystemSpec.DistUpgradeOnBoot = true })},
		"null parts are absent":        {value: `{` + ubuntu + `,"cloudProviderSpec":null,"operatingSystemSpec":null,"network":null,"overwriteCloudConfig":null}`, want: base},
		"an empty cloud configuration": {value: `{` + ubuntu + `,"overwriteCloudConfig":""}`, want: with(func(p *Pool) { p.OverwriteCloudConfig = text("") })},
		"a network": {value: `{` + ubuntu + `,"network":{"cidr":"10.0.0.2/24","gateway":"10.0.0.1","dns":{"servers":["1.1.1.1"]},"ipFamily":"IPv4+IPv6"}}`, want: with(func(p *Pool) {
			p.Network = &NetworkConfig{CIDR: "10.0.0.2/24", Gateway: "10.0.0.1", DNS: DNSConfig{Servers: []string{"1.1.1.1"}}, IPFamily: "IPv4+IPv6"}
		})},
		"no resolvers in a list": {value: `{` + ubuntu + `,"network":{"dns":{"servers":[]}}}`, want: with(func(p *Pool) { p.Network = &NetworkConfig{} })},
		"flatcar": {value: `{"cloudProvider":"aws","operatingSystem":"flatcar","operatingSystemSpec":{"disableAutoUpdate":true,"provisioningUtility":"cloud-init"}}`, want: with(func(p *Pool) {
			p.OperatingSystem = "flatcar"
			p.OperatingSystemSpec.Flatcar = &FlatcarSpec{DisableAutoUpdate: true, ProvisioningUtility: "cloud-init"}
		})},
		"rhel": {value: `{"cloudProvider":"aws","operatingSystem":"rhel","operatingSystemSpec":{"rhelSubscriptionManagerUser":"u","attachSubscription":true}}`, want: with(func(p *Pool) {
			p.OperatingSystem = "rhel"
			p.OperatingSystemSpec.RHEL = &RHELSpec{RHELSubscriptionManagerUser: "u", AttachSubscription: true}
		})},
		"absent":                            {value: "-", wantErr: []string{"providerSpec.value: is missing: give the provider's configuration inline"}},
		"no bytes":                          {value: "", wantErr: []string{"providerSpec.value: is missing"}},
		"null":                              {value: "null", wantErr: []string{"operatingSystem: is empty: name one of"}},
		"no JSON":                           {value: "{", wantErr: []string{"providerSpec.value: "}},
		"an unknown field":                  {value: `{` + ubuntu + `,"sshPublicKey":[]}`, wantErr: []string{`value.sshPublicKey: is not a field of the provider spec: did you mean "sshPublicKeys"?`}},
		"several, and nested":               {value: `{` + ubuntu + `,"foo":1,"Network":{"ipfamily":"IPv4","bar":1,"dns":{"server":"x"}}}`, wantErr: []string{"value.foo: is not a field of the provider spec: remove it", "value.network.bar: is no", `value.network.dns.server: is not a field of the provider spec: did you mean "servers"?`}},
		"a wrong type":                      {value: `{` + ubuntu + `,"sshPublicKeys":"key"}`, wantErr: []string{"value.sshPublicKeys: is of the wrong type: write a list, not a string"}},
		"a wrong type in the system's spec": {value: `{` + ubuntu + `,"operatingSystemSpec":{"distUpgradeOnBoot":"yes"}}`, wantErr: []string{"operatingSystemSpec.distUpgradeOnBoot: is of the wrong type: write a boolean"}},
		"another system":                    {value: `{"operatingSystem":"windows"}`, wantErr: []string{`operatingSystem: "windows" is not supported: name one of amzn2, flatcar, rhel, rockylinux, ubuntu`}},
		"too much":                          {value: `{"caPublicKey":"` + strings.Repeat("x", maxProviderSpecBytes) + `"}`, wantErr: []string{"are allowed"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pool, err := DecodePool(machineDeployment(test.value, nil))
			if len(test.wantErr) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(test.want, pool); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				return
			}
			problems := invalid.Problems(err)
			if len(problems) != len(test.wantErr) {
				t.Fatalf("problems %v, want %q", problems, test.wantErr)
			}
			for i, want := range test.wantErr {
				if got := problems[i].Error(); !strings.Contains(got, want) || !strings.HasPrefix(got, `reading MachineDeployment "shop/workers": spec.template.spec.providerSpec.value`) {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}
		})
	}
}

// Annotations are parsed as in operating-system-manager, except that malformed values are errors.
func TestKubeletAnnotations(t *testing.T) {
	num := func(n int32) *int32 { return &n }
	tests := map[string]struct {
		annotations map[string]string
		want        kubeletConfig
		wantErr     string
	}{
		"blanks stay, empty items are passed over, the last counts": {annotations: map[string]string{"KubeReserved": "cpu=1, memory=2Gi,, ,cpu=200m", "EvictionHard": "memory.available<5%"},
			want: kubeletConfig{KubeReserved: &map[string]string{"cpu": "200m", " memory": "2Gi"}, EvictionHard: &map[string]string{"memory.available": "5%"}}},
		"an integer with a blank":      {annotations: map[string]string{"MaxPods": " 5"}, wantErr: "is not a 32-bit integer"},
		"a duration with a blank":      {annotations: map[string]string{"ImageMinimumGCAge": " 5m"}, wantErr: "is not a duration"},
		"the first delimiter splits":   {annotations: map[string]string{"SystemReserved": "a=b=c"}, want: kubeletConfig{SystemReserved: &map[string]string{"a": "b=c"}}},
		"a present but empty list":     {annotations: map[string]string{"KubeReserved": ""}, want: kubeletConfig{KubeReserved: &map[string]string{}}},
		"integers":                     {annotations: map[string]string{"MaxPods": "110", "ImageGCHighThresholdPercent": "-1"}, want: kubeletConfig{MaxPods: num(110), ImageGCHighThresholdPercent: num(-1)}},
		"strings, also empty":          {annotations: map[string]string{"ContainerLogMaxSize": ""}, want: kubeletConfig{ContainerLogMaxSize: nonNil("")}},
		"unknown suffixes are ignored": {annotations: map[string]string{"Nope": "x", "maxPods": "x"}},
		"a pair without delimiter":     {annotations: map[string]string{"EvictionHard": "memory.available=5%"}, wantErr: `EvictionHard]: "memory.available=5%" is not a pair: write name<value`},
		"a pair without a value":       {annotations: map[string]string{"KubeReserved": "cpu="}, wantErr: "is not a pair"},
		"no integer":                   {annotations: map[string]string{"MaxPods": "many"}, wantErr: `MaxPods]: "many" is not a 32-bit integer`},
		"an integer that is too large": {annotations: map[string]string{"MaxPods": "3000000000"}, wantErr: "is not a 32-bit integer"},
		"an empty integer":             {annotations: map[string]string{"MaxPods": ""}, wantErr: "is not a 32-bit integer"},
		"no duration":                  {annotations: map[string]string{"ImageMinimumGCAge": "5 minutes"}, wantErr: `ImageMinimumGCAge]: "5 minutes" is not a duration`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pool, err := DecodePool(machineDeployment(`{"cloudProvider":"aws","operatingSystem":"ubuntu"}`, test.annotations))
			if test.wantErr != "" {
				var invalid *invalid.Error
				if !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error %v, want %q", err, test.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, _ := parseKubeletAnnotations(pool.KubeletAnnotations)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func nonNil(s string) *string { return &s }

func TestNetworkConfig(t *testing.T) {
	var none *NetworkConfig
	if none.IsStaticIPConfig() || none.GetIPFamily() != "" || !none.GetIPFamily().HasIPv4() || none.GetIPFamily().HasIPv6() {
		t.Error("no network is not taken for IPv4 without a static address")
	}
	for _, n := range []NetworkConfig{{CIDR: "x"}, {Gateway: "x"}, {DNS: DNSConfig{Servers: []string{"x"}}}} {
		if !n.IsStaticIPConfig() {
			t.Errorf("%+v is not static", n)
		}
	}
	for family, want := range map[IPFamily][3]bool{"": {true, false, false}, "IPv4": {true, false, false}, "IPv6": {false, true, false}, "IPv4+IPv6": {true, true, true}, "IPv6+IPv4": {true, true, true}} {
		if got := [3]bool{family.HasIPv4(), family.HasIPv6(), family.IsDualstack()}; got != want {
			t.Errorf("%q: %v, want %v", family, got, want)
		}
	}
}
