package render

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	cluster "github.com/osm-gitops/osm-gitops/pkg/api/cluster/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
)

// TestDefaultProfile expects the defaults of operating-system-manager's webhook, for provider specs that
// are valid, incomplete and invalid.
func TestDefaultProfile(t *testing.T) {
	for name, c := range map[string]struct {
		value string // of the provider spec; "-" for none
		want  string
		err   string // part of it
	}{
		"ubuntu":     {`{"cloudProvider":"aws","operatingSystem":"ubuntu"}`, "osp-ubuntu", ""},
		"flatcar":    {`{"cloudProvider":"aws","operatingSystem":"flatcar"}`, "osp-flatcar", ""},
		"amzn2":      {`{"cloudProvider":"aws","operatingSystem":"amzn2"}`, "osp-amzn2", ""},
		"rockylinux": {`{"cloudProvider":"hetzner","operatingSystem":"rockylinux"}`, "osp-rockylinux", ""},
		"rhel":       {`{"cloudProvider":"kubevirt","operatingSystem":"rhel"}`, "osp-rhel", ""},
		"any provider, also one that no profile serves": {`{"cloudProvider":"vultr","operatingSystem":"ubuntu"}`, "osp-ubuntu", ""},

		"anexia, flatcar with cloud-init": {
			`{"cloudProvider":"anexia","operatingSystem":"flatcar","operatingSystemSpec":{"provisioningUtility":"cloud-init"}}`, "osp-flatcar-cloud-init", ""},
		"anexia, flatcar with ignition": {
			`{"cloudProvider":"anexia","operatingSystem":"flatcar","operatingSystemSpec":{"provisioningUtility":"ignition"}}`, "osp-flatcar", ""},
		"anexia, flatcar that names no utility": {`{"cloudProvider":"anexia","operatingSystem":"flatcar","operatingSystemSpec":{}}`, "osp-flatcar", ""},
		"anexia, flatcar whose utility cannot be read": {
			`{"cloudProvider":"anexia","operatingSystem":"flatcar","operatingSystemSpec":{"provisioningUtility":7}}`, "osp-flatcar", ""},
		"anexia, ubuntu":                           {`{"cloudProvider":"anexia","operatingSystem":"ubuntu","operatingSystemSpec":{"provisioningUtility":"cloud-init"}}`, "osp-ubuntu", ""},
		"flatcar with cloud-init elsewhere":        {`{"cloudProvider":"aws","operatingSystem":"flatcar","operatingSystemSpec":{"provisioningUtility":"cloud-init"}}`, "osp-flatcar", ""},
		"a spec of the system that makes no sense": {`{"operatingSystem":"rhel","operatingSystemSpec":[1]}`, "osp-rhel", ""},
		"unknown fields below the system's spec":   {`{"operatingSystem":"ubuntu","operatingSystemSpec":{"x":1},"cloudProviderSpec":{"y":2}}`, "osp-ubuntu", ""},
		"keys in any case":                         {`{"OperatingSystem":"ubuntu"}`, "osp-ubuntu", ""},

		"another system":              {`{"cloudProvider":"aws","operatingSystem":"sles"}`, "", `"sles" is not supported: name one of amzn2, flatcar, rhel, rockylinux, ubuntu`},
		"no system":                   {`{"cloudProvider":"aws"}`, "", "operatingSystem: is empty"},
		"null":                        {`null`, "", "operatingSystem: is empty"},
		"no provider spec":            {"-", "", "providerSpec.value: is missing"},
		"an unknown field":            {`{"operatingSystem":"ubuntu","operatingSystems":"x"}`, "", `did you mean "operatingSystem"?`},
		"an unknown field of network": {`{"operatingSystem":"ubuntu","network":{"cdir":"x"}}`, "", `network.cdir: is not a field`},
		"a list":                      {`[]`, "", "is of the wrong type"},
	} {
		t.Run(name, func(t *testing.T) {
			md := &cluster.MachineDeployment{}
			md.Namespace, md.Name = "shop", "web"
			if c.value != "-" {
				md.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(c.value)}
			}
			got, err := DefaultProfile(md)
			if got != c.want || (err == nil) != (c.err == "") {
				t.Fatalf("got %q, %v, want %q, %q", got, err, c.want, c.err)
			}
			var invalid *invalid.Error
			if err != nil && (!strings.Contains(err.Error(), c.err) || !errors.As(err, &invalid)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}
