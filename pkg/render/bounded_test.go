package render_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	osm "github.com/osm-gitops/osm-gitops/pkg/api/osm/v1alpha1"
	"github.com/osm-gitops/osm-gitops/pkg/render"
)

// Every error that ends a rendering names profile, stage, field, file on the node, and the line
// in the profile's file. security.md 17, 18
func TestErrorsNameTheirPlace(t *testing.T) {
	const file, named = "provisioningConfig.files[0] \"/f\": ", "provisioningConfig.templates[t]: "
	tests := map[string]struct {
		text, named string
		line        int // of the profile: the file's text begins on 40, the template's on 30
		want        string
	}{
		"a range without end":                 {text: "a\nb\n{{ range 2000000 }}\n{{ end }}", line: 42, want: file + "the templates do not end"},
		"in a definition":                     {text: "{{ define \"x\" }}\n{{ range 2000000 }}{{ end }}{{ end }}\n{{ template \"x\" }}", line: 41, want: file + "the templates do not end"},
		"in a named template":                 {named: "\n{{ range 2000000 }}{{ end }}", line: 31, want: named + "the templates do not end"},
		"recursion":                           {text: "\n\n{{ define \"x\" }}{{ template \"x\" }}{{ end }}\n{{ template \"x\" }}", line: 42, want: file + "templates invoke one another more than 1000 deep"},
		"nesting":                             {text: strings.Repeat("{{ if true }}\n", 101) + strings.Repeat("{{ end }}", 101), line: 140, want: file + "if, with and range are nested"},
		"a function's limit":                  {text: "\n{{ repeat 2000000 \"x\" }}", line: 41, want: file + `at <repeat 2000000 "x">: error calling repeat: a value of more than 1048576 bytes`},
		"in a definition too":                 {text: "{{ define \"x\" }}\n\n{{ repeat 2000000 \"x\" }}{{ end }}{{ template \"x\" }}", line: 42, want: file + `executing "x" at <repeat 2000000 "x">: error calling repeat`},
		"in a named template too":             {named: "\n{{ repeat 2000000 \"x\" }}", line: 31, want: named + `at <repeat 2000000 "x">`},
		"a missing value":                     {text: "\n{{ .KubeletFeatureGates.Nope }}", line: 41, want: file + `the output contains "<no value>"`},
		"in a definition as well":             {text: "{{ define \"x\" }}a\n\nb {{ .KubeletFeatureGates.Nope }}{{ end }}{{ template \"x\" . }}", line: 42, want: file + `the output contains "<no value>"`},
		"in a named template as well":         {named: "a\n{{ .KubeletFeatureGates.Nope }}", line: 31, want: named + `the output contains "<no value>"`},
		"in a range, behind a tick":           {text: "a\n{{ range until 2 }}\n{{ $.KubeletFeatureGates.Nope }}{{ end }}", line: 42, want: file + `the output contains "<no value>"`},
		"too much output":                     {text: "\n{{ range 1100 }}{{ template \"t\" }}{{ end }}", named: "{{ repeat 1000 \"x\" }}", line: 40, want: file + "the output is longer than 1048576 bytes"},
		"a definition that does not parse":    {text: "{{ define \"x\" }}\n{{ nope }}{{ end }}", line: 41, want: file + `there is no function "nope"`},
		"a field that only rendering can see": {text: "{{ with .KubeReserved }}\n{{ index . \"a\" \"b\" }}{{ end }}", line: 41, want: file + `at <index . "a" "b">`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := smallInput(t, test.text, map[string]string{"t": test.named})
			in.Profile.Lines = func(field string) int {
				return map[string]int{"spec.provisioningConfig.files[0].content.inline.data": 40, "spec.provisioningConfig.templates[t]": 30}[field]
			}
			_, err := render.NewEngine().Render(in)
			var invalid *render.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("error %v", err)
			}
			want := fmt.Sprintf(`rendering profile "osp-sample" v1.2.3 at 3f2a9c1 for kube-system/workers: profiles/sample.yaml:%d: %s`, test.line, test.want)
			if !strings.HasPrefix(err.Error(), want) || invalid.Stage != "provisioning" {
				t.Errorf("stage %q, error\n%v\nwant\n%s", invalid.Stage, err, want)
			}
		})
	}
}

// The limits apply to one rendering: neither the work nor the error of another one counts, and
// both stages count together.
func TestEachRenderingHasItsLimits(t *testing.T) {
	engine := render.NewEngine()
	in := smallInput(t, `{{ if eq .CloudProviderName "aws" }}{{ range 3000000 }}{{ end }}{{ end }}{{ range 1200000 }}{{ end }}`, nil)
	in.Profile.Digest = "v1:sha256:limits"
	in.Profile.Spec.SupportedCloudProviders = []osm.CloudProviderSpec{{Name: "aws"}, {Name: "hetzner"}}
	for i, provider := range []osm.CloudProvider{"hetzner", "aws", "hetzner"} {
		in.Pool.CloudProvider = provider
		_, err := engine.Render(in)
		if wantErr := provider == "aws"; (err != nil) != wantErr {
			t.Errorf("rendering %d, for %s: %v", i, provider, err)
		}
	}
	in.Profile.Digest = ""
	in.Profile.Spec.BootstrapConfig.Files = in.Profile.Spec.ProvisioningConfig.Files
	if _, err := engine.Render(in); err == nil || !strings.Contains(err.Error(), "the templates do not end") {
		t.Errorf("1,200,000 ticks in both stages: %v", err)
	}
}

// Text outside of actions counts as well, including text beyond the limit of a stage.
func TestTextsOfAStageAreLimited(t *testing.T) {
	in := smallInput(t, `{{ "x" }}`, nil)
	long := strings.Repeat("x", 1<<20)
	in.Profile.Spec.ProvisioningConfig.Templates = map[string]string{"a": long, "b": long, "c": long, "d": `{{ "x" }}`}
	_, err := render.NewEngine().Render(in)
	if err == nil || !strings.Contains(err.Error(), "longer than 2097152 bytes together") {
		t.Errorf("three mebibytes: %.200v", err)
	}
}

// Concurrent renderings of one profile give the same results as single ones, also if a template
// is blank for some of them and a file has its own.
func TestRenderingsBesideEachOther(t *testing.T) {
	engine := render.NewEngine()
	in := smallInput(t, `{{ define "t" }}own{{ end }}{{ range until 50 }}{{ template "t" }}{{ template "u" }}{{ end }}`, map[string]string{
		"t": `{{ if ne .InitialTaints "none" }}{{ .InitialTaints }}{{ end }}`, "u": `{{ .InitialTaints }} {{ repeat 20 .InitialTaints }}`})
	in.Profile.Digest = "v1:sha256:beside"
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			in := in
			in.Settings.InitialTaints = fmt.Sprint("taint", i)
			mine := "\n" + in.Settings.InitialTaints
			if i%2 == 0 {
				in.Settings.InitialTaints, mine = "none", "own"
			}
			taints := in.Settings.InitialTaints
			want := strings.Repeat(mine+"\n"+taints+" "+strings.Repeat(taints, 20), 50)
			for range 20 {
				out, err := engine.Render(in)
				if err != nil {
					t.Error(err)
					return
				}
				if got := out.OSC.ProvisioningConfig.Files[0].Content.Inline.Data; got != want {
					t.Errorf("rendering %d gives %.200q, want %.200q", i, got, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

// An error is short, regardless of the kind and the number of defects in a profile.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 500_000)
	for name, in := range map[string]render.Input{
		"many problems":    smallInput(t, strings.Repeat("{{ .A }}", 50_000), nil),
		"a long field":     smallInput(t, "{{ ."+long+" }}", nil),
		"a long template":  smallInput(t, "{{ template \""+long+"\" }}", map[string]string{"a": "b"}),
		"a long name":      smallInput(t, "x", map[string]string{long: "{{ .A }}"}),
		"a long function":  smallInput(t, "{{ "+long+" }}", nil),
		"a long text":      smallInput(t, "{{ "+`"`+long+`" | nope }}`, nil),
		"a long message":   smallInput(t, `{{ fail (repeat 1000000 "x") }}`, nil),
		"a long condition": smallInput(t, `{{ if eq "`+long+`" 1 }}{{ end }}`, nil),
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{render.NewEngine().Check(in.Profile), func() error { _, err := render.NewEngine().Render(in); return err }()} {
				if err != nil && len(err.Error()) > 64<<10 {
					t.Errorf("the error has %d bytes: %.300s", len(err.Error()), err)
				}
			}
			if _, err := render.NewEngine().Render(in); err == nil {
				t.Error("no error")
			}
		})
	}
}
