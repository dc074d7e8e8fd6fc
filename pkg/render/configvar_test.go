package render_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// TestConfigVarString: the values of scalars and mappings.
func TestConfigVarString(t *testing.T) {
	facts := render.ClusterValues{
		Secrets:    map[string]map[string]string{"ns/o": {"k": "secret", "empty": ""}},
		ConfigMaps: map[string]map[string]string{"ns/o": {"k": "map"}},
	}
	const secret, configMap = `"secretKeyRef":{"namespace":"ns","name":"o","key":"k"}`, `"configMapKeyRef":{"namespace":"ns","name":"o","key":"k"}`
	for written, want := range map[string]string{
		`"text"`: "text", `""`: "", `5`: "5", `1.50`: "1.50", `true`: "true", `null`: "null", `"5"`: "5", `-1e3`: "-1e3",
		`"tab\tand \u00fc and \\"`: "tab\tand ü and \\\\", `"ü"`: "ü", `"\u003c"`: "<",
		`[1]`:                               "[1]",
		`{}`:                                "",
		`{"value":"v"}`:                     "v",
		`{"VALUE":"v","unknown":[]}`:        "v",
		`{"value":"slash \/ is fine here"}`: "slash / is fine here",
		`{"value":null}`:                    "",
		`{` + secret + `}`:                  "secret",
		`{` + configMap + `}`:               "map",
		`{"value":"v",` + secret + `,` + configMap + `}`:                                           "secret",
		`{"value":"v",` + configMap + `}`:                                                          "map",
		`{"value":"v","secretKeyRef":{"namespace":"ns","name":"o"},` + configMap + `}`:             "map",
		`{"value":"v","secretKeyRef":{"namespace":"ns","key":"k"},"configMapKeyRef":{"name":"o"}}`: "v",
		`{"value":"v","secretKeyRef":null}`:                                                        "v",
		`{"value":"v","secretKeyRef":{"namespace":"ns","name":"o","key":"empty"}}`:                 "",
	} {
		got, err := cloudConfig(t, machines("aws", `{"vpcId":`+written+`}`, "1.28.0"), render.Settings{}, facts)
		if _, after, _ := strings.Cut(got, "\nVPC="); err != nil || strings.TrimSuffix(after, "\nSubnetID=\"\"\n") != `"`+want+`"` {
			t.Errorf("%s is %s (error %v), want %q", written, got, err, want)
		}
	}
	for _, written := range []string{`"a\/b"`, `"\ud83d\ude00"`, `["a"]`, `{"value":5}`, `{"value":["v"]}`, `{"secretKeyRef":"k"}`, `{"secretKeyRef":{"namespace":"ns","name":"o","key":"nope"}}`} {
		if got, err := cloudConfig(t, machines("aws", `{"vpcId":`+written+`}`, "1.28.0"), render.Settings{}, facts); err == nil {
			t.Errorf("%s is taken for %q", written, got)
		}
	}
}

// TestConfigVarBool: booleans, with and without an environment.
func TestConfigVarBool(t *testing.T) {
	facts := func(environment string) render.ClusterValues {
		return render.ClusterValues{
			Environment: map[string]string{"VSPHERE_ALLOW_INSECURE": environment},
			Secrets:     map[string]map[string]string{"ns/o": {"yes": "1", "no": "FALSE", "bad": "ja"}},
		}
	}
	secret := func(key string) string { return `{"secretKeyRef":{"namespace":"ns","name":"o","key":"` + key + `"}}` }
	for _, c := range []struct {
		written, environment string
		want                 bool
	}{
		{`true`, "false", true}, {`false`, "true", false}, {`null`, "true", true}, {`null`, "", false}, {`{"value":true}`, "", true},
		{`{"value":false}`, "true", false}, {`{"value":null}`, "true", true}, {`{}`, "t", true}, {`{}`, "ja", false},
		{secret("yes"), "false", true}, {secret("no"), "true", false}, {secret("bad"), "true", true}, {secret("nope"), "true", true}, {secret("nope"), "", false},
	} {
		got, err := cloudConfig(t, machines("vsphere", `{"allowInsecure":`+c.written+`}`, "1.28.0"), render.Settings{}, facts(c.environment))
		if want := map[bool]string{true: "insecure-flag     = true\n", false: "insecure-flag     = false\n"}[c.want]; err != nil || !strings.Contains(got, want) {
			t.Errorf("%s with %q in the environment: %s (error %v), want %v", c.written, c.environment, got, err, c.want)
		}
	}
}

// FuzzCloudProviderSpec: for any cloudProviderSpec, the result is a text or an InvalidError,
// the same each time, and in a text in INI form every line is valid.
func FuzzCloudProviderSpec(f *testing.F) {
	for _, spec := range []string{
		`{}`, `null`, `[]`, `{"username":"u","password":{"value":"\"\\"},"nodeVolumeAttachLimit":3}`, `{"region":{"secretKeyRef":{"namespace":"ns","name":"o","key":"k"}}}`,
		`{"vsphereURL":"https://[::1]:1/","allowInsecure":{"value":true}}`, `{"serviceAccount":"eyJwcm9qZWN0X2lkIjoicCJ9","tags":["a\nb"]}`, `{"auth":{"kubeconfig":"YTogYgo="}}`, `{"availabilityZone":"\ud83d\ude00","vpcId":1e9}`,
	} {
		f.Add(spec, "from a Secret\n")
	}
	line := regexp.MustCompile(`^(|\[(Global|global|Disk|Workspace|LoadBalancer|BlockStorage)\]|\[VirtualCenter "([^"\\]|\\["\\])*"\]|[A-Za-z-]+ *= ?("([^"\\]|\\["\\])*"|true|false|[0-9]*))$`)
	f.Fuzz(func(t *testing.T, spec, value string) {
		facts := render.ClusterValues{Secrets: map[string]map[string]string{"ns/o": {"k": value}}, Environment: map[string]string{"OS_PASSWORD": value, "VSPHERE_ADDRESS": value, "KUBEVIRT_KUBECONFIG": value}}
		for _, provider := range []string{"aws", "azure", "gce", "kubevirt", "openstack", "vsphere"} {
			md := machines(provider, spec, "1.28.9")
			pool, err := render.DecodePool(md)
			if err != nil {
				return
			}
			first, err := pool.WithCloudConfig(md, render.Settings{}, facts)
			if err != nil {
				if len(render.Problems(err)) == 0 || first.CloudConfig != "" {
					t.Errorf("%s: error %v with configuration %q", provider, err, first.CloudConfig)
				}
				continue
			}
			again, err := pool.WithCloudConfig(md, render.Settings{}, facts)
			if err != nil || again.CloudConfig != first.CloudConfig || first.CloudConfig == "" {
				t.Errorf("%s: %q, then %q (err %v)", provider, first.CloudConfig, again.CloudConfig, err)
			}
			if slices.Contains([]string{"azure", "kubevirt"}, provider) {
				continue
			}
			for text := range strings.Lines(first.CloudConfig) {
				if text = strings.TrimSuffix(text, "\n"); !line.MatchString(text) {
					t.Errorf("%s: line %q of %q", provider, text, first.CloudConfig)
				}
			}
		}
	})
}
