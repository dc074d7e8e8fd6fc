package render

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/funcs"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/invalid"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/meter"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/templates"
	"github.com/osm-gitops/osm-gitops/pkg/render/internal/userdata"
)

// maxErrorBytes is far more than a user reads: an error does not repeat its subject.
const maxErrorBytes = 64 << 10

// profileSpecs are the profiles that we ship and show.
func profileSpecs(t testing.TB) []osm.OperatingSystemProfileSpec {
	t.Helper()
	var specs []osm.OperatingSystemProfileSpec
	for _, pattern := range []string{"../../profiles/*.yaml", "../../examples/repository/profiles/*.yaml", "testdata/sample/profile.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("found %d files at %s (err %v): an empty glob must not pass", len(paths), pattern, err)
		}
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var tree any
			if err := yaml.Unmarshal(b, &tree); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(tree)
			if err != nil {
				t.Fatal(err)
			}
			var osp osm.OperatingSystemProfile
			if err := json.Unmarshal(raw, &osp); err != nil {
				t.Fatal(err)
			}
			specs = append(specs, osp.Spec)
		}
	}
	return specs
}

// fuzzData has something in most fields.
func fuzzData(t testing.TB) *data {
	t.Helper()
	pods, proxy, size := int32(110), "http://proxy:3128", ""
	d := &data{KubeVersion: "v1.36.2", KubernetesCACert: "ca\n", HostCACert: "{{ .Token }}\n", CloudProviderName: "hetzner", InitialTaints: "a=b:NoSchedule",
		HTTPProxy: &proxy, KubeletFeatureGates: map[string]bool{"A": true, "B": false}, NetworkConfig: &networkConfig{IPFamily: "IPv4+IPv6"},
		BootstrapKubeconfig: "apiVersion: v1\n", Token: "t", ServerURL: "https://api:6443", DownloadMirrors: map[string]string{"cni": "https://m"}}
	d.MaxPods, d.ContainerLogMaxSize = &pods, &size
	d.KubeReserved = &map[string]string{"cpu": "1", "memory": "1Gi"}
	if err := setDuration(&d.ImageMinimumGCAge, "90s"); err != nil {
		t.Fatal(err)
	}
	return d
}

// For any templates of a profile, rendering ends, with limited output or a short error, and
// gives the same result twice. security.md 16, 17, 18, 19
func FuzzTemplate(f *testing.F) {
	for _, call := range calls {
		f.Add(call, `{{ template "t" . }}`)
	}
	seeds := map[string]bool{} // profiles share much
	for _, spec := range profileSpecs(f) {
		for _, config := range []osm.OSPConfig{spec.BootstrapConfig, spec.ProvisioningConfig} {
			for _, file := range config.Files {
				seeds[file.Content.Inline.Data] = strings.Contains(file.Content.Inline.Data, "{{")
			}
			for _, text := range config.Templates {
				seeds[text] = strings.Contains(text, "{{")
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(seeds)) {
		if seeds[text] {
			f.Add(text, `{{ template "t" }}`)
		}
	}
	for _, text := range []string{
		`{{ define "t" }}{{ template "u" }}{{ end }}{{ define "u" }}{{ template "t" }}{{ end }}{{ template "t" }}`,
		`{{ range $i, $x := until 3 }}{{ if eq $i 1 }}{{ continue }}{{ end }}{{ break }}{{ else }}{{ end }}`,
		`{{ $d := dict "a" (list 1 "b") }}{{ $_ := set $d "c" $d.a }}{{ toYaml $d }}{{ range $k, $v := $d }}{{ $k }}{{ $v }}{{ end }}`,
		`{{ block "b" .KubeReserved }}{{ .cpu }}{{ end }}{{ with $x := .MaxPods }}{{ $x }}{{ end }}{{- /* c */ -}}`,
		`{{ $x := "aa" }}{{ range 99 }}{{ $x = print $x $x }}{{ end }}`, `{{ printf "%[2]*[1]d%v%+v%#v%T" 1 2 . .KubeReserved }}`,
		"\xff\x00\x00\x00\x00{{ \"\\xff\\x00\\x00\\x00\\x00\" }}", `{{ .KubeletFeatureGates.Nope }}{{ . }}{{ $ }}{{ nil }}`, `{{ range . }}{{ end }}`, `{{ eq .KubeletFeatureGates 1 }}`, `{{ call .X }}{{ index . "a" }}{{ slice "abc" 1 9 }}`,
	} {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, file, named string) {
		spec := &osm.OperatingSystemProfileSpec{OSName: "ubuntu", ProvisioningConfig: osm.OSPConfig{
			Files: []osm.File{
				{Path: "/a", Content: osm.FileContent{Inline: &osm.FileContentInline{Data: file}}},
				{Path: "/b", Content: osm.FileContent{Inline: &osm.FileContentInline{Data: `{{ template "t" . }}` + named}}},
			},
			Templates: map[string]string{"t": named},
		}}
		render := func() (string, string) {
			c := compile(spec, nil)
			problems := append(c.problems, c.provisioning.Check()...)
			var files []osm.File
			if len(c.problems) == 0 {
				x := templates.NewExecution(fuzzData(t))
				var more []*invalid.Error
				files, more = c.provisioning.Execute(x)
				problems = append(problems, more...)
				if x.Meter.Cost > 2*meter.MaxCost || x.Meter.Made > meter.MaxMade+meter.MaxValueBytes {
					t.Errorf("%d units and %d bytes were used up", x.Meter.Cost, x.Meter.Made)
				}
			}
			var out strings.Builder
			for _, f := range files {
				out.WriteString(f.Content.Inline.Data)
			}
			message := ""
			if err := invalid.AsSingleError(Profile{}.locateProblems("", problems)); err != nil {
				message = err.Error()
			}
			return out.String(), message
		}
		out, message := render()
		again, messageAgain := render()
		if out != again || message != messageAgain {
			t.Fatalf("rendered once it is\n%q, %s\nand then\n%q, %s", out, message, again, messageAgain)
		}
		if len(out) > templates.MaxStageBytes || len(message) > maxErrorBytes {
			t.Errorf("%d bytes of output, %d of the error", len(out), len(message))
		}
		if strings.Contains(out, funcs.NoValue) || strings.ToValidUTF8(out, "") != out || strings.Contains(out, "0xc0000") {
			t.Errorf("the output is %q", out)
		}
	})
}

// Every MachineDeployment is decoded or rejected with a short error, and a pool is the same
// after recording.
func FuzzProviderSpec(f *testing.F) {
	f.Add(`{"cloudProvider":"aws","operatingSystem":"ubuntu","sshPublicKeys":["a"]}`, "1.36.2", "cpu=1")
	f.Add(`{"operatingSystem":"rhel","operatingSystemSpec":{"rhelSubscriptionManagerUser":"u"},"overwriteCloudConfig":""}`, "v1.33", "")
	f.Add(`{"operatingSystem":"flatcar","operatingSystemSpec":null,"network":{"dns":{"servers":[]}}}`, "1", "a<b")
	f.Add(`{"operatingSystem":"flatcar","network":{"dns":{"servers":[]}}}`, "1", "a<====b")
	f.Add(`{"network":{"dns":[]}}`, "latest", ",=,")
	f.Add(`[]`, "", "")
	f.Add("null", "1.2.3-rc.1+x", "a=b=c")
	f.Add(`{"cloudProvider":"openstack","cloudProviderSpec":{"identityEndpoint":{"secretKeyRef":{"name":"a","key":"b"}},"trustDevicePath":{"value":true}},"operatingSystem":"ubuntu"}`, "1.25.0", "5m")
	f.Add(`{"cloudProvider":"vsphere","cloudProviderSpec":{"allowInsecure":"true","datastore":"d\n[x]"},"operatingSystem":"flatcar","operatingSystemSpec":{"provisioningUtility":"cloud-init"}}`, "1.24.1", "memory.available<1Gi")
	f.Add(`{"operatingSystem":"ubuntu","nope":1,"network":{"cidr":"a","gateway":"b","ipFamily":"IPv6+IPv4"},"sshPublicKeys":"x"}`, "1.36.2", "110")
	f.Fuzz(func(t *testing.T, value, version, annotation string) {
		if strings.ToValidUTF8(version+annotation, "") != version+annotation {
			t.Skip("the API server refuses what is not UTF-8")
		}
		annotations := map[string]string{}
		for suffix := range kubeletAnnotations {
			annotations[suffix] = annotation
		}
		for _, annotations := range []map[string]string{annotations, {"KubeReserved": annotation}} {
			md := machineDeployment(value, annotations)
			md.Spec.Template.Spec.Versions.Kubelet = version
			pool, err := DecodePool(md)
			if err != nil {
				var invalid *invalid.Error
				if !errors.As(err, &invalid) || invalid.Error() == "" {
					t.Fatalf("%v is no InvalidError", err)
				}
				if n := len(err.Error()); n > maxErrorBytes {
					t.Errorf("the error has %d bytes", n)
				}
				continue
			}
			b, err := json.Marshal(pool)
			if err != nil {
				t.Fatal(err)
			}
			var back Pool
			if err := json.Unmarshal(b, &back); err != nil {
				t.Fatal(err)
			}
			in := Input{Profile: Profile{Digest: "d"}, Pool: pool}
			if a, b := in.InputDigest(), (Input{Profile: Profile{Digest: "d"}, Pool: back}).InputDigest(); a != b {
				t.Errorf("the digest is %s, after recording %s", a, b)
			}
			in.Profile.Spec = osm.OperatingSystemProfileSpec{OSName: pool.OperatingSystem, SupportedCloudProviders: []osm.CloudProviderSpec{{Name: pool.CloudProvider}}}
			in.Settings.KubernetesCACert = "ca"
			if out, err := NewEngine().Render(in); err == nil && (out == nil || len(out.Bootstrap) == 0) {
				t.Errorf("rendering gives nothing, and no error")
			} else if err != nil && len(err.Error()) > maxErrorBytes {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		}
	})
}

// emptied are the lines that machine-controller empties.
var emptied = regexp.MustCompile(`(?m)^[ \t]+$`)

// asMachine returns a document, or a text in it, after machine-controller's changes.
func asMachine(s string) string {
	const name = "web-5c7d9-x2vbf"
	return strings.NewReplacer(userdata.MachineName, name, "%3CMACHINE_NAME%3E", url.QueryEscape(name)).Replace(s)
}

// The contents of files, units, modules and keys arrive unchanged, the result is one document,
// and machine-controller's changes do not break it. security.md 20
func FuzzCloudConfig(f *testing.F) {
	f.Add("/etc/a", "text\n", "run: me", "k")
	f.Add("a: b", " leading\n \n\ttabs", "yes", "0755")
	f.Add("'", "{{ }}\n\n", "\"quoted\"", "~")
	f.Add("-osm-gitops-base64-0-", "-osm-gitops-base64-", "x", "enabled")
	f.Add("\u2028", "\x00\x7f\u0085", "#", "auto-attach")
	f.Add("<MACHINE_NAME>", "a <MACHINE_NAME>\n%3CMACHINE_NAME%3E\n", "<MACHINE_NAME", "<<")
	f.Add("EOF", "x\nEOF\n", strings.Repeat("long ", 50)+"\n \n"+strings.Repeat("x ", 90), "a.service")
	f.Fuzz(func(t *testing.T, path, content, command, key string) {
		for _, s := range []string{path, content, command, key} {
			if strings.ToValidUTF8(s, "") != s {
				t.Skip("rendering refuses what is not UTF-8")
			}
		}
		if yes, ok := userdata.YamlBool(command); ok {
			t.Logf("%q is the boolean %v for some keys", command, yes)
			command += "."
		}
		yes := true
		config := &osm.OSCConfig{
			Files: []osm.File{
				{Path: path, Permissions: 600, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: content}}},
				{Path: "/b", Permissions: 600, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: strings.Repeat(content, 20), Encoding: "b64"}}},
			},
			Units:       []osm.Unit{{Name: key, Enable: &yes, Content: &content, DropIns: []osm.DropIn{{Name: path, Content: command}}}},
			UserSSHKeys: []string{command},
			CloudInitModules: &osm.CloudInitModule{
				BootCMD: []string{content}, RunCMD: []string{command, path}, YumRepoDir: path,
				RHSubscription: map[string]string{key: command}, YumRepos: map[string]map[string]string{path: {key: command}},
			},
		}
		doc, err := documentOf(stageBootstrap, Pool{CloudProvider: "azure", OperatingSystem: "flatcar"}, "flatcar", config).Encode()
		if err != nil {
			t.Fatal(err)
		}
		want := func(edit func(string) string) map[string]any {
			b64 := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(content, 20)))
			unit := map[string]any{"name": edit(key), "enable": true, "command": "start", "mask": false,
				"drop_ins": []any{map[string]any{"name": edit(path), "content": edit(command)}}}
			if content != "" {
				unit["content"] = edit(content)
			}
			m := map[string]any{
				"hostname": edit(userdata.MachineName), "ssh_pwauth": false,
				"write_files": []any{
					map[string]any{"path": edit(path), "permissions": "0600", "content": edit(content)},
					map[string]any{"path": "/b", "permissions": "0600", "encoding": "b64", "content": b64},
					map[string]any{"path": "/etc/machine-name", "permissions": "0600", "content": edit(userdata.MachineName)},
				},
				"coreos":  map[string]any{"units": []any{unit}},
				"bootcmd": []any{edit(content)}, "runcmd": []any{edit(command), edit(path)},
				"rh_subscription": map[string]any{edit(key): edit(command)},
				"yum_repos":       map[string]any{edit(path): map[string]any{edit(key): edit(command)}},
			}
			if s := strings.TrimSpace(command); s != "" {
				m["ssh_authorized_keys"] = []any{edit(s)}
			}
			if path != "" {
				m["yum_repo_dir"] = edit(path)
			}
			return m
		}
		if diff := cmp.Diff(want(func(s string) string { return s }), parseYAML(t, string(doc))); diff != "" {
			t.Errorf("what arrives differs (-want +got):\n%s\n%s", diff, doc)
		}
		onMachine := emptied.ReplaceAllString(asMachine(string(doc)), "")
		if diff := cmp.Diff(want(asMachine), parseYAML(t, onMachine)); diff != "" {
			t.Errorf("what arrives on the machine differs (-want +got):\n%s\n%s", diff, onMachine)
		}
	})
}
