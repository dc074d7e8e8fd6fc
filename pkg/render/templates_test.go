package render_test

import (
	"errors"
	"strings"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// smallInput has one file with the given text, and the named templates.
func smallInput(t testing.TB, text string, templates map[string]string) render.Input {
	t.Helper()
	in := sampleInput(t)
	in.Profile.Digest = ""
	in.Profile.Spec.BootstrapConfig = osm.OSPConfig{}
	in.Profile.Spec.ProvisioningConfig = osm.OSPConfig{Templates: templates, Files: []osm.File{inline("/f", text)}}
	return in
}

func inline(path, data string) osm.File {
	return osm.File{Path: path, Content: osm.FileContent{Inline: &osm.FileContentInline{Data: data}}}
}

// Templates are executed as by operating-system-manager, except for the rows of "Templates and data" in
// docs/compatibility.md.
func TestTemplates(t *testing.T) {
	hostCA := func(text string) func(*render.Input) { return func(in *render.Input) { in.Settings.HostCACert = text } }
	tests := map[string]struct {
		text      string
		templates map[string]string
		change    func(*render.Input)
		want      string
		wantErr   string
	}{
		"text without actions": {text: "a\n b\n", want: "a\n b\n"},
		"a template is inserted after a line break, without trailing blanks": {
			text: `x{{ template "t" }}y`, templates: map[string]string{"t": " {{ .KubeVersion }} \n\n"}, want: "x\n v1.36.2y"},
		"a blank template gives nothing":           {text: `x{{ template "t" }}y`, templates: map[string]string{"t": "{{ if false }}a{{ end }}\n \n"}, want: "xy"},
		"a template sees the root data, dot or no": {text: `{{ with "d" }}{{ template "t" . }}{{ end }}`, templates: map[string]string{"t": "{{ .KubeVersion }}"}, want: "\nv1.36.2"},
		"a value with delimiters is not executed again": {text: `{{ template "t" . }}`, templates: map[string]string{"t": "{{ .HostCACert }}"},
			change: hostCA("{{ .KubeVersion }}{{ nonsense"), want: "\n{{ .KubeVersion }}{{ nonsense"},
		"a template cannot invoke another":      {text: "x", templates: map[string]string{"a": `{{ template "b" }}`, "b": "x"}, wantErr: `template "b" not defined`},
		"a broken template fails, used or not":  {text: "x", templates: map[string]string{"a": "{{ if }}"}, wantErr: `provisioningConfig.templates[a]: line 1 of the template: {{ if }} has no condition`},
		"a definition in a template vanishes":   {text: `{{ template "x" }}`, templates: map[string]string{"t": `{{ define "x" }}in{{ end }}out`}, wantErr: `"x" not defined`},
		"a definition in a file works":          {text: `{{ define "x" }}in {{ .KubeVersion }}{{ end }}{{ template "x" . }}`, want: "in v1.36.2"},
		"the stage's template beats the file's": {text: `{{ define "t" }}mine{{ end }}{{ template "t" }}`, templates: map[string]string{"t": "theirs"}, want: "\ntheirs"},
		"a blank one of the stage does not":     {text: `{{ define "t" }}mine{{ end }}{{ template "t" }}`, templates: map[string]string{"t": " "}, want: "mine"},
		"a template called like the file is it": {text: "body", templates: map[string]string{"/f": "other {{ .KubeVersion }}"}, want: "\nother v1.36.2"},
		"nothing but definitions":               {text: `{{ define "x" }}a{{ end }}`, want: ""},
		"an unknown field":                      {text: "a\n{{ .KubeVersoin }}", wantErr: `provisioningConfig.files[0] "/f": line 2 of the template: at <.KubeVersoin>: can't evaluate field KubeVersoin`},
		"a missing key prints no value":         {text: "a: 1\nb: {{ .KubeletFeatureGates.Nope }}\n", wantErr: `provisioningConfig.files[0] "/f": line 2 of the template: the output contains "<no value>"`},
		"a missing key after trimmed blanks":    {text: "a: 1\n{{- if true }}\n\n{{- .KubeletFeatureGates.Nope }}{{ end }}", wantErr: `line 2 of the template: the output contains`},
		"a missing key in a template":           {text: "x", templates: map[string]string{"t": "{{ .KubeletFeatureGates.Nope }}"}, wantErr: `provisioningConfig.templates[t]: line 1 of the template: the output contains`},
		"a missing key in a condition":          {text: "{{ if .KubeletFeatureGates.Nope }}a{{ else }}b{{ end }}", want: "b"},
		"index of a missing gate":               {text: `{{ index .KubeletFeatureGates "Nope" }}`, want: "false"},
		"a nil pointer":                         {text: "{{ .MaxPods }}", want: "<nil>"},
		"a field of a nil pointer":              {text: "{{ .NetworkConfig.CIDR }}", wantErr: "nil pointer evaluating *render.networkConfig.CIDR"},
		"a method of a nil pointer":             {text: "{{ .NetworkConfig.IsStaticIPConfig }} {{ .NetworkConfig.GetIPFamily.HasIPv4 }}", want: "false true"},
		"a map behind a pointer":                {text: "{{ range $k, $v := .KubeReserved }}{{ $k }}={{ $v }} {{ end }}{{ len .KubeReserved }}", want: "cpu=200m memory=1Gi 2"},
		"a duration prints as one":              {text: "{{ .ImageMinimumGCAge }} {{ .ImageMinimumGCAge.Duration }}", want: "5m0s 5m0s"},
		"a duration is text in JSON":            {text: "{{ .ImageMinimumGCAge | toJson }}", want: `"5m0s"`},
		"a name that cannot be invoked":         {text: "x", templates: map[string]string{`a"b`: "x"}, wantErr: "holds a quote or a line break"},
		"a provider compares with a string":     {text: `{{ eq .CloudProviderName "hetzner" }} {{ .CloudProviderName | toString | upper }}`, want: "true HETZNER"},
		"a provider is no plain string":         {text: "{{ .CloudProviderName | upper }}", wantErr: "wrong type"},
		"an address prints as IP":               {text: "{{ range .ClusterDNSIPs }}{{ . }}{{ end }}", want: "10.96.0.10"},
		"the whole data is not printed":         {text: "{{ . }}", wantErr: "<no value>"},
		"nor is it in a message":                {text: "{{ range . }}{{ end }}", wantErr: "range can't iterate over this value"},
		"a function that is refused":            {text: "a\nb {{ now }}", wantErr: `line 2 of the template: the function "now" is not available: it depends on when it runs`},
		"a function that does not exist":        {text: `{{ semverCompar "1" "1" }}`, wantErr: `there is no function "semverCompar": did you mean "semverCompare"?`},
		"a block that does not end":             {text: "a\n{{ if .HTTPProxy }}b\n", wantErr: "write the {{ end }} that is missing above"},
		"an end too many":                       {text: "a {{ end }}", wantErr: "there is an {{ end }} without"},
		"an else too many":                      {text: "a {{ else }}", wantErr: "there is an {{ else }} without"},
		"braces that are not closed":            {text: "a {{ .HTTPProxy\n", wantErr: "write }} on the same line"},
		"a comment that is not closed":          {text: "a {{/* b\n", wantErr: "write */}}"},
		"a string that is not closed":           {text: "{{ eq .HTTPProxy \"a }}", wantErr: "a string is not closed"},
		"an if without a condition":             {text: "{{ if }}a{{ end }}", wantErr: "{{ if }} has no condition"},
		"a range over nothing":                  {text: "{{ range }}a{{ end }}", wantErr: "has nothing to go over"},
		"a with of nothing":                     {text: "{{ with }}a{{ end }}", wantErr: "{{ with }} has no value"},
		"empty braces":                          {text: "{{ }}", wantErr: "{{ }} is empty"},
		"toYaml and toToml":                     {text: `{{ dict "b" (dict "c" 1) "a" "x" | toYaml }}|{{ dict "n" "v" | toToml }}`, want: "a: x\nb:\n    c: 1|n = \"v\"\n"},
		"errors of decoders":                    {text: `{{ (fromYaml "a: [").Error | empty }} {{ (fromJson "[").Error }} {{ fromJsonArray "{}" | len }}`, want: "false unexpected end of JSON input 1"},
		"version with build metadata":           {text: "{{ .KubeVersion }}", change: func(in *render.Input) { in.Pool.KubeletVersion = "1.33+k3s1" }, want: "v1.33.0+k3s1"},
		"fields that are always empty":          {text: "{{ .KubeletConfiguration }}{{ .KubeletSystemdUnit }}{{ .CNIVersion }}{{ .ServerAddress }}{{ .ContainerRuntimeAuthConfig }}{{ len .RHSubscription }}", want: "0"},
		"names of the Secrets":                  {text: "{{ .SecretName }} {{ .BootstrapKubeconfigSecretName }}", want: "workers-kube-system-provisioning-config kube-system-workers-kubelet-bootstrap-config"},
		"provenance":                            {text: "{{ .Provenance.Version }} {{ .Provenance.CommitLabel }} {{ .Provenance.PathLabel }} {{ len .Provenance.ConfigDigest }}", want: "v1.2.3 3f2a9c1d5e6f708192a3b4c5d6e7f8091a2b3c4d profiles-sample.yaml 12"},
		"output that is no text":                {text: `{{ b64dec "/w==" }}`, wantErr: "not UTF-8 text"},
		"a bomb is stopped":                     {text: `{{ range until 2000 }}{{ repeat 1000 "x" }}{{ end }}`, wantErr: "longer than 1048576 bytes"},
		"small bombs too": {text: "x", templates: map[string]string{"a": `{{ repeat 1000000 "x" }}`, "b": `{{ repeat 1000000 "x" }}`, "c": `{{ repeat 1000000 "x" }}`},
			wantErr: "longer than 2097152 bytes together"},
		"a file without known lines": {text: "a\nb\n{{ .KubeVersoin }}", change: func(in *render.Input) { in.Profile.File, in.Profile.Lines = "x.yaml", func(string) int { return 0 } },
			wantErr: `x.yaml: provisioningConfig.files[0] "/f": line 3 of the template: at`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := smallInput(t, test.text, test.templates)
			if test.change != nil {
				test.change(&in)
			}
			out, err := render.NewEngine().Render(in)
			if test.wantErr != "" {
				var invalid *render.InvalidError
				if !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.wantErr) {
					t.Fatalf("error %v, want one with %q", err, test.wantErr)
				}
				if invalid.Profile != "osp-sample" && len(render.Problems(err)) == 1 {
					t.Errorf("the error does not name the profile: %+v", invalid)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := out.OSC.ProvisioningConfig.Files[0].Content.Inline.Data; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestRuntimeSelection(t *testing.T) {
	in := smallInput(t, `{{ template "t" }}`, map[string]string{"t": "stage"})
	in.Profile.Spec.ProvisioningConfig.SupportedContainerRuntimes = []osm.ContainerRuntimeSpec{
		{Name: "docker", Files: []osm.File{inline("/docker", "{{ nonsense")}},
		{Name: "containerd", Files: []osm.File{inline("/first", `{{ template "r" }}`)}, Templates: map[string]string{"t": "runtime", "r": "runtime"}},
		{Name: "containerd", Files: []osm.File{inline("/second", "x")}},
	}
	out, err := render.NewEngine().Render(in)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range out.OSC.ProvisioningConfig.Files {
		if !strings.HasSuffix(f.Path, "hosts.toml") {
			got = append(got, f.Path+"="+f.Content.Inline.Data)
		}
	}
	if want := "/f=\nstage,/first=\nruntime"; strings.Join(got, ",") != want {
		t.Errorf("files %q, want %q", strings.Join(got, ","), want)
	}
}

// An error names the file in the repository and the line in it.
func TestErrorNamesTheLine(t *testing.T) {
	in := smallInput(t, "one\n{{ .Nope }}\n", map[string]string{"t": "{{ .NopeToo }}"})
	in.Profile.Lines = func(field string) int {
		return map[string]int{"spec.provisioningConfig.files[0].content.inline.data": 40, "spec.provisioningConfig.templates[t]": 30}[field]
	}
	err := render.NewEngine().Check(in.Profile)
	want := []string{
		`rendering profile "osp-sample" v1.2.3 at 3f2a9c1: profiles/sample.yaml:30: provisioningConfig.templates[t]: .NopeToo does not exist`,
		`rendering profile "osp-sample" v1.2.3 at 3f2a9c1: profiles/sample.yaml:41: provisioningConfig.files[0] "/f": .Nope does not exist`,
	}
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		text   string
		change func(*osm.OperatingSystemProfileSpec)
		want   []string // parts of the messages, in order; none for a good profile
	}{
		"a good profile":                    {text: "{{ .KubeVersion }}{{ if .NetworkConfig.DNS.Servers }}{{ .NetworkConfig.IPFamily.HasIPv4 }}{{ end }}"},
		"fields below with are not known":   {text: "{{ with .KubeReserved }}{{ .cpu }}{{ end }}{{ range .ClusterDNSIPs }}{{ .Foo }}{{ end }}{{ define \"x\" }}{{ .Foo }}{{ $.Bar }}{{ end }}"},
		"but after $ they are":              {text: "{{ range .ClusterDNSIPs }}\n{{ $.KubeVersoin }}{{ end }}", want: []string{`line 2 of the template: .KubeVersoin does not exist: did you mean "KubeVersion"?`}},
		"and in the pipe of with, and else": {text: "{{ with .A }}{{ else }}{{ .B }}{{ end }}", want: []string{".A does not exist", ".B does not exist"}},
		"of a long name a few letters more": {text: `{{ .KubeletVersion }}`, want: []string{`.KubeletVersion does not exist: did you mean "KubeVersion"?`}},
		"of RHEL's settings one name":       {text: "{{ .RhelConfig.DistUpgradeOnBoot }}{{ .RhelConfig.RHELSpec.AttachSubscription }}", want: []string{".RhelConfig.RHELSpec does not exist"}},
		"in arguments and parentheses":      {text: `{{ if and (eq .CloudProviderNam "a") (.NetworkConfig.DNS.Serverz) }}{{ end }}`, want: []string{`did you mean "CloudProviderName"?`, `.NetworkConfig.DNS.Serverz does not exist: did you mean "Servers"?`}},
		"keys of a map are free":            {text: "{{ .KubeletFeatureGates.Foo }}"},
		"a key of a bool":                   {text: "{{ .KubeletFeatureGates.Foo.Bar }}", want: []string{".KubeletFeatureGates.Foo.Bar does not exist"}},
		"a template that is not there":      {text: `{{ template "nope" }}`, want: []string{`there is no template "nope"`}},
		"it may be missing in a branch":     {text: `{{ if eq .ContainerRuntime "docker" }}{{ template "nope" }}{{ end }}`},
		"several at once": {text: "{{ .A }}\n{{ .B }}", change: func(s *osm.OperatingSystemProfileSpec) {
			s.ProvisioningUtility = osm.ProvisioningUtilityIgnition
			s.BootstrapConfig.Files = []osm.File{{Path: "/none"}, {Path: "/mode", Permissions: 689, Content: inline("", "").Content}, {Path: "/mode", Permissions: 17777, Content: inline("", "").Content}, {Permissions: 644, Content: inline("", "").Content}}
			s.BootstrapConfig.Units = []osm.Unit{{Name: "../../x.service"}, {Name: "a.service", DropIns: []osm.DropIn{{Name: "a/b.conf"}}}}
		}, want: []string{
			`bootstrapConfig.files[0].content "/none": has no inline`, `bootstrapConfig.files[1].permissions "/mode": 689 is not a file mode`, `files[2].permissions`, "bootstrapConfig.files[3].path: is empty",
			`bootstrapConfig.units[0].name: "../../x.service" is not the name`, `bootstrapConfig.units[1].dropIns[0].name`,
			"spec.provisioningUtility: is ignition, which ubuntu does not have", ".A does not exist", ".B does not exist"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := smallInput(t, test.text, nil).Profile
			if test.change != nil {
				test.change(&p.Spec)
			}
			problems := render.Problems(render.NewEngine().Check(p))
			if len(problems) != len(test.want) {
				t.Fatalf("%d problems, want %d: %v", len(problems), len(test.want), problems)
			}
			p.Provenance.Path = ""
			for i, want := range test.want {
				if got := problems[i].Error(); !strings.Contains(got, want) {
					t.Errorf("problem %d is %q, want %q in it", i, got, want)
				}
			}
		})
	}
}
